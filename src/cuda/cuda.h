/* SPDX-License-Identifier: MIT
 *
 * What the layers above use of a CUDA GPU besides the driver's own functions: its primary context
 * around calls, failures as messages, and whether a stream captures a graph.
 *
 * Rules that every driver call follows, so that it affects nothing else in this process:
 * - it is made between sl_cuda_enter and sl_cuda_leave, which restore the caller's current context
 *   and capture mode;
 * - calls that may invalidate a capture of another thread (create, destroy, query, synchronize, allocate, map,
 *   register) are made in the relaxed mode. Recording, waiting, writing words, copies, graph launches and queries about
 *   pointers do not (measured, driver 580);
 * - before a call on a stream, its capture state is queried with sl_cuda_capture, as anybody may capture on
 *   it. For the default stream that is not enough, see sl_cuda_aux_stream. Only a stream's context and priority may be
 * queried at any time; querying its flags invalidates a capture (measured, driver 580).
 */
#ifndef SL_CUDA_CUDA_H
#define SL_CUDA_CUDA_H

#include <stdbool.h>

#include "cuda/driver.h"
#include "util/result.h"

/* CUDA 12.0, driver 525.60.13: the first whose stream memory operations work without an option of
 * the kernel module and in 64 bits throughout (the _v2 functions), and which has context IDs.
 * All else that is used here is older: file descriptors for memory 10.2, querying whether a stream
 * captures 10.0, read-only registration 11.1, UUIDs of MIG instances 11.4. */
#define SL_CUDA_MIN_VERSION 12000

/* 5.0: such a driver supports no older GPU. All other capabilities are queried for each GPU. */
#define SL_CUDA_MIN_COMPUTE 50

#define SL_CUDA_UUID      16
#define SL_CUDA_UUID_TEXT 41 /* "GPU-01234567-89ab-cdef-0123-456789abcdef" and its end */

/* The primary context of one GPU, which all libraries of a process share; held until close. */
struct sl_cuda_context {
    int device;
    struct sl_cu_context *handle;
    unsigned long long id; /* the driver's context ID; after somebody's reset the context has another */
    unsigned char uuid[SL_CUDA_UUID];
    char name[64];                             /* as it was opened, for messages */
    unsigned disabled;                         /* capabilities that are switched off, a bit each (caps.c) */
    bool same_addresses;                       /* registered host memory has the same address on the GPU */
    bool batches_work;                         /* its driver submits work in batches: see sl_cuda_flush */
    _Atomic int lost;                          /* the driver's code when the context died; 0: it lives */
    _Atomic(struct sl_cu_stream *) aux_stream; /* see sl_cuda_aux_stream; NULL: not asked for yet */
    struct sl_cu_stream *copy_stream;          /* see sl_cuda_copy_begin; NULL: not asked for yet */
};

/* Opens by "cuda:0" or "cuda:UUID". Loads the driver if need be. */
int sl_cuda_context_open(const char *name, struct sl_cuda_context **context);
void sl_cuda_context_close(struct sl_cuda_context *context);

/* Fills in what is known about a GPU without a context, for the functions that check a capability. */
int sl_cuda_context_describe(const char *name, struct sl_cuda_context *context);

/* The driver's number of the GPU with this name in this process, and its UUID. Neither makes a context; the first
 * does not load the driver either. */
int sl_cuda_find(const char *name, int *device);
int sl_cuda_identify(const char *name, unsigned char uuid[SL_CUDA_UUID]);

/* How many GPUs this process sees, which are "cuda:0" and so on. Loads the driver, and makes no context. */
int sl_cuda_count(int *count);

#define SL_CUDA_NAME 16 /* "cuda:123" */

/* The name, in this process, of the GPU that another program's memory is on: the one with this UUID (NULL: not known),
 * else what the driver says about the handle. For that it is opened on one GPU after the other, which makes contexts.
 * SLUICE_E_UNSUPPORTED if none can open it. */
int sl_cuda_ipc_owner(const unsigned char *uuid, const struct sl_cu_memory_handle *handle, char name[SL_CUDA_NAME]);

