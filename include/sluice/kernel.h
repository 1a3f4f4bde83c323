/* SPDX-License-Identifier: MIT
 *
 * Kernels: CUDA C++ functions that a program launches on streams, on frames and on any other memory. The same source
 * runs on a GPU and, compiled by the system's C++ compiler, on "host":
 *
 *     sluice_module_load(device, source, size, NULL, &module);
 *     sluice_kernel_get(module, "blur", &blur);
 *     sluice_launch(blur, stream, &(struct sluice_launch){ .size = sizeof(struct sluice_launch), .over = { w, h } },
 *                   arguments, 3);
 *
 * docs/kernels.md shows whole programs, and what of CUDA C++ the host runs.
 */
#ifndef SLUICE_KERNEL_H
#define SLUICE_KERNEL_H

#include <sluice/base.h>
#include <sluice/device.h>
#include <sluice/format.h>
#include <sluice/frame.h>

#ifdef __cplusplus
extern "C" {
#endif

struct sluice_module {
    uint64_t id;
};
struct sluice_kernel {
    uint64_t id;
};

#define SLUICE_MAX_PARAMETERS 64 /* of a kernel */

/* ---- modules ---- */

enum sluice_module_kind {
    SLUICE_MODULE_ANY = 0,    /* its first bytes show which */
    SLUICE_MODULE_SOURCE = 1, /* CUDA C++ */
    SLUICE_MODULE_PTX = 2,
    SLUICE_MODULE_BINARY = 3, /* a cubin or a fatbin */
};

enum sluice_module_flags {
    SLUICE_MODULE_NO_CACHE = 1, /* always compile, and do not keep the result */
};

struct sluice_module_params {
    uint32_t size;
    uint32_t kind;              /* enum sluice_module_kind */
    const char *name;           /* "fx.cu": in messages and logs; NULL: "kernels" */
    const char *const *options; /* for the compiler of a source: "-DRADIUS=3", "-I/usr/include/mine",
                                   "--use_fast_math". On host all but -D, -U and -I are ignored, with a warning */
    uint32_t option_count;
    uint32_t flags; /* of enum sluice_module_flags */
    /* The kernels of a source: "blur", "scale<float>". NULL: every __global__ function that is not a template and that
     * the preprocessor does not leave out. */
    const char *const *kernels;
    uint32_t kernel_count;
    uint32_t reserved;
};

/* Loads kernels for a device. It compiles a source: for a GPU by NVRTC (docs/kernels.md says where Sluice looks for
 * it), for host by a C++ compiler: SLUICE_CXX, c++, g++ or clang++. The result is kept in a cache on disk:
 * SLUICE_CACHE, else $XDG_CACHE_HOME/sluice, else ~/.cache/sluice; "off": it is not kept. PTX and binaries need no
 * compiler, and run on GPUs only. `params` may be NULL.
 * Owns: the device; end it with sluice_module_unload.
 * Thread: any, also while another one captures a graph. Blocks: while it compiles, about half a second.
 * Returns: 0; SLUICE_E_COMPILE: sluice_last_error is the compiler's first error, sluice_compile_log has all;
 * SLUICE_E_UNSUPPORTED if no compiler was found or NVRTC is too new for the driver: the message says what to install;
 * the same for PTX or a binary on host; SLUICE_E_INVALID for an empty image, one that the driver cannot load, or a name
 * in `kernels` that the source does not have; SLUICE_E_LIMIT for a kernel with more than SLUICE_MAX_PARAMETERS
 * parameters. */
SLUICE_API int sluice_module_load(struct sluice_device device, const void *image, size_t bytes,
                                  const struct sluice_module_params *params, struct sluice_module *module);

/* Ends a module and its kernels, and clears the handle. Launches that are queued still run.
 * Thread: any. Blocks: no.
 * Returns: 0; SLUICE_E_CLOSED if it was unloaded already. */
SLUICE_API int sluice_module_unload(struct sluice_module *module);

/* Copies the compiler's output, warnings too, of this thread's last sluice_module_load of a source, with the closing
 * NUL. What does not fit is cut off. A module from the cache has the output of the time when it was compiled.
 * Thread: any; each has its own.
 * Returns: the length of the whole output, without the NUL. */
SLUICE_API size_t sluice_compile_log(char *text, size_t size);

/* Names the compiler for a kind of device, "host" or "cuda", in words for people:
 * "NVRTC 13.0, /usr/local/cuda/lib64/libnvrtc.so.13", "/usr/bin/c++". Makes no context.
 * Thread: any. Blocks: while a driver starts.
 * Returns: 0; SLUICE_E_UNSUPPORTED if there is none: the message says what to install; SLUICE_E_INVALID for another
 * kind, or if `size` is too small. */
SLUICE_API int sluice_kernel_compiler(const char *kind, char *text, size_t size);

/* Names the folder that keeps compiled code. The first compilation makes it.
 * Thread: any.
 * Returns: 0; SLUICE_NOT_READY if nothing is kept: the message says why; SLUICE_E_INVALID if `size` is too small. */
SLUICE_API int sluice_kernel_cache(char *path, size_t size);

/* ---- kernels ---- */

/* Copies the name of a module's kernel, "blur" or "scale<float>", with the closing NUL. `index` counts from 0.
 * Thread: any.
 * Returns: 0; SLUICE_E_NOT_FOUND after the last one, and for PTX and binaries, whose kernels are not listed;
 * SLUICE_E_LIMIT if the name does not fit. */
SLUICE_API int sluice_module_kernel(struct sluice_module module, uint32_t index, char *name, size_t size);

/* Finds a kernel of a module by its name. Each call gives the same handle. The kernel is loaded completely, so its
 * first launch takes no longer than later ones.
 * Owns: the module.
 * Thread: any, also while another one captures a graph.
 * Returns: 0; SLUICE_E_NOT_FOUND: the message lists the module's kernels. */
SLUICE_API int sluice_kernel_get(struct sluice_module module, const char *name, struct sluice_kernel *kernel);

enum sluice_parameter_kind {
    SLUICE_PARAMETER_UNKNOWN = 0, /* of PTX and binaries: only `bytes` is known, on drivers of CUDA 12.4 and later */
    SLUICE_PARAMETER_NUMBER = 1,  /* `dtype` */
    SLUICE_PARAMETER_POINTER = 2, /* to elements of `dtype`; 0 bits: to void, or to a struct */
    SLUICE_PARAMETER_STRUCT = 3,  /* by value */
    SLUICE_PARAMETER_IN = 4,      /* a sluice_in of <sluice.cuh>: a picture that is read */
    SLUICE_PARAMETER_OUT = 5,     /* a sluice_out: a picture that is written */
};

struct sluice_parameter {
    uint32_t kind;     /* enum sluice_parameter_kind */
    uint32_t constant; /* 1: a pointer through which the kernel only reads */
    uint32_t bytes;    /* of the parameter; 0: not known */
    struct sluice_dtype dtype;
    uint32_t element; /* bytes of an element that it points to; 0: not known */
};

struct sluice_kernel_info {
    uint32_t size;
    uint32_t parameter_count; /* UINT32_MAX: not known */
    uint32_t most_threads;    /* in a block */
    uint32_t registers;       /* for each thread; 0 on host */
    uint32_t shared;          /* bytes for each block, without those of a launch; 0 on host */
    uint32_t local;           /* bytes for each thread; 0 on host */
    struct sluice_parameter parameters[SLUICE_MAX_PARAMETERS];
};

/* Describes a kernel. Fills in as much as fits into info->size bytes.
 * Thread: any.
 * Returns: 0; SLUICE_E_INVALID if info->size was not set. */
SLUICE_API int sluice_kernel_info(struct sluice_kernel kernel, struct sluice_kernel_info *info);

/* ---- launches ---- */

/* How many threads run. Give exactly one of `over` and `grid`; of that one, numbers left 0 become 1. */
struct sluice_launch {
    uint32_t size;
    uint32_t over[3];  /* at least this many threads, in whole blocks: kernels check their index */
    uint32_t grid[3];  /* this many blocks */
    uint32_t block[3]; /* threads of a block; 0: 256, or 32 x 8 in two or three dimensions; fewer if `over` is less */
    uint32_t shared;   /* bytes of dynamic shared memory of each block */
};

enum sluice_argument_kind {
    SLUICE_ARGUMENT_BYTES = 1,   /* `bytes` bytes at `data`, as the parameter has them: a struct, or a number */
    SLUICE_ARGUMENT_INTEGER = 2, /* `integer`, for any parameter that is a number */
    SLUICE_ARGUMENT_REAL = 3,    /* `real`, for a parameter that is a floating-point number */
    SLUICE_ARGUMENT_MEMORY = 4,  /* memory of the kernel's device at `data` */
    SLUICE_ARGUMENT_ARRAY = 5,   /* an array on the kernel's device: a const struct sluice_array at `data` */
    SLUICE_ARGUMENT_FRAME = 6,   /* the array `name` of the const struct sluice_frame at `data`; NULL: its first */
    SLUICE_ARGUMENT_HOST = 7,    /* host memory: copied to the GPU before the kernel, and back after it */
};

/* What the kernel may do with memory. */
enum sluice_access {
    SLUICE_ACCESS_DEFAULT = 0, /* as the parameter says: `const T *` reads, `T *` reads and writes */
    SLUICE_ACCESS_IN = 1,      /* the memory must not be written */
    SLUICE_ACCESS_OUT = 2,     /* host memory: it is only copied back */
    SLUICE_ACCESS_INOUT = 3,   /* host memory: it is copied both ways */
};

struct sluice_argument {
    uint32_t kind;   /* enum sluice_argument_kind */
    uint32_t access; /* enum sluice_access */
    const void *data;
    uint64_t bytes; /* of memory: 0: not known; SLUICE_CHECK=streams then guesses (docs/kernels.md) */
    long long integer;
    double real;
    struct sluice_dtype dtype; /* of memory: the type of its elements, which is checked; 0 bits: it is not */
    uint32_t reserved;
    const char *name;
};

/* Arguments in short: SLUICE_INTEGER(3), SLUICE_REAL(1.5), SLUICE_VALUE(some_struct), SLUICE_MEMORY(pointer),
 * SLUICE_ARRAY(&array), SLUICE_FRAME(&frame, "image"), SLUICE_HOST(pointer, bytes). */
static inline struct sluice_argument sluice_argument_new(uint32_t kind)
{
#ifdef __cplusplus
    struct sluice_argument argument {
    };
#else
    struct sluice_argument argument = { 0 };
#endif
    argument.kind = kind;
    return argument;
}
static inline struct sluice_argument sluice_argument_of(uint32_t kind, const void *data, uint64_t bytes)
{
    struct sluice_argument argument = sluice_argument_new(kind);
    argument.data = data;
    argument.bytes = bytes;
    return argument;
}
static inline struct sluice_argument sluice_argument_integer(long long integer)
{
    struct sluice_argument argument = sluice_argument_new(SLUICE_ARGUMENT_INTEGER);
    argument.integer = integer;
    return argument;
}
static inline struct sluice_argument sluice_argument_real(double real)
{
    struct sluice_argument argument = sluice_argument_new(SLUICE_ARGUMENT_REAL);
    argument.real = real;
    return argument;
}
static inline struct sluice_argument sluice_argument_frame(const struct sluice_frame *frame, const char *name)
{
    struct sluice_argument argument = sluice_argument_of(SLUICE_ARGUMENT_FRAME, frame, 0);
    argument.name = name;
    return argument;
}
#define SLUICE_INTEGER(value)      sluice_argument_integer(value)
#define SLUICE_REAL(value)         sluice_argument_real(value)
#define SLUICE_VALUE(variable)     sluice_argument_of(SLUICE_ARGUMENT_BYTES, &(variable), sizeof(variable))
#define SLUICE_MEMORY(pointer)     sluice_argument_of(SLUICE_ARGUMENT_MEMORY, (pointer), 0)
#define SLUICE_ARRAY(array)        sluice_argument_of(SLUICE_ARGUMENT_ARRAY, (array), 0)
#define SLUICE_FRAME(frame, name)  sluice_argument_frame((frame), (name))
#define SLUICE_HOST(memory, bytes) sluice_argument_of(SLUICE_ARGUMENT_HOST, (memory), (bytes))

/* Queues a kernel on a stream of its device; on host it has run when the call returns. The call copies numbers and
 * pointers. It first checks everything: handles, the number of arguments, the type of each, whether the kernel may
 * write the memory. If something does not fit, nothing is queued. A launch counts as a use of its frames on that
 * stream, as sluice_frame_used_on does.
 *
 * Host arrays are copied on the launch's stream; on host the kernel uses them in place. If all of them are pinned
 * (sluice_device_host_alloc), the call returns at once, and they are ready when the stream has done this work. Else the
 * call waits for that stream, and they are ready when it returns. Two host arrays must be the same memory, or not
 * overlap.
 * Thread: any. Blocks: for host arrays that are not pinned, until the stream has done its work.
 * Returns: 0; SLUICE_E_INVALID for a stream, shape or argument that does not fit, and for read-only memory that the
 * kernel may write; SLUICE_E_LIMIT for a number that is too large for the parameter's type, and for more threads or
 * shared memory than the device has; SLUICE_E_WRONG_DEVICE for a stream or frame of another device;
 * SLUICE_E_CAPTURING for host arrays on a stream that captures; SLUICE_E_ORDER under SLUICE_CHECK=streams;
 * SLUICE_E_DRIVER. */
SLUICE_API int sluice_launch(struct sluice_kernel kernel, struct sluice_stream stream,
                             const struct sluice_launch *launch, const struct sluice_argument *arguments,
                             uint32_t count);

/* ---- scratch memory ---- */

/* Allocates memory of the device for work that is queued on `stream` from now on. Other streams must wait for `stream`
 * before they use it. It is not initialised.
 * Owns: the caller, until sluice_memory_free; it ends with the device.
 * Thread: any.
 * Returns: 0; SLUICE_E_INVALID for 0 bytes; SLUICE_E_NO_MEMORY; SLUICE_E_CAPTURING; SLUICE_E_WRONG_DEVICE. */
SLUICE_API int sluice_memory_alloc(struct sluice_device device, struct sluice_stream stream, size_t bytes,
                                   void **memory);

/* Frees memory of sluice_memory_alloc after the work queued so far on `stream`, and on every stream on which a launch
 * used it. The CPU does not wait. Clears *memory.
 * Thread: any.
 * Returns: 0; SLUICE_E_INVALID for other memory; SLUICE_E_CAPTURING; SLUICE_E_WRONG_DEVICE. */
SLUICE_API int sluice_memory_free(struct sluice_stream stream, void **memory);

#ifdef __cplusplus
}
#endif
#endif
