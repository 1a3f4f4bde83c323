/* SPDX-License-Identifier: MIT
 *
 * What the layers above ask of a CUDA GPU beside the driver's own functions: its primary context
 * around calls, failures as sentences, and whether a stream captures a graph.
 *
 * Rules that every call of the driver follows, so that it disturbs nobody in this process:
 * - it is made between sl_cuda_enter and sl_cuda_leave, which leave the caller's current context
 * and capture mode as they were;
 * - what may break a capture of another thread (create, destroy, query, synchronize, allocate, map,
 *   register) is made in the relaxed mode; record, wait and write, copies, launches of graphs and what is asked about
 *   pointers are not of that kind (measured, driver 580);
 * - before a call on a stream, sl_cuda_capture has been asked about it, for anybody may capture on
 *   it; of the default stream that does not suffice, see sl_cuda_beside. Only its context and its priority may be asked at any time; its flags may not: that breaks
 *   the capture (measured, driver 580).
 */
#ifndef SL_CUDA_CUDA_H
#define SL_CUDA_CUDA_H

#include <stdbool.h>

#include "cuda/driver.h"
#include "util/result.h"

/* CUDA 12.0, driver 525.60.13: the first whose stream memory operations work without an option of
 * the kernel module and in 64 bits throughout (the _v2 functions), and which gives a context an id.
 * All else that is used here is older: file descriptors for memory 10.2, asking a stream whether it
 * captures 10.0, read-only registration 11.1, UUIDs of MIG instances 11.4. */
#define SL_CUDA_OLDEST 12000

/* 5.0: such a driver runs no older GPU. What else one must be able to do is asked of each. */
#define SL_CUDA_LEAST_COMPUTE 50

#define SL_CUDA_UUID      16
#define SL_CUDA_UUID_TEXT 41 /* "GPU-01234567-89ab-cdef-0123-456789abcdef" and its end */

/* The primary context of one GPU, which all libraries of a process share; held until close. */
struct sl_cuda_context {
    int device;
    struct sl_cu_context *handle;
    unsigned long long id; /* of this life of the context: a reset by somebody begins another */
    unsigned char uuid[SL_CUDA_UUID];
    char name[64];       /* as it was opened, for sentences */
    unsigned without;    /* abilities that are switched off, a bit each (ability.c) */
    bool same_addresses; /* it sees registered host memory where the CPU does */
    bool gathers;        /* its driver hands work over in batches: see sl_cuda_hand_over */
    _Atomic int lost;    /* what the driver said when the context had died; 0: it lives */
    _Atomic(struct sl_cu_stream *) beside; /* see sl_cuda_beside; NULL: not asked for yet */
    struct sl_cu_stream *copies; /* see sl_cuda_copy_begin; NULL: not asked for yet */
};

/* Opens by "cuda:0" or "cuda:UUID". Loads the driver if need be. */
int sl_cuda_context_open(const char *name, struct sl_cuda_context **context);
void sl_cuda_context_close(struct sl_cuda_context *context);

/* Fills in what can be known of a GPU without a context, for the questions that end in _able. */
int sl_cuda_look(const char *name, struct sl_cuda_context *context);

/* The driver's number of the GPU that goes by this name here, and its UUID. Make no context; the first one
 * loads no driver either. */
int sl_cuda_find(const char *name, int *device);
int sl_cuda_identify(const char *name, unsigned char uuid[SL_CUDA_UUID]);

/* How many GPUs this process sees, which are "cuda:0" and so on. Loads the driver, and makes no context. */
int sl_cuda_count(int *count);

#define SL_CUDA_NAME 16 /* "cuda:123" */

/* The GPU that another program's memory lies on, by its number here: the one of this UUID (NULL: not known), else what
 * the driver says of the handle. For that it is opened on one GPU after the other, which makes contexts. SLUICE_E_UNSUPPORTED
 * if none can open it. */
int sl_cuda_home(const unsigned char *uuid, const struct sl_cu_memory_handle *handle, char name[SL_CUDA_NAME]);

