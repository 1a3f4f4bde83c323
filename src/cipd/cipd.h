/* SPDX-License-Identifier: MIT
 *
 * Inside "cipd:" channels: slots of GPU memory and events behind the bytes of wire/cipd/, as a bare channel of the core's
 * (core/bare.h). writer.c opens and closes, export.c has what happens for each frame; reader.c opens and follows sessions,
 * take.c takes frames, copy.c copies them (turns.c: when in turns of the GPU's), release.c gives them back, mark.c has
 * streams note whether they are whole; spare.c leaves readers a finished frame; pool.c makes slots and gets rid of them.
 *
 * All calls of the driver that may break a capture are made in the relaxed mode; what happens for each frame makes no
 * other call than a copy, the record of an event and its query, and those of the copier (copy/cuda.c).
 */
#ifndef SL_CIPD_CIPD_H
#define SL_CIPD_CIPD_H

#include <sluice/cipd.h>

#include "copy/copy.h"
#include "core/arrays.h"
#include "core/bare.h"
#include "cuda/cuda.h"
#include "device/device.h"
#include "trace/trace.h"
#include "wire/cipd/barrier.h"
#include "wire/cipd/consume.h"
#include "wire/cipd/format.h"
#include "wire/cipd/names.h"
#include "wire/cipd/produce.h"

#define SL_CIPD_GRACE (100 * SLUICE_MS) /* a writer that has shut keeps its memory for so long */
#define SL_CIPD_LOOK (50 * INT64_C(1000)) /* ns between looks at an event, once spinning has not helped */

extern const struct sl_bare_ops sl_bare_cipd;

/* A time to come; SLUICE_FOREVER stays one. */
static inline int64_t sl_cipd_later(int64_t now, int64_t ns) { return ns > INT64_MAX - now ? INT64_MAX : now + ns; }

/* ---- pool.c ---- */

struct sl_cipd_slot {
    struct sl_cuda_block *block;
    struct sl_cuda_signal *signal; /* NULL: frames in it are finished when they are published */
    uint64_t address;
    struct sl_copy_fence fence;    /* the writer's */
    uint32_t frame;                /* the writer's: the one whose work the fence stands for; 0: of none that was published */
    sl_word frames, wait_ns;       /* for people, relaxed */
};

/* The slots of one session, made or opened. */
struct sl_cipd_pool {
    struct sl_cuda_context *context; /* its own hold */
    uint32_t count;
    uint64_t bytes; /* of a slot's frame */
    struct sl_cipd_slot slots[SL_CIPD_MAX_SLOTS];
};

/* Makes slots, with the handles to be published. SLUICE_E_NO_MEMORY, SLUICE_E_UNSUPPORTED, ... and nothing is left behind. */
int sl_cipd_pool_make(const char *channel, const char *device, uint32_t count, uint64_t bytes,
                      struct sl_cipd_handles handles[SL_CIPD_MAX_SLOTS], struct sl_cipd_pool **pool);

/* Opens another's. */
int sl_cipd_pool_open(const char *channel, const char *device, const struct sl_cipd_session *session,
                      struct sl_cipd_pool **pool);

/* Pools on their way out. Freeing and closing may wait for work that does not end, so a thread does it. */
struct sl_cipd_bin;
int sl_cipd_bin_make(struct sl_cipd_bin **bin);

/* Gets rid of a pool in `grace_ns`; NULL is done already. */
void sl_cipd_bin_put(struct sl_cipd_bin *bin, struct sl_cipd_pool *pool, int64_t grace_ns);

/* The same of something else that may wait for work. */
void sl_cipd_bin_run(struct sl_cipd_bin *bin, void (*end)(void *what), void *what, int64_t grace_ns);

/* Waits until none is left, as long as `patience_ns`. How many are left. */
uint32_t sl_cipd_bin_wait(struct sl_cipd_bin *bin, int64_t patience_ns);
uint32_t sl_cipd_bin_count(const struct sl_cipd_bin *bin);

/* What is in it still is gotten rid of. */
void sl_cipd_bin_leave(struct sl_cipd_bin *bin);

/* Keeps the memory of a slot for a pin. */
int sl_cipd_pin(struct sl_cipd_slot *slot, sluice_pin **pin);

/* ---- params.c ---- */

