/* SPDX-License-Identifier: MIT
 *
 * Fetches into pinned host memory: one frame after the other, and each during the CPU's work on the one
 * before.
 */
#include "channel.h"

static struct sluice_array buffers[2];

static void open_fetch(int index)
{
    if (index == 0) {
        channel_write(CHANNEL_SLOTS);
    } else {
        channel_read(1, job->ahead);
        for (int i = 0; i < 2; i++)
            buffers[i] = channel_array(gpu_pinned(frame_bytes()));
    }
    meet();
    busy_begin(index);
}

static void close_fetch(int index)
{
    busy_end();
    meet();
    channel_close();
    for (int i = 0; index > 0 && i < 2; i++)
        gpu_pinned_free(buffers[i].data, frame_bytes());
}

static void fetch(uint32_t round)
{
    check(sluice_reader_fetch(reader, &channel_frame, &buffers[round & 1], 1, stream, NULL), "fetch");
}

/* The same frame again and again. */
static void fetch_frames(void)
{
    channel_take();
    measure_copies(fetch);
    channel_give();
}

void sluice_fetch(int index)
{
    open_fetch(index);
    if (index == 0)
        channel_put();
    else
        fetch_frames();
    close_fetch(index);
}

/* ---- pipelined ---- */

static void work_on_frames(void)
{
    struct sluice_ticket ticket;
    int64_t until = INT64_MAX, start = clock_ns();
    uint32_t taken = 0;
    for (int round = -COPY_WARM_UP; !atomic_load(&stage->last); round++) {
        if (round == 0)
            until = start + job->ns;
        channel_take();
        if (start >= until)
            atomic_store(&stage->last, 1);
        atomic_store(&stage->lanes[1].got, ++taken);
        check(sluice_reader_fetch(reader, &channel_frame, &buffers[round & 1], 1, stream, &ticket), "fetch");
        spin_for(job->work);
        check(sluice_ticket_wait(ticket, CHANNEL_WAIT), "a ticket");
        channel_give();
        int64_t end = clock_ns();
        if (round >= 0)
            sample("loop", end - start);
        start = end;
    }
}

void sluice_pipeline(int index)
{
    open_fetch(index);
    if (index == 0)
        channel_put_frames();
    else
        work_on_frames();
    close_fetch(index);
}