/* Can the GPU `name` use memory of the GPU `home` where it lies? 0; SLUICE_E_UNSUPPORTED with what is in the way;
 * SLUICE_NOT_READY if the driver cannot be asked, for this process does not see `home`: then only trying tells.
 * Makes no context. */
int sl_cuda_reach(const char *name, const char *home);

/* What trying came to, with both GPUs in its sentence. */
int sl_cuda_unreached(struct sl_cuda_context *context, const char *home, int result);

void sl_cuda_uuid_text(const unsigned char *uuid, char text[SL_CUDA_UUID_TEXT]);

/* What SLUICE_WITHOUT switches off in this process: a list of "memops", "vmm", "register", "readonly", "ipc",
 * "peers", "graphs", "prompt". SLUICE_E_INVALID for another word. */
int sl_cuda_read_without(unsigned *without);
bool sl_cuda_does_without(const struct sl_cuda_context *context, const char *word);

/* Can this GPU do it, and is it not switched off? 0; SLUICE_E_UNSUPPORTED, naming `what` it cannot. */
int sl_cuda_able(struct sl_cuda_context *context, enum sl_cu_attribute attribute, const char *what);

/* Does CUDA_LAUNCH_BLOCKING make calls last until their work is done? One behind a wait would last as long. */
bool sl_cuda_calls_block(void);

/* NVIDIA's multi-process service (MPS). Under it a process's death says nothing of its GPU work, and
 * a stream that waits holds up others' too. */
enum sl_cuda_mps {
    SL_CUDA_MPS_NONE,
    SL_CUDA_MPS_DAEMON, /* it runs, but this process works without it */
    SL_CUDA_MPS_CLIENT, /* this process works through it */
};
enum sl_cuda_mps sl_cuda_mps(int device);

enum sl_cuda_mode { SL_CUDA_PLAIN, SL_CUDA_RELAXED };

struct sl_cuda_scope {
    bool pushed, exchanged;
    int mode; /* the caller's */
};

/* Makes the context current and, if asked, the thread's capture mode relaxed. SLUICE_E_DRIVER if
 * the context is lost, or is not the one that was opened any more. */
int sl_cuda_enter(struct sl_cuda_context *context, enum sl_cuda_mode mode,
                  struct sl_cuda_scope *scope);
void sl_cuda_leave(const struct sl_cuda_scope *scope);

/* Inside a plain scope: makes the mode relaxed for a few calls that need it. Its own leave before the other's. */
int sl_cuda_relax(struct sl_cuda_context *context, struct sl_cuda_scope *scope);

/* 0 while the context lives, as far as is known; else SLUICE_E_DRIVER with what ended it. Asks nobody. */
int sl_cuda_alive(const struct sl_cuda_context *context);

/* Notes that the driver said so of this life of the context: it is lost for all who have it open. */
void sl_cuda_lose(struct sl_cuda_context *context, int code);

/* What the driver answered to `function`, as a sluice_result with its sentence; 0 for 0. Notes in
 * the context (NULL: none) when the answer means that it is lost. */
SL_RARE int sl_cuda_failed(struct sl_cuda_context *context, int code, const char *function);
static inline int sl_cuda_said(struct sl_cuda_context *context, int code, const char *function)
{
    return code == SL_CU_OK ? 0 : sl_cuda_failed(context, code, function);
}

/* Calls a function of the driver: r = sl_cu(context, StreamQuery, stream). */
#define sl_cu(context, name, ...) sl_cuda_said((context), sl_cuda.name(__VA_ARGS__), "cu" #name)

/* The driver's name for a code, and what it means and how to mend it. */
const char *sl_cuda_code_name(int code);
const char *sl_cuda_code_mend(int code);

/* The state of a stream, and in `id` which capture it takes part in (0: none; NULL: not asked).
 * Harmless at any time. */