int sl_cipd_writer_params(const char *name, const struct sluice_writer_params *params,
                          struct sluice_cipd_writer_params *cipd, uint32_t *slots);
int sl_cipd_reader_params(const char *name, struct sluice_reader_params *params, struct sluice_cipd_reader_params *cipd);

/* ---- look.c ---- */

/* All that a look at the segment tells beside what info.c does. */
void sl_cipd_look_closer(const struct sl_cipd_consumer *consumer, struct sluice_cipd_info *info);

/* ---- format.c ---- */

/* A program's format as the wire says it. SLUICE_E_FORMAT with what the wire cannot hold. */
int sl_cipd_format_of(const char *channel, const struct sluice_format *format,
                      const struct sluice_cipd_writer_params *params, struct sl_cipd_metadata *metadata);

/* And the other way round, by the reader's policies. */
int sl_cipd_format_as(const struct sl_cipd_format *wire, const struct sluice_cipd_reader_params *params,
                      struct sluice_format *format);

/* What the order of four uint8 is taken for. */
enum sluice_cipd_order sl_cipd_order_of(const struct sl_cipd_format *wire, const struct sluice_cipd_reader_params *params);
bool sl_cipd_is_mono_alpha(const struct sl_cipd_format *wire, const struct sluice_cipd_reader_params *params);

/* Height, width and components of an array; false if it has none. */
bool sl_cipd_shape(const struct sluice_array *array, uint32_t shape[3]);

/* ---- the writer ---- */

struct sl_cipd_writer {
    struct sl_object *object; /* whose id frames carry */
    char name[SLUICE_CIPD_MAX_NAME + 1];
    char device[SL_DEVICE_NAME];
    struct sluice_cipd_writer_params params; /* complete */
    char barrier_name[SLUICE_CIPD_MAX_NAME + 1];
    int64_t wait_ns;
    uint32_t slots; /* of the sessions to come */
    sl_word32 troubled; /* 1: `tended` may not be 0 */
    struct sl_cuda_context *context;
    struct sl_copier copier;
    struct sl_sent sent;
    struct sl_cipd_bin *bin;

    struct sl_cipd_pool *pool;
    uint64_t session;
    struct sl_record record;
    bool reshaped;
    uint64_t token, next_token; /* of the frame that is begun; 0: none */
    struct sl_span span;
    uint32_t finished; /* the newest frame of the session that is known to be; 0: none is */
    unsigned char meta[SLUICE_MAX_META]; /* what is written there goes nowhere */

    sl_mutex lock; /* guards what follows: the service thread tends, others look */
    struct sl_cipd_producer producer;
    bool open; /* has a segment */
    struct sluice_format format;
    struct sl_cipd_metadata metadata;
    uint32_t generation;
    struct sl_cipd_barrier checker, holder; /* counts of `checker` are the writer's thread's */
    struct sl_cipd_watched watched; /* for `checker`, if that has its changes */
    bool checks, holds;
    struct sl_watch tender;
    int tended; /* what the last look at the segment said, if it failed */
    char tended_text[256];
    uint64_t published, bytes, copied_bytes, skips, failed, dropped, cancelled, graph_frames, relinked, waited_ns;
    int64_t last_frame_ns;
};

/* Makes a session of this format, `slots` slots, and gets rid of the last one's. */
int sl_cipd_writer_session(struct sl_cipd_writer *writer, const struct sluice_format *format, uint32_t slots);

/* Another program may have taken our place in the segment: then nothing we write is seen. Only if it is `troubled`. */
int sl_cipd_writer_trouble(struct sl_cipd_writer *writer);

int sl_cipd_writer_open(const char *name, const struct sluice_writer_params *params, struct sl_object *object, void **state);
void sl_cipd_writer_close(void *state);
int sl_cipd_reformat(void *state, const struct sluice_format *format);
int sl_cipd_writer_format(void *state, struct sluice_format *format);
void sl_cipd_writer_stats(void *state, struct sluice_writer_stats *stats);

/* ---- export.c ---- */

int sl_cipd_begin(void *state, int64_t timeout_ns, struct sluice_frame *frame);
int sl_cipd_wait(void *state, int64_t timeout_ns);
int sl_cipd_commit(void *state, struct sluice_frame *frame, struct sluice_stream stream);
int sl_cipd_cancel(void *state, struct sluice_frame *frame, struct sluice_stream stream);
int sl_cipd_send(void *state, struct sluice_frame *header, const struct sluice_array *arrays, uint32_t count,
                 struct sluice_stream stream, struct sluice_ticket *ticket);
