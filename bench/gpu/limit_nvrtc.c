/* SPDX-License-Identifier: MIT
 *
 * A cubin, compiled by NVRTC without Sluice.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "driver.h"
#include "limit.h"
#include "stage.h"

enum { CAPABILITY_MAJOR = 75, CAPABILITY_MINOR = 76 }; /* CUdevice_attribute */

struct program;

static void *open_library(void)
{
    static const char *const names[] = { "libnvrtc.so.13", "libnvrtc.so.12" };
    const char *path = getenv("SLUICE_NVRTC");
    bool named = path && *path;
    void *library = named ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    for (size_t i = 0; !named && !library && i < sizeof names / sizeof *names; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!library)
        die_missing("there is no NVRTC; SLUICE_NVRTC can name it: %s", dlerror());
    return library;
}

static void *find(void *library, const char *name)
{
    void *function = dlsym(library, name);
    if (!function)
        die_missing("NVRTC has no %s", name);
    return function;
}

static void check(int code, const char *what)
{
    if (code != 0)
        die("%s returned %d", what, code);
}

#define CALL(name, parameters, ...) \
    do { \
        int(*function) parameters; \
        *(void **)&function = find(library, "nvrtc" #name); \
        check(function(__VA_ARGS__), "nvrtc" #name); \
    } while (0)

void *nvrtc_cubin(const char *text, const char *kernel)
{
    void *library = open_library(), *cubin;
    struct program *program;
    int major, minor;
    char option[48];
    size_t size;

    CU(DeviceGetAttribute, &major, CAPABILITY_MAJOR, 0);
    CU(DeviceGetAttribute, &minor, CAPABILITY_MINOR, 0);
    snprintf(option, sizeof option, "--gpu-architecture=sm_%d%d", major, minor);
    const char *const options[] = { option };
    CALL(CreateProgram, (struct program **, const char *, const char *, int, const char *const *, const char *const *),
         &program, text, "bench.cu", 0, NULL, NULL);
    CALL(AddNameExpression, (struct program *, const char *), program, kernel);
    CALL(CompileProgram, (struct program *, int, const char *const *), program, 1, options);
    CALL(GetCUBINSize, (struct program *, size_t *), program, &size);
    if (!(cubin = malloc(size)))
        die("no memory for a cubin");
    CALL(GetCUBIN, (struct program *, char *), program, cubin);
    CALL(DestroyProgram, (struct program **), &program);
    return cubin;
}