/* Can the GPU `name` access memory of the GPU `home` directly? 0; SLUICE_E_UNSUPPORTED with the reason;
 * SLUICE_NOT_READY if the driver cannot tell, because this process does not see `home`: then only mapping it tells.
 * Makes no context. */
int sl_cuda_peer_access(const char *name, const char *home);

/* The result of trying, with both GPUs in its message. */
int sl_cuda_peer_access_failed(struct sl_cuda_context *context, const char *home, int result);

void sl_cuda_uuid_text(const unsigned char *uuid, char text[SL_CUDA_UUID_TEXT]);

/* What SLUICE_WITHOUT switches off in this process: a list of "memops", "vmm", "register", "readonly", "ipc",
 * "peers", "graphs", "prompt". SLUICE_E_INVALID for another word. */
int sl_cuda_read_disabled(unsigned *disabled);
bool sl_cuda_is_disabled(const struct sl_cuda_context *context, const char *word);

/* Has this GPU the attribute, and is it not switched off? 0; SLUICE_E_UNSUPPORTED, saying `what` it cannot do. */
int sl_cuda_check_cap(struct sl_cuda_context *context, enum sl_cu_attribute attribute, const char *what);

/* Does CUDA_LAUNCH_BLOCKING make calls block until their work is done? Then a call behind a wait blocks as long as
 * that. */
bool sl_cuda_calls_block(void);

/* NVIDIA's multi-process service (MPS). Under it GPU work may go on after its process died, and
 * a stream that waits may block streams of other processes. */
enum sl_cuda_mps {
    SL_CUDA_MPS_NONE,
    SL_CUDA_MPS_DAEMON, /* it runs, but this process is not a client */
    SL_CUDA_MPS_CLIENT, /* this process is a client */
};
enum sl_cuda_mps sl_cuda_mps(int device);

enum sl_cuda_mode { SL_CUDA_PLAIN, SL_CUDA_RELAXED };

struct sl_cuda_scope {
    bool pushed, exchanged;
    int mode; /* the caller's */
};

/* Makes the context current and, if asked, the thread's capture mode relaxed. SLUICE_E_DRIVER if
 * the context is lost, or is not the one that was opened any more. */
int sl_cuda_enter(struct sl_cuda_context *context, enum sl_cuda_mode mode, struct sl_cuda_scope *scope);
void sl_cuda_leave(const struct sl_cuda_scope *scope);

/* Inside a plain scope: makes the mode relaxed for a few calls that need it. Leave this scope before the outer one. */
int sl_cuda_relax(struct sl_cuda_context *context, struct sl_cuda_scope *scope);

/* 0 while the context lives, as far as is known; else SLUICE_E_DRIVER with the reason. Makes no driver call. */
int sl_cuda_alive(const struct sl_cuda_context *context);

/* Marks the context as lost, for all that have it open, because the driver returned this code. */
void sl_cuda_mark_lost(struct sl_cuda_context *context, int code);

/* The code that `function` returned, as a sluice_result with its message; 0 for 0. Marks
 * the context (NULL: none) as lost if the code means that. */
SL_RARE int sl_cuda_failed(struct sl_cuda_context *context, int code, const char *function);
static inline int sl_cuda_check(struct sl_cuda_context *context, int code, const char *function)
{
    return code == SL_CU_OK ? 0 : sl_cuda_failed(context, code, function);
}

/* Calls a function of the driver: r = sl_cu(context, StreamQuery, stream). */
#define sl_cu(context, name, ...) sl_cuda_check((context), sl_cuda.name(__VA_ARGS__), "cu" #name)

/* The driver's name for a code; and what it means, and what to do. */
const char *sl_cuda_code_name(int code);
const char *sl_cuda_code_remedy(int code);

/* The capture state of a stream, and in `id` the capture that it takes part in (0: none; NULL: not wanted).
 * Allowed at any time. */
enum sl_cuda_capture {
    SL_CUDA_CAPTURE_NONE,
    SL_CUDA_CAPTURE_ACTIVE,
    SL_CUDA_CAPTURE_BROKEN,  /* its capture was invalidated, and has not been ended yet */
    SL_CUDA_CAPTURE_BLOCKED, /* the default stream, while a blocking stream captures: using it
                             invalidates that capture */
};
int sl_cuda_capture(struct sl_cuda_context *context, struct sl_cu_stream *stream, enum sl_cuda_capture *state,
                    uint64_t *id);

