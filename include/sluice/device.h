/* SPDX-License-Identifier: MIT
 *
 * Devices, streams and events. A device is where memory lives and work runs: "host", "cuda:0". A
 * stream is its ordered queue of work, an event a point in it. On `host` work is done when a
 * call returns, so streams and events are real handles whose waits end at once: a program
 * written for a GPU runs unchanged, and mistakes with handles show up without a GPU.
 *
 * Handles are small values, never native pointers. The device owns the native objects. Closing
 * or resetting it makes all its handles stale: later calls with them return SLUICE_E_STALE. Calls with a handle that
 * was destroyed by itself return SLUICE_E_CLOSED (after very many other handles it may be SLUICE_E_STALE, too). A zero
 * handle is always an error, except where something is closed or destroyed. If a stream, event or device is ended while
 * another thread is in a call on it, that call completes normally; the object ends when it returns.
 *
 * Every call below also returns SLUICE_E_HANDLE for a value that is no handle of that kind, and
 * SLUICE_E_FORKED in a child made by fork().
 */
#ifndef SLUICE_DEVICE_H
#define SLUICE_DEVICE_H

#include <sluice/base.h>

#ifdef __cplusplus
extern "C" {
#endif

struct sluice_device {
    uint64_t id;
};
struct sluice_stream {
    uint64_t id;
};
struct sluice_event {
    uint64_t id;
};

/* Passed instead of a stream: the CPU did the work, and has finished. */
static const struct sluice_stream SLUICE_ON_CPU = { 1 };

/* Opens a device by name: "host", "cuda:0", or "cuda:UUID" as nvidia-smi -L prints it. Each open gives a
 * device with handles of its own.
 * Owns: the caller, until sluice_device_close.
 * Thread: any. Blocks: while a driver starts.
 * Returns: 0; SLUICE_E_INVALID for a name of no kind of device; SLUICE_E_UNSUPPORTED if there is no such
 * device, with the reason. */
SLUICE_API int sluice_device_open(struct sluice_device *device, const char *name);

/* Copies the name that the device was opened by, e.g. "host", with the closing NUL; 64 bytes are always
 * enough.
 * Thread: any.
 * Returns: 0; SLUICE_E_LIMIT if `size` is too small. */
SLUICE_API int sluice_device_name(struct sluice_device device, char *name, size_t size);

/* Waits for the work queued so far on the device's streams, wrapped ones too, on streams of its own that
 * were destroyed since, and on its default stream. It does not wait for other libraries' non-blocking
 * streams that were not wrapped, as that could invalidate a capture.
 * Thread: any. Blocks: until it is done.
 * Returns: 0; SLUICE_E_CAPTURING while a stream of it captures. */
SLUICE_API int sluice_device_synchronize(struct sluice_device device);

/* Waits for all work, then destroys every stream and event of the device; their handles turn
 * stale. Borrowed streams are dropped, not destroyed. The device stays open.
 * Thread: any. Blocks: until the work is done.
 * Returns: 0; SLUICE_E_CAPTURING while a stream of it captures: nothing was done. If the driver
 * fails, all is destroyed nevertheless. */
SLUICE_API int sluice_device_reset(struct sluice_device device);

/* As reset, then closes it. Clears the handle, also if the driver fails.
 * Thread: any. Blocks: until the work is done.
 * Returns: as reset. */
SLUICE_API int sluice_device_close(struct sluice_device *device);

/* Allocates host memory that the device copies to and from at full speed: pinned and page-aligned; on `host`
 * plain memory. It is not initialised. Pinned memory is scarce and slow to allocate: reuse it.
 * Owns: the caller, until sluice_device_host_free; it stays when the device is closed.
 * Thread: any. Blocks: while it is allocated.
 * Returns: 0; SLUICE_E_INVALID for a `size` of 0; SLUICE_E_NO_MEMORY. */
SLUICE_API int sluice_device_host_alloc(struct sluice_device device, size_t size, void **memory);

/* Frees it, once no copy uses it any more. Clears *memory.
 * Thread: any. Blocks: until the device's work is done.
 * Returns: 0; SLUICE_E_INVALID for other memory; SLUICE_E_DRIVER if the device was lost: it is freed
 * nevertheless. */
SLUICE_API int sluice_device_host_free(void **memory);

struct sluice_stream_params {
    uint32_t size;
    uint32_t blocking; /* 1: ordered with the device's default stream; default 0 */
    int32_t priority;  /* lower runs sooner; 0 default. No effect on `host` */
    uint32_t reserved;
};

/* Creates a stream; `params` may be NULL.
 * Owns: the device; end it with sluice_stream_destroy.
 * Thread: any.
 * Returns: 0; SLUICE_E_INVALID for a params->size that was not set, or invalid values; SLUICE_E_NO_MEMORY. */
SLUICE_API int sluice_stream_create(struct sluice_device device, const struct sluice_stream_params *params,
                                    struct sluice_stream *stream);

/* Gives a handle for a stream that somebody else owns (a CUstream; on `host` any value). Each native stream has one
 * handle on a device, which counts its wraps: the second wrap gives the same handle and calls no driver, and the handle
 * ends with as many calls of sluice_stream_destroy. A stream of sluice_stream_create, wrapped by its native value, is
 * counted the same way.
 * `release(user)` is called once for each wrap, when the handle has ended, no thread is in a call with it, and no frame
 * is still to end behind the stream; until then the stream's owner must be kept alive. It may be NULL, and may call
 * Sluice. It is not called if wrapping fails.
 * A handle of CU_STREAM_PER_THREAD (2) is, in each call, the default stream of the calling thread.
 * Owns: the handle is the caller's, the native stream stays its owner's.
 * Thread: any.
 * Returns: 0; SLUICE_E_WRONG_DEVICE if the stream is another device's; SLUICE_E_INVALID where no stream can be;
 * SLUICE_E_NO_MEMORY. */
SLUICE_API int sluice_stream_wrap(struct sluice_device device, uintptr_t native, void (*release)(void *user),
                                  void *user, struct sluice_stream *stream);

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
 * point that `event` marked last. The CPU does not wait. The two may be of different devices of one kind.
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

/* Takes one from the handle's count (see sluice_stream_wrap), and ends the handle with the last; queued work still
 * runs. Clears the caller's copy.
 * If a reader's release was deferred because a borrowed stream captures, the native stream must
 * live until the capture has ended and the reader was called once more; `release` is called then.
 * Thread: any.
 * Returns: 0; SLUICE_E_BUSY while it is some thread's current stream; SLUICE_E_CAPTURING while
 * it captures (a borrowed one may go); SLUICE_E_INVALID for a default stream and for
 * SLUICE_ON_CPU; SLUICE_E_CLOSED if it was destroyed already. */
SLUICE_API int sluice_stream_destroy(struct sluice_stream *stream);

/* The calling thread's current stream is the top of a stack. The stack is empty at first: then
 * sluice_stream_current returns SLUICE_NOT_READY. Pop is told which stream it shall find on top, so that mismatched
 * calls are noticed. A stream that a reset or close has ended can still be popped. A thread's stack ends with the
 * thread. Thread: any, each its own stack of up to 64. Returns: push: SLUICE_E_LIMIT when the stack is full; pop:
 * SLUICE_E_INVALID if `stream` is not the top; current: SLUICE_E_STALE if the top has ended with its device. */
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
    uint32_t kind; /* enum sluice_stream_kind */
    int32_t priority;
    uint32_t blocking;
    uint32_t capturing; /* 1 while it captures a graph */
    uint32_t reserved;
    struct sluice_device device;
};

