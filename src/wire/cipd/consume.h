/* SPDX-License-Identifier: MIT
 *
 * A reader's side of a CIPD segment. It stores nothing that other programs look at. To this file handles
 * are bytes; opening and closing them, and waiting for a slot's event, is the caller's.
 *
 *     init(name)
 *     connect, again and again until it is 0; then open session.handles
 *     poll -> FRAME: wait for its slot's event, read, then `whole`: was it overwritten meanwhile?
 *          -> CHANGED, SHUT, LOST: close what was opened, at once (a writer frees 100 ms later), `drop`, connect
 *     drop
 *
 * One thread at a time. Nothing here blocks but wait. `now_ns` is sl_os_now's clock, or its coarse one.
 */
#ifndef SL_WIRE_CIPD_CONSUME_H
#define SL_WIRE_CIPD_CONSUME_H

#include "wire/cipd/extra.h"
#include "wire/cipd/format.h"
#include "wire/cipd/segment.h"

/* Why there is no session. X(name, result of connect, fatal, text): fatal means that this segment will not
 * become one that can be read; only another under the same name would. */
#define SL_CIPD_REASONS(X) \
    X(NONE, SLUICE_OK, false, "connected") \
    X(NOT_TRIED, SLUICE_NO_WRITER, false, "it was not looked for yet") \
    X(ABSENT, SLUICE_NO_WRITER, false, "there is no segment of that name") \
    X(REFUSED, SLUICE_E_PERMISSION, false, "the segment is another user's") \
    X(FAILED, SLUICE_E_SYSTEM, false, "the segment cannot be opened") \
    X(SHORT, SLUICE_NO_WRITER, false, "the segment is too small for what it announces") \
    X(EMPTY, SLUICE_NO_WRITER, false, "the writer has not filled in the segment yet") \
    X(NO_SLOTS, SLUICE_NO_WRITER, false, "the writer announces no slots yet") \
    X(SHUT, SLUICE_NO_WRITER, false, "the writer has closed") \
    X(NO_HANDLES, SLUICE_NO_WRITER, false, "a slot has no memory handle") \
    X(NO_METADATA, SLUICE_NO_WRITER, false, "the writer has not said what a frame is yet") \
    X(BAD_BYTES, SLUICE_NO_WRITER, false, "the bytes of a frame are not what its size and format come to") \
    X(CHANGING, SLUICE_NO_WRITER, false, "the writer is just changing the segment") \
    X(UNSETTLED, SLUICE_NO_WRITER, false, "the writer has no frame yet: it is looked at once more") \
    X(DEAD, SLUICE_NO_WRITER, false, "the writer has died") \
    X(HANDLES_FAILED, SLUICE_NO_WRITER, false, "what the handles stand for could not be opened") \
    X(BAD_FORMAT, SLUICE_E_FORMAT, false, "the format is none that is known") \
    X(OLD_MAGIC, SLUICE_E_VERSION, true, "the writer speaks the protocol of cuda-link 0.9") \
    X(ALIEN, SLUICE_E_PROTOCOL, true, "it is no segment of this protocol") \
    X(TOO_MANY_SLOTS, SLUICE_E_PROTOCOL, true, "it announces more slots than the protocol has")

enum sl_cipd_reason {
#define SL_CIPD_REASON_ENTRY(name, result, fatal, text) SL_CIPD_REASON_##name,
    SL_CIPD_REASONS(SL_CIPD_REASON_ENTRY)
#undef SL_CIPD_REASON_ENTRY
};
bool sl_cipd_reason_fatal(enum sl_cipd_reason reason);
const char *sl_cipd_reason_text(enum sl_cipd_reason reason);

/* What the segment said when the reader connected: checked, and whole. */
struct sl_cipd_session {
    uint64_t version;
    struct sl_cipd_layout layout;
    struct sl_cipd_handles handles[SL_CIPD_MAX_SLOTS];
    struct sl_cipd_metadata metadata;
    struct sl_cipd_format format; /* the metadata, decoded */
};