/* A quick check, nearly always true. If false, sl_cuda_capture tells the state. */
static inline bool sl_cuda_is_not_capturing(struct sl_cu_stream *stream)
{
    int status = SL_CU_CAPTURE_STATUS_NONE;

    return sl_cuda.StreamIsCapturing(stream, &status) == SL_CU_OK && status == SL_CU_CAPTURE_STATUS_NONE;
}

/* May a kernel be launched on it? On a stream that captures it becomes a node of the graph: `id` as above.
 * SLUICE_E_CAPTURING if the capture is broken, or another one shuts the stream. */
int sl_cuda_may_launch(struct sl_cuda_context *context, struct sl_cu_stream *stream, uint64_t *id);

/* A blocking stream of the library's own, to be used instead of the default stream: as on every blocking stream, its
 * work runs behind all earlier work of the default stream. For words and copies: a call on the default stream itself
 * invalidates every capture of a blocking stream, and one may begin at any moment, also between the query and the call.
 */
int sl_cuda_aux_stream(struct sl_cuda_context *context, struct sl_cu_stream **stream);
void sl_cuda_aux_stream_release(struct sl_cuda_context *context); /* before the context is closed */

/* Does this context's driver batch work until more comes or it is queried? On Windows (WDDM) and WSL2, and if
 * SLUICE_WITHOUT has "prompt". The system is determined once a process. */
bool sl_cuda_batches_work(const struct sl_cuda_context *context);

/* After a signal was queued on `stream`: makes such a driver submit it. Inside sl_cuda_enter, in any mode. */
void sl_cuda_flush_batch(struct sl_cuda_context *context, struct sl_cu_stream *stream);
static inline void sl_cuda_flush(struct sl_cuda_context *context, struct sl_cu_stream *stream)
{
    if (context->batches_work)
        sl_cuda_flush_batch(context, stream);
}

/* Registers whole pages of host memory with the GPU, which may write them only if `writable`.
 * Unregister them before they are unmapped. That waits for all blocked streams
 * of the context: not under a lock, and not at the process's exit. */
int sl_cuda_register(struct sl_cuda_context *context, void *address, uint64_t size, bool writable);
int sl_cuda_unregister(struct sl_cuda_context *context, void *address);

/* The GPU's address of a word in registered pages. */
int sl_cuda_query_address(struct sl_cuda_context *context, void *host, uint64_t *device);
static inline int sl_cuda_address(struct sl_cuda_context *context, void *host, uint64_t *device)
{
    if (!context->same_addresses)
        return sl_cuda_query_address(context, host, device);
    *device = (uintptr_t)host;
    return 0;
}

/* ---- memory of the GPU that other processes can map; between enter (relaxed) and leave ---- */

/* 0 if there can be such memory on this GPU. */
int sl_cuda_memory_supported(struct sl_cuda_context *context);

/* SLUICE_E_NO_MEMORY, with the sizes in its message. */
int sl_cuda_memory_exceeded(struct sl_cuda_context *context, const char *name, size_t size);

/* Sizes are multiples of this. */
int sl_cuda_memory_unit(struct sl_cuda_context *context, size_t *unit);

/* Allocates memory of the GPU, and exports it as a descriptor. `name` is for messages. */
int sl_cuda_memory_make(struct sl_cuda_context *context, const char *name, size_t size, uint64_t *handle, int *fd);

/* Imports the memory of another process's descriptor; SLUICE_E_PROTOCOL if it is not a descriptor of memory. It
 * stays the caller's. */
int sl_cuda_memory_import(struct sl_cuda_context *context, int fd, uint64_t *handle);

/* After an import of a peer's memory, with its `result`, which this returns. If the import may have failed because the
 * peer's driver version, `theirs` (0: not known), differs from this process's, adds both to the message. `context` may
 * be NULL. */
int sl_cuda_explain_versions(const struct sl_cuda_context *context, uint32_t theirs, int result);

