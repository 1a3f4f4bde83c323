/* SPDX-License-Identifier: MIT
 *
 * Marks record how far the writer had come when a stream was done with a frame. If the CPU looked later, as in a
 * program with copies in flight, it would be too late: the slot may have been begun again since, or its memory freed.
 * So the stream copies the writer's state out of the segment, behind the program's work. The copy goes through GPU
 * memory, because the driver makes a copy from host memory to host memory on the CPU, and blocks until the stream
 * reaches it (measured).
 *
 * The copied state shows whether the writer's memory still existed when the work was done. Sluice's writers change the
 * version among their private words before they begin another session, and before they free memory they announce a
 * frame with an index that is out of reach. For other writers the flag is copied, and after it the version and the
 * index. A writer that has neither closed nor begun another session keeps its memory; one that has closed keeps it for
 * a moment, which only this CPU's clock can measure.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_link/cuda_link.h"
#include "util/result.h"

#define MAX_STREAMS 8 /* of a session's checks */
#define MAX_RECORDS 1024

/* What a stream records. It need not arrive at once: before it is complete it reads as "not known". */
struct record {
    sl_word version;     /* initially 0 */
    sl_word32 something; /* the bytes between these two, in both layouts */
    sl_word32 come;      /* initially 0 */
    sl_word shut;        /* initially 1 for a writer that has only its flag */
};

#define COMMON_BYTES offsetof(struct record, shut) /* bytes that have the same layout in the segment */

_Static_assert(offsetof(struct record, come) ==
                   offsetof(struct sl_cipd_private_ext, begun) - offsetof(struct sl_cipd_private_ext, version),
               "it is what a writer of Sluice's stores, piece by piece");
_Static_assert(offsetof(struct record, come) == SL_CIPD_INDEX_AT - SL_CIPD_VERSION_AT, "and what others do");

struct sl_cipd_overwrite_checks {
    struct sl_cuda_context *context; /* its own reference */
    void *segment;                   /* its own mapping, as streams may read from it after the reader has left */
    uint64_t bytes;                  /* of that: a page */
    struct record *records;
    uint64_t records_bytes;
    uint64_t version;          /* of the session */
    const void *from;          /* the copied bytes, in the segment */
    const unsigned char *flag; /* the flag in the segment; NULL: it is not copied */
    uint64_t staging;          /* GPU memory through which each record is copied */
    struct {
        uint64_t line;            /* sl_stream_queue_id */
        struct sl_cu_event *last; /* after its last check */
    } streams[MAX_STREAMS];
    uint32_t next;
    bool begun; /* `come` is the frame that the writer has begun, else the last one that it has published */
};

/* ---- making and ending ---- */

static int map_pages(struct sl_cipd_overwrite_checks *checks, const struct sl_cipd_segment *segment)
{
    void *records;
    int fd, r = sl_os_map(segment->fd, checks->bytes, segment->writable, &checks->segment);

    if (r != 0)
        return r;
    if ((r = sl_os_memory_create("checks", checks->records_bytes, &fd)) != 0)
        return r;
    r = sl_os_map(fd, checks->records_bytes, true, &records);
    sl_os_close(fd);
    if (r == 0)
        checks->records = records;
    return r;
}

static int allocate_staging(struct sl_cipd_overwrite_checks *checks)
{
    struct sl_cuda_scope scope;
    int r = sl_cuda_enter(checks->context, SL_CUDA_RELAXED, &scope);

    if (r != 0)
        return r;
    r = sl_cu(checks->context, MemAlloc, &checks->staging, (size_t)checks->records_bytes);
    sl_cuda_leave(&scope);
    return r;
}

static void locate_words(struct sl_cipd_overwrite_checks *checks, const struct sl_cipd_segment_reader *consumer)
{
    unsigned char *at = checks->segment;

    checks->version = consumer->session.version;
    checks->begun = consumer->ext != NULL;
    checks->from = checks->begun ? (void *)&sl_cipd_private_ext(at, checks->bytes)->version : at + SL_CIPD_VERSION_AT;
    checks->flag = checks->begun ? NULL : at + consumer->session.layout.shut;
}

