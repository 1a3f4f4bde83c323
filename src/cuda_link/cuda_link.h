/* SPDX-License-Identifier: MIT
 *
 * Internals of "cipd:" channels: slots of GPU memory and events, on the wire of cuda_link/wire/, as a channel backend
 * (channel/channel.h). Writer: writer.c opens and closes, writer_session.c begins sessions, writer_tick.c looks after
 * them, export.c and send.c handle each frame, keep_finished.c leaves a finished frame for readers. Reader: reader.c
 * opens, reader_session.c follows sessions, acquire.c takes frames, copy.c copies them (timeslice.c: when to do so
 * within a time slice of the GPU), release.c releases them, overwrite_check.c has streams record whether they are
 * whole. pool.c makes and frees slots.
 *
 * All driver calls that could invalidate a capture are made in the relaxed mode. The only driver calls made for each
 * frame are copies, recording and querying events, and those of the copier (copy/cuda.c).
 */
#ifndef SL_CUDA_LINK_CUDA_LINK_H
#define SL_CUDA_LINK_CUDA_LINK_H

#include <sluice/cipd.h>

#include "channel/arrays.h"
#include "channel/channel.h"
#include "copy/copy.h"
#include "cuda/cuda.h"
#include "cuda_link/wire/barrier.h"
#include "cuda_link/wire/format.h"
#include "cuda_link/wire/segment_read.h"
#include "cuda_link/wire/segment_write.h"
#include "cuda_link/wire/shm_watch.h"
#include "device/device.h"
#include "trace/trace.h"

#define SL_CIPD_GRACE         (100 * SLUICE_MS)    /* how long a writer keeps its memory after it has shut */
#define SL_CIPD_POLL_INTERVAL (50 * INT64_C(1000)) /* ns between queries of an event, after spinning */

extern const struct sl_channel_ops sl_channel_cuda_link;

/* ---- pool.c ---- */

struct sl_cipd_slot {
    struct sl_cuda_block *block;
    struct sl_cuda_signal *signal; /* NULL: frames in it are finished when they are published */
    uint64_t address;
    struct sl_copy_event last_work; /* writer only */
    uint32_t frame;                 /* writer only: the published frame that the last_work is for; 0: none */
    sl_word frames, wait_ns;        /* for observers, relaxed */
};

/* The slots of one session, made or opened. */
struct sl_cipd_pool {
    struct sl_cuda_context *context; /* a reference of its own */
    uint32_t count;
    uint64_t bytes; /* of one frame */
    struct sl_cipd_slot slots[SL_CIPD_MAX_SLOTS];
};

struct sl_cipd_free_queue;

/* Makes slots, with the handles to be published. SLUICE_E_NO_MEMORY, SLUICE_E_UNSUPPORTED, ...; then those that were
 * made are in the queue. */
int sl_cipd_pool_make(struct sl_cipd_free_queue *queue, const char *channel, const char *device, uint32_t count,
                      uint64_t bytes, struct sl_cipd_handles handles[SL_CIPD_MAX_SLOTS], struct sl_cipd_pool **pool);

/* Opens the slots of another program's session; as pool_make. */
int sl_cipd_pool_open(struct sl_cipd_free_queue *queue, const char *channel, const char *device,
                      const struct sl_cipd_session *session, struct sl_cipd_pool **pool);

/* Pools to be freed. Freeing and closing may wait for GPU work that does not end, so a thread does it; where
 * none can be started, the caller does, and the log says so. */
int sl_cipd_free_queue_create(const char *channel, struct sl_cipd_free_queue **queue);

/* Frees a pool after `grace_ns`; does nothing for NULL. */
void sl_cipd_free_queue_add(struct sl_cipd_free_queue *queue, struct sl_cipd_pool *pool, int64_t grace_ns);

/* The same for something else whose cleanup may wait for GPU work. */
void sl_cipd_free_queue_run(struct sl_cipd_free_queue *queue, void (*end)(void *what), void *what, int64_t grace_ns);

/* Waits for up to `patience_ns` until the queue is empty. Returns how many are left. */
uint32_t sl_cipd_free_queue_wait(struct sl_cipd_free_queue *queue, int64_t patience_ns);
uint32_t sl_cipd_free_queue_count(const struct sl_cipd_free_queue *queue);