/* Looks, in the writer's context, until that says something else than SLUICE_NOT_READY, or the time is over, and says how
 * long that took; not if the context cannot be entered. On the writer's thread. */
typedef int sl_cipd_look(struct sl_cipd_writer *writer, const struct sl_cipd_slot *slot);
int sl_cipd_await(struct sl_cipd_writer *writer, sl_cipd_look *look, const struct sl_cipd_slot *slot, int64_t timeout_ns,
                  int64_t *waited_ns);
/* Waits until the GPU has done all that it was given for slots; false if it takes longer. */
bool sl_cipd_drain(struct sl_cipd_writer *writer, int64_t patience_ns);
int sl_cipd_writer_pin(void *state, const struct sluice_frame *frame, sluice_pin **pin);
int sl_cipd_writer_view(void *state, const struct sluice_frame *frame, struct sl_view *view);

/* ---- spare.c: the writer's thread ---- */

/* Waits until the next frame can be written and one finished frame is left: 0; SLUICE_NO_SLOT, of which so many are counted as
 * dropped; a failure. Mostly it asks nobody. */
int sl_cipd_spare(struct sl_cipd_writer *writer, int64_t timeout_ns, uint64_t dropped);

/* Is one left, by what a reader says, if not by what the driver said? To ask the driver takes longer than all else of a send
 * but its copy; but only readers' good hangs on what they say. */
bool sl_cipd_spare_told(const struct sl_cipd_writer *writer);

/* The next frame is finished before it is published. */
void sl_cipd_spare_finished(struct sl_cipd_writer *writer);

/* Is all that was given to the GPU for the next slot behind it for certain? */
bool sl_cipd_spare_is_behind(const struct sl_cipd_writer *writer);

/* Are both so by what a reader says, if not by what the driver said? Then a begin finds a slot, unless the reader is wrong: begin
 * asks for itself. */
bool sl_cipd_spare_told_behind(const struct sl_cipd_writer *writer);

/* ---- turns.c ---- */

enum sl_cipd_way {
    SL_CIPD_PLAIN,
    SL_CIPD_KEPT, /* in a turn that was kept until the copy was queued */
    SL_CIPD_LATE, /* in one that may have ended before */
};

struct sl_cipd_turns {
    enum sl_cipd_way way; /* of the copy that is being made */
    uint32_t pieces;      /* of work that keep a turn */
    int64_t keep_ns;      /* for so long, if they can */
    uint32_t left, next;  /* frames that are to be chosen in turns; the next time, 0: as at first */
    uint32_t plain, next_plain; /* copies that may be overtaken before that; the next time, 0: as at first */
};

void sl_cipd_turns_begin(struct sl_cipd_turns *turns);

/* The copy was queued too late, or has ended so long after its turn had come. */
void sl_cipd_turns_late(struct sl_cipd_turns *turns);
void sl_cipd_turns_learn(struct sl_cipd_turns *turns, int64_t took_ns);

/* After each copy: was it whole, or overtaken by the writer? Also of a turn in which nothing could be chosen: false. */
void sl_cipd_turns_judge(struct sl_cipd_turns *turns, bool whole);

/* ---- the reader ---- */

/* A session as a reader uses it. */
struct sl_cipd_link {
    uint32_t users; /* the reader, and each frame; the reader's lock */
    struct sl_cipd_pool *pool;
    struct sl_cipd_handles handles[SL_CIPD_MAX_SLOTS];
    uint64_t session; /* of frames */
    uint32_t generation;
    struct sl_cipd_marks *marks; /* NULL until one is made */
    bool doubtful; /* some of its memory was open here before, by frames that are held: it may be another's by now */
    struct sluice_format format;
    struct sl_record record;
};

struct sl_cipd_marks; /* mark.c */

#define SL_CIPD_RELEASED 1 /* a token that no frame has: released, but a stream still waits for it */

/* Of a frame that was taken ahead. */
enum sl_cipd_wait {
    SL_CIPD_READY, /* it was not */
    SL_CIPD_WAITS, /* its stream waits */
    SL_CIPD_CAME,
    SL_CIPD_CAME_NOT, /* the stream went on without */
};

