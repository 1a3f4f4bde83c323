/* SPDX-License-Identifier: MIT
 *
 * Finds and loads NVRTC.
 */
#include "cuda/nvrtc.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/cuda.h"
#include "os/os.h"
#include "util/result.h"

#define LEAST_MAJOR 12
#define MOST_ADDED  8

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sl_nvrtc found;
static bool is_found;
static char added[MOST_ADDED][1024];
static int added_count;

/* A library that was refused because it is newer than the driver. */
struct too_new {
    int major, minor;
    char path[sizeof found.path];
};

static const struct {
    const char *symbol;
    size_t offset;
} functions[] = {
#define FUNCTION(name, parameters) { "nvrtc" #name, offsetof(struct sl_nvrtc, name) },
    SL_NVRTC_FUNCTIONS(FUNCTION)
#undef FUNCTION
        { "nvrtcGetErrorString", offsetof(struct sl_nvrtc, GetErrorString) },
};

static int driver_major(void)
{
    return (int)sl_cuda_version() / 1000;
}

const char *sl_nvrtc_wheel(void)
{
    return driver_major() <= LEAST_MAJOR ? "nvidia-cuda-nvrtc-cu12" : "nvidia-cuda-nvrtc";
}

/* ---- one library ---- */

static int compare(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

static int bind(void *library, struct sl_nvrtc *nvrtc)
{
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        void *symbol = sl_os_dl_symbol(library, functions[i].symbol);
        if (!symbol)
            return sl_fail(SLUICE_E_UNSUPPORTED, "%s is not NVRTC %d or later: it has no %s", nvrtc->path, LEAST_MAJOR,
                           functions[i].symbol);
        *(void **)((char *)nvrtc + functions[i].offset) = symbol;
    }
    return 0;
}

static int ask(struct sl_nvrtc *nvrtc)
{
    int code = nvrtc->Version(&nvrtc->major, &nvrtc->minor);

    if (code == SL_NVRTC_OK)
        code = nvrtc->GetNumSupportedArchs(&nvrtc->arch_count);
    if (code == SL_NVRTC_OK && (nvrtc->arch_count < 1 || nvrtc->arch_count > (int)(sizeof nvrtc->archs / sizeof(int))))
        return sl_fail(SLUICE_E_UNSUPPORTED, "%s knows %d architectures", nvrtc->path, nvrtc->arch_count);
    if (code == SL_NVRTC_OK)
        code = nvrtc->GetSupportedArchs(nvrtc->archs);
    if (code != SL_NVRTC_OK)
        return sl_fail(SLUICE_E_UNSUPPORTED, "%s does not work: %s", nvrtc->path, nvrtc->GetErrorString(code));
    qsort(nvrtc->archs, (size_t)nvrtc->arch_count, sizeof *nvrtc->archs, compare);
    return 0;
}

/* Returns 0 if it was found; else the message says why not. */
static int try(const char *path, struct too_new *newer)
{
    struct sl_nvrtc nvrtc = { .major = 0 };
    void *library;

    snprintf(nvrtc.path, sizeof nvrtc.path, "%s", path);
    int r = sl_os_dl_open(path, &library);
    if (r != 0)
        return r;
    r = bind(library, &nvrtc);
    if (r == 0)
        r = ask(&nvrtc);
    if (r == 0 && nvrtc.major > driver_major()) {
        newer->major = nvrtc.major;
        newer->minor = nvrtc.minor;
        memcpy(newer->path, nvrtc.path, sizeof newer->path);
        r = sl_fail(SLUICE_E_UNSUPPORTED, "%s is newer than the driver", path);
    }
    if (r != 0) {
        sl_os_dl_close(library);
        return r;
    }
    found = nvrtc;
    is_found = true;
    return 0;
}

/* ---- where to look ---- */

/* PyTorch's wheels and CuPy load it under names of their own. */
static bool try_loaded(struct too_new *newer)
{
    char path[sizeof found.path];

    for (int nth = 0; sl_os_dl_find("libnvrtc", nth, path, sizeof path); nth++)
        if (!strstr(path, "builtins") && try(path, newer) == 0)
            return true;
    return false;
}

/* The newest first. */
static bool try_folder(const char *folder, struct too_new *newer)
{
    char path[sizeof found.path];

    for (int major = driver_major(); major >= LEAST_MAJOR; major--) {
        snprintf(path, sizeof path, "%s%slibnvrtc.so.%d", folder, *folder ? "/" : "", major);
        if (try(path, newer) == 0)
            return true;
    }
    /* If there is a newer one, the message names it. */
    snprintf(path, sizeof path, "%s%slibnvrtc.so.%d", folder, *folder ? "/" : "", driver_major() + 1);
    return try(path, newer) == 0;
}

static bool try_all(struct too_new *newer)
{
    if (try_loaded(newer) || try_folder("", newer))
        return true;
    for (int i = 0; i < added_count; i++)
        if (try_folder(added[i], newer))
            return true;
    return try_folder("/usr/local/cuda/lib64", newer);
}

static int fail(const struct too_new *newer)
{
    int version = (int)sl_cuda_version();

    if (newer->major)
        return sl_fail(SLUICE_E_UNSUPPORTED,
                       "NVRTC %d.%d (%s) is newer than the driver, which is for CUDA %d.%d: pip install %s, or update "
                       "the driver",
                       newer->major, newer->minor, newer->path, version / 1000, version % 1000 / 10, sl_nvrtc_wheel());
    return sl_fail(
        SLUICE_E_UNSUPPORTED,
        "NVRTC, which compiles kernels for GPUs, was not found: pip install %s, or install the CUDA toolkit, "
        "or let SLUICE_NVRTC name libnvrtc.so.%d",
        sl_nvrtc_wheel(), driver_major());
}

static int find(void)
{
    const char *path = secure_getenv("SLUICE_NVRTC");
    struct too_new newer = { .major = 0 };

    if (!path || !*path)
        return try_all(&newer) ? 0 : fail(&newer);
    int r = try(path, &newer);
    if (r != 0 && newer.major)
        return fail(&newer);
    if (r != 0)
        return sl_fail(r, "SLUICE_NVRTC names no NVRTC: %s", sl_last_error());
    return 0;
}

int sl_nvrtc_find(const struct sl_nvrtc **nvrtc)
{
    pthread_mutex_lock(&lock);
    int r = is_found ? 0 : find();
    pthread_mutex_unlock(&lock);
    if (r == 0)
        *nvrtc = &found;
    return r;
}

int sl_nvrtc_add_folder(const char *folder)
{
    int r = 0;

    pthread_mutex_lock(&lock);
    if (strlen(folder) >= sizeof *added || added_count == MOST_ADDED)
        r = sl_fail(SLUICE_E_LIMIT, "no room for another folder of NVRTC, or its name is too long: %.80s", folder);
    else
        strcpy(added[added_count++], folder);
    pthread_mutex_unlock(&lock);
    return r;
}