/* Ends the queue; what is still in it is freed in the background. */
void sl_cipd_free_queue_release(struct sl_cipd_free_queue *queue);

/* Pins the memory of a slot. */
int sl_cipd_pin(struct sl_cipd_slot *slot, sluice_pin **pin);

/* ---- params.c ---- */

int sl_cipd_writer_params(const char *name, const struct sluice_writer_params *params,
                          struct sluice_cipd_writer_params *cipd, uint32_t *slots);
int sl_cipd_reader_params(const char *name, struct sluice_reader_params *params,
                          struct sluice_cipd_reader_params *cipd);

/* ---- inspect.c ---- */

/* Fills in the members of `info` that info.c does not. */
void sl_cipd_inspect_frames(const struct sl_cipd_segment_reader *consumer, struct sluice_cipd_info *info);

struct sl_cipd_writer;
struct sl_cipd_reader;

/* ---- info.c, settings.c, barrier.c: behind sluice/cipd.h ---- */

void sl_cipd_writer_info(struct sl_cipd_writer *writer, struct sluice_cipd_info *info);
void sl_cipd_reader_info(struct sl_cipd_reader *reader, struct sluice_cipd_info *info);
int sl_cipd_inspect(const char *name, struct sluice_cipd_info *info);
int sl_cipd_list(int (*each)(void *user, const char *name), void *user);
int sl_cipd_environment(struct sluice_cipd_writer_params *writer, struct sluice_cipd_reader_params *reader);
void sl_cipd_list_variables(struct sluice_cipd_variable *variables, size_t capacity, size_t *count);
int sl_cipd_barrier_info(const char *name, int64_t stale_ns, struct sluice_cipd_barrier_info *caller);

/* ---- format.c ---- */

/* A program's format as metadata of the wire. SLUICE_E_FORMAT, saying what the wire cannot express. */
int sl_cipd_format_of(const char *channel, const struct sluice_format *format,
                      const struct sluice_cipd_writer_params *params, struct sl_cipd_metadata *metadata);

/* The opposite, by the reader's policies. */
int sl_cipd_format_as(const struct sl_cipd_format *wire, const struct sluice_cipd_reader_params *params,
                      struct sluice_format *format);

/* The component order of four uint8, by the wire's flag or the reader's parameters. */
enum sluice_cipd_order sl_cipd_order_of(const struct sl_cipd_format *wire,
                                        const struct sluice_cipd_reader_params *params);
bool sl_cipd_is_mono_alpha(const struct sl_cipd_format *wire, const struct sluice_cipd_reader_params *params);

/* Height, width and components of an array; false if it has none. */
bool sl_cipd_shape(const struct sluice_array *array, uint32_t shape[3]);

/* ---- the writer ---- */

struct sl_cipd_writer {
    struct sluice_writer base;
    char device[SL_DEVICE_NAME];
    struct sluice_cipd_writer_params params; /* complete */
    char barrier_name[SLUICE_CIPD_MAX_NAME + 1];
    int64_t wait_ns;
    uint32_t slots;        /* of future sessions */
    sl_word32 tick_failed; /* 1: `tick_result` may not be 0 */
    struct sl_cuda_context *context;
    struct sl_copier copier;
    struct sl_send_cache send_cache;
    struct sl_cipd_free_queue *free_queue;

    struct sl_cipd_pool *pool;
    uint64_t session;
    struct sl_geometry geometry; /* of its array */
    bool reshaped;
    bool resize;                /* a send may change the size */
    bool pool_in_use;           /* work that nobody waits for may yet write to the pool */
    uint64_t token, next_token; /* of the frame that is begun; 0: none */
    struct sl_span span;
    uint32_t finished;                   /* the newest frame of the session that is known to be finished; 0: none */
    unsigned char meta[SLUICE_MAX_META]; /* for programs to write to; it is not sent */

