/* SPDX-License-Identifier: MIT
 *
 * A reader's side of a CIPD segment. It stores nothing that other programs read. Handles are
 * only bytes here; the caller opens and closes them, and waits for a slot's event.
 *
 *     init(name)
 *     connect, repeatedly until it returns 0; then open session.handles
 *     poll -> FRAME: wait for its slot's event, read, then `whole`: was it overwritten meanwhile?
 *          -> CHANGED, SHUT, LOST: close all handles at once (a writer frees 100 ms later), `drop`, connect
 *     drop
 *
 * One thread at a time. Only wait blocks. `now_ns` is from sl_os_now or sl_os_now_coarse.
 */
#ifndef SL_CUDA_LINK_WIRE_SEGMENT_READ_H
#define SL_CUDA_LINK_WIRE_SEGMENT_READ_H

#include "cuda_link/wire/format.h"
#include "cuda_link/wire/private_ext.h"
#include "cuda_link/wire/segment.h"

/* Why there is no session. X(name, result of connect, text) */
#define SL_CIPD_REASONS(X) \
    X(NONE, SLUICE_OK, "connected") \
    X(NOT_TRIED, SLUICE_NO_WRITER, "it was not looked for yet") \
    X(ABSENT, SLUICE_NO_WRITER, "there is no segment of that name") \
    X(REFUSED, SLUICE_E_PERMISSION, "the segment is another user's") \
    X(FAILED, SLUICE_E_SYSTEM, "the segment cannot be opened") \
    X(SHORT, SLUICE_NO_WRITER, "the segment is too small for what it announces") \
    X(EMPTY, SLUICE_NO_WRITER, "the writer has not filled in the segment yet") \
    X(NO_SLOTS, SLUICE_NO_WRITER, "the writer announces no slots yet") \
    X(SHUT, SLUICE_NO_WRITER, "the writer has closed") \
    X(NO_HANDLES, SLUICE_NO_WRITER, "a slot has no memory handle") \
    X(NO_METADATA, SLUICE_NO_WRITER, "the writer has not said what a frame is yet") \
    X(BAD_BYTES, SLUICE_NO_WRITER, "the bytes of a frame are not what its size and format come to") \
    X(CHANGING, SLUICE_NO_WRITER, "the writer is just changing the segment") \
    X(UNSETTLED, SLUICE_NO_WRITER, "the writer has no frame yet: it is looked at once more") \
    X(DEAD, SLUICE_NO_WRITER, "the writer has died") \
    X(HANDLES_FAILED, SLUICE_NO_WRITER, "what the handles stand for could not be opened") \
    X(BAD_FORMAT, SLUICE_E_FORMAT, "the format is none that is known") \
    X(ONE_SLOT, SLUICE_E_UNSUPPORTED, \
      "the writer has a single slot and does not say when it begins the next frame in it, so no copy can be known to " \
      "be whole: " \
      "give it two slots or more, or read without copies") \
    X(OLD_MAGIC, SLUICE_E_VERSION, "the writer speaks the protocol of cuda-link 0.9: update it") \
    X(ALIEN, SLUICE_E_PROTOCOL, "it is no segment of this protocol but something else: take another name") \
    X(TOO_MANY_SLOTS, SLUICE_E_PROTOCOL, "it announces more slots than the protocol has")

enum sl_cipd_reason {
#define SL_CIPD_REASON_ENTRY(name, result, text) SL_CIPD_REASON_##name,
    SL_CIPD_REASONS(SL_CIPD_REASON_ENTRY)
#undef SL_CIPD_REASON_ENTRY
};
const char *sl_cipd_reason_text(enum sl_cipd_reason reason);
#define SL_CIPD_WHY 640 /* bytes for a sentence about a reason */

/* The segment's contents when the reader connected: checked and consistent. */
struct sl_cipd_session {
    uint64_t version;
    struct sl_cipd_layout layout;
    struct sl_cipd_handles handles[SL_CIPD_MAX_SLOTS];
    struct sl_cipd_metadata metadata;
    struct sl_cipd_format format; /* the metadata, decoded */
};

struct sl_cipd_segment_reader {
    struct sl_cipd_segment segment; /* at is NULL: not attached */
    struct sl_cipd_session session; /* layout.slots 0: not connected */
    bool copies; /* set by the caller: it copies frames, and no session is taken in which a copy cannot be known
                  * to be whole (ONE_SLOT) */
    enum sl_cipd_reason reason; /* why it is not connected */
    char why[SL_CIPD_WHY]; /* the same in more words than the reason's text, as far as the last attempt found any; else
                              "" */
    uint32_t index;        /* of the last frame that poll reported; 0: none in this session */
    bool ended;            /* the process of Sluice's writer has */
    bool orphan;           /* the segment has lost its name: its writer has most likely died */
    int64_t frame_ns;      /* when the index last changed, or the reader connected */
    /* private from here on */
    struct sl_cipd_private_ext *ext; /* NULL: there is none, or it is another session's */
    uint32_t since;                  /* the index when it connected; 0 also if that was not known */
    int64_t look_ns,
        glance_ns; /* when poll, and when has_news, checks next whether the segment still has its name and its writer */
    int64_t try_ns, pause_ns;    /* next attempt to connect; the time from that one to the next */
    struct sl_cipd_session seen; /* at an earlier attempt, for UNSETTLED; in which memory; when (0: none) */
    struct sl_os_named seen_memory;
    int64_t seen_ns;
};