static int register_pages(struct sl_cipd_overwrite_checks *checks, const struct sl_cipd_segment_reader *consumer)
{
    int r = sl_cuda_register(checks->context, checks->segment, checks->bytes, consumer->segment.writable);

    if (r != 0)
        return r;
    if ((r = sl_cuda_register(checks->context, checks->records, checks->records_bytes, true)) == 0) {
        locate_words(checks, consumer);
        if ((r = allocate_staging(checks)) == 0)
            return 0;
        (void)sl_cuda_unregister(checks->context, checks->records);
    }
    (void)sl_cuda_unregister(checks->context, checks->segment);
    return r;
}

static void unmap(struct sl_cipd_overwrite_checks *checks)
{
    if (checks->records)
        sl_os_unmap(checks->records, checks->records_bytes);
    if (checks->segment)
        sl_os_unmap(checks->segment, checks->bytes);
    free(checks);
}

/* On a thread that may wait for streams to reach their checks. */
static void destroy_checks(void *what)
{
    struct sl_cipd_overwrite_checks *checks = what;
    struct sl_cuda_scope scope;

    if (sl_cuda_enter(checks->context, SL_CUDA_RELAXED, &scope) == 0) { /* else all were freed with the context */
        for (int i = 0; i < MAX_STREAMS && checks->streams[i].last; i++) {
            (void)sl_cu(checks->context, EventSynchronize, checks->streams[i].last);
            (void)sl_cu(checks->context, EventDestroy, checks->streams[i].last);
        }
        (void)sl_cu(checks->context, MemFree, checks->staging);
        sl_cuda_leave(&scope);
        (void)sl_cuda_unregister(checks->context, checks->records);
        (void)sl_cuda_unregister(checks->context, checks->segment);
    }
    sl_cuda_context_close(checks->context);
    unmap(checks);
}

void sl_cipd_overwrite_checks_destroy(struct sl_cipd_reader *reader, struct sl_cipd_overwrite_checks *checks)
{
    if (checks)
        sl_cipd_free_queue_run(reader->free_queue, destroy_checks, checks, 0);
}

static int create_checks(struct sl_cipd_reader *reader, struct sl_cipd_overwrite_checks **out)
{
    struct sl_cipd_overwrite_checks *checks = calloc(1, sizeof *checks);

    if (!checks)
        return sl_fail(SLUICE_E_NO_MEMORY, "channel 'cipd:%s': no memory for overwrite checks", reader->base.name);
    checks->bytes = sl_os_page_size();
    checks->records_bytes = (MAX_RECORDS * sizeof *checks->records + checks->bytes - 1) / checks->bytes * checks->bytes;
    int r = map_pages(checks, &reader->consumer.segment);
    if (r == 0 && (r = sl_cuda_context_open(reader->device, &checks->context)) == 0 &&
        (r = register_pages(checks, &reader->consumer)) != 0)
        sl_cuda_context_close(checks->context);
    if (r != 0)
        unmap(checks);
    else
        *out = checks;
    return r;
}

/* ---- one check ---- */

static int find_target(struct sl_cipd_reader *reader, const struct sl_stream *stream, struct sl_cu_stream **target)
{
    enum sl_cuda_capture state = SL_CUDA_CAPTURE_NONE;
    int r;

    *target = (struct sl_cu_stream *)stream->native;
    if (*target == NULL || *target == SL_CU_LEGACY)
        return sl_cuda_aux_stream(reader->context, target);
    r = sl_cuda_capture(reader->context, *target, &state, NULL);
    if (r == 0 && state != SL_CUDA_CAPTURE_NONE)
        r = sl_fail(
            SLUICE_E_CAPTURING,
            "channel 'cipd:%s': the stream is capturing a graph: use another stream, or mark the frame after that",
            reader->base.name);
    return r;
}

static int event_of_stream(struct sl_cipd_overwrite_checks *checks, const char *name, uint64_t line,
                           struct sl_cu_event **event)
{
    int i = 0, r = 0;