    sl_mutex lock; /* guards the members below: the service thread changes them, other threads read them */
    struct sl_cipd_segment_writer producer;
    bool open; /* has a segment */
    struct sluice_format format;
    struct sl_cipd_metadata metadata;
    uint32_t generation;
    struct sl_cipd_barrier checker, holder; /* the counts of `checker` belong to the writer's thread */
    struct sl_cipd_shm_watch watched;       /* for checker.changes, if that is not NULL */
    bool checks, holds;                     /* the barrier; `checks` belongs to the writer's thread */
    struct sl_watch tick;
    int tick_result; /* the result of the last check of the segment; 0: it succeeded */
    char tick_error[256];
    uint64_t published, bytes, copied_bytes, skips, failed, dropped, cancelled, graph_frames, relinked, waited_ns;
    int64_t last_frame_ns;
};

static inline struct sl_cipd_writer *sl_cipd_writer_of(struct sluice_writer *base)
{
    return (struct sl_cipd_writer *)base;
}

/* Its handle, as in the frames that it has begun. */
static inline uint64_t sl_cipd_writer_id(const struct sl_cipd_writer *writer)
{
    return atomic_load_explicit(&writer->base.object.id, memory_order_relaxed);
}

/* The slot of the next frame, also of one that is begun. */
static inline struct sl_cipd_slot *sl_cipd_next_slot(struct sl_cipd_writer *writer)
{
    return &writer->pool->slots[sl_cipd_write_slot(&writer->producer)];
}

int sl_cipd_writer_open(struct sluice_writer *base, const struct sluice_writer_params *params);
int sl_cipd_writer_format(struct sluice_writer *base, struct sluice_format *format);
void sl_cipd_writer_stats(struct sluice_writer *base, struct sluice_writer_stats *stats);

/* ---- writer_session.c ---- */

/* Begins a session with this format and `slots` slots, and discards the slots of the last one. */
int sl_cipd_writer_session(struct sl_cipd_writer *writer, const struct sluice_format *format, uint32_t slots);

/* The same with the format that it has: for another number of slots, or for others if `pool_in_use`. */
int sl_cipd_writer_renew(struct sl_cipd_writer *writer, uint32_t slots);

int sl_cipd_writer_set_slots(struct sl_cipd_writer *writer, uint32_t slots);
int sl_cipd_reformat(struct sluice_writer *base, const struct sluice_format *format);
/* Before a send: begins a new session if the array's size is not the session's. Its data type must be the channel's. */
int sl_cipd_writer_fit_array(struct sl_cipd_writer *writer, const struct sluice_array *array);

/* Frees a pool after `grace_ns`, and at once the copier's graphs that copy into it. */
void sl_cipd_writer_retire(struct sl_cipd_writer *writer, struct sl_cipd_pool *pool, int64_t grace_ns);

/* ---- writer_tick.c ---- */

int sl_cipd_writer_start_ticks(struct sl_cipd_writer *writer);
void sl_cipd_writer_stop_ticks(struct sl_cipd_writer *writer);
int sl_cipd_writer_begin_barriers(struct sl_cipd_writer *writer);
void sl_cipd_writer_end_barriers(struct sl_cipd_writer *writer);

/* Does it check the barrier from now on? Not while it holds it: it would skip its own frames. On the writer's thread,
 * with the lock once it is tended. */
void sl_cipd_writer_update_checks(struct sl_cipd_writer *writer);

/* To be called if `tick_failed`: 0, or the failure of the last check of the segment, such as that another program has
 * taken it over, so that nobody sees our frames. */
int sl_cipd_writer_tick_result(struct sl_cipd_writer *writer);

/* ---- slot_wait.c: the writer's thread ---- */

/* Calls `query` in the writer's context until it returns something other than SLUICE_NOT_READY, or the timeout.
 * *waited_ns is how long that took; it is not set if the context cannot be entered. */
typedef int sl_cipd_query(struct sl_cipd_writer *writer, const struct sl_cipd_slot *slot);
int sl_cipd_await(struct sl_cipd_writer *writer, sl_cipd_query *query, const struct sl_cipd_slot *slot,
                  int64_t timeout_ns, int64_t *waited_ns);

/* Waits until the GPU has done all work queued for the slot, and records in slot->wait_ns how long that took. 0,
 * SLUICE_NOT_READY or a failure. */
int sl_cipd_await_slot(struct sl_cipd_writer *writer, struct sl_cipd_slot *slot, int64_t timeout_ns);