/* SLUICE_E_NAME with a message. Does not look for the segment yet. */
int sl_cipd_read_init(struct sl_cipd_segment_reader *consumer, const char *name);

/* Tries to connect, if it is time to: attempts are 5 ms apart at first, and up to 500 ms later. 0: `session`
 * is valid, and poll may follow. Else the result of `reason` with a message: SLUICE_NO_WRITER for whatever may change
 * with time, or an error; both may be retried. Until the next attempt it returns the same as before. */
int sl_cipd_read_connect(struct sl_cipd_segment_reader *consumer, int64_t now_ns);

/* Why it is not connected: in more words than the reason's text where there are any. */
const char *sl_cipd_read_why(const struct sl_cipd_segment_reader *consumer);

/* retry_now: the next call of connect tries at once, and later ones soon. next_try: the time of the next attempt. */
void sl_cipd_read_retry_now(struct sl_cipd_segment_reader *consumer);
int64_t sl_cipd_read_next_try(const struct sl_cipd_segment_reader *consumer);

/* Leaves the session and the segment. `reason` is reported until the next attempt: HANDLES_FAILED
 * if the handles could not be opened, which also makes the pauses between attempts longer. */
void sl_cipd_read_drop(struct sl_cipd_segment_reader *consumer, enum sl_cipd_reason reason);

bool sl_cipd_same_metadata(const struct sl_cipd_metadata *a, const struct sl_cipd_metadata *b);

enum sl_cipd_poll {
    SL_CIPD_NO_FRAME,
    SL_CIPD_FRAME,
    SL_CIPD_SHUT,    /* the writer has closed: close handles at once */
    SL_CIPD_CHANGED, /* other memory, slots or format: close handles, connect anew */
    SL_CIPD_LOST,    /* another segment has the name now, or the writer (one of Sluice's) has died */
};

struct sl_cipd_frame {
    uint32_t index; /* what the writer published */
    uint32_t slot;
    uint32_t missed; /* frames published between the last one that was reported and this one */
    int64_t time_ns; /* of publication, sl_os_now's clock; 0: unknown or implausible */
};

/* Is there a frame newer than the last reported one? Reports the newest. Makes no system call, except that when no
 * frame has come for 250 ms it checks the segment every 250 ms. */
enum sl_cipd_poll sl_cipd_read_poll(struct sl_cipd_segment_reader *consumer, int64_t now_ns,
                                    struct sl_cipd_frame *frame);

/* The oldest frame that was certainly published in this session and may still be in a slot, if `index` is the newest
 * frame. */
uint32_t sl_cipd_read_first(const struct sl_cipd_segment_reader *consumer, uint32_t index);

/* Fills in `frame` for a frame of this session that was published before the last reported one. */
void sl_cipd_read_frame(const struct sl_cipd_segment_reader *consumer, uint32_t index, struct sl_cipd_frame *frame);

/* Tells the writer, if it is one of Sluice's, that this frame is finished. */
void sl_cipd_read_finished(const struct sl_cipd_segment_reader *consumer, uint32_t index);

/* After a frame was read (on a GPU: when the work that reads it is done): true if the writer had no reason so far to
 * overwrite its slot. With N slots that is so until N-1 frames were published after it; with one
 * slot never. Sluice's writers announce each frame that they begin, so with them it is true until they begin the next
 * one in the same slot. */
bool sl_cipd_read_is_whole(const struct sl_cipd_segment_reader *consumer, const struct sl_cipd_frame *frame);

/* Does the slot's event belong to another frame by now? Then it never again tells whether this one is finished. */
bool sl_cipd_read_is_gone(const struct sl_cipd_segment_reader *consumer, const struct sl_cipd_frame *frame);

/* Would poll report something but SL_CIPD_NO_FRAME? Cheap enough for each millisecond. */
bool sl_cipd_read_has_news(struct sl_cipd_segment_reader *consumer, int64_t now_ns);

/* Sleeps until poll may have something to report, for up to 50 ms and not beyond `deadline_ns`: 0, or SLUICE_TIMEOUT
 * at the deadline. Sluice's writers wake it; for others it checks every millisecond. */
int sl_cipd_read_wait(struct sl_cipd_segment_reader *consumer, int64_t deadline_ns);

/* ---- channel.c ---- */

/* SLUICE_E_NAME, with a message, for what is not NAME in "cipd:NAME". */
int sl_cipd_check_name(const char *name);

/* What an observer sees. Readers are not registered anywhere, so none are reported. */
struct sluice_channel_info;
struct sluice_reader_info;
int sl_cipd_channel_info(const char *name, int64_t timeout_ns, struct sluice_channel_info *info,
                         struct sluice_reader_info *readers, uint32_t capacity);

#endif
