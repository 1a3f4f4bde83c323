/* SPDX-License-Identifier: MIT
 *
 * On a GPU a word is raised by a write that is queued on the stream, behind the work.
 */
#include <stdlib.h>
#include <string.h>

#include "cuda/cuda.h"
#include "device/device.h"
#include "os/os.h"
#include "sync/host_func.h"
#include "sync/sync.h"
#include "util/result.h"

struct sl_sync_pages {
    struct sl_cuda_context *context;
    /* Registered; NULL if it cannot be registered, or streams cannot write words: */
    void *address;
    struct sl_host_funcs *host_funcs; /* then these raise the words */
    sl_word checked;                  /* the last stream that was found to belong to this GPU */
};

/* Chooses how words of these pages will be raised. */
static int choose_signalling(struct sl_sync_pages *pages, void *address, uint64_t size, bool writable)
{
    int r = sl_cuda_check_cap(pages->context, SL_CU_CAN_WRITE_64,
                              "write 64-bit words from a stream (cuStreamWriteValue64)");
    if (r == 0)
        r = sl_cuda_register(pages->context, address, size, writable);
    if (r == 0)
        pages->address = address;
    if (r != SLUICE_E_UNSUPPORTED)
        return r;
    sl_log(SLUICE_LOG_INFO, "the driver calls a function for each commit and release instead, which takes longer: %s",
           sl_last_error());
    return sl_host_funcs_create(&pages->host_funcs);
}

static int cuda_attach(const char *device, void *address, uint64_t size, bool writable, struct sl_sync_pages **out)
{
    struct sl_sync_pages *pages = calloc(1, sizeof *pages);
    if (!pages)
        return sl_fail(SLUICE_E_NO_MEMORY, "no memory to attach pages to \"%s\"", device);
    int r = sl_cuda_context_open(device, &pages->context);
    if (r == 0) {
        r = choose_signalling(pages, address, size, writable);
        if (r != 0)
            sl_cuda_context_close(pages->context);
    }
    if (r == 0)
        *out = pages;
    else
        free(pages);
    return r;
}

static void cuda_detach(struct sl_sync_pages *pages)
{
    if (!pages)
        return;
    if (pages->host_funcs) {
        sl_host_funcs_destroy(pages->host_funcs, pages->context);
    } else if (sl_cuda_unregister(pages->context, pages->address) != 0) {
        if (sl_cuda_alive(pages->context) == 0) /* else the registration ended with the context */
            sl_os_keep_mapped(pages->address);
        sl_log(SLUICE_LOG_WARN, "pages stay registered: %s", sl_last_error());
    }
    sl_cuda_context_close(pages->context);
    free(pages);
}

static int queue_one(struct sl_cuda_context *context, struct sl_cu_stream *stream, const struct sl_signal *signal)
{
    uint64_t address;
    int r = sl_cuda_address(context, signal->word, &address);

    return r == 0 ? sl_cu(context, StreamWriteValue64, stream, address, signal->value, 0) : r;
}

/* Queues the writes in one driver call. */
static int queue_many(struct sl_cuda_context *context, struct sl_cu_stream *stream, const struct sl_signal *signals,
                      uint32_t count)
{
    union sl_cu_mem_op operations[SL_SIGNALS];

    if (count > SL_SIGNALS)
        return sl_fail(SLUICE_E_LIMIT, "%u words cannot be raised at once; %d can", count, SL_SIGNALS);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t address;
        int r = sl_cuda_address(context, signals[i].word, &address);
        if (r != 0)
            return r;
        operations[i] = (union sl_cu_mem_op){
            .write = { .operation = SL_CU_MEM_OP_WRITE_64, .address = address, .value = signals[i].value }
        };
    }
    return sl_cu(context, StreamBatchMemOp, stream, count, operations, 0);
}

static inline int queue(const struct sl_sync_pages *pages, struct sl_cu_stream *stream, const struct sl_signal *signals,
                        uint32_t count)
{
    struct sl_cuda_context *context = pages->context;
    int r = pages->host_funcs ? sl_host_funcs_queue(pages->host_funcs, context, stream, signals, count)
            : count == 1      ? queue_one(context, stream, signals)
                              : queue_many(context, stream, signals, count);

    if (r == 0)
        sl_cuda_flush(context, stream);
    return r;
}

/* The stream on which to queue calls behind the work that `thread` queued on `stream`, without invalidating a capture.
 *
 * Only its own thread can name a per-thread default stream. For another thread's the default stream itself does, and
 * nothing else: it waits for all blocking streams, of which each thread's is one, while the auxiliary stream
 * (sl_cuda_aux_stream) waits for it alone. A capture on any blocking stream shuts it. To ask about that (below) harms
 * no capture, and the caller tries again later. Should one begin between the question and the call, the driver refuses
 * the call and ends that capture: there is no event to wait for instead, as none can be recorded on a stream that
 * captures, which is why the release came to be held back. */
