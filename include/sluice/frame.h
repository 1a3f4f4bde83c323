/* SPDX-License-Identifier: MIT
 *
 * A frame: what a slot holds at one sequence number. Frames are lent, not counted: a writer has one
 * between begin and commit (or cancel), a reader between acquire and release.
 */
#ifndef SLUICE_FRAME_H
#define SLUICE_FRAME_H

#include <sluice/base.h>
#include <sluice/device.h>
#include <sluice/format.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SLUICE_MAX_META 4096 /* bytes of metadata a frame */

/* The clock that capture_ns was read from. */
enum sluice_clock {
    SLUICE_CLOCK_MONOTONIC = 0, /* CLOCK_MONOTONIC of the writer's machine; the default */
    SLUICE_CLOCK_REALTIME = 1,
    SLUICE_CLOCK_TAI = 2,
    SLUICE_CLOCK_MEDIA = 3, /* position in a recording */
    SLUICE_CLOCK_OTHER = 255,
};

enum sluice_frame_flags {
    /* One rule for both: set in the first frame that a reader gets of a session, and of a generation. So both are set
     * in its very first frame, and NEW_FORMAT wherever NEW_SESSION is. */
    SLUICE_FRAME_NEW_SESSION = 1,
    SLUICE_FRAME_NEW_FORMAT = 2,
    SLUICE_FRAME_AHEAD = 4, /* reader: not ready yet; the stream it was acquired on waits for it */
};

/* The caller provides the memory; begin and acquire fill it in. */
struct sluice_frame {
    uint64_t sequence;  /* 1, 2, 3... in the order of commits; 0 in a writer's frame until commit */
    uint64_t session;   /* one life of a writer; random, never 0 */
    uint64_t missed;    /* reader: frames this reader did not get since its last one: those the
                           writer dropped and those overwritten before they were taken. In the first frame
                           of a session that began while the reader waited for a writer: all before it */
    int64_t capture_ns; /* when the content was captured; the writer may set it until commit.
                           begin sets it to now. A negative time of SLUICE_CLOCK_MONOTONIC is
                           read as 0 */
    int64_t commit_ns;  /* reader: when the writer committed it, CLOCK_MONOTONIC of this process */
    void *meta;         /* metadata: meta_size bytes; a writer may write up to SLUICE_MAX_META here
                           and set meta_size until commit; a reader may only read */
    uint32_t meta_size;
    uint32_t capture_clock; /* enum sluice_clock */
    uint32_t slot;          /* number of the slot; its address does not change within a generation. For a reader that
                               gets copies (enum sluice_staged): number of its own buffer, 0 to hold - 1 */
    uint32_t generation;    /* 1, 2... in a session; changes with the format */
    uint32_t array_count;
    uint32_t flags;     /* enum sluice_frame_flags */
    uint64_t opaque[6]; /* the library's */
};

/* The array `name` of a frame, or its first one if `name` is NULL. `array->data` points into the slot:
 * valid until commit, cancel or release.
 * Thread: any, while the frame is held.
 * Returns: 0; SLUICE_E_NOT_FOUND (the sentence lists the names); SLUICE_E_STALE for a frame that has
 * ended; SLUICE_E_PROTOCOL if the writer's record of it is damaged. */
SLUICE_API int sluice_frame_array(const struct sluice_frame *frame, const char *name, struct sluice_array *array);

/* The same by index, 0 to array_count - 1.
 * Thread: any, while the frame is held.
 * Returns: as sluice_frame_array. */
SLUICE_API int sluice_frame_array_at(const struct sluice_frame *frame, uint32_t index, struct sluice_array *array);

/* Copies the name of the device that the frame's arrays are on, with the closing NUL: "host", or a GPU's as
 * sluice_device_open takes it; 64 bytes are always enough. On "host" the CPU may access array->data; from a
 * GPU it copies with sluice_reader_fetch.
 * Thread: any, while the frame is held.
 * Returns: 0; SLUICE_E_STALE for a frame that has ended; SLUICE_E_LIMIT if `size` is too small. */