/* Maps it. The memory lives as long as any mapping or descriptor of it, in any process, so the handle
 * may be released after this. */
int sl_cuda_memory_map(struct sl_cuda_context *context, uint64_t handle, size_t size, bool writable, uint64_t *address);
void sl_cuda_memory_unmap(struct sl_cuda_context *context, uint64_t address, size_t size);
void sl_cuda_memory_release(struct sl_cuda_context *context, uint64_t handle);

/* Fills it with zeros on a stream of its own, and waits for that. SLUICE_TIMEOUT if other work on the GPU does not
 * end: then the memory must not be freed. */
int sl_cuda_memory_clear(struct sl_cuda_context *context, uint64_t address, size_t size);

/* ---- the same by CUDA IPC handles, where memory cannot be exported as descriptors ---- */

struct sl_cuda_block;

/* What other processes need to open a block. */
struct sl_cuda_share {
    uint64_t token[2]; /* random, identifies the block; zeros: not known, the handle alone identifies it */
    struct sl_cu_memory_handle handle;
};

int sl_cuda_ipc_supported(struct sl_cuda_context *context);

/* Makes one, filled with zeros; it ends when its last user drops it, or this process ends. */
int sl_cuda_ipc_make(const char *device, const char *name, size_t size, struct sl_cuda_share *share,
                     struct sl_cuda_block **block);

/* Another's, or this process's own. SLUICE_E_UNSUPPORTED if it is not there any more, or is out of reach;
 * SLUICE_E_PROTOCOL if it is known to have fewer bytes. */
int sl_cuda_ipc_open(const char *device, const struct sl_cuda_share *share, uint64_t bytes,
                     struct sl_cuda_block **block);
uint64_t sl_cuda_ipc_address(const struct sl_cuda_block *block);

/* A block with this handle that this process has made or opened, on any GPU, with one more reference; or NULL. */
struct sl_cuda_block *sl_cuda_ipc_find(const struct sl_cu_memory_handle *handle);

/* May wait for work in the context. */
void sl_cuda_ipc_drop(struct sl_cuda_block *block);

struct sl_cuda_context *sl_cuda_ipc_context(struct sl_cuda_block *block);

/* Takes one more reference, to be dropped. */
void sl_cuda_ipc_hold(struct sl_cuda_block *block);

/* Is memory of another process open here by this handle? A process that frees memory and allocates again may get the
 * same handle again. */
bool sl_cuda_ipc_is_open(const struct sl_cu_memory_handle *handle);

/* ---- events that other processes open by handles of 64 bytes ---- */

struct sl_cuda_signal; /* one of them */

/* Makes one on an open GPU, which must stay open. Between enter (relaxed) and leave, as the next. */
int sl_cuda_signal_make(struct sl_cuda_context *context, struct sl_cu_event_handle *handle,
                        struct sl_cuda_signal **signal);

/* Another's, or this process's own. SLUICE_E_UNSUPPORTED if it is not there any more. */
int sl_cuda_signal_open(struct sl_cuda_context *context, const struct sl_cu_event_handle *handle,
                        struct sl_cuda_signal **signal);
struct sl_cu_event *sl_cuda_signal_event(const struct sl_cuda_signal *signal);

/* Does nothing for NULL. Enters the context itself. */
void sl_cuda_signal_drop(struct sl_cuda_context *context, struct sl_cuda_signal *signal);

/* Queries an event: 0, SLUICE_NOT_READY without a message, or a failure. Between enter (relaxed) and leave. */
int sl_cuda_query_event(struct sl_cuda_context *context, struct sl_cu_event *event);

/* ---- copies between two GPUs ---- */

/* Copies into memory of the GPU `to`, on a stream of the library's own, from memory that `from` can access: through
 * the host if the two are not peers. Both memories must stay until sl_cuda_copy_query returns 0 or a failure; then the
 * work has ended. SLUICE_NOT_READY until then. One thread at a time may copy in a context. */
int sl_cuda_copy_begin(struct sl_cuda_context *to, uint64_t address, const struct sl_cuda_context *from,
                       uint64_t source, size_t size);
int sl_cuda_copy_query(struct sl_cuda_context *to);

#endif