struct sl_cipd_held {
    sl_word token; /* 0: free */
    enum sl_cipd_wait waits; /* with what follows: the reader's lock */
    uint64_t ahead_value, ahead_number;
    int64_t ahead_until;
    struct sluice_stream ahead_stream;
    struct sl_cipd_link *link;
    struct sl_cipd_frame frame;
    int64_t polled_ns; /* its writer had not shut by then; later marks raise it, with the reader's lock */
    uint64_t address; /* of the slot, or of the copy */
    uint32_t mark;    /* the last one's note, from 1; 0: there is none */
    bool copied;
    struct sl_span span;
};

struct sl_cipd_copies; /* copy.c */

struct sl_cipd_reader {
    struct sl_object *object;
    char name[SLUICE_CIPD_MAX_NAME + 1];
    char device[SL_DEVICE_NAME];
    struct sluice_reader_params params; /* complete */
    struct sluice_cipd_reader_params cipd;
    struct sl_cuda_context *context;
    struct sl_cipd_bin *bin;
    sl_word32 closing, bell;
    sl_word32 retry;
    sl_word known_stream; /* one of this device, which came last; relaxed */
    char nothing[SLUICE_CIPD_MAX_NAME + 64]; /* what acquire says when nothing has come, as it does most */

    /* the acquiring thread's */
    char unopened[640]; /* why the handles of the session that there is could not be opened */
    struct sl_cipd_frame pending; /* the newest, if it was not taken; index 0: it was */
    int64_t pending_ns;           /* since when there is such a one, and none was taken */
    int64_t polled_ns;            /* when the segment was looked at last; no later than that */
    uint32_t oldest;              /* no frame older than this one is taken in this session; 0: not known yet */
    uint32_t counted;             /* frames count as missed from this one on; 0: none was seen yet */
    uint32_t tries, tried;        /* finished frames that were overtaken since one was taken; when so many were published */
    uint64_t next_token;
    uint64_t last_session;
    uint32_t last_generation;
    uint64_t untold;              /* frames missed, of which no frame has told yet */
    struct sl_cipd_ahead *ahead; /* NULL: streams do not wait */
    struct sl_cipd_copies *copies; /* of a reader whose frames are copies, from the first one on */
    struct sl_cipd_turns turns;    /* in which they are chosen */
    bool shut;                    /* the session before was closed by its writer, and no other has come */
    bool over;                    /* reconnect is off, and the session has ended */

    sl_mutex lock; /* guards what follows, against others than the acquiring thread, which alone changes it */
    struct sl_cipd_consumer consumer;
    struct sl_cipd_link *link;
    uint32_t last_index; /* of the session's frame that was taken last; 0: none was */
    struct sl_cipd_held held[SLUICE_CIPD_MAX_SLOTS];
    uint32_t generation;
    int note; /* what programs poll; -1 until asked for */
    struct sl_watch watch;

    sl_word taken, no_frame, timeouts, sessions, overruns, repeated, dropped, spin_hits, latency_ns, latency_total_ns;
    sl_word frame_ns; /* when the last one was published */
};

int sl_cipd_reader_open(const char *name, const struct sluice_reader_params *params, struct sl_object *object, void **state);
void sl_cipd_reader_close(void *state);
void sl_cipd_reader_stop(void *state);
int sl_cipd_reader_format(void *state, struct sluice_format *format);
/* The reader that a handle names, held until its object is dropped. SLUICE_E_UNSUPPORTED for one of another kind of channel. */
int sl_cipd_reader_hold(sluice_reader *handle, struct sl_object **object, struct sl_cipd_reader **reader);

int sl_cipd_reader_device(void *state, char name[SL_DEVICE_NAME]);
void sl_cipd_reader_stats(void *state, struct sluice_reader_stats *stats);

/* Is there a session, or can there be one now? 0; SLUICE_NO_WRITER and so on with a sentence. */
int sl_cipd_reader_connect(struct sl_cipd_reader *reader, int64_t now);

/* Is nobody there, as far as is known? Else somebody is filling the segment in, or it makes no sense. */
bool sl_cipd_is_gone(enum sl_cipd_reason reason);

/* Leaves the session. `again`: another is looked for at once. */
void sl_cipd_reader_drop(struct sl_cipd_reader *reader, enum sl_cipd_reason reason, bool again);

