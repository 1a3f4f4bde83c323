/* SPDX-License-Identifier: MIT
 *
 * Readers whose frames are copies: made within the GPU, on a stream of the library, and given to the program only if
 * the writer cannot have touched the slot before the copy was done.
 *
 * Without MPS a GPU is time-sliced between processes; a time slice is called a turn here. A copy that is queued during
 * another process's turn begins with our next one, and if that process is a writer that never pauses, the frame is
 * overwritten by then. So once a copy was overtaken, frames are chosen while our turn runs. To make the turn last that
 * long, a few dummy copies are queued first, within the memory of the copy. The event behind the first of them tells
 * that our turn has come, and the real copy follows the last one. If there are too few of them, or the CPU is late, a
 * turn is lost, no more: whether the copy is whole is checked in any case. If turns do not help, because the writer's
 * work runs concurrently with ours, copies are made without.
 */
#include <stdlib.h>

#include "cuda_link/cuda_link.h"
#include "util/result.h"

#define PATIENCE  (10 * SLUICE_S) /* with a copy */
#define SPIN      (200 * INT64_C(1000))
#define TURN_SPIN (5 * SLUICE_MS) /* until a turn begins: it may be shorter than a sleep */

struct copy {
    uint64_t address, bytes;
    struct sl_cu_event
        *done;    /* event after the copy, later after the release; during a turn, after the pieces that keep it */
    bool used;    /* it was recorded */
    bool working; /* a copy may still be running */
};

struct sl_cipd_copies {
    struct sl_cuda_context *context; /* its own reference */
    struct sl_cu_stream *stream;
    struct sl_cu_event *turn; /* recorded when our turn has begun; NULL until the first turn */
    int64_t since_ns;         /* when the turn was seen to have begun */
    struct copy copies[SLUICE_CIPD_MAX_SLOTS];
};

static int make_copies(struct sl_cipd_reader *reader)
{
    struct sl_cipd_copies *copies = calloc(1, sizeof *copies);

    if (!copies)
        return sl_fail(SLUICE_E_NO_MEMORY, "channel 'cipd:%s': no memory for copies", reader->base.name);
    int r = sl_cuda_context_open(reader->device, &copies->context);
    if (r != 0)
        free(copies);
    else
        reader->copies = copies;
    return r;
}

/* ---- between enter (relaxed) and leave ---- */

static int make_event(struct sl_cuda_context *context, struct sl_cu_event **event)
{
    return *event ? 0 : sl_cu(context, EventCreate, event, SL_CU_EVENT_DISABLE_TIMING);
}

static int make_room(struct sl_cipd_reader *reader, struct copy *copy, uint64_t bytes)
{
    struct sl_cuda_context *context = reader->context;
    int r = make_event(context, &copy->done);

    if (r != 0 || copy->bytes >= bytes)
        return r;
    if (copy->address)
        r = sl_cu(context, MemFree, copy->address); /* waits for work that uses it */
    copy->address = copy->bytes = 0;
    copy->used = false;
    if (r != 0)
        return r;
    int code = sl_cuda.MemAlloc(&copy->address, (size_t)bytes);
    if (code == SL_CU_OUT_OF_MEMORY)
        return sl_cuda_memory_exceeded(context, reader->base.name, (size_t)bytes);
    r = sl_cuda_check(context, code, "cuMemAlloc");
    if (r == 0)
        copy->bytes = bytes;
    else
        copy->address = 0;
    return r;
}

static int make(struct sl_cipd_reader *reader, struct copy *copy, uint64_t bytes)
{
    struct sl_cipd_copies *copies = reader->copies;
    int r = 0;

    if (!copies->stream)
        r = sl_cu(reader->context, StreamCreateWithPriority, &copies->stream, SL_CU_STREAM_NON_BLOCKING, 0);
    return r == 0 ? make_room(reader, copy, bytes) : r;
}

/* Records the event after the work queued before. */
static int record(struct sl_cipd_reader *reader, struct copy *copy)
{
    int r = sl_cu(reader->context, EventRecord, copy->done, reader->copies->stream);

    copy->used = copy->used || r == 0;
    return r;
}

