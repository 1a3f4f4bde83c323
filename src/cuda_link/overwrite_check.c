/* SPDX-License-Identifier: MIT
 *
 * Marks record how far the writer had come when a stream was done with a frame. If the CPU looked later, as in a program with
 * copies in flight, it would be too late: the slot may have been begun again since, or its memory freed. So the stream copies
 * the writer's state out of the segment, behind the program's work. The copy goes through GPU memory, because the driver makes a
 * copy from host memory to host memory on the CPU, and blocks until the stream reaches it (measured).
 *
 * The copied state shows whether the writer's memory still existed when the work was done. Sluice's writers change the version
 * among their private words before they begin another session, and before they free memory they announce a frame with an
 * index that is out of reach. For other writers the flag is copied, and after it the version and the index. A writer that has
 * neither closed nor begun another session keeps its memory; one that has closed keeps it for a moment, which only this CPU's
 * clock can measure.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_link/cuda_link.h"
#include "util/result.h"

#define STREAMS 8 /* of a session's marks */
#define NOTES 1024

/* What a stream records. It need not arrive at once: before it is complete it reads as "not known". */
struct note {
    sl_word version;     /* initially 0 */
    sl_word32 something; /* the bytes between these two, in both layouts */
    sl_word32 come;      /* initially 0 */
    sl_word shut;        /* initially 1 for a writer that has only its flag */
};

#define HEAD offsetof(struct note, shut) /* bytes that have the same layout in the segment */

_Static_assert(offsetof(struct note, come) == offsetof(struct sl_cipd_extra, begun) - offsetof(struct sl_cipd_extra, version),
               "it is what a writer of Sluice's stores, piece by piece");
_Static_assert(offsetof(struct note, come) == SL_CIPD_INDEX_AT - SL_CIPD_VERSION_AT, "and what others do");

struct sl_cipd_marks {
    struct sl_cuda_context *context; /* its own reference */
    void *segment;                   /* its own mapping, as streams may read from it after the reader has left */
    uint64_t bytes;                  /* of that: a page */
    struct note *notes;
    uint64_t notes_bytes;
    uint64_t version;                /* of the session */
    const void *from;                /* the copied bytes, in the segment */
    const unsigned char *flag;       /* the flag in the segment; NULL: it is not copied */
    uint64_t between;                /* GPU memory through which each note is copied */
    struct {
        uint64_t line;            /* sl_stream_queue_id */
        struct sl_cu_event *last; /* after its last mark */
    } streams[STREAMS];
    uint32_t next;
    bool begun; /* `come` is the frame that the writer has begun, else the last one that it has published */
};

/* ---- making and ending ---- */

static int map_pages(struct sl_cipd_marks *marks, const struct sl_cipd_segment *segment)
{
    void *notes;
    int fd, r = sl_os_map(segment->fd, marks->bytes, segment->writable, &marks->segment);

    if (r != 0)
        return r;
    if ((r = sl_os_memory_create("marks", marks->notes_bytes, &fd)) != 0)
        return r;
    r = sl_os_map(fd, marks->notes_bytes, true, &notes);
    sl_os_close(fd);
    if (r == 0)
        marks->notes = notes;
    return r;
}

static int make_between(struct sl_cipd_marks *marks)
{
    struct sl_cuda_scope scope;
    int r = sl_cuda_enter(marks->context, SL_CUDA_RELAXED, &scope);

    if (r != 0)
        return r;
    r = sl_cu(marks->context, MemAlloc, &marks->between, (size_t)marks->notes_bytes);
    sl_cuda_leave(&scope);
    return r;
}

static void find_words(struct sl_cipd_marks *marks, const struct sl_cipd_consumer *consumer)
{
    unsigned char *at = marks->segment;

    marks->version = consumer->session.version;
    marks->begun = consumer->extra != NULL;
    marks->from = marks->begun ? (void *)&sl_cipd_extra(at, marks->bytes)->version : at + SL_CIPD_VERSION_AT;
    marks->flag = marks->begun ? NULL : at + consumer->session.layout.shut;
}

