/* SPDX-License-Identifier: MIT
 *
 * The least that cuda-link's protocol needs: a copy, an event after it, a word in shared memory once the event is
 * recorded, and a reader in another process that sees the word and then queries the event.
 */
#include <string.h>

#include "driver.h"
#include "limit.h"
#include "rounds.h"

static struct cu_stream *stream;
static struct cu_event *event;
static uint64_t source, slot;

/* ---- the event's handle, sent in words ---- */

static void send_handle(void)
{
    struct cu_event_handle handle;
    CU(IpcGetEventHandle, &handle, event);
    for (int i = 0; i < 8; i++) {
        uint64_t part;
        memcpy(&part, handle.bytes + 8 * i, 8);
        atomic_store(word(WORD_MORE + i), part);
    }
}

static struct cu_event_handle receive_handle(void)
{
    struct cu_event_handle handle;
    for (int i = 0; i < 8; i++) {
        uint64_t part = atomic_load(word(WORD_MORE + i));
        memcpy(handle.bytes + 8 * i, &part, 8);
    }
    return handle;
}

/* ---- the writer ---- */

static void writer_open(void)
{
    stream = gpu_stream();
    CU(EventCreate, &event, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS);
    CU(MemAlloc, &slot, frame_bytes());
    CU(MemAlloc, &source, frame_bytes());
    if (job->graph)
        graph_open(slot, source, 0);
    send_handle();
    atomic_store(word(WORD_OWN), 1); /* now the reader may take it */
}

static void hand(uint32_t round)
{
    if (job->graph)
        graph_launch_alone(stream);
    else if (job->from != IN_PLACE)
        CU(MemcpyDtoDAsync, slot, source, frame_bytes(), stream);
    CU(EventRecord, event, stream);
    while (job->cipd == CIPD_BLOCK && cu.EventQuery(event) != 0)
        ;
    atomic_store(word(WORD_READY), round);
}

static void writer_close(void)
{
    CU(StreamSynchronize, stream);
    if (job->graph)
        graph_close();
    CU(MemFree, slot);
    CU(MemFree, source);
    CU(EventDestroy, event);
    CU(StreamDestroy, stream);
}

/* ---- the reader ---- */

static void reader_open(int index)
{
    (void)index;
    await_word(word(WORD_OWN), 1);
    CU(IpcOpenEventHandle, &event, receive_handle());
}

static void take(uint32_t round)
{
    await_word(word(WORD_READY), round);
    while (cu.EventQuery(event) != 0)
        ;
}

static void reader_close(void)
{
    CU(EventDestroy, event);
}

void limit_events(int index)
{
    static const struct way bare = {
        .writer_open = writer_open,
        .hand = hand,
        .writer_close = writer_close,
        .reader_open = reader_open,
        .take = take,
        .reader_close = reader_close,
    };
    measure_rounds(&bare, index);
}
