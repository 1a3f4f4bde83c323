/* SPDX-License-Identifier: MIT
 *
 * A reader of a channel. Between acquire and release the frame is the reader's to look at, in place:
 * the writer does not touch it. Readers find a writer of the name again by themselves after it died.
 */
#ifndef SLUICE_READER_H
#define SLUICE_READER_H

#include <sluice/base.h>
#include <sluice/device.h>
#include <sluice/format.h>
#include <sluice/frame.h>
#include <sluice/writer.h>

#ifdef __cplusplus
extern "C" {
#endif

enum sluice_mode {
    SLUICE_NEWEST = 0,   /* each acquire gives the newest frame, skipping what came between */
    SLUICE_IN_ORDER = 1, /* every frame in order, as far as `depth` and the writer's policy allow */
};

/* A reader on another GPU than the channel's uses frames where they lie, over NVLink or PCIe, if the two GPUs are
 * peers. Or it has copies: acquire then copies the frame to the reader's GPU and waits for that, the lease is over with
 * it, and the frame that it gives is the copy (docs/several-gpus.md). */
enum sluice_staged {
    SLUICE_STAGED_NEVER = 0,     /* GPUs that are no peers: SLUICE_E_UNSUPPORTED, saying why */
    SLUICE_STAGED_IF_NEEDED = 1, /* copies if they are no peers */
    SLUICE_STAGED_ALWAYS = 2,    /* copies also between peers: a frame that is read often is faster in one's own memory */
};

/* For open_timeout_ns: open at once even if there is no writer; acquire waits for one. */
#define SLUICE_LATER INT64_C(-1)

struct sluice_cipd_reader_params;

struct sluice_reader_params {
    uint32_t size;           /* set by SLUICE_READER_PARAMS_INIT */
    uint32_t mode;           /* enum sluice_mode */
    const char *name;        /* "camera", "sluice:camera", or "cipd:NAME" */
    const char *device;      /* where frames are used: the channel's own device if NULL, whichever that is
                                here; a channel on a GPU is read on a GPU */
    uint32_t depth;          /* IN_ORDER: unread frames that a dropping writer keeps for it, as far as
                                slots allow; 0: 4, or what the channel allows */
    uint32_t hold;           /* frames it will hold at once; 0: 1. At most the writer's max_slots - 2 */
    uint32_t every;          /* take each n-th frame; 0: 1 */
    uint32_t writable;       /* 1: frames may be changed in place, if the writer allows it */
    int64_t open_timeout_ns; /* how long open waits for a writer; 0: not; or SLUICE_LATER */
    int64_t spin_ns;         /* acquire spins so long before it sleeps; 0: 10 us; -1: it sleeps at once;
                                SLUICE_FOREVER: never sleeps. A frame on a GPU that is committed, and due by
                                experience, is watched for up to 30 us all the same (docs/gpu.md) */
    const uint32_t *uids;    /* other users whose writers are trusted */
    uint32_t uid_count;
    uint32_t ahead;          /* 1: acquire on a stream may give a frame that is committed and not ready: the
                                stream then waits for it on the GPU (docs/gpu.md: mostly slower, and at most
                                3 streams of a process at once). Means nothing on host */
    int64_t ahead_ns;        /* a stream waits no longer: then the frame is lost; 0: 2 s */
    uint32_t staged;         /* enum sluice_staged, for a `device` that is another GPU than the channel's */
    uint32_t reserved;
    const struct sluice_cipd_reader_params *cipd; /* of "cipd:NAME" (sluice/cipd.h); NULL: as usual. Copied */
};

#ifdef __cplusplus
} /* extern "C" */
static inline struct sluice_reader_params sluice_reader_params_init(void)
{
    struct sluice_reader_params p{};
    p.size = static_cast<uint32_t>(sizeof p);
    return p;
}
#define SLUICE_READER_PARAMS_INIT sluice_reader_params_init()
extern "C" {
#else
#define SLUICE_READER_PARAMS_INIT { .size = (uint32_t)sizeof(struct sluice_reader_params) }
#endif

typedef struct sluice_reader sluice_reader;

/* Opens a channel for reading.
 * Owns: the caller, until sluice_reader_close.
 * Thread: any. Blocks: up to open_timeout_ns, and for the handshake (1 s at most): a writer that was met is waited for
 * though the time is up, as it may count this reader already. So opening may be tried again and again with short times.
 * Returns: 0; SLUICE_E_NOT_FOUND (the sentence names the folder looked in, and any other in which the
 * channel lives); SLUICE_TIMEOUT if its writer does not answer; SLUICE_E_PERMISSION; SLUICE_E_VERSION; SLUICE_E_LIMIT if depth or hold are more than
 * the channel has, or all places are taken; SLUICE_E_NAME, SLUICE_E_INVALID. */
SLUICE_API int sluice_reader_open(sluice_reader **reader, const struct sluice_reader_params *params);

/* Takes the next frame that is ready: the newest one not yet taken, or the next in order. Waits up to
 * `timeout_ns` for it (SLUICE_DEFAULT: 1 s). `stream` is where the frame will be used: on `host`
 * SLUICE_ON_CPU or a host stream.
 * Thread: one at a time on a reader. Blocks: as said; never on a dead, stopped or stuck writer beyond it.
 * Returns: 0; SLUICE_TIMEOUT; SLUICE_NO_WRITER if the time passed without one; SLUICE_CLOSED when a
 * writer that closed has no unread frame left, at once and again on each call until a new one comes;
 * SLUICE_AGAIN if the writer outran it or its memory did not come in time; SLUICE_E_LIMIT if it holds
 * `hold` frames already (the sentence names them); SLUICE_E_LOST once after the writer evicted it. */
SLUICE_API int sluice_reader_acquire(sluice_reader *reader, struct sluice_stream stream, int64_t timeout_ns,
                                     struct sluice_frame *frame);

/* Ends the lease behind the work queued on `stream` (SLUICE_ON_CPU: at once). Frames may be released in
 * any order, also after the writer died.
 * Thread: any, also while another thread is in acquire. Blocks: never.
 * Returns: 0; SLUICE_E_STALE if it was released already or is not this reader's; SLUICE_E_LOST if the
 * writer evicted this reader meanwhile, or on "cipd:NAME" may have written to the frame by now, so that what was read may
 * not have been whole: it is released. */
SLUICE_API int sluice_reader_release(sluice_reader *reader, struct sluice_frame *frame, struct sluice_stream stream);

/* Is the frame that is held whole still? On most channels the writer leaves it alone while it is held, unless it evicts
 * the reader. On "cipd:NAME" nothing holds the writer back (sluice/cipd.h): ask when the work on the frame has ended, before
 * its release.
 * Thread: any, while the frame is held. Blocks: never.
 * Returns: 0; SLUICE_E_LOST if the writer may have written to it since it was acquired, or has evicted this reader; SLUICE_E_STALE
 * as release. */
SLUICE_API int sluice_reader_check(sluice_reader *reader, const struct sluice_frame *frame);

/* Keeps the memory of a frame that is held mapped until the pin is dropped by sluice_pin_drop, whatever becomes of
 * the frame, of its generation and of the reader: for arrays that outlive the frame, and graphs that were
 * captured in its slot. It is no lease: what is read there once the frame has ended is anybody's. Of a reader
 * whose frames are copies (enum sluice_staged) it is the memory of that copy.
 * Owns: the caller, until sluice_pin_drop, which clears it.
 * Thread: any, while the frame is held. Blocks: never.
 * Returns: 0; SLUICE_E_STALE as release. */
SLUICE_API int sluice_reader_pin(sluice_reader *reader, const struct sluice_frame *frame, sluice_pin **pin);

/* Copies the frame's arrays into the program's own, matched by name as in sluice_writer_send; those that are not
 * named stay where they are. On `host` it is done on return. From a GPU they may go anywhere: into pinned memory
 * at full speed (sluice_device_host_alloc), into plain memory, onto a GPU. With a stream and a ticket the copies
 * are queued behind the work on the stream, and the ticket tells when they are done; release the frame on that
 * stream, or after that. With SLUICE_ON_CPU, without a ticket, or into plain memory the call waits.
 * Thread: any, while the frame is held. Blocks: as said, up to 10 s.
 * Returns: 0; SLUICE_E_FORMAT; SLUICE_E_STALE; SLUICE_E_INVALID for memory that was freed or ends too soon;
 * SLUICE_E_WRONG_DEVICE, SLUICE_E_CAPTURING, SLUICE_E_UNSUPPORTED as send; SLUICE_TIMEOUT if the GPU did not
 * get to it, or to all of it. */
SLUICE_API int sluice_reader_fetch(sluice_reader *reader, const struct sluice_frame *frame,
                                   const struct sluice_array *arrays, uint32_t count,
                                   struct sluice_stream stream, struct sluice_ticket *ticket);

/* The channel's format as of the generation last announced. Set format->size first.
 * Thread: one at a time on a reader.
 * Returns: 0; SLUICE_NO_WRITER before the first writer was met; SLUICE_E_FORMAT for a format->size that was
 * not set. */
SLUICE_API int sluice_reader_format(sluice_reader *reader, struct sluice_format *format);

/* Copies the name of the device on which frames are used, with its end: the one that was asked for, or the channel's
 * own as of the writer met last; 64 bytes are always enough.
 * Thread: any.
 * Returns: 0; SLUICE_NO_WRITER if none was asked for and no writer was met yet; SLUICE_E_LIMIT if `size` is too
 * small. */
SLUICE_API int sluice_reader_device(sluice_reader *reader, char *name, size_t size);

/* A descriptor that is readable when an acquire would not have to wait: a frame is there, or something
 * else to say (SLUICE_CLOSED once; then it waits for the next writer). One and the same for the reader's life, over reconnects; for poll, epoll, select. Do not
 * read from it; acquire until it says TIMEOUT, or poll again after each frame.
 * It may be readable once with nothing there, as when the frame that a writer tells of was taken before it could tell:
 * so acquire with a time-out of 0, and poll again when that says TIMEOUT.
 * Owns: the reader.
 * Thread: one at a time on a reader.
 * Returns: the descriptor; SLUICE_E_NO_DESCRIPTORS. */
SLUICE_API int sluice_reader_fd(sluice_reader *reader);

struct sluice_reader_stats {
    uint32_t size;
    uint32_t connected;      /* 1 while a writer is there */
    uint64_t session;        /* of the writer connected now or last */
    uint64_t taken;          /* frames */
    uint64_t missed;         /* frames it did not get */
    uint64_t retries;        /* frames that the writer took back while they were being acquired */
    uint64_t sessions;       /* writers met */
    uint32_t held;           /* frames held now. One whose release is queued on a stream counts until that has come to
                                pass and acquire has seen it */
    uint32_t depth;          /* granted */
    uint64_t lag;            /* frames committed after the one taken last; of a "cipd:" session before the first, 1 at most */
    int64_t clock_offset_ns; /* the writer's CLOCK_MONOTONIC less ours; 0 unless they differ by over 1 s */
    uint64_t latency_ns;     /* commit to acquire, of the frame taken last */
    uint64_t lost;           /* frames that a writer committed and its device never finished */
    uint32_t slots;          /* of the generation announced last */
    uint32_t generation;     /* its number; 0 before the first */
    uint64_t reserved[2];
};
/* Says what the reader has taken and missed, and how late. Set stats->size first.
 * Thread: any.
 * Returns: 0; SLUICE_E_INVALID for a stats->size that was not set. */
SLUICE_API int sluice_reader_stats(sluice_reader *reader, struct sluice_reader_stats *stats);

/* Takes no more frames: acquire says SLUICE_E_CLOSED, and what is unread holds no writer up. Frames held
 * stay readable until they are released; close follows when the last one was.
 * Thread: one at a time on a reader. Blocks: never.
 * Returns: 0. */
SLUICE_API int sluice_reader_stop(sluice_reader *reader);

/* Ends the reader; frames it still holds are released, their memory must not be used any more. Clears
 * the handle; NULL is done already.
 * Thread: one at a time on a reader.
 * Returns: 0. */
SLUICE_API int sluice_reader_close(sluice_reader **reader);

#ifdef __cplusplus
}
#endif
#endif
