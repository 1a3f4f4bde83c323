/* SPDX-License-Identifier: MIT
 *
 * Streams of a reader wait for frames that the writer's GPU has not finished, as many as the library
 * allows: what this does to the other streams of the process.
 */
#include "channel.h"
#include "other_streams.h"

#define MAX_PARKED 8

static struct sluice_frame frames[MAX_PARKED];
static struct sluice_stream streams[MAX_PARKED];

static void put_frames(int count)
{
    int64_t until = clock_ns() + job->ns;
    bool last = false;
    for (uint32_t turn = 1; !last; turn++) {
        last = clock_ns() >= until;
        if (last)
            atomic_store(&stage->last, turn);
        await_ready(turn);
        CU(StreamWaitValue64, native, word_address(WORD_GATE), turn, 0);
        for (int i = 0; i < count; i++) {
            check(sluice_writer_begin(writer, SLUICE_DEFAULT, &frames[0]), "begin");
            check(sluice_writer_commit(writer, &frames[0], stream), "commit");
        }
        atomic_store(&stage->lanes[0].got, turn);
        await_got(turn);
    }
}

static int park(int count)
{
    int parked = 0;
    while (parked < count && sluice_reader_acquire(reader, streams[parked], 0, &frames[parked]) == SLUICE_OK)
        parked++;
    return parked;
}

/* The writer's GPU continues, and the remaining frames can be acquired. */
static void unpark(int parked, int count)
{
    for (int i = 0; i < parked; i++)
        check(sluice_reader_release(reader, &frames[i], streams[i]), "release");
    for (int i = parked; i < count; i++) {
        check(sluice_reader_acquire(reader, stream, CHANNEL_WAIT, &frames[i]), "acquire");
        check(sluice_reader_release(reader, &frames[i], stream), "release");
    }
    for (int i = 0; i < parked; i++)
        CU(StreamSynchronize, channel_native(streams[i]));
    other_streams_settle();
}

static int take_frames(int count)
{
    int most = 0;
    bool last = false;
    for (uint32_t turn = 1; !last; turn++) {
        atomic_store(&stage->lanes[1].ready, turn);
        word_await_spinning(&stage->lanes[0].got, turn);
        int parked = park(count);
        most = parked > most ? parked : most;
        other_streams_measure();
        atomic_store(word(WORD_GATE), turn);
        unpark(parked, count);
        last = atomic_load(&stage->last) == turn;
        atomic_store(&stage->lanes[1].got, turn);
    }
    return most;
}

void sluice_parked(int index)
{
    int count = (int)(job->parked < MAX_PARKED ? job->parked : MAX_PARKED);
    if (index == 0)
        channel_write((uint32_t)(2 * count + CHANNEL_SLOTS));
    else
        channel_read(count ? (uint32_t)count : 1, true);
    if (index > 0) {
        for (int i = 0; i < count; i++)
            streams[i] = channel_stream();
        other_streams_open();
    }
    meet();
    busy_begin(index);
    if (index == 0)
        put_frames(count);
    else
        value("parked", take_frames(count));
    busy_end();
    meet();
    if (index > 0)
        other_streams_close();
    channel_close();
}
