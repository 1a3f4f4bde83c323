/* SPDX-License-Identifier: MIT
 *
 * A reader of a channel. Between acquire and release the reader may look at the frame in place, and
 * the writer does not touch it. After a writer died, readers connect to the next one of that name by themselves.
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
    SLUICE_NEWEST = 0,   /* each acquire gives the newest frame and skips older ones */
    SLUICE_IN_ORDER = 1, /* every frame in order, as far as `depth` and the writer's policy allow */
};

/* A reader on another GPU than the channel's accesses the slots directly, over NVLink or PCIe, if the two GPUs are
 * peers. Or it gets copies: acquire then copies the frame to the reader's GPU, waits for that, ends the lease, and
 * gives the copy (docs/several-gpus.md). */
enum sluice_staged {
    SLUICE_STAGED_NEVER = 0,     /* GPUs that are not peers: SLUICE_E_UNSUPPORTED, saying why */
    SLUICE_STAGED_IF_NEEDED = 1, /* copies if they are not peers */
    SLUICE_STAGED_ALWAYS = 2,    /* copies also between peers: faster if a frame is read several times */
};

/* For hold: as many as the writer allows; sluice_reader_stats tells how many that are. */
#define SLUICE_MOST UINT32_MAX

/* For open_timeout_ns: open at once even if there is no writer; acquire waits for one. */
#define SLUICE_LATER INT64_C(-1)

struct sluice_cipd_reader_params;

struct sluice_reader_params {
    uint32_t size;           /* set by SLUICE_READER_PARAMS_INIT */
    uint32_t mode;           /* enum sluice_mode */
    const char *name;        /* "camera", "sluice:camera", or "cipd:NAME" */
    const char *device;      /* where frames are used; NULL: the channel's own device, whatever its number in
                                this process. A channel on a GPU is read on a GPU */
    uint32_t depth;          /* IN_ORDER: unread frames that a dropping writer keeps for it, as far as
                                slots allow; 0: 4, or what the channel allows */
    uint32_t hold;           /* frames it will hold at once; 0: 1. At most the writer's max_slots - 2, which
                                SLUICE_MOST asks for */
    uint32_t every;          /* take each n-th frame; 0: 1 */
    uint32_t writable;       /* 1: frames may be changed in place, if the writer allows it */
    int64_t open_timeout_ns; /* how long open waits for a writer; 0: not; or SLUICE_LATER */
    int64_t spin_ns;         /* how long acquire spins before it sleeps; 0: 10 us; -1: it sleeps at once;
                                SLUICE_FOREVER: never sleeps. For a committed frame on a GPU that should be ready
                                any moment it spins for up to 30 us in any case (docs/gpu.md) */
    const uint32_t *uids;    /* other users whose writers are trusted */
    uint32_t uid_count;
    uint32_t ahead;   /* 1: acquire on a stream may give a frame that is committed but not ready: the
                         stream then waits for it on the GPU (docs/gpu.md: usually slower, and at most
                         3 streams of a process at once). No effect on host */
    int64_t ahead_ns; /* how long a stream waits at most; then the frame is lost; 0: 2 s */
    uint32_t staged;  /* enum sluice_staged, for a `device` that is another GPU than the channel's */
    uint32_t reserved;
    const struct sluice_cipd_reader_params *cipd; /* for "cipd:NAME" (sluice/cipd.h); NULL: defaults. Copied */
};