SLUICE_API int sluice_frame_device(const struct sluice_frame *frame, char *name, size_t size);

/* Writer, between begin and commit: gives this frame's array another shape, with the same data type and
 * number of dimensions, without padding, within its capacity in bytes. For an image pass its new width and
 * height to sluice_frame_resize instead. The next begin starts from the format's shapes again.
 * Thread: the writer's.
 * Returns: 0; SLUICE_E_CAPACITY (cancel, sluice_writer_reformat, begin again); SLUICE_E_FORMAT. */
SLUICE_API int sluice_frame_reshape(struct sluice_frame *frame, const char *name, int ndim, const int64_t *shape);
SLUICE_API int sluice_frame_resize(struct sluice_frame *frame, const char *name, uint32_t width, uint32_t height);

/* ---- more than one stream ----
 *
 * A frame on a GPU may be used on several streams. Name each of them with sluice_frame_used_on, except the one that
 * commit, cancel or release is given. The frame then ends behind the work on all of them:
 *
 *     sluice_frame_used_on(&frame, display, NULL, NULL);   // a copy to the screen is queued there
 *     sluice_reader_release(reader, &frame, inference);    // the slot is free after the work on both
 *
 * With such streams, commit and cancel return SLUICE_E_CAPTURING while one of them captures a graph: nothing was
 * queued, and the frame stays begun. Release returns 0 then, and the frame ends after the last of the captures, behind
 * the work on all streams; until it has, the reader still holds it, and a reader that was closed ends after it. */

/* The frame will end behind the work on `stream`, too, whatever is queued there until its end. A stream that was named
 * before changes nothing. Destroying the stream's handle meanwhile is allowed. In host memory, where work is done when
 * a call returns, this does nothing; for work of the CPU it is not needed.
 * `release(user)`, unless NULL, is called once, on any thread, when the frame needs the native stream no longer, which
 * may be before this returns. It is not called on failure.
 * Thread: any, while the frame is held.
 * Returns: 0; SLUICE_E_WRONG_DEVICE for a stream of another GPU than the frame's; SLUICE_E_STALE for a frame or a
 * stream that has ended; SLUICE_E_CLOSED; SLUICE_E_NO_MEMORY. */
SLUICE_API int sluice_frame_used_on(const struct sluice_frame *frame, struct sluice_stream stream,
                                    void (*release)(void *user), void *user);

/* Makes `stream` wait for the work queued so far on all streams that were named by sluice_frame_used_on.
 * Thread: any, while the frame is held.
 * Returns: 0; SLUICE_E_CAPTURING, with nothing queued, while one of them captures; else as sluice_stream_wait_stream
 * and sluice_frame_used_on. */
SLUICE_API int sluice_frame_wait(const struct sluice_frame *frame, struct sluice_stream stream);

/* Gives a stream that is ordered behind the work queued so far on all streams that were named: the only one, or one of
 * the library's. SLUICE_ON_CPU if none was named.
 * Owns: the library; valid until the channel is closed, or the device reset.
 * Thread: any, while the frame is held.
 * Returns: as sluice_frame_wait. */
SLUICE_API int sluice_frame_stream(const struct sluice_frame *frame, struct sluice_stream *stream);

/* How many of the streams that were named capture a graph now?
 * Thread: any, while the frame is held.
 * Returns: 0 or more; SLUICE_E_STALE for a frame that has ended. */
SLUICE_API int sluice_frame_captures(const struct sluice_frame *frame);

/* Copies capture_ns, its clock and the metadata of a frame that was read into one that is being
 * written, so that a chain of programs keeps the time of capture.
 * Thread: the writer's of `to`.
 * Returns: 0; SLUICE_E_STALE if either frame has ended. */
SLUICE_API int sluice_frame_inherit(struct sluice_frame *to, const struct sluice_frame *from);

#ifdef __cplusplus
}
#endif
#endif