/* Describes a stream: fills in as much as the caller's info->size has room for.
 * Thread: any.
 * Returns: 0; SLUICE_E_INVALID for an info->size that was not set. */
SLUICE_API int sluice_stream_info(struct sluice_stream stream, struct sluice_stream_info *info);

enum sluice_event_flags {
    SLUICE_EVENT_TIMING = 1, /* it records times, for sluice_event_elapsed */
    SLUICE_EVENT_SLEEP = 2,  /* sluice_event_synchronize sleeps; else it spins, and returns a little sooner */
};

/* Creates an event; `flags` are of enum sluice_event_flags, or 0.
 * Owns: the device; end it with sluice_event_destroy.
 * Thread: any.
 * Returns: 0; SLUICE_E_INVALID for other flags; SLUICE_E_NO_MEMORY. */
SLUICE_API int sluice_event_create(struct sluice_device device, uint32_t flags, struct sluice_event *event);

/* Marks the point in `stream` behind the work queued so far. Recording again moves the mark; waits
 * that are queued already keep the old one.
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
SLUICE_API int sluice_event_elapsed(struct sluice_event start, struct sluice_event stop, double *milliseconds);

/* Ends the handle; waits queued on it stay. Clears it.
 * Thread: any.
 * Returns: 0; SLUICE_E_CLOSED if it was destroyed already. */
