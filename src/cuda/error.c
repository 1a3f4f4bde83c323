/* SPDX-License-Identifier: MIT
 *
 * Maps the driver's error codes to results and messages, and remembers which contexts are lost.
 */
#include "cuda/cuda.h"

#include "util/atomic.h"
#include "util/result.h"

/* In a lost context no call will succeed again. */
static const struct meaning {
    int code, result;
    bool lost;
    const char *remedy;
} meanings[] = {
    { SL_CU_INVALID_VALUE, SLUICE_E_DRIVER, false,
      "an argument that the driver does not take; a stream or pointer of another device?" },
    { SL_CU_INVALID_HANDLE, SLUICE_E_INVALID, false,
      "there is no such stream or event, or its owner has destroyed it; pass one that lives" },
    { SL_CU_OUT_OF_MEMORY, SLUICE_E_NO_MEMORY, false,
      "the GPU, or the driver, has no memory left; free some, or end another program on this GPU" },
    { SL_CU_DEINITIALIZED, SLUICE_E_DRIVER, true, "the process is ending and the driver has ended before" },
    { SL_CU_STUB_LIBRARY, SLUICE_E_UNSUPPORTED, false,
      "this is the CUDA toolkit's stub, not a driver; take its folder out of LD_LIBRARY_PATH" },
    { SL_CU_DEVICE_UNAVAILABLE, SLUICE_E_UNSUPPORTED, false,
      "the GPU is taken by another process or forbids this one (exclusive compute mode); end that "
      "process, or set the mode to default" },
    { SL_CU_NO_DEVICE, SLUICE_E_UNSUPPORTED, false,
      "there is no GPU that this process may use; see whether nvidia-smi lists one" },
    { SL_CU_INVALID_DEVICE, SLUICE_E_UNSUPPORTED, false, "there is no such GPU" },
    { SL_CU_NOT_LICENSED, SLUICE_E_UNSUPPORTED, false, "this virtual GPU has no licence for CUDA; see nvidia-smi -q" },
    { SL_CU_INVALID_CONTEXT, SLUICE_E_DRIVER, true,
      "the device's context is gone: something in this process has reset the GPU; open the device "
      "again" },
    { SL_CU_ECC_UNCORRECTABLE, SLUICE_E_DRIVER, true,
      "the GPU's memory is damaged; start the program again, and look at nvidia-smi -q" },
    { SL_CU_NVLINK_UNCORRECTABLE, SLUICE_E_DRIVER, true,
      "a link between GPUs failed; start the program again, and look at nvidia-smi nvlink -e" },
    { SL_CU_CONTAINED, SLUICE_E_DRIVER, true,
      "a kernel of this program used memory of another GPU that it may not, or the GPU is damaged, and this program "
      "was stopped "
      "on it; fix the kernel, look at nvidia-smi -q, and start the program again" },
    { SL_CU_OPERATING_SYSTEM, SLUICE_E_DRIVER, false,
      "a system call of the driver failed; does the process lack descriptors or memory that it may lock, or its "
      "container rights?" },
    { SL_CU_ILLEGAL_ADDRESS, SLUICE_E_DRIVER, true,
      "a kernel of this program touched memory that is not there, or stored into a frame that it "
      "may only read; the GPU's context is dead: fix the kernel and start the program again" },
    { SL_CU_LAUNCH_TIMEOUT, SLUICE_E_DRIVER, true,
      "a kernel ran longer than this GPU allows (it drives a display); make it shorter and start "
      "the program again" },
    { SL_CU_CONTEXT_IS_DESTROYED, SLUICE_E_DRIVER, true,
      "the device's context is gone: something in this process has reset the GPU; open the device "
      "again" },
    { SL_CU_ASSERT, SLUICE_E_DRIVER, true,
      "an assertion in a kernel of this program failed; fix it and start the program again" },
    { SL_CU_ALREADY_REGISTERED, SLUICE_E_DRIVER, false,
      "there was registered memory at this address that was unmapped without being unregistered; "
      "the address is of no use to this process any more" },
    { SL_CU_NOT_REGISTERED, SLUICE_E_DRIVER, false, "this memory was not registered" },
    { SL_CU_HARDWARE_STACK_ERROR, SLUICE_E_DRIVER, true,
      "a kernel of this program overran its stack; fix it and start the program again" },
    { SL_CU_ILLEGAL_INSTRUCTION, SLUICE_E_DRIVER, true,
      "a kernel of this program is broken; fix it and start the program again" },
    { SL_CU_MISALIGNED_ADDRESS, SLUICE_E_DRIVER, true,
      "a kernel of this program used an address that is not aligned; fix it and start the program "
      "again" },
    { SL_CU_INVALID_ADDRESS_SPACE, SLUICE_E_DRIVER, true,
      "a kernel of this program is broken; fix it and start the program again" },
    { SL_CU_INVALID_PC, SLUICE_E_DRIVER, true,
      "a kernel of this program is broken; fix it and start the program again" },
    { SL_CU_LAUNCH_FAILED, SLUICE_E_DRIVER, true,
      "a kernel of this program crashed; fix it and start the program again" },
    { SL_CU_TENSOR_MEMORY_LEAK, SLUICE_E_DRIVER, true,
      "a kernel of this program ended without giving its tensor memory back; fix it and start the program again" },
    { SL_CU_NOT_PERMITTED, SLUICE_E_PERMISSION, false, "the driver does not permit this" },
    { SL_CU_NOT_SUPPORTED, SLUICE_E_UNSUPPORTED, false, "this GPU or system cannot do it" },
    { SL_CU_SYSTEM_NOT_READY, SLUICE_E_UNSUPPORTED, false,
      "the system's GPUs are not ready; is nvidia-fabricmanager running?" },
    { SL_CU_SYSTEM_DRIVER_MISMATCH, SLUICE_E_UNSUPPORTED, false,
      "kernel module and driver library are of two versions; restart the machine after an update" },
    { SL_CU_COMPAT_NOT_SUPPORTED, SLUICE_E_UNSUPPORTED, false,
      "the forward-compatible driver library does not support this GPU; remove it from "
      "LD_LIBRARY_PATH" },
    { SL_CU_MPS_CONNECTION_FAILED, SLUICE_E_UNSUPPORTED, false,
      "the MPS server cannot be reached; start it, or unset CUDA_MPS_PIPE_DIRECTORY" },
    { SL_CU_MPS_RPC_FAILURE, SLUICE_E_DRIVER, true,
      "the MPS server does not answer any more; start it and the program again" },
    { SL_CU_MPS_SERVER_NOT_READY, SLUICE_E_UNSUPPORTED, false, "the MPS server is not ready; try again" },
    { SL_CU_MPS_MAX_CLIENTS, SLUICE_E_UNSUPPORTED, false,
      "the MPS server has all the clients that it can have; end one" },
    { SL_CU_MPS_MAX_CONNECTIONS, SLUICE_E_UNSUPPORTED, false,
      "the MPS server has all the connections to the GPU that it can have; end a client, or set "
      "CUDA_DEVICE_MAX_CONNECTIONS lower" },
    { SL_CU_MPS_CLIENT_TERMINATED, SLUICE_E_DRIVER, true,
      "the MPS server has ended this client; start the program again" },
    { SL_CU_CAPTURE_UNSUPPORTED, SLUICE_E_CAPTURING, false,
      "this cannot be done while a graph is being captured; wait until the capture ends" },
    { SL_CU_CAPTURE_INVALIDATED, SLUICE_E_CAPTURING, false,
      "the capture that this stream takes part in has failed; end it" },
    { SL_CU_CAPTURE_MERGE, SLUICE_E_CAPTURING, false, "the two streams take part in two captures" },
    { SL_CU_ILLEGAL_STATE, SLUICE_E_CAPTURING, false, "the stream captures no graph" },
    { SL_CU_CAPTURE_UNMATCHED, SLUICE_E_CAPTURING, false, "the capture did not begin on this stream" },
    { SL_CU_CAPTURE_UNJOINED, SLUICE_E_CAPTURING, false,
      "a stream that joined the capture was not joined back to where it began" },
    { SL_CU_CAPTURE_ISOLATION, SLUICE_E_CAPTURING, false, "a capture cannot wait for work outside of it" },
    { SL_CU_CAPTURE_IMPLICIT, SLUICE_E_CAPTURING, false,
      "the default stream is shut while a blocking stream captures a graph; wait until the capture "
      "ends" },
    { SL_CU_CAPTURED_EVENT, SLUICE_E_CAPTURING, false,
      "the event was last recorded in a capture, so no moment belongs to it; record it again" },
    { SL_CU_CAPTURE_WRONG_THREAD, SLUICE_E_CAPTURING, false, "the capture was begun by another thread" },
    { SL_CU_EXTERNAL_DEVICE, SLUICE_E_DRIVER, true,
      "a device that the GPU waited for reported an error; start the program again" },
};

