/* SPDX-License-Identifier: MIT
 *
 * The writer of a channel. Render into a slot between begin and commit: nothing is copied.
 */
#ifndef SLUICE_WRITER_H
#define SLUICE_WRITER_H

#include <sluice/base.h>
#include <sluice/device.h>
#include <sluice/format.h>
#include <sluice/frame.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SLUICE_MAX_READERS 64
#define SLUICE_MAX_SLOTS   64
#define SLUICE_MAX_NAME    64 /* bytes of a channel's name, without the NUL */

/* What begin does when every slot is taken (and no more may be made). */
enum sluice_policy {
    SLUICE_DROP = 0, /* returns SLUICE_NO_SLOT: the program drops this frame. The default */
    SLUICE_WAIT = 1, /* waits for a reader, up to wait_ns, then returns SLUICE_NO_SLOT */
};

struct sluice_cipd_writer_params;

struct sluice_writer_params {
    uint32_t size;                      /* set by SLUICE_WRITER_PARAMS_INIT */
    uint32_t policy;                    /* enum sluice_policy */
    const char *name;                   /* "camera", "sluice:camera", or "cipd:NAME" */
    const char *device;                 /* "host" if NULL */
    const struct sluice_format *format; /* what frames hold; copied */
    uint32_t slots;                     /* to start with; 0: 4. 3 to 64 */
    uint32_t max_slots;                 /* grows up to this before policy applies; 0: twice `slots` */
    int64_t wait_ns;                    /* SLUICE_WAIT: how long; 0: 1 s */
    int64_t lease_timeout_ns;           /* evict a reader that holds a frame longer, when the
                                           writer needs its slot; 0: never */
    uint32_t readers;                   /* places for readers; 0: 64 */
    uint32_t writable;                  /* 1: readers may ask for writable frames; nobody is then
                                           protected from them, and info says so */
    const uint32_t *uids;               /* other users who may read; needs SLUICE_DIR */
    uint32_t uid_count;
    uint32_t gid_count;
    const uint32_t *gids; /* groups whose members may read; needs SLUICE_DIR */
    uint32_t no_graphs;   /* 1: repeated sends of GPU memory do not use CUDA graphs; see sluice_writer_send.
                             No effect on `host` */
    uint32_t resize;      /* 1: send also takes arrays of other sizes than the format's, and the channel grows for
                             larger ones. 0: it refuses them */
    const struct sluice_cipd_writer_params *cipd; /* for "cipd:NAME" (sluice/cipd.h); NULL: defaults. Copied */
};

