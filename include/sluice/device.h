/* SPDX-License-Identifier: MIT
 *
 * Devices, streams and events. A device is where memory lives and work runs: "host", "cuda:0". A
 * stream is its ordered queue of work, an event a point in it. On `host` work is done when a
 * call returns, so streams and events are real handles whose waits are over at once: a program
 * written for a GPU runs unchanged, and mistakes with handles show without one.
 *
 * Handles are small values, never native pointers. The device owns the native objects; closing
 * or resetting it makes every handle of it stale, which later calls answer with SLUICE_E_STALE; one that was destroyed by
 * itself they answer with SLUICE_E_CLOSED. (Many handles later, of one that was destroyed before its device was reset, it may be
 * SLUICE_E_STALE, too.)
 * A zero handle is always an error, except where something is closed or destroyed. A call that
 * another thread is inside while its stream, event or device ends, ends well: what it uses goes
 * when it returns.
 *
 * Every call below also returns SLUICE_E_HANDLE for what is no handle of that kind, and
 * SLUICE_E_FORKED in a child made by fork().
 */
#ifndef SLUICE_DEVICE_H
#define SLUICE_DEVICE_H

#include <sluice/base.h>

#ifdef __cplusplus
extern "C" {
#endif

struct sluice_device { uint64_t id; };
struct sluice_stream { uint64_t id; };
struct sluice_event { uint64_t id; };

/* Passed as a stream: the CPU did the work, and it is done. */
static const struct sluice_stream SLUICE_ON_CPU = { 1 };

/* Opens a device by name: "host", "cuda:0", or "cuda:UUID" as nvidia-smi -L prints it. Each open has
 * its own handles.
 * Owns: the caller, until sluice_device_close.
 * Thread: any. Blocks: while a driver starts.
 * Returns: 0; SLUICE_E_INVALID for a name that is none; SLUICE_E_UNSUPPORTED where there is no such
 * device, with the reason. */
SLUICE_API int sluice_device_open(struct sluice_device *device, const char *name);

/* Copies the name that the device was opened by, e.g. "host", with its end; 64 bytes are always
 * enough.
 * Thread: any.
 * Returns: 0; SLUICE_E_LIMIT if `size` is too small. */
SLUICE_API int sluice_device_name(struct sluice_device device, char *name, size_t size);

/* Waits for the work queued so far on the device's streams, wrapped ones too, and on its default
 * stream. Not for non-blocking streams of other libraries that nobody wrapped: to wait for those
 * would break captures.
 * Thread: any. Blocks: until it is done.
 * Returns: 0; SLUICE_E_CAPTURING while a stream of it captures. */
SLUICE_API int sluice_device_synchronize(struct sluice_device device);

/* Waits for all work, then destroys every stream and event of the device; their handles turn
 * stale. Borrowed streams are dropped, not destroyed. The device stays open.
 * Thread: any. Blocks: until the work is done.
 * Returns: 0; SLUICE_E_CAPTURING while a stream of it captures: nothing was done. If the driver
 * fails, all is destroyed none the less. */
SLUICE_API int sluice_device_reset(struct sluice_device device);

/* As reset, then closes it. Clears the handle, also if the driver fails; a zero handle is done
 * already.
 * Thread: any. Blocks: until the work is done.
 * Returns: as reset. */
SLUICE_API int sluice_device_close(struct sluice_device *device);

/* Makes host memory that the device copies to and from at full speed: pinned, page-aligned; on `host`
 * plain. What it holds at first is not said. Pinned memory is scarce and slow to make: keep it.
 * Owns: the caller, until sluice_device_host_free; it stays when the device is closed.
 * Thread: any. Blocks: while it is made.
 * Returns: 0; SLUICE_E_INVALID for a `size` of 0; SLUICE_E_NO_MEMORY. */
SLUICE_API int sluice_device_host_alloc(struct sluice_device device, size_t size, void **memory);

/* Frees it, once no copy uses it any more. Clears *memory; NULL is done already.
 * Thread: any. Blocks: until the device's work is done.
 * Returns: 0; SLUICE_E_INVALID for other memory; SLUICE_E_DRIVER if the device was lost: it is freed
 * none the less. */
SLUICE_API int sluice_device_host_free(void **memory);

struct sluice_stream_params {
    uint32_t size;
    uint32_t blocking; /* 1: ordered with the device's default stream; default 0 */
    int32_t priority;  /* lower is sooner; 0 default. `host` keeps it, no more */
    uint32_t reserved;
};

/* Creates a stream; `params` may be NULL.
 * Owns: the device; end it with sluice_stream_destroy.
 * Thread: any.
 * Returns: 0; SLUICE_E_INVALID for params->size or values that are none; SLUICE_E_NO_MEMORY. */
SLUICE_API int sluice_stream_create(struct sluice_device device,
                                    const struct sluice_stream_params *params,
                                    struct sluice_stream *stream);

/* A handle for a stream that somebody else owns (a CUstream; on `host` any value).
 * `release(user)` is called once when the handle has ended, no thread is inside a call with it and
 * no reader's release waits for the end of a capture on it, so that the owner may be kept alive; it
 * may be NULL, and may call Sluice. Not called if wrapping fails. Wrapping one native stream twice gives two handles.
 * Owns: the handle is the caller's, the native stream stays its owner's.
 * Thread: any.
 * Returns: 0; SLUICE_E_WRONG_DEVICE if the stream is another device's. */
SLUICE_API int sluice_stream_wrap(struct sluice_device device, uintptr_t native,
                                  void (*release)(void *user), void *user,
                                  struct sluice_stream *stream);

/* The device's default stream. It cannot be destroyed; each call gives the same handle until a
 * reset.
 * Thread: any.
 * Returns: 0; SLUICE_E_NO_MEMORY. */
SLUICE_API int sluice_stream_default(struct sluice_device device, struct sluice_stream *stream);

/* The native stream (a CUstream as an integer); 0 on `host`.
 * Thread: any.
 * Returns: 0. */
SLUICE_API int sluice_stream_native(struct sluice_stream stream, uintptr_t *native);

/* Work queued on `stream` from now on waits for the work queued on `other` so far, or for the
 * point that `event` marked last. The CPU does not wait. Both may be of two devices of one kind.
 * Thread: any.
 * Returns: 0; SLUICE_E_NOT_RECORDED for an event that was never recorded; SLUICE_E_WRONG_DEVICE
 * for a device of another kind. */
SLUICE_API int sluice_stream_wait_stream(struct sluice_stream stream, struct sluice_stream other);
SLUICE_API int sluice_stream_wait_event(struct sluice_stream stream, struct sluice_event event);

/* Is all work queued so far done?
 * Thread: any.
 * Returns: 0 yes; SLUICE_NOT_READY no; SLUICE_E_CAPTURING. */
SLUICE_API int sluice_stream_query(struct sluice_stream stream);

/* Waits until it is.
 * Thread: any. Blocks: until then.
 * Returns: 0; SLUICE_E_CAPTURING. */
SLUICE_API int sluice_stream_synchronize(struct sluice_stream stream);

/* Ends the handle at once; queued work still runs. Clears the handle; a zero handle is done
 * already. If a release was held back because a borrowed stream captures, the native stream must
 * live until the capture has ended and the reader was called once more: `release` tells.
 * Thread: any.
 * Returns: 0; SLUICE_E_BUSY while it is some thread's current stream; SLUICE_E_CAPTURING while
 * it captures (a borrowed one may go); SLUICE_E_INVALID for a default stream and for
 * SLUICE_ON_CPU; SLUICE_E_CLOSED if it was destroyed already. */
SLUICE_API int sluice_stream_destroy(struct sluice_stream *stream);

/* The calling thread's current stream is the top of a stack, empty at first: then
 * sluice_stream_current says SLUICE_NOT_READY. Pop names what it takes off, so that a slip is
 * found. A stream that a reset or close has ended can still be popped. A thread that ends drops
 * its stack.
 * Thread: any, each its own stack of up to 64.
 * Returns: push: SLUICE_E_LIMIT when the stack is full; pop: SLUICE_E_INVALID if `stream` is not
 * the top; current: SLUICE_E_STALE if the top has ended with its device. */
SLUICE_API int sluice_stream_push_current(struct sluice_stream stream);
SLUICE_API int sluice_stream_pop_current(struct sluice_stream stream);
SLUICE_API int sluice_stream_current(struct sluice_stream *stream);

/* What a handle is. */
enum sluice_stream_kind {
    SLUICE_STREAM_OWNED = 0,
    SLUICE_STREAM_BORROWED = 1,
    SLUICE_STREAM_DEFAULT = 2,
};

struct sluice_stream_info {
    uint32_t size;
    uint32_t kind;       /* enum sluice_stream_kind */
    int32_t priority;
    uint32_t blocking;
    uint32_t capturing;  /* 1 while it captures a graph */
    uint32_t reserved;
    struct sluice_device device;
};

/* Says what a stream is: fills in what fits in the info->size that the caller has set.
 * Thread: any.
 * Returns: 0; SLUICE_E_INVALID for an info->size that was not set. */
SLUICE_API int sluice_stream_info(struct sluice_stream stream, struct sluice_stream_info *info);

enum sluice_event_flags { SLUICE_EVENT_TIMING = 1 };

/* Creates an event; `flags` is 0 or SLUICE_EVENT_TIMING.
 * Owns: the device; end it with sluice_event_destroy.
 * Thread: any.
 * Returns: 0; SLUICE_E_INVALID for other flags; SLUICE_E_NO_MEMORY. */
SLUICE_API int sluice_event_create(struct sluice_device device, uint32_t flags,
                                   struct sluice_event *event);

/* Marks the point in `stream` behind the work queued so far. Recording again moves the mark; waits
 * queued before keep the old one.
 * Thread: any.
 * Returns: 0; SLUICE_E_WRONG_DEVICE if the stream is another device's: each open is a device. */
SLUICE_API int sluice_event_record(struct sluice_event event, struct sluice_stream stream);

/* Has the marked point been reached?
 * Thread: any.
 * Returns: 0 yes; SLUICE_NOT_READY no; SLUICE_E_NOT_RECORDED. */
SLUICE_API int sluice_event_query(struct sluice_event event);

/* Waits until it has.
 * Thread: any. Blocks: until then.
 * Returns: 0; SLUICE_E_NOT_RECORDED. */
SLUICE_API int sluice_event_synchronize(struct sluice_event event);

/* Milliseconds from one mark to another, by the device's own clock (CLOCK_MONOTONIC on `host`);
 * less than 0 if `stop` was marked first.
 * Thread: any.
 * Returns: 0; SLUICE_NOT_READY; SLUICE_E_NOT_RECORDED; SLUICE_E_NO_TIMING;
 * SLUICE_E_WRONG_DEVICE. */
SLUICE_API int sluice_event_elapsed(struct sluice_event start, struct sluice_event stop,
                                    double *milliseconds);

/* Ends the handle; waits queued on it stay. Clears it; a zero handle is done already.
 * Thread: any.
 * Returns: 0; SLUICE_E_CLOSED if it was destroyed already. */
SLUICE_API int sluice_event_destroy(struct sluice_event *event);

/* ---- what GPUs there are, and what they can do ---- */

/* The oldest driver of NVIDIA's that will do: the first for CUDA 12.0. */
#define SLUICE_DRIVER_MIN "525.60.13"

/* How many GPUs this process can use: "cuda:0" to "cuda:N-1". No context is made.
 * Thread: any. Blocks: while a driver starts.
 * Returns: 0; SLUICE_E_UNSUPPORTED without a driver or a GPU, with the reason and the mend. */
SLUICE_API int sluice_device_count(uint32_t *count);

/* What a GPU can do; channels want all but the events. */
enum sluice_device_ability {
    SLUICE_CAN_MAP = 1,                 /* map memory piece by piece, read-only too */
    SLUICE_CAN_EXPORT = 2,              /* hand memory to other processes as a descriptor */
    SLUICE_CAN_QUEUE_WORDS = 4,         /* write 64-bit words, and wait for them, on a stream */
    SLUICE_CAN_SHARE_EVENTS = 8,        /* between processes, and memory by handles */
    SLUICE_CAN_REGISTER = 16,           /* work on the host's memory, */
    SLUICE_CAN_REGISTER_READ_ONLY = 32, /* also where the process may only read it */
};

/* What it is. */
enum sluice_device_trait {
    SLUICE_IS_INTEGRATED = 1, /* it has the CPU's memory and none of its own */
    SLUICE_IS_MIG = 2,        /* an instance of a GPU that is divided (MIG) */
    SLUICE_IS_EXCLUSIVE = 4,  /* for one process at a time (compute mode) */
    SLUICE_IS_CLOSED = 8,     /* for no process at all (compute mode) */
};

/* NVIDIA's multi-process service, by which the work of several processes runs side by side. */
enum sluice_device_mps {
    SLUICE_MPS_NONE = 0,
    SLUICE_MPS_DAEMON = 1, /* its daemon is there, but this process works without it */
    SLUICE_MPS_CLIENT = 2, /* this process works through it */
};

struct sluice_device_report {
    uint32_t size;
    uint32_t driver;      /* the CUDA version that the driver is for, 1000 * major + 10 * minor */
    uint32_t driver_min;  /* the least that Sluice needs: 12000 */
    uint32_t compute;     /* the GPU's compute capability, 10 * major + minor */
    uint32_t compute_min; /* the least of GPUs that such a driver runs: 50 */
    uint32_t mps;         /* enum sluice_device_mps */
    uint32_t can;         /* enum sluice_device_ability */
    uint32_t is;          /* enum sluice_device_trait */
    uint64_t memory;      /* bytes, free or not */
    uint64_t peers;       /* bit N: it reads the memory of "cuda:N" where it lies; up to 64 GPUs */
    char model[96];       /* "NVIDIA H200" */
    char uuid[48];        /* as nvidia-smi prints it: "GPU-..." or "MIG-..." */
    char pci[24];         /* "0000:04:00.0" */
};

/* What the driver says of the GPU "cuda:INDEX": fills in what fits in the report->size that the
 * caller has set. No context is made, and nobody's capture broken.
 * Thread: any. Blocks: while a driver starts.
 * Returns: 0; SLUICE_E_UNSUPPORTED as for sluice_device_count, or if there is no such GPU;
 * SLUICE_E_INVALID for a report->size that was not set. */
SLUICE_API int sluice_device_probe(uint32_t index, struct sluice_device_report *report);

struct sluice_device_trial {
    uint32_t size;
    uint32_t did;         /* the abilities that were tried, of enum sluice_device_ability */
    uint64_t memory_free; /* bytes that were free on the GPU */
    int64_t context_ns;   /* making the context, if this process had none yet */
    int64_t memory_ns;    /* making memory, exporting it, and mapping the descriptor read-only */
    int64_t copy_ns;      /* filling a frame of 8 MiB, and copying it back from there */
    int64_t word_ns;      /* p50 from queueing a word on an idle stream until the CPU sees it */
    int64_t wait_ns;      /* p50 from the CPU's store until a stream that waited for it is done */
};

/* Tries what channels on "cuda:INDEX" are made of, in this process alone: memory that is made,
 * exported, mapped read-only and copied back; words written and waited for by a stream. What the GPU
 * cannot do is left out: see `did`; times of it are 0. Makes a context while it runs, if the process
 * has none. Fills in what fits in the trial->size that the caller has set.
 * Thread: any. Blocks: for about a second at most where all is well.
 * Returns: 0: what was tried is right; else a failure, the sentence saying at which step. */
SLUICE_API int sluice_device_try(uint32_t index, struct sluice_device_trial *trial);

#ifdef __cplusplus
}
#endif
#endif