static int follow_release(struct sl_cipd_reader *reader, struct copy *copy)
{
    return copy->used ? sl_cu(reader->context, StreamWaitEvent, reader->copies->stream, copy->done, 0) : 0;
}

/* Were the pieces done before the copy was queued? Then the GPU may have switched to another process. */
static int look_whether_late(struct sl_cipd_reader *reader, struct copy *copy)
{
    int r = sl_cuda_query_event(reader->context, copy->done);

    if (r == 0)
        sl_cipd_timeslice_missed(&reader->timeslice);
    return r == SLUICE_NOT_READY ? 0 : r;
}

static int queue(struct sl_cipd_reader *reader, struct copy *copy, uint64_t from, uint64_t bytes)
{
    struct sl_cipd_copies *copies = reader->copies;
    int r = follow_release(reader, copy);

    if (r == 0)
        r = sl_cu(reader->context, MemcpyDtoDAsync, copy->address, from, (size_t)bytes, copies->stream);
    if (r == 0 && reader->timeslice.mode == SL_CIPD_COPY_IN_SLICE)
        r = look_whether_late(reader, copy);
    return r == 0 ? record(reader, copy) : r;
}

static int queue_pieces(struct sl_cipd_reader *reader, struct copy *copy, uint64_t bytes)
{
    struct sl_cipd_copies *copies = reader->copies;
    uint64_t half = bytes / 2;
    int r = follow_release(reader, copy);

    for (uint32_t i = 0; i <= reader->timeslice.pieces && r == 0; i++) {
        r = sl_cu(reader->context, MemcpyDtoDAsync, copy->address, copy->address + half, (size_t)half, copies->stream);
        if (r == 0 && i == 0)
            r = sl_cu(reader->context, EventRecord, copies->turn, copies->stream);
    }
    return r == 0 ? record(reader, copy) : r;
}

static int await(struct sl_cipd_reader *reader, struct sl_cu_event *event, int64_t spin)
{
    int64_t began = sl_os_now(), now = began;
    int r;

    /* `now` is from before the query. */
    while ((r = sl_cuda_query_event(reader->context, event)) == SLUICE_NOT_READY) {
        if (now - began > PATIENCE)
            return sl_fail(SLUICE_E_LOST, "channel 'cipd:%s': this GPU did not get to the copy of a frame within %d s",
                           reader->base.name, (int)(PATIENCE / SLUICE_S));
        if (now - began < spin)
            sl_pause();
        else
            sl_os_sleep(SL_CIPD_POLL_INTERVAL);
        now = sl_os_now();
    }
    return r;
}

/* ---- for acquire.c ---- */

bool sl_cipd_copy_free(struct sl_cipd_reader *reader, uint32_t entry)
{
    struct copy *copy = reader->copies ? &reader->copies->copies[entry] : NULL;
    struct sl_cuda_scope scope;

    if (!copy || !copy->working || sl_cuda_enter(reader->context, SL_CUDA_RELAXED, &scope) != 0)
        return true;
    copy->working = sl_cuda_query_event(reader->context, copy->done) == SLUICE_NOT_READY;
    sl_cuda_leave(&scope);
    return !copy->working;
}

int sl_cipd_copy(struct sl_cipd_reader *reader, uint32_t entry, const struct sl_cipd_slot *slot, uint64_t bytes,
                 uint64_t *address)
{
    struct sl_cuda_scope scope;
    int r;

    if (!reader->copies && (r = make_copies(reader)) != 0)
        return r;
    struct copy *copy = &reader->copies->copies[entry];
    if ((r = sl_cuda_enter(reader->context, SL_CUDA_RELAXED, &scope)) != 0)
        return r;
    if ((r = make(reader, copy, bytes)) == 0 && (r = queue(reader, copy, slot->address, bytes)) == 0) {
        r = await(reader, copy->done, SPIN);
        copy->working = r != 0;
    }
    sl_cuda_leave(&scope);
    if (r != 0) {
        reader->timeslice.mode = SL_CIPD_COPY_ANYTIME;
        return r;
    }
    sl_cipd_timeslice_measured(&reader->timeslice, sl_os_now() - reader->copies->since_ns);
    *address = copy->address;
    return 0;
}