#ifdef __cplusplus
} /* extern "C" */
static inline struct sluice_writer_params sluice_writer_params_init(void)
{
    struct sluice_writer_params p {
    };
    p.size = static_cast<uint32_t>(sizeof p);
    return p;
}
#define SLUICE_WRITER_PARAMS_INIT sluice_writer_params_init()
extern "C" {
#else
#define SLUICE_WRITER_PARAMS_INIT \
    { \
        .size = (uint32_t)sizeof(struct sluice_writer_params) \
    }
#endif

/* Tells when a copy made by send or fetch is done, so that the program may use its arrays again. It is
 * valid until its writer or reader closes. */
struct sluice_ticket {
    uint64_t id;
};

typedef struct sluice_writer sluice_writer;
typedef struct sluice_pin sluice_pin;

/* Opens a channel for writing. A name whose writer was killed can be opened again at once; nothing needs
 * to be cleaned up.
 * Owns: the caller, until sluice_writer_close.
 * Thread: any. Blocks: up to 1 s if the name's last owner is dying at that moment.
 * Returns: 0; SLUICE_E_NAME, SLUICE_E_FORMAT, SLUICE_E_INVALID for bad parameters; SLUICE_E_EXISTS if
 * a live writer has the name; SLUICE_E_PERMISSION for the folder; SLUICE_E_NO_MEMORY (the message says how much was
 * asked for); SLUICE_E_NO_DESCRIPTORS; SLUICE_E_UNSUPPORTED for a device that is not there. */
SLUICE_API int sluice_writer_open(sluice_writer **writer, const struct sluice_writer_params *params);

/* Lends a free slot. `timeout_ns`: SLUICE_DEFAULT does what the policy says; any other value waits that long,
 * whatever the policy. Several frames may be begun at once, as far as there are slots.
 * Thread: one at a time on a writer. Blocks: as said. With a time-out of 0 up to 250 ms, once for each slot that
 * is added on a GPU.
 * Returns: 0; SLUICE_NO_SLOT, with a message that says who holds which slots for how long: the frame counts
 * as dropped. */
SLUICE_API int sluice_writer_begin(sluice_writer *writer, int64_t timeout_ns, struct sluice_frame *frame);

/* Waits until begin would find a free slot, but takes none: for programs that check for something else
 * between short waits. Counts no frame as dropped.
 * Thread: one at a time on a writer. Blocks: up to timeout_ns.
 * Returns: 0; SLUICE_NO_SLOT with begin's message. */
SLUICE_API int sluice_writer_wait(sluice_writer *writer, int64_t timeout_ns);

/* Waits until at least `count` readers are connected: for programs whose first frame must not be missed.
 * Thread: any. Blocks: up to timeout_ns (SLUICE_FOREVER: until then); looks once a millisecond.
 * Returns: 0; SLUICE_TIMEOUT, with a message that says how many there are; SLUICE_E_CLOSED; SLUICE_E_UNSUPPORTED
 * for a channel "cipd:NAME", whose protocol does not count readers. */
SLUICE_API int sluice_writer_wait_readers(sluice_writer *writer, uint32_t count, int64_t timeout_ns);

/* Publishes the frame behind the work queued on `stream` (SLUICE_ON_CPU: at once). On 0 the frame has
 * ended, and its sequence is filled in.
 * Thread: one at a time on a writer. Blocks: while `stream` waits for a frame that was taken ahead.
 * Returns: 0; SLUICE_E_INVALID for a zero stream (the frame stays begun); SLUICE_E_STALE for a frame
 * that is not begun, or another writer's; SLUICE_E_CAPTURING (it stays begun); SLUICE_E_LOST if a frame that
 * `stream` waited for was lost, and this was not reported to its reader yet (it stays begun). */
SLUICE_API int sluice_writer_commit(sluice_writer *writer, struct sluice_frame *frame, struct sluice_stream stream);

/* Gives the slot back unpublished, once the work queued on `stream` has ended.
 * Thread: one at a time on a writer. Blocks: never.
 * Returns: as commit. */
SLUICE_API int sluice_writer_cancel(sluice_writer *writer, struct sluice_frame *frame, struct sluice_stream stream);

/* Keeps the memory of a begun frame mapped until the pin is dropped, also when the frame and the writer
 * have ended: for languages whose arrays may outlive both. Its content is undefined once the frame has ended.
 * Owns: the caller, until sluice_pin_drop, which clears it.
 * Thread: pin: one at a time on a writer; drop: any. Blocks: never, except that the last drop on a GPU takes as long as
 * unmapping the memory.
 * Returns: 0; SLUICE_E_STALE as commit. */
SLUICE_API int sluice_writer_pin(sluice_writer *writer, const struct sluice_frame *frame, sluice_pin **pin);
SLUICE_API int sluice_pin_drop(sluice_pin **pin);

/* Copies the program's own arrays into a slot and publishes it: begin, copy, commit. `arrays` are
 * matched by name (a single unnamed array is the channel's first one); all of the channel's arrays must be given,
 * in the format's shapes. The writer's `resize` allows other sizes, and one that exceeds the format's capacity makes a
 * new generation. The number of dimensions is the format's in any case.
 *
 * On `host` all is done on return. On a GPU the arrays may be anywhere: on that GPU, on another one, in managed,
 * pinned or pageable memory. The copies are queued behind the work on `stream` (SLUICE_ON_CPU: the arrays are
 * ready now, and a stream of the library's own is used), and the frame is published behind them. The arrays
 * may be changed once the ticket is done, or by work queued behind on `stream`; `ticket` may be NULL. Pageable
 * memory may be changed when the call returns; if a stream is given, the call waits for it first.
 *
 * Repeated copies from memory of the writer's GPU (the same arrays, into the same slot) are queued as one CUDA
 * graph, together with the write that makes the frame ready, which is faster. Everything said here holds for it, too.
 * The graph is built node by node: Sluice never captures a stream. The writer's `no_graphs` switches this off. Thread:
 * one at a time on a writer. Blocks: as begin with SLUICE_DEFAULT; for pageable memory also while it is copied, and up
 * to 10 s for the stream. Returns: as begin and commit; SLUICE_E_FORMAT if names, types or shapes do not match the
 * channel's; SLUICE_E_INVALID for memory that was freed or ends too soon; SLUICE_E_WRONG_DEVICE for a stream of another
 * GPU; SLUICE_E_CAPTURING; SLUICE_E_UNSUPPORTED for strides that would take too many copies; SLUICE_TIMEOUT if pageable
 * memory had to wait for the stream too long. Unless it is 0, nothing was published. */
SLUICE_API int sluice_writer_send(sluice_writer *writer, const struct sluice_array *arrays, uint32_t count,
                                  struct sluice_stream stream, struct sluice_ticket *ticket);

/* The same with time and metadata: takes capture_ns (0 on SLUICE_CLOCK_MONOTONIC: now), capture_clock, meta
 * and meta_size from `frame`, and fills in its sequence, session, times, slot and generation. The frame is neither
 * begun nor committed by this; everything else in it is ignored. Thread: one at a time on a writer. Blocks: as begin
 * with SLUICE_DEFAULT. Returns: as send; SLUICE_E_LIMIT for more metadata than SLUICE_MAX_META; SLUICE_E_INVALID for
 * metadata that the CPU cannot access, as a GPU's memory. */
SLUICE_API int sluice_writer_send_frame(sluice_writer *writer, struct sluice_frame *frame,
                                        const struct sluice_array *arrays, uint32_t count, struct sluice_stream stream,
                                        struct sluice_ticket *ticket);

/* Changes the format: a new generation of slots. Frames of the old one stay valid until released; frames
 * that are begun must be committed or cancelled first.
 * Thread: one at a time on a writer. Blocks: while memory is allocated.
 * Returns: 0; SLUICE_E_BUSY with frames begun, or while readers still hold frames of too many earlier formats
 * (a waiting writer waits for them first); SLUICE_E_FORMAT, SLUICE_E_NO_MEMORY: the old format stays. */
SLUICE_API int sluice_writer_reformat(sluice_writer *writer, const struct sluice_format *format);

/* The channel's format as it is now, completed. Set format->size first.
 * Thread: one at a time on a writer.
 * Returns: 0; SLUICE_E_FORMAT for a format->size that was not set. */
SLUICE_API int sluice_writer_format(sluice_writer *writer, struct sluice_format *format);

struct sluice_writer_stats {
    uint32_t size;
    uint32_t readers; /* connected now */
    uint64_t session;
    uint64_t committed; /* frames */
    uint64_t dropped;   /* frames that found no slot */
    uint64_t cancelled;
    uint64_t stolen;       /* unread frames overwritten because a reader in order was more than its depth behind */
    uint64_t bytes;        /* committed */
    uint64_t copied_bytes; /* by send */
    uint64_t waited_ns;    /* in begin */
    uint32_t slots;        /* of this generation */
    uint32_t generation;
    uint64_t evicted;       /* readers */
    uint64_t readers_total; /* that ever joined */
    uint64_t readers_died;  /* that were killed or crashed */
    uint64_t refused;       /* connections: no permission, wrong version, invalid messages, no place */
    uint64_t graph_sends;   /* sends that were launched as a graph */
    uint32_t name_restored; /* how often the channel's socket, lock or folder was removed, and the writer put it back */
    uint32_t name_lost;     /* 1: it could not put it back: new readers do not find the channel; the log says why */
};
/* How many frames the writer has committed and dropped, and what happened to its readers. Set stats->size first.
 * Thread: any.
 * Returns: 0; SLUICE_E_INVALID for a stats->size that was not set. */
SLUICE_API int sluice_writer_stats(sluice_writer *writer, struct sluice_writer_stats *stats);

/* Ends the channel: readers get the frames that they have not read, then SLUICE_CLOSED. Frames still begun are
 * cancelled. Clears the handle.
 * Thread: one at a time on a writer.
 * Returns: 0. */
SLUICE_API int sluice_writer_close(sluice_writer **writer);

/* Waits until the copy is done. Makes no driver call.
 * Thread: any. Blocks: up to timeout_ns.
 * Returns: 0; SLUICE_TIMEOUT; SLUICE_E_STALE once its writer or reader has closed; SLUICE_E_DRIVER if the device
 * was lost, or its driver failed and the stream did not reach the copy within 10 s; SLUICE_E_BUSY if 256 other copies
 * were under way, and the stream did not get to it in that time: nobody knows when it ends; SLUICE_E_HANDLE for a value
 * that is no ticket, zero too. */
SLUICE_API int sluice_ticket_wait(struct sluice_ticket ticket, int64_t timeout_ns);

/* Is the copy done?
 * Thread: any. Blocks: never.
 * Returns: 0; SLUICE_NOT_READY; as sluice_ticket_wait. */
SLUICE_API int sluice_ticket_query(struct sluice_ticket ticket);

#ifdef __cplusplus
}
#endif
#endif