/* Waits until the GPU has done all work that was queued for slots; false after `patience_ns`. */
bool sl_cipd_drain(struct sl_cipd_writer *writer, int64_t patience_ns);

/* ---- export.c ---- */

int sl_cipd_begin(struct sluice_writer *base, int64_t timeout_ns, struct sluice_frame *frame);
int sl_cipd_wait(struct sluice_writer *base, int64_t timeout_ns);
int sl_cipd_commit(struct sluice_writer *base, struct sluice_frame *frame, struct sluice_stream stream);
int sl_cipd_cancel(struct sluice_writer *base, struct sluice_frame *frame, struct sluice_stream stream);
int sl_cipd_writer_pin(struct sluice_writer *base, const struct sluice_frame *frame, sluice_pin **pin);
int sl_cipd_writer_view(struct sluice_writer *base, const struct sluice_frame *frame, struct sl_view *view);

/* Counts a frame that was not published because of a failure, and returns `result`. */
int sl_cipd_count_failure(struct sl_cipd_writer *writer, int result);

/* Before a frame: 0; SLUICE_NO_SLOT if it is skipped for an activation barrier; or why the writer cannot go on. */
int sl_cipd_check_writer(struct sl_cipd_writer *writer);

/* Records the next slot's event behind the job's work; with the parameter `block` also waits for it. */
int sl_cipd_record_work(struct sl_cipd_writer *writer, struct sl_copy_job *job);

/* The next frame's work is queued, and its event recorded. `sent`: the job of a send; NULL: it was written in place. */
void sl_cipd_publish(struct sl_cipd_writer *writer, struct sluice_frame *frame, const struct sl_copy_job *sent);

/* ---- send.c ---- */

int sl_cipd_send(struct sluice_writer *base, struct sluice_frame *header, const struct sluice_array *arrays,
                 uint32_t count, struct sluice_stream stream, struct sluice_ticket *ticket);

/* ---- keep_finished.c: the writer's thread ---- */

/* Waits until the next frame can be written with one finished frame left for readers: 0; SLUICE_NO_SLOT, then `dropped`
 * is added to the count of dropped frames; a failure. Usually makes no driver call. */
int sl_cipd_keep_finished(struct sl_cipd_writer *writer, int64_t timeout_ns, uint64_t dropped);

/* Is one left, according to the driver's last answer or a reader's report? A query of the driver takes longer than the
 * rest of a send without its copy. A wrong report harms only readers. */
bool sl_cipd_finished_is_reported(const struct sl_cipd_writer *writer);

/* To be called when the next frame is finished before it is published. */
void sl_cipd_next_is_finished(struct sl_cipd_writer *writer);

/* Is it certain that the GPU has done all work that was queued for the next slot? */
bool sl_cipd_next_slot_is_idle(const struct sl_cipd_writer *writer);

/* Do both hold, according to the driver's last answer or a reader's report? Then begin will find a slot unless the
 * report is wrong: begin itself does not rely on it. */
bool sl_cipd_next_slot_is_reported_idle(const struct sl_cipd_writer *writer);

/* ---- timeslice.c ---- */

enum sl_cipd_copy_mode {
    SL_CIPD_COPY_ANYTIME,
    SL_CIPD_COPY_IN_SLICE,     /* in a time slice that lasted until the copy was queued */
    SL_CIPD_COPY_SLICE_MISSED, /* in a time slice that may have ended before */
};

struct sl_cipd_timeslice {
    enum sl_cipd_copy_mode mode; /* how the current copy is made */
    uint32_t pieces;             /* of work that are queued to keep a turn, */
    int64_t keep_ns;             /* and how long they should take */
    uint32_t left,
        next; /* how many frames are still to be copied in time slices; how many the next time, 0: as at first */
    uint32_t plain,
        next_plain; /* how many copies may be overtaken before that; how many the next time, 0: as at first */
};

void sl_cipd_timeslice_init(struct sl_cipd_timeslice *timeslice);

/* late: the copy was queued too late. learn: the copy was done `took_ns` after its turn had begun. */
void sl_cipd_timeslice_missed(struct sl_cipd_timeslice *timeslice);
void sl_cipd_timeslice_measured(struct sl_cipd_timeslice *timeslice, int64_t took_ns);