static int register_pages(struct sl_cipd_marks *marks, const struct sl_cipd_consumer *consumer)
{
    int r = sl_cuda_register(marks->context, marks->segment, marks->bytes, consumer->segment.writable);

    if (r != 0)
        return r;
    if ((r = sl_cuda_register(marks->context, marks->notes, marks->notes_bytes, true)) == 0) {
        find_words(marks, consumer);
        if ((r = make_between(marks)) == 0)
            return 0;
        (void)sl_cuda_unregister(marks->context, marks->notes);
    }
    (void)sl_cuda_unregister(marks->context, marks->segment);
    return r;
}

static void unmap(struct sl_cipd_marks *marks)
{
    if (marks->notes)
        sl_os_unmap(marks->notes, marks->notes_bytes);
    if (marks->segment)
        sl_os_unmap(marks->segment, marks->bytes);
    free(marks);
}

/* On a thread that may wait for streams to reach their marks. */
static void end(void *what)
{
    struct sl_cipd_marks *marks = what;
    struct sl_cuda_scope scope;

    if (sl_cuda_enter(marks->context, SL_CUDA_RELAXED, &scope) == 0) { /* else all were freed with the context */
        for (int i = 0; i < STREAMS && marks->streams[i].last; i++) {
            (void)sl_cu(marks->context, EventSynchronize, marks->streams[i].last);
            (void)sl_cu(marks->context, EventDestroy, marks->streams[i].last);
        }
        (void)sl_cu(marks->context, MemFree, marks->between);
        sl_cuda_leave(&scope);
        (void)sl_cuda_unregister(marks->context, marks->notes);
        (void)sl_cuda_unregister(marks->context, marks->segment);
    }
    sl_cuda_context_close(marks->context);
    unmap(marks);
}

void sl_cipd_marks_end(struct sl_cipd_reader *reader, struct sl_cipd_marks *marks)
{
    if (marks)
        sl_cipd_bin_run(reader->bin, end, marks, 0);
}

static int make(struct sl_cipd_reader *reader, struct sl_cipd_marks **out)
{
    struct sl_cipd_marks *marks = calloc(1, sizeof *marks);

    if (!marks)
        return sl_fail(SLUICE_E_NO_MEMORY, "channel 'cipd:%s': no memory for marks", reader->base.name);
    marks->bytes = sl_os_page_size();
    marks->notes_bytes = (NOTES * sizeof *marks->notes + marks->bytes - 1) / marks->bytes * marks->bytes;
    int r = map_pages(marks, &reader->consumer.segment);
    if (r == 0 && (r = sl_cuda_context_open(reader->device, &marks->context)) == 0 &&
        (r = register_pages(marks, &reader->consumer)) != 0)
        sl_cuda_context_close(marks->context);
    if (r != 0)
        unmap(marks);
    else
        *out = marks;
    return r;
}

/* ---- marks ---- */

static int find_place(struct sl_cipd_reader *reader, const struct sl_stream *stream, struct sl_cu_stream **place)
{
    enum sl_cuda_capture state = SL_CUDA_CAPTURE_NONE;
    int r;

    *place = (struct sl_cu_stream *)stream->native;
    if (*place == NULL || *place == SL_CU_LEGACY)
        return sl_cuda_aux_stream(reader->context, place);
    r = sl_cuda_capture(reader->context, *place, &state, NULL);
    if (r == 0 && state != SL_CUDA_CAPTURE_NONE)
        r = sl_fail(SLUICE_E_CAPTURING,
                    "channel 'cipd:%s': the stream is capturing a graph: use another stream, or mark the frame after that",
                    reader->base.name);
    return r;
}