static const struct meaning *meaning_of(int code)
{
    static const struct meaning other = { 0, SLUICE_E_DRIVER, false, "see NVIDIA's documentation for this code" };

    for (size_t i = 0; i < sizeof meanings / sizeof *meanings; i++)
        if (meanings[i].code == code)
            return &meanings[i];
    return &other;
}

const char *sl_cuda_code_name(int code)
{
    const char *name = NULL;

    if (!sl_cuda.GetErrorName || sl_cuda.GetErrorName(code, &name) != SL_CU_OK || !name)
        return "an unknown error";
    return name;
}

const char *sl_cuda_code_remedy(int code)
{
    return meaning_of(code)->remedy;
}

/* ---- lost contexts ---- */

/* For each GPU the last context ID whose context was lost: it is lost for everybody who has it
 * open, also if another caller saw the failure. */
static struct {
    sl_word life;
    _Atomic int code;
} ends[64];

void sl_cuda_mark_lost(struct sl_cuda_context *context, int code)
{
    size_t at = (size_t)context->device % (sizeof ends / sizeof *ends);
    int alive = 0;

    if (!atomic_compare_exchange_strong(&context->lost, &alive, code))
        return;
    sl_store(&ends[at].code, code, relaxed);
    sl_store(&ends[at].life, context->id, release);
}