/* After each copy: was it whole, or overtaken by the writer? False also for a turn in which no frame could be chosen.
 */
void sl_cipd_timeslice_judge(struct sl_cipd_timeslice *timeslice, bool whole);

/* ---- the reader ---- */

/* A session as a reader uses it. */
struct sl_cipd_link {
    uint32_t users; /* references of the reader and of each frame; the reader's lock */
    struct sl_cipd_pool *pool;
    struct sl_cipd_handles handles[SL_CIPD_MAX_SLOTS];
    uint64_t session; /* of frames */
    uint32_t generation;
    struct sl_cipd_overwrite_checks *checks_queued; /* NULL until one is made */
    bool doubtful; /* frames still held had some of these handles open before: the mapping may be of older memory */
    struct sluice_format format;
    struct sl_geometry geometry; /* of its array */
};

struct sl_cipd_overwrite_checks; /* overwrite_check.c */

#define SL_CIPD_RELEASED 1 /* a token that no frame has: released, but a stream still waits for it */

/* State of a frame that may have been taken before it was ready. */
enum sl_cipd_wait {
    SL_CIPD_READY, /* it was ready when it was taken */
    SL_CIPD_WAITS, /* its stream waits for it */
    SL_CIPD_CAME,
    SL_CIPD_CAME_NOT, /* the stream went on without it */
};

struct sl_cipd_held {
    sl_word token;           /* 0: free */
    enum sl_cipd_wait waits; /* it and the members below: the reader's lock */
    uint64_t ahead_value, ahead_number;
    int64_t ahead_until;
    struct sluice_stream ahead_stream;
    struct sl_cipd_link *link;
    struct sl_cipd_frame frame;
    int64_t polled_ns;   /* its writer had not shut at this time; overwrite checks update it, with the reader's lock */
    uint64_t address;    /* of the slot, or of the copy */
    uint32_t last_check; /* number of the last check's record, from 1; 0: there is none */
    bool copied;
    struct sl_span span;
};

struct sl_cipd_copies; /* copy.c */

struct sl_cipd_reader {
    struct sluice_reader base;
    char device[SL_DEVICE_NAME];
    struct sluice_reader_params params; /* complete */
    struct sluice_cipd_reader_params cipd;
    struct sl_cuda_context *context;
    struct sl_cipd_free_queue *free_queue;
    sl_word32 closing, bell;
    sl_word32 retry;
    struct sl_name_watch name_watch;         /* joined when there was no session; under the service lock */
    sl_word known_stream;                    /* the last stream that was found to be of this device; relaxed */
    char nothing[SLUICE_CIPD_MAX_NAME + 64]; /* acquire's usual message when there is no frame */

    /* Used by the acquiring thread only. */
    char unopened[640];           /* why the handles of the current session could not be opened */
    struct sl_cipd_frame pending; /* the newest frame, if it was not taken; index 0: it was */
    int64_t pending_ns;           /* since when a frame is pending and none was taken */
    int64_t until;                /* how long the call may take that is under way */
    int64_t polled_ns;            /* when the segment was last polled, or slightly before */
    uint32_t oldest;              /* no frame older than this one is taken in this session; 0: not known yet */
    uint32_t counted;             /* frames count as missed from this one on; 0: none was seen yet */
    uint32_t counted_before;      /* the same at the end of the last session; 0: the next one begins at 1 */
    bool awaited;          /* it has waited for this session, so that it missed what came before its first frame */
    uint32_t tries, tried; /* finished frames overtaken since one was taken; the newest frame at the last of them */
    uint64_t next_token;
    uint64_t last_session;
    uint64_t unreported;                /* missed frames not yet reported in a frame's `missed` */
    struct sl_cipd_ahead *ahead;        /* NULL: streams do not wait */
    struct sl_cipd_copies *copies;      /* of a reader whose frames are copies; NULL until the first copy */
    struct sl_cipd_timeslice timeslice; /* in which copies are made */
    bool shut;                          /* the last session was closed by its writer, and no other has come */
    bool over;                          /* reconnect is off, and the session has ended */