    while (i < MAX_STREAMS && checks->streams[i].last && checks->streams[i].line != line)
        i++;
    if (i == MAX_STREAMS)
        return sl_fail(SLUICE_E_LIMIT, "channel 'cipd:%s': frames of a session are marked on %d streams at most", name,
                       MAX_STREAMS);
    if (!checks->streams[i].last)
        r = sl_cu(checks->context, EventCreate, &checks->streams[i].last, SL_CU_EVENT_DISABLE_TIMING);
    checks->streams[i].line = line;
    *event = checks->streams[i].last;
    return r;
}

/* Copies the flag first: another program's writer that begins a session after it shut one clears the flag only after it
 * has stored its new version, or an index of 0. */
static int queue_copies(const struct sl_cipd_overwrite_checks *checks, uint32_t number, struct sl_cu_stream *target)
{
    uint64_t staging = checks->staging + number * sizeof(struct record);
    size_t size = checks->flag ? COMMON_BYTES + 1 : COMMON_BYTES; /* little-endian: the rest of the word is 0 */
    int r = checks->flag ? sl_cu(checks->context, MemcpyHtoDAsync, staging + COMMON_BYTES, checks->flag, 1, target) : 0;

    if (r == 0)
        r = sl_cu(checks->context, MemcpyHtoDAsync, staging, checks->from, COMMON_BYTES, target);
    return r == 0 ? sl_cu(checks->context, MemcpyDtoHAsync, &checks->records[number], staging, size, target) : r;
}

/* Between enter and leave. */
static int queue_record(struct sl_cipd_overwrite_checks *checks, const char *name, uint64_t line, uint32_t *number,
                        struct sl_cu_stream *target)
{
    struct sl_cu_event *last;
    int r = event_of_stream(checks, name, line, &last);

    if (r != 0)
        return r;
    *number = checks->next++ % MAX_RECORDS;
    struct record *record = &checks->records[*number];
    sl_store(&record->version, 0, release);
    sl_store(&record->come, 0, release);
    sl_store(&record->shut, checks->flag != NULL, release);
    r = queue_copies(checks, *number, target);
    return r == 0 ? sl_cu(checks->context, EventRecord, last, target) : r;
}

int sl_cipd_overwrite_check_queue(struct sl_cipd_reader *reader, struct sl_cipd_held *held,
                                  const struct sl_stream *stream)
{
    struct sl_cu_stream *target;
    struct sl_cuda_scope scope;
    uint32_t record = 0;
    int r = 0;

    if (held->link != reader->link)
        return sl_fail(SLUICE_E_LOST, "channel 'cipd:%s': the session that the frame is of has ended",
                       reader->base.name);
    if (!held->link->checks_queued && (r = create_checks(reader, &held->link->checks_queued)) != 0)
        return r;
    int64_t now = sl_os_now();
    if (!sl_cipd_load_shut(reader->consumer.segment.at, &reader->consumer.session.layout))
        held->polled_ns = now;
    if ((r = sl_cuda_enter(reader->context, SL_CUDA_RELAXED, &scope)) != 0)
        return r;
    if ((r = find_target(reader, stream, &target)) == 0 &&
        (r = queue_record(held->link->checks_queued, reader->base.name, sl_stream_queue_id(stream), &record, target)) ==
            0)
        held->last_check = record + 1;
    sl_cuda_leave(&scope);
    return r;
}

bool sl_cipd_overwrite_check_passed(const struct sl_cipd_held *held)
{
    const struct sl_cipd_overwrite_checks *checks = held->link->checks_queued;

    if (!held->last_check || held->waits == SL_CIPD_CAME_NOT)
        return false;
    const struct record *record = &checks->records[held->last_check - 1];
    uint32_t come = sl_load(&record->come, acquire);
    if (come == 0 || sl_load(&record->version, acquire) != checks->version ||
        (sl_load(&record->shut, acquire) && sl_os_now() - held->polled_ns >= SL_CIPD_GRACE))
        return false;
    return sl_cipd_index_left(held->frame.index, come, checks->begun, held->link->pool->count);
}