static int find_target(struct sl_cuda_context *context, const struct sl_stream *stream, uint64_t thread,
                       struct sl_cu_stream **target)
{
    enum sl_cuda_capture state;

    *target = (struct sl_cu_stream *)stream->native;
    if (*target == NULL || *target == SL_CU_LEGACY)
        return sl_cuda_aux_stream(context, target);
    if (*target == SL_CU_PER_THREAD && thread != sl_os_thread_number())
        *target = SL_CU_LEGACY;
    if (sl_cuda_is_not_capturing(*target))
        return 0;
    int r = sl_cuda_capture(context, *target, &state, NULL);
    if (r == 0 && state != SL_CUDA_CAPTURE_NONE)
        r = sl_fail(SLUICE_E_CAPTURING,
                    "%s: the stream is capturing a graph, each replay of which would signal again; "
                    "use another stream, or call this after the capture",
                    context->name);
    return r;
}

/* Enters the context for a call behind the work on `stream`; fails if the stream captures, as the
 * call would become part of the graph. */
static int enter_outside_graphs(const struct sl_sync_pages *pages, const struct sl_stream *stream, uint64_t thread,
                                struct sl_cu_stream **target, struct sl_cuda_scope *scope)
{
    int r = sl_cuda_enter(pages->context, pages->host_funcs ? SL_CUDA_RELAXED : SL_CUDA_PLAIN, scope);
    if (r != 0)
        return r;
    r = find_target(pages->context, stream, thread, target);
    if (r != 0)
        sl_cuda_leave(scope);
    return r;
}

static int cuda_alive(const struct sl_sync_pages *pages)
{
    return sl_cuda_alive(pages->context);
}

/* Fails if `context` is another incarnation of the GPU's context than the pages' (somebody reset the GPU) and has
 * ended: its native stream is gone then. If the pages' context is the one that ended, the next call in it fails. */
static int check_identity(const struct sl_sync_pages *pages, struct sl_cuda_context *context)
{
    struct sl_cuda_scope scope;

    if (context->id == pages->context->id)
        return 0;
    int r = sl_cuda_enter(context, SL_CUDA_PLAIN, &scope);
    if (r == 0)
        sl_cuda_leave(&scope);
    return r;
}

/* A reference to the stream, if it belongs to the pages' own GPU. */
static int hold_stream(const struct sl_sync_pages *pages, struct sluice_stream handle, struct sl_stream **stream)
{
    struct sl_stream *held;
    int r = sl_stream_hold(handle, &held);
    if (handle.id == 0)
        (void)sl_stream_check_handle(handle, &sl_device_cuda); /* sets the error message */
    if (r != 0)
        return r;
    struct sl_device *device = held->object.device;
    if (device->ops != &sl_device_cuda)
        r = sl_stream_check_handle(handle, &sl_device_cuda);
    else if (((struct sl_cuda_context *)device->state)->device != pages->context->device)
        r = sl_fail(SLUICE_E_WRONG_DEVICE,
                    "the stream is one of \"%s\", the frame is used on \"cuda:%d\": use a stream of that "
                    "GPU, and let it wait for the other",
                    device->name, pages->context->device);
    else
        r = check_identity(pages, device->state);
    if (r != 0)
        sl_object_drop(&held->object);
    else
        *stream = held;
    return r;
}

/* Any stream of the context tells whether that has died. If so, it is marked as lost. */
static int cuda_probe(const struct sl_sync_pages *pages)
{
    struct sl_cu_stream *aux_stream;
    struct sl_cuda_scope scope;

    if (sl_cuda_enter(pages->context, SL_CUDA_RELAXED, &scope) == 0) {
        if (sl_cuda_aux_stream(pages->context, &aux_stream) == 0) {
            int code = sl_cuda.StreamQuery(aux_stream);
            if (code != SL_CU_NOT_READY)
                (void)sl_cuda_check(pages->context, code, "cuStreamQuery");
        }
        sl_cuda_leave(&scope);
    }
    return sl_cuda_alive(pages->context);
}

/* Work queued by a client of MPS is the server's: it may outlive the client's process (protocol,
 * part 7). */
static int64_t cuda_lingers(const struct sl_sync_pages *pages)
{
    return sl_cuda_mps(pages->context->device) == SL_CUDA_MPS_CLIENT ? SLUICE_S : 0;
}