    sl_mutex lock; /* guards the members below for other threads; only the acquiring thread changes them */
    struct sl_cipd_segment_reader consumer;
    struct sl_cipd_link *link;
    uint32_t last_index; /* of the frame that was last taken in this session; 0: none */
    struct sl_cipd_held held[SLUICE_CIPD_MAX_SLOTS];
    uint32_t generation;
    int64_t close_until; /* how long the last session's handles are waited for; 0: they are not */
    int note;            /* the descriptor that programs poll; -1 until requested */
    struct sl_watch watch;

    sl_word taken, no_frame, timeouts, sessions, overruns, repeated, dropped, spin_hits, latency_ns, latency_total_ns;
    sl_word frame_ns; /* when the last one was published */
};

static inline struct sl_cipd_reader *sl_cipd_reader_of(struct sluice_reader *base)
{
    return (struct sl_cipd_reader *)base;
}

int sl_cipd_reader_open(struct sluice_reader *base, const struct sluice_reader_params *params);
/* While there is no session: so that a writer is found at once, not at the next attempt. Where this fails, the attempts
 * go on all the same. */
void sl_cipd_reader_watch_name(struct sl_cipd_reader *reader);
void sl_cipd_reader_retry(struct sl_cipd_reader *reader); /* looks for a session at once */
void sl_cipd_reader_stop(struct sluice_reader *base);
void sl_cipd_reader_stopped(struct sluice_reader *base);
int sl_cipd_reader_format(struct sluice_reader *base, struct sluice_format *format);
void sl_cipd_reader_device(struct sluice_reader *base, char name[SL_DEVICE_NAME]);
void sl_cipd_reader_stats(struct sluice_reader *base, struct sluice_reader_stats *stats);

/* Does the channel count as stalled, and why? With the lock, or on the acquiring thread. */
bool sl_cipd_reader_stalled(const struct sl_cipd_reader *reader, int64_t now, char *why, size_t size);

/* ---- reader_session.c ---- */

/* Connects to a session, if there is none yet. 0; SLUICE_NO_WRITER and so on with a message. */
int sl_cipd_reader_connect(struct sl_cipd_reader *reader, int64_t now);

/* The same without GPU resources: finds a session. */
int sl_cipd_reader_find_session(struct sl_cipd_reader *reader, int64_t now);

/* Does this reason mean that there is no writer? Otherwise one is filling in the segment, or its contents are invalid.
 */
bool sl_cipd_is_gone(enum sl_cipd_reason reason);

/* Does this result of connect say that the session is one that the reader cannot use? The writer may be about to begin
 * another, so it is not returned at once. */
bool sl_cipd_is_refusal(int result);

/* Leaves the session. `again`: tries at once to connect to another. */
void sl_cipd_reader_drop(struct sl_cipd_reader *reader, enum sl_cipd_reason reason, bool again);

/* Drops a reference; with the reader's lock. */
void sl_cipd_link_drop(struct sl_cipd_reader *reader, struct sl_cipd_link *link);

/* Frees the entry of a frame that was released and that no stream waits for any more; with the reader's lock. */
void sl_cipd_held_end(struct sl_cipd_reader *reader, struct sl_cipd_held *held);

/* ---- copy.c: `entry` is the index in `held` of the copy's frame ---- */

/* Is no copy in flight to this entry's buffer? */
bool sl_cipd_copy_free(struct sl_cipd_reader *reader, uint32_t entry);

/* Copies a slot whose event is done, and waits for the copy. */
int sl_cipd_copy(struct sl_cipd_reader *reader, uint32_t entry, const struct sl_cipd_slot *slot, uint64_t bytes,
                 uint64_t *address);

/* Waits for a turn, the time slice in which this GPU runs this process's work, and queues work that keeps it for a
 * moment: a copy of `bytes` that is queued meanwhile runs at once. Not before the first copy. turn_lasts: does the turn
 * still last? */
int sl_cipd_timeslice_begin(struct sl_cipd_reader *reader, uint32_t entry, uint64_t bytes);
bool sl_cipd_timeslice_lasts(struct sl_cipd_reader *reader, uint32_t entry);