SLUICE_API int sluice_event_destroy(struct sluice_event *event);

/* ---- what GPUs there are, and what they can do ---- */

/* The oldest NVIDIA driver that is supported: the first for CUDA 12.0. */
#define SLUICE_DRIVER_MIN "525.60.13"

/* How many GPUs this process can use: "cuda:0" to "cuda:N-1". No context is made.
 * Thread: any. Blocks: while a driver starts.
 * Returns: 0; SLUICE_E_UNSUPPORTED without a driver or a GPU; the message says why and what to do. */
SLUICE_API int sluice_device_count(uint32_t *count);

/* What a GPU and its driver can do; channels use all of it but SLUICE_CAN_SHARE_EVENTS. */
enum sluice_device_ability {
    SLUICE_CAN_MAP = 1,                 /* virtual memory management: map memory piece by piece, also read-only */
    SLUICE_CAN_EXPORT = 2,              /* export memory to other processes as a file descriptor */
    SLUICE_CAN_QUEUE_WORDS = 4,         /* write 64-bit words, and wait for them, on a stream */
    SLUICE_CAN_SHARE_EVENTS = 8,        /* CUDA IPC: share events, and memory, by handles */
    SLUICE_CAN_REGISTER = 16,           /* access registered host memory, */
    SLUICE_CAN_REGISTER_READ_ONLY = 32, /* also host memory that the process may only read */
};

enum sluice_device_trait {
    SLUICE_IS_INTEGRATED = 1, /* it uses the CPU's memory and has none of its own */
    SLUICE_IS_MIG = 2,        /* an instance of a partitioned GPU (MIG) */
    SLUICE_IS_EXCLUSIVE = 4,  /* compute mode: one process at a time */
    SLUICE_IS_CLOSED = 8,     /* compute mode: prohibited */
};

/* NVIDIA's multi-process service, under which the work of several processes runs concurrently. */
enum sluice_device_mps {
    SLUICE_MPS_NONE = 0,
    SLUICE_MPS_DAEMON = 1, /* its daemon runs, but this process is not a client of it */
    SLUICE_MPS_CLIENT = 2, /* this process is a client of it */
};

struct sluice_device_report {
    uint32_t size;
    uint32_t driver;      /* the CUDA version that the driver is for, 1000 * major + 10 * minor */
    uint32_t driver_min;  /* the oldest that Sluice supports: 12000 */
    uint32_t compute;     /* the GPU's compute capability, 10 * major + minor */
    uint32_t compute_min; /* the lowest that such a driver supports: 50 */
    uint32_t mps;         /* enum sluice_device_mps */
    uint32_t can;         /* enum sluice_device_ability */
    uint32_t is;          /* enum sluice_device_trait */
    uint64_t memory;      /* bytes in all */
    uint64_t peers;       /* bit N: it can access the memory of "cuda:N" directly; up to 64 GPUs */
    char model[96];       /* "NVIDIA H200" */
    char uuid[48];        /* as nvidia-smi prints it: "GPU-..." or "MIG-..." */
    char pci[24];         /* "0000:04:00.0" */
};

/* What the driver says about the GPU "cuda:INDEX": fills in as much as the caller's report->size has room for.
 * Makes no context, and invalidates no capture.
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

/* Tries, within this process, what channels on "cuda:INDEX" need: memory that is allocated,
 * exported, mapped read-only and copied back; words that a stream writes and waits for. What the GPU
 * cannot do is left out: see `did`; its times are 0. Makes a context while it runs, if the process
 * has none. Fills in as much as the caller's trial->size has room for.
 * Thread: any. Blocks: for about a second at most if all is well.
 * Returns: 0 if all that was tried works; else a failure, whose message names the step. */
SLUICE_API int sluice_device_try(uint32_t index, struct sluice_device_trial *trial);

#ifdef __cplusplus
}
#endif
#endif