static int cuda_check(const struct sl_sync_pages *pages, struct sluice_stream handle)
{
    struct sl_stream *stream;

    if (handle.id == SLUICE_ON_CPU.id)
        return 0;
    /* Nearly always the same as the last time, and a handle never refers to another stream later. */
    if (handle.id == sl_load(&pages->checked, relaxed) && sl_stream_is_alive(handle))
        return 0;
    int r = hold_stream(pages, handle, &stream);
    if (r == 0) {
        sl_store(&((struct sl_sync_pages *)pages)->checked, handle.id, relaxed);
        sl_object_drop(&stream->object);
    }
    return r;
}

static int cuda_signal_held(const struct sl_sync_pages *pages, const struct sl_stream *stream, uint64_t thread,
                            const struct sl_signal *signals, uint32_t count)
{
    struct sl_cu_stream *target;
    struct sl_cuda_scope scope;
    int r = enter_outside_graphs(pages, stream, thread, &target, &scope);
    if (r != 0)
        return r;
    if (count > 0)
        r = queue(pages, target, signals, count);
    sl_cuda_leave(&scope);
    return r;
}

static int cuda_signal_inside(const struct sl_sync_pages *pages, const struct sl_stream *stream,
                              const struct sl_signal *signals, uint32_t count)
{
    struct sl_cu_stream *target;

    if (pages->host_funcs) /* they need another mode */
        return cuda_signal_held(pages, stream, sl_os_thread_number(), signals, count);
    int r = find_target(pages->context, stream, sl_os_thread_number(), &target);
    return r == 0 && count > 0 ? queue(pages, target, signals, count) : r;
}

static int cuda_signal(const struct sl_sync_pages *pages, struct sluice_stream handle, const struct sl_signal *signals,
                       uint32_t count)
{
    struct sl_stream *stream;

    if (handle.id == SLUICE_ON_CPU.id) {
        for (uint32_t i = 0; i < count; i++)
            sl_store(signals[i].word, signals[i].value, release);
        return 0;
    }
    int r = hold_stream(pages, handle, &stream);
    if (r != 0)
        return r;
    r = cuda_signal_held(pages, stream, sl_os_thread_number(), signals, count);
    sl_object_drop(&stream->object);
    return r;
}

static bool cuda_direct(const struct sl_sync_pages *pages)
{
    return !pages->host_funcs;
}

/* Where a launch blocks until its work is done, or clients of MPS share one server's queues, a
 * blocked stream would block more than itself (protocol, part 7). */
static int cuda_can_wait(const struct sl_sync_pages *pages)
{
    int r =
        sl_cuda_check_cap(pages->context, SL_CU_CAN_WAIT_64, "wait for 64-bit words on a stream (cuStreamWaitValue64)");
    if (r == 0 && pages->host_funcs) /* its message has the reason */
        r = sl_cuda_check_cap(pages->context, SL_CU_CAN_REGISTER_HOST,
                              "wait for words of host memory (cuMemHostRegister)");
    if (r == 0 && pages->host_funcs)
        r = sl_fail(SLUICE_E_UNSUPPORTED, "%s: the driver takes no host memory, so no stream can wait for a word there",
                    pages->context->name);
    if (r != 0)
        return r;
    if (sl_cuda_calls_block())
        return sl_fail(SLUICE_E_UNSUPPORTED,
                       "%s: CUDA_LAUNCH_BLOCKING is set: each launch would wait for the frame, too",
                       pages->context->name);
    if (sl_cuda_mps(pages->context->device) == SL_CUDA_MPS_CLIENT)
        return sl_fail(SLUICE_E_UNSUPPORTED, "%s: its clients share the queues of an MPS server, and would wait, too",
                       pages->context->name);
    return 0;
}

static int cuda_await(const struct sl_sync_pages *pages, const struct sl_stream *stream, sl_word *word, uint64_t value)
{
    struct sl_cu_stream *target;
    struct sl_cuda_scope scope;
    uint64_t address;
    int r = enter_outside_graphs(pages, stream, sl_os_thread_number(), &target, &scope);
    if (r != 0)
        return r;
    r = sl_cuda_address(pages->context, word, &address);
    if (r == 0)
        r = sl_cu(pages->context, StreamWaitValue64, target, address, value, SL_CU_WAIT_GEQ);
    sl_cuda_leave(&scope);
    return r;
}

extern const struct sl_sync_ops sl_sync_cuda;
const struct sl_sync_ops sl_sync_cuda = {
    .device = "cuda",
    .attach = cuda_attach,
    .detach = cuda_detach,
    .alive = cuda_alive,
    .probe = cuda_probe,
    .lingers = cuda_lingers,
    .check = cuda_check,
    .signal = cuda_signal,
    .signal_held = cuda_signal_held,
    .signal_inside = cuda_signal_inside,
    .direct = cuda_direct,
    .can_wait = cuda_can_wait,
    .await = cuda_await,
    .settle = sl_settle,
};