#ifdef __cplusplus
} /* extern "C" */
static inline struct sluice_reader_params sluice_reader_params_init(void)
{
    struct sluice_reader_params p {
    };
    p.size = static_cast<uint32_t>(sizeof p);
    return p;
}
#define SLUICE_READER_PARAMS_INIT sluice_reader_params_init()
extern "C" {
#else
#define SLUICE_READER_PARAMS_INIT \
    { \
        .size = (uint32_t)sizeof(struct sluice_reader_params) \
    }
#endif

typedef struct sluice_reader sluice_reader;

/* Opens a channel for reading.
 * Owns: the caller, until sluice_reader_close.
 * Thread: any. Blocks: up to open_timeout_ns, and for the handshake (1 s at most): once a writer was found open
 * finishes the handshake even if the time is up, as the writer may count this reader already. So a program may call it
 * repeatedly with short times. Returns: 0; SLUICE_E_NOT_FOUND (the message names the folder that was searched, and any
 * other in which the channel exists); SLUICE_TIMEOUT if its writer does not answer; SLUICE_E_PERMISSION;
 * SLUICE_E_VERSION; SLUICE_E_LIMIT if depth or hold are more than the channel has, or all places are taken;
 * SLUICE_E_NAME, SLUICE_E_INVALID. */
SLUICE_API int sluice_reader_open(sluice_reader **reader, const struct sluice_reader_params *params);

/* Takes the next frame that is ready: the newest one not yet taken, or the next in order. Waits up to
 * `timeout_ns` for it (SLUICE_DEFAULT: 1 s). `stream` is where the frame will be used: on `host`
 * SLUICE_ON_CPU or a host stream. A writer may come back on another device, and a reader without a `device` of its own
 * follows it: then a stream of the new device is right once no frame of the last writer is left. Thread: one at a time
 * on a reader. Blocks: as said; never on a dead, stopped or stuck writer beyond it. Returns: 0; SLUICE_TIMEOUT;
 * SLUICE_NO_WRITER if there was none in that time; SLUICE_CLOSED when the writer has closed and no unread frame is
 * left: at once, and on each call until a new writer comes; SLUICE_AGAIN if the writer overwrote each frame before it
 * could be taken, or did not send its memory in time; SLUICE_E_LIMIT if it holds `hold` frames already (the message
 * names them); SLUICE_E_LOST once after the writer evicted it; SLUICE_E_WRONG_DEVICE, with no frame taken, if the
 * stream is of another device than the next frame, even if it was right when the call began: the message says whether
 * the writer came back on another device (sluice_reader_device tells which), or left a frame on the last one. */
SLUICE_API int sluice_reader_acquire(sluice_reader *reader, struct sluice_stream stream, int64_t timeout_ns,
                                     struct sluice_frame *frame);

/* Ends the lease behind the work queued on `stream` (SLUICE_ON_CPU: at once). Frames may be released in
 * any order, also after the writer died.
 * Thread: any, also while another thread is in acquire. Blocks: never.
 * Returns: 0; SLUICE_E_STALE if it was released already or is not this reader's; SLUICE_E_LOST if the
 * writer evicted this reader meanwhile, or on "cipd:NAME" may have written to the frame by now, so that what was read
 * may be torn: the frame is released. */
SLUICE_API int sluice_reader_release(sluice_reader *reader, struct sluice_frame *frame, struct sluice_stream stream);

/* Is a held frame still whole? On most channels the writer does not touch it while it is held, unless it evicts
 * the reader. On "cipd:NAME" there are no leases (sluice/cipd.h): call this when the work on the frame has ended,
 * before its release. Thread: any, while the frame is held. Blocks: never. Returns: 0; SLUICE_E_LOST if the writer may
 * have written to it since it was acquired, or has evicted this reader; SLUICE_E_STALE as release. */
SLUICE_API int sluice_reader_check(sluice_reader *reader, const struct sluice_frame *frame);

/* Keeps the memory of a held frame mapped until the pin is dropped by sluice_pin_drop, also when
 * the frame, its generation and the reader have ended: for arrays that outlive the frame, and graphs that use
 * the slot's address. It is not a lease: the content is undefined once the frame has ended. If the reader gets
 * copies (enum sluice_staged) it pins the memory of the copy.
 * Owns: the caller, until sluice_pin_drop, which clears it.
 * Thread: any, while the frame is held. Blocks: never.
 * Returns: 0; SLUICE_E_STALE as release. */
SLUICE_API int sluice_reader_pin(sluice_reader *reader, const struct sluice_frame *frame, sluice_pin **pin);

/* Copies the frame's arrays into the program's own, matched by name as in sluice_writer_send; arrays that are not
 * named are not copied. On `host` it is done on return. From a GPU they may go anywhere: into pinned memory
 * at full speed (sluice_device_host_alloc), into pageable memory, onto a GPU. With a stream and a ticket the copies
 * are queued behind the work on the stream, and the ticket tells when they are done; release the frame on that
 * stream, or after that. With SLUICE_ON_CPU, without a ticket, or into pageable memory the call waits.
 * Thread: any, while the frame is held. Blocks: as said, up to 10 s.
 * Returns: 0; SLUICE_E_FORMAT, and none is copied; SLUICE_E_STALE; SLUICE_E_INVALID for memory that was freed or ends
 * too soon; SLUICE_E_WRONG_DEVICE, SLUICE_E_CAPTURING, SLUICE_E_UNSUPPORTED as send; SLUICE_E_BUSY, and nothing is
 * queued, while 256 fetches of this reader from a GPU are under way: wait for a ticket first; SLUICE_TIMEOUT if the GPU
 * did not finish the copies in that time: it may still write to the arrays, later. The frame may be released: what such
 * copies read stays mapped until they have ended and the reader has closed. */
SLUICE_API int sluice_reader_fetch(sluice_reader *reader, const struct sluice_frame *frame,
                                   const struct sluice_array *arrays, uint32_t count, struct sluice_stream stream,
                                   struct sluice_ticket *ticket);

/* The channel's format in the newest generation that the writer announced. Set format->size first.
 * Thread: one at a time on a reader.
 * Returns: 0; SLUICE_NO_WRITER before the first writer was met; SLUICE_E_FORMAT for a format->size that was
 * not set. */
SLUICE_API int sluice_reader_format(sluice_reader *reader, struct sluice_format *format);

/* Copies the name of the device on which frames are used, with the closing NUL: the one that was asked for, or the
 * channel's own, according to the last writer; 64 bytes are always enough.
 * Thread: any.
 * Returns: 0; SLUICE_NO_WRITER if none was asked for and no writer was met yet; SLUICE_E_LIMIT if `size` is too
 * small. */
SLUICE_API int sluice_reader_device(sluice_reader *reader, char *name, size_t size);

/* A descriptor that is readable when acquire would not have to wait: there is a frame, or another
 * result (SLUICE_CLOSED once; then it waits for the next writer). It stays the same for the reader's life, over
 * reconnects; for poll, epoll, select. Do not read from it; acquire until that returns SLUICE_TIMEOUT, or poll again
 * after each frame. Sometimes it is readable though there is nothing, as when a frame was taken before its notification
 * arrived: so acquire with a time-out of 0, and poll again when that returns SLUICE_TIMEOUT. Owns: the reader. Thread:
 * one at a time on a reader. Returns: the descriptor; SLUICE_E_NO_DESCRIPTORS; SLUICE_E_UNSUPPORTED on Windows. */
SLUICE_API int sluice_reader_fd(sluice_reader *reader);

/* The same on Windows: a handle (HANDLE) that is signalled, for WaitForMultipleObjects and the like. Do not set, reset
 * or close it. Owns: the reader. Thread: one at a time on a reader.
 * Returns: 0; SLUICE_E_NO_DESCRIPTORS; SLUICE_E_UNSUPPORTED elsewhere. */
SLUICE_API int sluice_reader_handle(sluice_reader *reader, void **handle);

struct sluice_reader_stats {
    uint32_t size;
    uint32_t connected; /* 1 while a writer is there */
    uint64_t session;   /* of the writer connected now or last */
    uint64_t taken;     /* frames */
    uint64_t missed;    /* frames it did not get */
    uint64_t retries;   /* frames that the writer overwrote while they were being acquired */
    uint64_t sessions;  /* writers met */
    uint32_t held;      /* frames held now. One whose release is queued on a stream counts until the stream has
                           reached it and acquire has noticed */
    uint32_t depth;     /* granted */
    uint64_t lag; /* frames committed after the one taken last; at most 1 before the first frame of a "cipd:" session */
    int64_t clock_offset_ns; /* the writer's CLOCK_MONOTONIC minus ours; 0 unless they differ by over 1 s */
    uint64_t latency_ns;     /* commit to acquire, of the frame taken last */
    uint64_t lost;           /* frames that a writer committed and its device never finished */
    uint32_t slots;          /* of the generation announced last */
    uint32_t generation;     /* its number; 0 before the first */
    uint32_t hold;           /* granted: frames it may hold at once; 0 before the first writer */
    uint32_t reserved32;
    uint64_t reserved;
};
/* How many frames the reader has taken and missed, and with what latency. Set stats->size first.
 * Thread: any.
 * Returns: 0; SLUICE_E_INVALID for a stats->size that was not set. */
SLUICE_API int sluice_reader_stats(sluice_reader *reader, struct sluice_reader_stats *stats);

/* Takes no more frames: acquire returns SLUICE_E_CLOSED, its descriptor is readable, and unread frames no longer hold
 * up the writer. Held frames stay readable until they are released; call close after the last one. Thread: one at a
 * time on a reader. Blocks: never. Returns: 0. */
SLUICE_API int sluice_reader_stop(sluice_reader *reader);

/* Ends the reader. Frames that it still holds are released; their memory must not be used any more. Clears
 * the handle.
 * Thread: one at a time on a reader.
 * Returns: 0. */
SLUICE_API int sluice_reader_close(sluice_reader **reader);

#ifdef __cplusplus
}
#endif
#endif