int sl_cuda_alive(const struct sl_cuda_context *context)
{
    size_t at = (size_t)context->device % (sizeof ends / sizeof *ends);
    int code = sl_load(&context->lost, relaxed);

    if (!code && sl_load(&ends[at].life, acquire) == context->id)
        code = sl_load(&ends[at].code, relaxed);
    if (!code)
        return 0;
    return sl_fail(SLUICE_E_DRIVER, "device \"%s\" is lost since the driver said %s (%d): %s", context->name,
                   sl_cuda_code_name(code), code, sl_cuda_code_remedy(code));
}

/* Two codes speak of a context, and not of which: it may be that of a stream or of memory which the program passed, and
 * which has ended before. */
static bool is_alive(const struct sl_cuda_context *context, int code)
{
    unsigned long long id;

    return (code == SL_CU_INVALID_CONTEXT || code == SL_CU_CONTEXT_IS_DESTROYED) && context->id != 0 &&
           sl_cuda.CtxGetId(context->handle, &id) == SL_CU_OK && id == context->id;
}

int sl_cuda_failed(struct sl_cuda_context *context, int code, const char *function)
{
    static const struct meaning others = {
        0, SLUICE_E_DRIVER, false, "a stream, an event or memory that was passed is of a context that has ended"
    };
    const struct meaning *meaning = meaning_of(code);

    if (context && meaning->lost && is_alive(context, code))
        meaning = &others;
    if (context && meaning->lost)
        sl_cuda_mark_lost(context, code);
    return sl_fail(meaning->result, "%s%s%s said %s (%d): %s", context ? context->name : "", context ? ": " : "",
                   function, sl_cuda_code_name(code), code, meaning->remedy);
}