/* The next copy to this entry's buffer will wait for the work queued on the stream. SLUICE_E_CAPTURING: nothing was
 * done. */
int sl_cipd_copy_release(struct sl_cipd_reader *reader, uint32_t entry, struct sluice_stream stream);
void sl_cipd_copies_end(struct sl_cipd_reader *reader);

/* ---- ahead.c ---- */

/* Sets reader->ahead, unless streams cannot wait here. `end_reader` is called at the end of its thread if that outlives
 * the reader's close: see sl_cipd_ahead_leave. */
int sl_cipd_ahead_begin(struct sl_cipd_reader *reader, void (*end_reader)(struct sl_cipd_reader *reader));

/* At close: lets waiting streams continue, though their frames may never come. */
void sl_cipd_ahead_stop(struct sl_cipd_reader *reader);

/* Waits for its thread. False if that is blocked in the driver: then it calls `end_reader` later. */
bool sl_cipd_ahead_leave(struct sl_cipd_reader *reader);
void sl_cipd_ahead_end(struct sl_cipd_reader *reader);

/* Queues a wait on the stream for the frame that `held` will be of; with no lock held. SLUICE_NO_SLOT without a message
 * if too many streams wait. Once `held` has its frame, call sl_cipd_ahead_watch. */
int sl_cipd_ahead_wait(struct sl_cipd_reader *reader, struct sl_cipd_held *held, struct sluice_stream stream);
void sl_cipd_ahead_watch(struct sl_cipd_reader *reader, struct sl_cipd_held *held);

/* The loss of this wait's frame was reported, so work queued after it may be published again. With no lock held. */
void sl_cipd_ahead_reported(struct sl_cipd_ahead *ahead, uint64_t number);

/* The same for frames that were lost after their release: SLUICE_E_LOST with their numbers, once; 0: there are none. */
int sl_cipd_ahead_report_lost(struct sl_cipd_reader *reader);

/* ---- acquire.c ---- */

int sl_cipd_acquire(struct sluice_reader *base, struct sluice_stream stream, int64_t timeout_ns,
                    struct sluice_frame *frame);

/* ---- release.c ---- */

/* Is it SLUICE_ON_CPU, or a stream of the reader's device? */
int sl_cipd_reader_stream(struct sl_cipd_reader *reader, struct sluice_stream stream);

/* Has the writer, which had not shut at `polled_ns`, had no reason so far to overwrite this frame or free its memory?
 * With the reader's lock, or on the acquiring thread. */
bool sl_cipd_is_untouched(const struct sl_cipd_reader *reader, const struct sl_cipd_frame *frame, int64_t polled_ns);

int sl_cipd_release(struct sluice_reader *base, struct sluice_frame *frame, struct sluice_stream stream);
int sl_cipd_check(struct sluice_reader *base, const struct sluice_frame *frame);
int sl_cipd_check_mark(struct sl_cipd_reader *reader, const struct sluice_frame *frame);
int sl_cipd_mark(struct sl_cipd_reader *reader, const struct sluice_frame *frame, struct sluice_stream stream);
int sl_cipd_reader_pin(struct sluice_reader *base, const struct sluice_frame *frame, sluice_pin **pin);
int sl_cipd_reader_view(struct sluice_reader *base, const struct sluice_frame *frame, struct sl_view *view);

/* ---- overwrite_check.c ---- */

/* Has the stream record, behind its work, whether the writer has left the frame alone until then. SLUICE_E_CAPTURING,
 * ... With the reader's lock. */
int sl_cipd_overwrite_check_queue(struct sl_cipd_reader *reader, struct sl_cipd_held *held,
                                  const struct sl_stream *stream);

/* Was the frame whole according to its last check? False also if that is not known. With the reader's lock. */
bool sl_cipd_overwrite_check_passed(const struct sl_cipd_held *held);
void sl_cipd_overwrite_checks_destroy(struct sl_cipd_reader *reader, struct sl_cipd_overwrite_checks *checks);

/* ---- poll.c ---- */

int sl_cipd_reader_fd(struct sluice_reader *base);

/* After each acquire, if the program polls the descriptor. */
void sl_cipd_poll_fd_update(struct sl_cipd_reader *reader);

#endif