enum sl_cuda_capture {
    SL_CUDA_CAPTURE_NONE,
    SL_CUDA_CAPTURE_ACTIVE,
    SL_CUDA_CAPTURE_BROKEN, /* it captured, something invalidated that, and it was not ended yet */
    SL_CUDA_CAPTURE_SHUT,   /* the default stream, while a blocking stream captures: whoever calls
                               it breaks that capture */
};
int sl_cuda_capture(struct sl_cuda_context *context, struct sl_cu_stream *stream,
                    enum sl_cuda_capture *state, uint64_t *id);

/* True nearly always: then this is all that need be asked. Else sl_cuda_capture says what it is. */
static inline bool sl_cuda_captures_nothing(struct sl_cu_stream *stream)
{
    int status = SL_CU_CAPTURE_STATUS_NONE;

    return sl_cuda.StreamIsCapturing(stream, &status) == SL_CU_OK && status == SL_CU_CAPTURE_STATUS_NONE;
}

/* A stream of ours on which work comes behind all that the default stream was given so far, as on every
 * blocking stream, and in the order in which it was given. For words and copies: a call on the default stream itself breaks each capture of a blocking stream,
 * and one may begin at any moment, also between asking and calling. */
int sl_cuda_beside(struct sl_cuda_context *context, struct sl_cu_stream **stream);
void sl_cuda_leave_beside(struct sl_cuda_context *context); /* before the context is closed */

/* Does this context's driver keep work in its hands until more comes or somebody asks? On WSL2, and where SLUICE_WITHOUT has
 * "prompt". What the system is, is looked up once a process. */
bool sl_cuda_gathers(const struct sl_cuda_context *context);

/* Behind a signal that was queued on `stream`, which find_place or the like gave: has such a driver hand it over. Inside
 * sl_cuda_enter, in any mode. */
void sl_cuda_ask_for_it(struct sl_cuda_context *context, struct sl_cu_stream *stream);
static inline void sl_cuda_hand_over(struct sl_cuda_context *context, struct sl_cu_stream *stream)
{
    if (context->gathers)
        sl_cuda_ask_for_it(context, stream);
}

/* Makes pages of host memory known to the GPU, which may write them only if `writable`. Whole
 * pages; unregister before unmapping them. Unregistering waits for streams that are held up
 * anywhere in the context: on a caller's thread, with no lock held, and not at the process's exit.
 */
int sl_cuda_register(struct sl_cuda_context *context, void *address, uint64_t size, bool writable);
int sl_cuda_unregister(struct sl_cuda_context *context, void *address);

/* Where the GPU sees a word that lies in registered pages. */
int sl_cuda_ask_address(struct sl_cuda_context *context, void *host, uint64_t *device);
static inline int sl_cuda_address(struct sl_cuda_context *context, void *host, uint64_t *device)
{
    if (!context->same_addresses)
        return sl_cuda_ask_address(context, host, device);
    *device = (uintptr_t)host;
    return 0;
}

/* ---- memory of the GPU that other processes can map; between enter (relaxed) and leave ---- */

/* 0 if there can be such memory on this GPU. */
int sl_cuda_memory_able(struct sl_cuda_context *context);

/* SLUICE_E_NO_MEMORY in figures. */
int sl_cuda_too_much(struct sl_cuda_context *context, const char *name, size_t size);

/* Sizes are multiples of this. */
int sl_cuda_memory_unit(struct sl_cuda_context *context, size_t *unit);

/* Memory of the GPU and the descriptor that stands for it. `name` is for sentences. */
int sl_cuda_memory_make(struct sl_cuda_context *context, const char *name, size_t size,
                        uint64_t *handle, int *fd);

/* The memory behind a descriptor of another process; SLUICE_E_PROTOCOL if it is none. The
 * descriptor stays the caller's. */
int sl_cuda_memory_take(struct sl_cuda_context *context, int fd, uint64_t *handle);

/* An import of a peer's memory came to `result`. If that may be because the peer's driver, of version `theirs` (0: not
 * known), is another than this process's, the sentence names both. Returns `result`. `context` may be NULL. */
int sl_cuda_mixed(const struct sl_cuda_context *context, uint32_t theirs, int result);