int sl_cipd_timeslice_begin(struct sl_cipd_reader *reader, uint32_t entry, uint64_t bytes)
{
    struct sl_cipd_copies *copies = reader->copies;
    struct copy *copy = &copies->copies[entry];
    struct sl_cuda_scope scope;
    int r = sl_cuda_enter(reader->context, SL_CUDA_RELAXED, &scope);

    reader->timeslice.mode = SL_CIPD_COPY_ANYTIME;
    if (r != 0)
        return r;
    if ((r = make(reader, copy, bytes)) == 0 && (r = make_event(reader->context, &copies->turn)) == 0 &&
        (r = queue_pieces(reader, copy, bytes)) == 0) {
        r = await(reader, copies->turn, TURN_SPIN);
        copy->working = r != 0;
    }
    sl_cuda_leave(&scope);
    copies->since_ns = sl_os_now();
    if (r == 0)
        reader->timeslice.mode = SL_CIPD_COPY_IN_SLICE;
    return r;
}

bool sl_cipd_timeslice_lasts(struct sl_cipd_reader *reader, uint32_t entry)
{
    const struct copy *copy = &reader->copies->copies[entry];
    struct sl_cuda_scope scope;

    if (sl_cuda_enter(reader->context, SL_CUDA_RELAXED, &scope) != 0)
        return false;
    bool lasts = sl_cuda_query_event(reader->context, copy->done) == SLUICE_NOT_READY;
    sl_cuda_leave(&scope);
    return lasts;
}

int sl_cipd_copy_release(struct sl_cipd_reader *reader, uint32_t entry, struct sluice_stream handle)
{
    struct copy *copy = &reader->copies->copies[entry];
    enum sl_cuda_capture state = SL_CUDA_CAPTURE_NONE;
    struct sl_cuda_scope scope;
    struct sl_stream *stream;
    int r;

    if (handle.id == SLUICE_ON_CPU.id)
        return 0;
    if ((r = sl_stream_hold(handle, &stream)) != 0)
        return r;
    struct sl_cu_stream *place = (struct sl_cu_stream *)stream->native;
    if ((r = sl_cuda_enter(reader->context, SL_CUDA_PLAIN, &scope)) == 0) {
        if (place == NULL || place == SL_CU_LEGACY)
            r = sl_cuda_aux_stream(reader->context, &place);
        else
            r = sl_cuda_capture(reader->context, place, &state, NULL);
        if (r == 0 && state != SL_CUDA_CAPTURE_NONE)
            r = sl_fail(
                SLUICE_E_CAPTURING,
                "channel 'cipd:%s': the stream is capturing a graph: release the frame after that, or on the CPU",
                reader->base.name);
        if (r == 0)
            r = sl_cu(reader->context, EventRecord, copy->done, place);
        sl_cuda_leave(&scope);
    }
    sl_object_drop(&stream->object);
    return r;
}

/* On a thread that may wait for GPU work. */
static void end(void *what)
{
    struct sl_cipd_copies *copies = what;
    struct sl_cuda_context *context = copies->context;
    struct sl_cuda_scope scope;

    if (sl_cuda_enter(context, SL_CUDA_RELAXED, &scope) == 0) { /* else they were freed with the context */
        for (uint32_t i = 0; i < SLUICE_CIPD_MAX_SLOTS; i++) {
            if (copies->copies[i].address)
                (void)sl_cu(context, MemFree, copies->copies[i].address);
            if (copies->copies[i].done)
                (void)sl_cu(context, EventDestroy, copies->copies[i].done);
        }
        if (copies->turn)
            (void)sl_cu(context, EventDestroy, copies->turn);
        if (copies->stream)
            (void)sl_cu(context, StreamDestroy, copies->stream);
        sl_cuda_leave(&scope);
    }
    sl_cuda_context_close(context);
    free(copies);
}

void sl_cipd_copies_end(struct sl_cipd_reader *reader)
{
    if (!reader->copies)
        return;
    sl_cipd_free_queue_run(reader->free_queue, end, reader->copies, 0);
    reader->copies = NULL;
}