static int find_event(struct sl_cipd_marks *marks, const char *name, uint64_t line, struct sl_cu_event **event)
{
    int i = 0, r = 0;

    while (i < STREAMS && marks->streams[i].last && marks->streams[i].line != line)
        i++;
    if (i == STREAMS)
        return sl_fail(SLUICE_E_LIMIT, "channel 'cipd:%s': frames of a session are marked on %d streams at most", name, STREAMS);
    if (!marks->streams[i].last)
        r = sl_cu(marks->context, EventCreate, &marks->streams[i].last, SL_CU_EVENT_DISABLE_TIMING);
    marks->streams[i].line = line;
    *event = marks->streams[i].last;
    return r;
}

/* Copies the flag first: another program's writer that begins a session after it shut one clears the flag only after it has
 * stored its new version, or an index of 0. */
static int queue_copies(const struct sl_cipd_marks *marks, uint32_t number, struct sl_cu_stream *place)
{
    uint64_t between = marks->between + number * sizeof(struct note);
    size_t size = marks->flag ? HEAD + 1 : HEAD; /* little-endian: the rest of the word is 0 */
    int r = marks->flag ? sl_cu(marks->context, MemcpyHtoDAsync, between + HEAD, marks->flag, 1, place) : 0;

    if (r == 0)
        r = sl_cu(marks->context, MemcpyHtoDAsync, between, marks->from, HEAD, place);
    return r == 0 ? sl_cu(marks->context, MemcpyDtoHAsync, &marks->notes[number], between, size, place) : r;
}

/* Between enter and leave. */
static int queue(struct sl_cipd_marks *marks, const char *name, uint64_t line, uint32_t *number, struct sl_cu_stream *place)
{
    struct sl_cu_event *last;
    int r = find_event(marks, name, line, &last);

    if (r != 0)
        return r;
    *number = marks->next++ % NOTES;
    struct note *note = &marks->notes[*number];
    sl_store(&note->version, 0, release);
    sl_store(&note->come, 0, release);
    sl_store(&note->shut, marks->flag != NULL, release);
    r = queue_copies(marks, *number, place);
    return r == 0 ? sl_cu(marks->context, EventRecord, last, place) : r;
}

int sl_cipd_mark_held(struct sl_cipd_reader *reader, struct sl_cipd_held *held, const struct sl_stream *stream)
{
    struct sl_cu_stream *place;
    struct sl_cuda_scope scope;
    uint32_t note = 0;
    int r = 0;

    if (held->link != reader->link)
        return sl_fail(SLUICE_E_LOST, "channel 'cipd:%s': the session that the frame is of has ended", reader->base.name);
    if (!held->link->marks && (r = make(reader, &held->link->marks)) != 0)
        return r;
    int64_t now = sl_os_now();
    if (!sl_cipd_load_shut(reader->consumer.segment.at, &reader->consumer.session.layout))
        held->polled_ns = now;
    if ((r = sl_cuda_enter(reader->context, SL_CUDA_RELAXED, &scope)) != 0)
        return r;
    if ((r = find_place(reader, stream, &place)) == 0 &&
        (r = queue(held->link->marks, reader->base.name, sl_stream_queue_id(stream), &note, place)) == 0)
        held->mark = note + 1;
    sl_cuda_leave(&scope);
    return r;
}

bool sl_cipd_was_left(const struct sl_cipd_held *held)
{
    const struct sl_cipd_marks *marks = held->link->marks;

    if (!held->mark || held->waits == SL_CIPD_CAME_NOT)
        return false;
    const struct note *note = &marks->notes[held->mark - 1];
    uint32_t come = sl_load(&note->come, acquire);
    if (come == 0 || sl_load(&note->version, acquire) != marks->version ||
        (sl_load(&note->shut, acquire) && sl_os_now() - held->polled_ns >= SL_CIPD_GRACE))
        return false;
    return sl_cipd_index_left(held->frame.index, come, marks->begun, held->link->pool->count);
}