/* One user less; with the reader's lock. */
void sl_cipd_link_drop(struct sl_cipd_reader *reader, struct sl_cipd_link *link);

/* ---- copy.c: by the number of the entry that the frame is held by ---- */

/* Is nothing under way there any more? */
bool sl_cipd_copy_free(struct sl_cipd_reader *reader, uint32_t entry);

/* Copies a slot whose event was seen, and waits for that. */
int sl_cipd_copy(struct sl_cipd_reader *reader, uint32_t entry, const struct sl_cipd_slot *slot, uint64_t bytes,
                 uint64_t *address);

/* Waits until this GPU works for this process, and has it go on doing so for a moment: a copy of `bytes` that is queued there
 * meanwhile is made at once. Once there was a copy. Does the moment last? */
int sl_cipd_turn(struct sl_cipd_reader *reader, uint32_t entry, uint64_t bytes);
bool sl_cipd_turn_lasts(struct sl_cipd_reader *reader, uint32_t entry);

/* What comes there next comes behind the stream's work. SLUICE_E_CAPTURING: nothing was done. */
int sl_cipd_copy_release(struct sl_cipd_reader *reader, uint32_t entry, struct sluice_stream stream);
void sl_cipd_copies_end(struct sl_cipd_reader *reader);

/* ---- ahead.c ---- */

/* Sets reader->ahead, unless streams cannot wait here. */
int sl_cipd_ahead_begin(struct sl_cipd_reader *reader);
void sl_cipd_ahead_end(struct sl_cipd_reader *reader);

/* Lets the stream wait for the frame that `held` is to be of; with no lock held. SLUICE_NO_SLOT without a sentence if
 * too many wait. Once `held` has its frame somebody must look: watch. */
int sl_cipd_ahead_wait(struct sl_cipd_reader *reader, struct sl_cipd_held *held, struct sluice_stream stream);
void sl_cipd_ahead_watch(struct sl_cipd_reader *reader, struct sl_cipd_held *held);

/* What is queued behind that wait may be published again: its frame has not come, and the program knows; or the program asks for
 * the next one, which is as much for frames that it had released before they were lost. With no lock held. */
void sl_cipd_ahead_told(struct sl_cipd_ahead *ahead, uint64_t number);
void sl_cipd_ahead_goes_on(struct sl_cipd_reader *reader);

/* ---- take.c ---- */

int sl_cipd_acquire(void *state, struct sluice_stream stream, int64_t timeout_ns, struct sluice_frame *frame);

/* ---- release.c ---- */

/* Is it the CPU, or a stream of the reader's device? */
int sl_cipd_reader_stream(struct sl_cipd_reader *reader, struct sluice_stream stream);

/* The entry of a frame that is held; NULL with a sentence. */
struct sl_cipd_held *sl_cipd_find_held(struct sl_cipd_reader *reader, const struct sluice_frame *frame);

/* May the writer, which had not shut at `polled_ns`, have left this one alone until now, and its memory where it was? With the
 * reader's lock, or on the thread that acquires. */
bool sl_cipd_left_alone(const struct sl_cipd_reader *reader, const struct sl_cipd_frame *frame, int64_t polled_ns);

/* A frame that was released and that nobody waits for any more; with the reader's lock. */
void sl_cipd_held_end(struct sl_cipd_reader *reader, struct sl_cipd_held *held);

int sl_cipd_release(void *state, struct sluice_frame *frame, struct sluice_stream stream);
int sl_cipd_check(void *state, const struct sluice_frame *frame);
int sl_cipd_reader_pin(void *state, const struct sluice_frame *frame, sluice_pin **pin);
int sl_cipd_reader_view(void *state, const struct sluice_frame *frame, struct sl_view *view);

/* ---- mark.c ---- */

int sl_cipd_mark(struct sl_cipd_reader *reader, const struct sluice_frame *frame, struct sluice_stream stream);

/* Did the last mark find it whole? False also where that is not known. With the reader's lock. */
bool sl_cipd_was_left(const struct sl_cipd_held *held);
void sl_cipd_marks_end(struct sl_cipd_reader *reader, struct sl_cipd_marks *marks);

/* ---- poll.c ---- */

int sl_cipd_reader_fd(void *state);

/* After each acquire, if programs poll. */
void sl_cipd_note_settle(struct sl_cipd_reader *reader);

#endif