/* Maps it here. It lives as long as one mapping or descriptor, in whichever process, so the handle
 * may be released by then. */
int sl_cuda_memory_map(struct sl_cuda_context *context, uint64_t handle, size_t size, bool writable,
                       uint64_t *address);
void sl_cuda_memory_unmap(struct sl_cuda_context *context, uint64_t address, size_t size);
void sl_cuda_memory_release(struct sl_cuda_context *context, uint64_t handle);

/* Fills it with zeros, and waits for that, on a stream of its own. SLUICE_TIMEOUT if it does not come to pass
 * because something else does not end: then the memory must stay. */
int sl_cuda_memory_clear(struct sl_cuda_context *context, uint64_t address, size_t size);

/* ---- the same by handles instead of descriptors, where that cannot be had ---- */

struct sl_cuda_block;

/* What is told to others of a block. */
struct sl_cuda_share {
    uint64_t token[2]; /* random; zeros: not told, the handle alone says which it is */
    struct sl_cu_memory_handle handle;
};

int sl_cuda_ipc_able(struct sl_cuda_context *context);

/* Makes one, filled with zeros; it ends with the last who drops it, and with this process. */
int sl_cuda_ipc_make(const char *device, const char *name, size_t size, struct sl_cuda_share *share,
                     struct sl_cuda_block **block);

/* Another's, or this process's own. SLUICE_E_UNSUPPORTED if it is not there any more, or is out of reach. */
int sl_cuda_ipc_open(const char *device, const struct sl_cuda_share *share, struct sl_cuda_block **block);
uint64_t sl_cuda_ipc_address(const struct sl_cuda_block *block);

/* What this process has made or opened of that handle, on whatever GPU, once more; or NULL. */
struct sl_cuda_block *sl_cuda_ipc_find(const struct sl_cu_memory_handle *handle);

/* May wait for work in the context. */
void sl_cuda_ipc_drop(struct sl_cuda_block *block);

struct sl_cuda_context *sl_cuda_ipc_context(struct sl_cuda_block *block);

/* Once more; each is dropped. */
void sl_cuda_ipc_keep(struct sl_cuda_block *block);

/* Is another's memory open here by this handle? A maker that frees and makes memory may give it the handle of the
 * one before. */
bool sl_cuda_ipc_listed(const struct sl_cu_memory_handle *handle);

/* ---- events that other processes open by handles of 64 bytes ---- */

struct sl_cuda_signal; /* one of them */

/* Makes one on an open GPU, which must stay open. Between enter (relaxed) and leave, as the next. */
int sl_cuda_signal_make(struct sl_cuda_context *context, struct sl_cu_event_handle *handle,
                        struct sl_cuda_signal **signal);

/* Another's, or this process's own. SLUICE_E_UNSUPPORTED if it is not there any more. */
int sl_cuda_signal_open(struct sl_cuda_context *context, const struct sl_cu_event_handle *handle,
                        struct sl_cuda_signal **signal);
struct sl_cu_event *sl_cuda_signal_event(const struct sl_cuda_signal *signal);

/* NULL is done already. Enters the context itself. */
void sl_cuda_signal_drop(struct sl_cuda_context *context, struct sl_cuda_signal *signal);

/* Has the work behind which it was recorded last ended? 0, SLUICE_NOT_READY without a sentence, or a failure. Between
 * enter (relaxed) and leave. */
int sl_cuda_event_look(struct sl_cuda_context *context, struct sl_cu_event *event);

/* ---- copies between two GPUs ---- */

/* Copies into memory of the GPU `to`, on a stream of ours that knows no capture, from memory that `from` sees: by way of
 * the host if the two are no peers. Both memories must stay until the look has said 0, or a failure; then the work has
 * ended. SLUICE_NOT_READY until then. Of one context one thread at a time copies. */
int sl_cuda_copy_begin(struct sl_cuda_context *to, uint64_t address, const struct sl_cuda_context *from, uint64_t source,
                       size_t size);
int sl_cuda_copy_look(struct sl_cuda_context *to);

#endif
