/* SPDX-License-Identifier: MIT
 *
 * The few calls of NVIDIA's driver that gpu_filter.c needs, loaded at run time, so that it builds on every machine. A
 * program that has the CUDA toolkit includes <cuda.h> or <cuda_runtime.h> instead: sluice_stream_native returns a
 * stream of either, and sluice_stream_wrap takes one.
 */
#ifndef EXAMPLES_DRIVER_H
#define EXAMPLES_DRIVER_H

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>

typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef unsigned long long CUdeviceptr;

static struct driver {
    int (*Init)(unsigned flags);
    int (*GetErrorName)(int code, const char **name);
    int (*DevicePrimaryCtxRetain)(CUcontext *context, int device);
    int (*CtxSetCurrent)(CUcontext context);
    int (*MemcpyDtoHAsync)(void *to, CUdeviceptr from, size_t size, CUstream stream);
    int (*ModuleLoadData)(CUmodule *module, const void *ptx);
    int (*ModuleGetFunction)(CUfunction *function, CUmodule module, const char *name);
    int (*LaunchKernel)(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                        unsigned block_y, unsigned block_z, unsigned shared, CUstream stream, void **arguments,
                        void **extra);
} driver;

/* 0 if the driver returned 0; else prints the error and returns 1. */
static int driver_check(int code, const char *what)
{
    const char *name = "an error without a name";
    if (code == 0)
        return 0;
    if (driver.GetErrorName)
        driver.GetErrorName(code, &name);
    fprintf(stderr, "%s: %s (%d)\n", what, name, code);
    return 1;
}

static int driver_find(void *library, const char *name, void *function)
{
    *(void **)function = dlsym(library, name);
    if (!*(void **)function)
        fprintf(stderr, "the CUDA driver has no %s\n", name);
    return !*(void **)function;
}

/* Loads the driver and makes the GPU's primary context, which Sluice and the CUDA runtime also use, current on this
 * thread. Returns 0, or 1 after printing an error. */
static int driver_open(int device)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    CUcontext context;
    if (!library) {
        fprintf(stderr, "no CUDA driver: %s\n", dlerror());
        return 1;
    }
    return driver_find(library, "cuInit", &driver.Init) ||
           driver_find(library, "cuGetErrorName", &driver.GetErrorName) ||
           driver_find(library, "cuDevicePrimaryCtxRetain", &driver.DevicePrimaryCtxRetain) ||
           driver_find(library, "cuCtxSetCurrent", &driver.CtxSetCurrent) ||
           driver_find(library, "cuMemcpyDtoHAsync_v2", &driver.MemcpyDtoHAsync) ||
           driver_find(library, "cuModuleLoadData", &driver.ModuleLoadData) ||
           driver_find(library, "cuModuleGetFunction", &driver.ModuleGetFunction) ||
           driver_find(library, "cuLaunchKernel", &driver.LaunchKernel) || driver_check(driver.Init(0), "cuInit") ||
           driver_check(driver.DevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain") ||
           driver_check(driver.CtxSetCurrent(context), "cuCtxSetCurrent");
}

#endif
