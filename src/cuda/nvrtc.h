/* SPDX-License-Identifier: MIT
 *
 * NVRTC, NVIDIA's compiler of CUDA C++ as a library: found at run time, never linked, and without NVIDIA's headers.
 */
#ifndef SL_CUDA_NVRTC_H
#define SL_CUDA_NVRTC_H

#include <stdbool.h>
#include <stddef.h>

#include "cuda/driver.h"

struct sl_nvrtc_program; /* nvrtcProgram points to it */

/* nvrtcResult is an int. */
enum {
    SL_NVRTC_OK = 0,
    SL_NVRTC_COMPILATION = 6, /* there are errors in the source, or the options */
};

/* X(name without the prefix nvrtc, parameters). All of them are in NVRTC 12.0. */
#define SL_NVRTC_FUNCTIONS(X) \
    X(Version, (int *major, int *minor)) \
    X(GetNumSupportedArchs, (int *count)) \
    X(GetSupportedArchs, (int *archs)) \
    X(CreateProgram, (struct sl_nvrtc_program * *program, const char *text, const char *name, int count, \
                      const char *const *headers, const char *const *names)) \
    X(DestroyProgram, (struct sl_nvrtc_program * *program)) \
    X(AddNameExpression, (struct sl_nvrtc_program * program, const char *expression)) \
    X(CompileProgram, (struct sl_nvrtc_program * program, int count, const char *const *options)) \
    X(GetProgramLogSize, (struct sl_nvrtc_program * program, size_t * size)) \
    X(GetProgramLog, (struct sl_nvrtc_program * program, char *log)) \
    X(GetLoweredName, (struct sl_nvrtc_program * program, const char *expression, const char **lowered)) \
    X(GetCUBINSize, (struct sl_nvrtc_program * program, size_t * size)) \
    X(GetCUBIN, (struct sl_nvrtc_program * program, char *cubin)) \
    X(GetPTXSize, (struct sl_nvrtc_program * program, size_t * size)) \
    X(GetPTX, (struct sl_nvrtc_program * program, char *ptx))

struct sl_nvrtc {
#define SL_NVRTC_MEMBER(name, parameters) int(*name) parameters;
    SL_NVRTC_FUNCTIONS(SL_NVRTC_MEMBER)
#undef SL_NVRTC_MEMBER
    const char *(*GetErrorString)(int code);
    int major, minor;
    char path[4096];
    int arch_count;
    int archs[64]; /* 90: compute capability 9.0; in ascending order */
};

/* Finds the library for the loaded driver: SLUICE_NVRTC; one that this process has loaded; libnvrtc.so.N, for N from
 * the driver's major version down to 12, where the system looks for libraries, in the folders that were added, and in
 * /usr/local/cuda/lib64. It stays loaded. After a failure the next call looks again. Returns SLUICE_E_UNSUPPORTED if
 * there is none, or only one of a higher major version than the driver's; the message says what to install. */
int sl_nvrtc_find(const struct sl_nvrtc **nvrtc);

/* Adds a folder to look in, where a package manager put it. Returns SLUICE_E_LIMIT. */
int sl_nvrtc_add_folder(const char *folder);

/* What to install for the loaded driver: "nvidia-cuda-nvrtc-cu12". */
const char *sl_nvrtc_wheel(void);

#endif
