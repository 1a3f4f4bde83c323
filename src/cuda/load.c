/* SPDX-License-Identifier: MIT
 *
 * Loads and initialises the driver.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "cuda/cuda.h"
#include "os/os.h"
#include "util/atomic.h"
#include "util/result.h"

/* File descriptors: the driver needs some for each GPU, and its error code does not say that they
 * ran out. */
#define STARTS_WITH 16

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool loaded;
static sl_word32 loaded_version;

static int check_version(void *library, int *version)
{
    int (*get)(int *);

    *(void **)&get = sl_os_dl_symbol(library, "cuDriverGetVersion");
    if (!get)
        return sl_fail(SLUICE_E_UNSUPPORTED,
                       "%s is not a CUDA driver: it has no cuDriverGetVersion; install NVIDIA's "
                       "driver, or correct SLUICE_CUDA_DRIVER",
                       sl_cuda_library());
    int code = get(version);
    if (code != SL_CU_OK)
        return sl_fail(SLUICE_E_UNSUPPORTED, "cuDriverGetVersion of %s said %d: %s", sl_cuda_library(), code,
                       sl_cuda_code_remedy(code));
    if (*version < SL_CUDA_MIN_VERSION)
        return sl_fail(SLUICE_E_UNSUPPORTED,
                       "the CUDA driver %s is too old: it is for CUDA %d.%d, Sluice needs %d.%d; "
                       "install NVIDIA's driver 525.60.13 or a later one",
                       sl_cuda_library(), *version / 1000, *version % 1000 / 10, SL_CUDA_MIN_VERSION / 1000,
                       SL_CUDA_MIN_VERSION % 1000 / 10);
    return 0;
}

static int start(void)
{
    int code = sl_cuda.Init(0);
    if (code == SL_CU_OK)
        return 0;
    if (sl_os_descriptors_left(STARTS_WITH) != 0)
        return sl_fail(SLUICE_E_NO_DESCRIPTORS, "cuInit said %s (%d), perhaps for lack of file descriptors: %s",
                       sl_cuda_code_name(code), code, sl_last_error());
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    if (code == SL_CU_NO_DEVICE && visible)
        return sl_fail(SLUICE_E_UNSUPPORTED,
                       "cuInit said %s (%d): CUDA_VISIBLE_DEVICES is \"%.80s\", which hides every "
                       "GPU or names none that is there; unset it",
                       sl_cuda_code_name(code), code, visible);
    /* Whatever the reason, this process can use no GPU. */
    sl_cuda_check(NULL, code, "cuInit");
    return SLUICE_E_UNSUPPORTED;
}

static int load(void)
{
    void *library;
    int r = sl_os_dl_open(sl_cuda_library(), &library);
    if (r == SLUICE_E_NO_DESCRIPTORS)
        return r;
    if (r != 0)
        return sl_fail(SLUICE_E_UNSUPPORTED,
                       "no CUDA driver: %s; install NVIDIA's driver (in a container: start it with "
                       "GPUs), or use \"host\", which works everywhere",
                       sl_last_error());
    int version;
    r = check_version(library, &version);
    if (r == 0)
        r = sl_cuda_bind(library, version);
    if (r != 0) {
        sl_os_dl_close(library); /* no code of the library has run, except the query of its version */
        return r;
    }
    sl_store(&loaded_version, (uint32_t)version, relaxed);
    return start(); /* from here on the library stays loaded: it may have started threads */
}

int sl_cuda_load(void)
{
    pthread_mutex_lock(&lock);
    int r = loaded ? 0 : load();
    loaded = r == 0;
    pthread_mutex_unlock(&lock);
    return r;
}

bool sl_cuda_present(void)
{
    static sl_word here, count; /* so many libraries had been loaded, and the driver was not among them */
    uint64_t now;

    if (sl_load(&here, relaxed))
        return true;
    if ((now = sl_os_dl_count()) == sl_load(&count, relaxed))
        return false;
    bool found = sl_os_dl_loaded(sl_cuda_library());
    sl_store(found ? &here : &count, found ? 1 : now, relaxed);
    return found;
}

uint32_t sl_cuda_version(void)
{
    return sl_load(&loaded_version, relaxed);
}