struct sl_cipd_consumer {
    struct sl_cipd_segment segment; /* at is NULL: not attached */
    struct sl_cipd_session session; /* layout.slots 0: not connected */
    enum sl_cipd_reason reason;     /* why not */
    uint32_t index;                 /* of the last frame that poll reported; 0: none in this session */
    bool orphan; /* nobody else can find the segment any more: its writer has most likely died */
    int64_t frame_ns; /* when the index last moved, or the reader connected */
    /* private from here on */
    struct sl_cipd_extra *extra; /* NULL: there is none, or it is another session's */
    uint32_t since;              /* the index when it connected, 0 also where that was not known */
    int64_t look_ns;             /* next look at what became of the segment */
    int64_t try_ns, pause_ns;    /* next attempt to connect; from it to the one behind */
    struct sl_cipd_session seen; /* by an earlier look, for UNSETTLED; in which memory, when (0: none) */
    struct sl_os_named seen_memory;
    int64_t seen_ns;
};

/* SLUICE_E_NAME with a sentence. Looks for nothing yet. */
int sl_cipd_consume_init(struct sl_cipd_consumer *consumer, const char *name);

/* Tries to connect, if it is time to: attempts are 5 ms apart at first, 500 ms in the end. 0: `session`
 * is there, and poll may follow. Else the result of `reason` with a sentence: SLUICE_NO_WRITER for all
 * that time may mend; negative, yet it may be called again. Until it is time it says the same as before. */
int sl_cipd_consume_connect(struct sl_cipd_consumer *consumer, int64_t now_ns);

/* Makes the next connect try at once, and those behind it soon. When the next one will try. */
void sl_cipd_consume_retry_now(struct sl_cipd_consumer *consumer);
int64_t sl_cipd_consume_next_try(const struct sl_cipd_consumer *consumer);

/* Leaves the session and the segment. `reason` is what is said until the next attempt: HANDLES_FAILED
 * if what the handles stand for could not be opened, which also waits longer each time. */
void sl_cipd_consume_drop(struct sl_cipd_consumer *consumer, enum sl_cipd_reason reason);

bool sl_cipd_same_metadata(const struct sl_cipd_metadata *a, const struct sl_cipd_metadata *b);

enum sl_cipd_poll {
    SL_CIPD_NO_FRAME,
    SL_CIPD_FRAME,
    SL_CIPD_SHUT,    /* the writer has closed: close handles at once */
    SL_CIPD_CHANGED, /* other memory, slots or format: close handles, connect anew */
    SL_CIPD_LOST,    /* the name is another segment's by now, or the writer, one of Sluice's, has died */
};

struct sl_cipd_frame {
    uint32_t index; /* what the writer published */
    uint32_t slot;
    uint32_t missed; /* frames published between the last one that was reported and this one */
    int64_t time_ns; /* of the publish, sl_os_now's clock; 0: unknown, or not to be believed */
};

/* Is there a frame newer than the last reported one? The newest is taken. No system call, unless none has come for
 * 250 ms: then it looks, each 250 ms, what has become of the segment. */
enum sl_cipd_poll sl_cipd_consume_poll(struct sl_cipd_consumer *consumer, int64_t now_ns,
                                       struct sl_cipd_frame *frame);

/* The oldest of the frames up to `index`, the newest, that was published in this session for certain, and that a slot may
 * hold still. */
uint32_t sl_cipd_consume_first(const struct sl_cipd_consumer *consumer, uint32_t index);

/* The frame `index` of this session, which was published before the last reported one. */
void sl_cipd_consume_frame(const struct sl_cipd_consumer *consumer, uint32_t index, struct sl_cipd_frame *frame);

/* Tells the writer, if it is one of Sluice's, of a frame that was seen finished. */
void sl_cipd_consume_finished(const struct sl_cipd_consumer *consumer, uint32_t index);

/* Behind the read of a frame (on a GPU: behind the end of what reads): true if the writer had no reason to
 * overwrite its slot until now. With N slots that is until N-1 frames were published after it; with one
 * slot it is never true. Writers of Sluice's tell when they begin a frame, so it is true until the one in the same slot. */
bool sl_cipd_consume_whole(const struct sl_cipd_consumer *consumer, const struct sl_cipd_frame *frame);

/* Is the slot's event another frame's by now? It never speaks of this one again. */
bool sl_cipd_consume_gone(const struct sl_cipd_consumer *consumer, const struct sl_cipd_frame *frame);

/* Sleeps until poll may have something to say, but for 50 ms at most and not beyond `deadline_ns`: 0, or SLUICE_TIMEOUT
 * when the deadline has come. Writers of Sluice's wake; for others it looks each millisecond. */
int sl_cipd_consume_wait(struct sl_cipd_consumer *consumer, int64_t deadline_ns);

#endif
