/* SPDX-License-Identifier: MIT
 *
 * A driver that submits work to the GPU in batches, as Windows' may (WDDM), also under WSL2: without a call that
 * flushes the batch a write of a word could stay unsubmitted while a peer waits for it.
 *
 * On Windows CUDALINK_EXPORT_FLUSH_PROBE=0 turns that off, as in cuda-link.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/cuda.h"
#include "os/os.h"

static bool on_wsl;

static void detect_wsl(void)
{
    on_wsl = sl_os_wsl("");
}

static bool is_wddm(const struct sl_cuda_context *context)
{
    const char *flush = getenv("CUDALINK_EXPORT_FLUSH_PROBE");
    int tcc = 0;

    if (!sl_os_holds_work_back() || (flush && strcmp(flush, "0") == 0))
        return false;
    return sl_cuda.DeviceGetAttribute(&tcc, SL_CU_TCC_DRIVER, context->device) != SL_CU_OK || !tcc;
}

bool sl_cuda_batches_work(const struct sl_cuda_context *context)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, detect_wsl);
    return on_wsl || is_wddm(context) || sl_cuda_is_disabled(context, "prompt");
}

/* The signal is queued, so errors are ignored here; if the context died, the next call reports it. */
void sl_cuda_flush_batch(struct sl_cuda_context *context, struct sl_cu_stream *stream)
{
    struct sl_cuda_scope scope;

    if (sl_cuda_relax(context, &scope) != 0)
        return;
    if (sl_cuda_is_not_capturing(stream)) { /* a capture may have begun since */
        int code = sl_cuda.StreamQuery(stream);
        if (code != SL_CU_NOT_READY)
            (void)sl_cuda_check(context, code, "cuStreamQuery");
    }
    sl_cuda_leave(&scope);
}
