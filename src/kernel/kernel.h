/* SPDX-License-Identifier: MIT
 *
 * Internals of modules and kernels, and the table of functions that each kind of device provides. kernel.c is the one
 * file that lists the kinds.
 */
#ifndef SL_KERNEL_KERNEL_H
#define SL_KERNEL_KERNEL_H

#include <stdbool.h>

#include <sluice/kernel.h>

#include "device/device.h"
#include "util/atomic.h"

/* ---- source.c: what to compile ---- */

struct sl_source {
    const char *name; /* "fx.cu" */
    const char *text;
    size_t bytes;
    const char *const *options;
    uint32_t option_count;
    const char *const *kernels; /* as C++ names them: "blur", "fx::blur", "scale<float>" */
    uint32_t kernel_count;
};

/* Finds the __global__ functions of a text that are not templates. Skips comments, strings and directives of the
 * preprocessor. The names are one block, which the caller frees. Returns SLUICE_E_NO_MEMORY, or SLUICE_E_INVALID if
 * there are none. */
int sl_source_kernels(const char *name, const char *text, size_t bytes, const char *const **kernels, uint32_t *count);

/* ---- options.c ---- */

/* Reads the option *at, and its value, which may be the next word: 'D' and 'U' for a macro, 'I' for a folder of
 * headers, 'i' for a file that is included before the source; 0 for any other. The long names are NVRTC's. */
char sl_source_option(const struct sl_source *source, uint32_t *at, const char **value);

/* ---- description.c: what the compiler says about the kernels ---- */

struct sl_description {
    const char *name;   /* as it is in the source's list */
    const char *symbol; /* its symbol in the compiled code */
    uint32_t count;
    const struct sluice_parameter *parameters;
};

/* A compiler's result, all in one block, `block`. */
struct sl_code {
    void *block;
    const void *bytes; /* a cubin, PTX, or a shared object */
    size_t size;
    const char *log; /* the compiler's output */
    uint32_t kernel_count;
    const struct sl_description *kernels;
};
void sl_code_free(struct sl_code *code);

/* Makes a code of its parts. symbols[k]: that of source->kernels[k]; "": it has been left out. The parameters are read
 * from the compiled bytes: each kernel's description is found there by its mark. SLUICE_E_LIMIT for too many
 * parameters; SLUICE_E_COMPILE if a description is missing. */
int sl_code_make(const struct sl_source *source, const void *bytes, size_t size, const char *const *symbols,
                 const char *log, struct sl_code *code);

/* The C++ text to append to a source, so that the compiled bytes describe its kernels: the template, and
 * `each` of them as a line of SL_KERNEL_LINE, e.g. "SL_DESCRIBE(%u, %s)\n" with the kernel's number and name. One
 * block, to be freed; NULL if there is no memory. */
char *sl_description_text(const struct sl_source *source, const char *each);

/* "unsigned char *", "const float *", "int", "sluice_in"; for messages. */
#define SL_TYPE_NAME 64
const char *sl_parameter_type(const struct sluice_parameter *parameter, char text[SL_TYPE_NAME]);

/* ---- unknown.c: kernels that the preprocessor leaves out ---- */

#define SL_KERNEL_LINE "<kernel %u>" /* the file of a kernel's description, in a compiler's messages */

/* By the log of a compilation whose errors are all in descriptions: does the compiler not know some of the kernels?
 * Then names the first in the message. */
bool sl_unknown_kernels(const struct sl_source *source, const char *log);

/* Takes those of this thread's log out of source->kernels, which is `kernels`. False if there are none, or if none
 * would stay: then with a message for SLUICE_E_INVALID. */
bool sl_unknown_leave_out(struct sl_source *source, const char **kernels);

/* ---- cache.c: compiled code on disk ---- */

/* `compiler` is everything that decides the result besides the source: the compiler's name and version, the
 * architecture, our own release. find returns false if there is no entry. store never fails; it may do nothing. */
bool sl_cache_find(const struct sl_source *source, const char *compiler, struct sl_code *code);
void sl_cache_store(const struct sl_source *source, const char *compiler, const struct sl_code *code);

/* Gives the cache's path and returns 0, or SLUICE_NOT_READY if it is not used: the message says why. */
int sl_cache_folder(char *path, size_t size);

/* ---- modules and kernels ---- */

#define SL_MODULE_NAME 64

struct sl_module {
    struct sl_object object;
    char name[SL_MODULE_NAME];
    struct sl_code code;       /* of PTX and binaries: no descriptions */
    void *native;              /* the kind's; NULL: not loaded */
    struct sl_kernel *kernels; /* the kernels that were asked for; the device's lock guards the list */
};

struct sl_kernel {
    struct sl_object object;
    struct sl_module *module; /* a reference */
    struct sl_kernel *next;   /* of the module's */
    char *name;
    void *native; /* the kind's */
    uint32_t most_threads, most_shared, registers, shared, local;
    uint32_t count;                            /* of parameters; UINT32_MAX: not known */
    const struct sluice_parameter *parameters; /* the module's, or `own` */
    struct sluice_parameter *own;
};

/* A picture as kernels see it: sluice_in and sluice_out of <sluice.cuh>. */
struct sl_picture {
    void *planes[3];
    int64_t pitches[3]; /* bytes from one row to the next; negative if the rows lie bottom-up */
    int32_t width, height;
    uint32_t format;   /* enum sluice_pixel_format */
    uint32_t reserved; /* of sl_colour_word in convert/pixels.cuh */
};

/* `array` is an image. */
void sl_picture_of(const struct sluice_array *array, struct sl_picture *picture);

/* A launch with checked arguments. values[i] points to the i-th argument's bytes. */
struct sl_call {
    struct sl_kernel *kernel;
    uint32_t grid[3], block[3], shared;
    uint32_t count;
    void *values[SLUICE_MAX_PARAMETERS];
};

struct sl_kernel_ops {
    const char *kind; /* of device: "host" */

    /* Finds the compiler for this device. Gives, in one line, everything besides the source that decides its result.
     * `size` is SL_COMPILER. Returns SLUICE_E_UNSUPPORTED if there is none: the message says what to install. */
    int (*compiler)(struct sl_device *device, char *text, size_t size);
    /* Names the compiler in words for people, without a device. SLUICE_E_UNSUPPORTED as above. */
    int (*compiler_name)(char *text, size_t size);
    /* SLUICE_E_COMPILE with the first error as the message; SLUICE_E_INVALID for kernels that it does not know. */
    int (*compile)(struct sl_device *device, const struct sl_source *source, struct sl_code *code);

    /* Loads module->code into the device and sets ->native. Invalidates no capture. */
    int (*load)(struct sl_module *module);
    void (*unload)(struct sl_module *module); /* queued launches still run; does not wait */
    /* Finds and loads a function by its symbol: sets ->native and the numbers. SLUICE_E_NOT_FOUND without a message. */
    int (*get)(struct sl_kernel *kernel, const char *symbol);
    /* For PTX and binaries: fills in the `bytes` of up to SLUICE_MAX_PARAMETERS parameters. SLUICE_NOT_READY if the
     * driver cannot say. */
    int (*parameters)(struct sl_kernel *kernel, struct sluice_parameter *parameters, uint32_t *count);

    int (*launch)(const struct sl_call *call, struct sl_stream *stream);

    /* Scratch memory, in the order of the stream. free with `stream` NULL: all work is done. */
    int (*memory_alloc)(struct sl_stream *stream, size_t bytes, void **memory);
    int (*memory_free)(struct sl_device *device, struct sl_stream *stream, void *memory);

    /* Copy from and to host memory on a stream. NULL on host, where kernels use it in place. copy_out waits for the
     * stream if the memory is not pinned. */
    bool (*is_pinned)(struct sl_device *device, const void *memory, size_t bytes);
    int (*copy_in)(struct sl_stream *stream, void *to, const void *from, size_t bytes);
    int (*copy_out)(struct sl_stream *stream, void *to, const void *from, size_t bytes);
};

#define SL_COMPILER      512
#define SL_COMPILER_NAME 4608 /* room for a path */

extern const struct sl_kernel_ops sl_kernel_host;
extern const struct sl_kernel_ops sl_kernel_cuda;

/* The kind for a device. */
const struct sl_kernel_ops *sl_kernel_kind(const struct sl_device *device);

/* Sets this thread's log, of which it takes a copy. The compile functions call it. */
void sl_compile_log_set(const char *text);
const char *sl_compile_log_text(void);

/* ---- host_threads.c ---- */

/* Runs function(argument, first, last) for ranges that cover 0 to count - 1, and returns when all have run. It uses
 * this thread and others: one for each CPU that the process may use, or SLUICE_HOST_THREADS in all. `unit`: the
 * smallest range that is worth another thread. */
void sl_host_run(uint64_t count, uint64_t unit, void (*function)(void *argument, uint64_t first, uint64_t last),
                 void *argument);

/* ---- behind the public calls of sluice/kernel.h, which checks their pointers ---- */

int sl_module_load(struct sluice_device device, const void *image, size_t bytes,
                   const struct sluice_module_params *params, struct sluice_module *module);
int sl_module_unload(struct sluice_module *module);
int sl_kernel_compiler(const char *kind, char *text, size_t size);
size_t sl_compile_log(char *text, size_t size);
int sl_module_kernel(struct sluice_module module, uint32_t index, char *name, size_t size);
int sl_kernel_get(struct sluice_module module, const char *name, struct sluice_kernel *kernel);
int sl_kernel_info(struct sluice_kernel kernel, struct sluice_kernel_info *info);

/* An argument with its frame or array looked up. */
struct sl_argument {
    const struct sluice_argument *given;
    const struct sluice_array *array; /* of SLUICE_ARGUMENT_ARRAY and _FRAME */
    const char *channel;              /* the frame's; NULL: it is not a frame */
    bool read_only;
};

/* Checks everything and launches. `arguments` are the caller's, looked up. */
int sl_launch(struct sluice_kernel kernel, struct sluice_stream stream, const struct sluice_launch *launch,
              const struct sl_argument *arguments, uint32_t count);

int sl_memory_alloc(struct sluice_device device, struct sluice_stream stream, size_t bytes, void **memory);
int sl_memory_free(struct sluice_stream stream, void **memory);

/* Call it before work on `stream` that uses `memory`: a scratch block that contains it will be freed after that work.
 * Returns SLUICE_E_NO_MEMORY. */
int sl_memory_used(const void *memory, struct sluice_stream stream);

/* Finds the scratch block that contains `memory`; false if there is none. */
bool sl_memory_block(const void *memory, const void **block, uint64_t *bytes);

/* ---- SLUICE_CHECK: for the calls about frames and copies ---- */

enum { SL_CHECK_STREAMS = 1 };
extern sl_word32 sl_checks; /* bits of the above */

static inline bool sl_checks_streams(void)
{
    return (sl_load(&sl_checks, relaxed) & SL_CHECK_STREAMS) != 0;
}

/* Reads the environment, once. */
void sl_check_start(void);

/* A conversion counts as a launch that reads `from` and writes `to`. Returns SLUICE_E_ORDER if nothing orders it after
 * an earlier one; else queue it, and pass *number and the result to sl_check_converted. */
int sl_check_convert(struct sl_stream *stream, const struct sluice_array *to, const struct sluice_array *from,
                     uint64_t *number);
void sl_check_converted(uint64_t number, int result);

/* Work is handed over from one stream to another: by a commit and an acquire, by a release or cancel and a begin, by a
 * copy and a wait for its ticket. hand_over: the work queued on `stream` so far. take_over: later work on `stream`, or
 * all later work for SLUICE_ON_CPU, runs after it. `channel`: NULL for copies. */
enum sl_hand_over { SL_HAND_COMMIT, SL_HAND_RELEASE, SL_HAND_COPY };
void sl_check_hand_over(enum sl_hand_over how, const char *channel, struct sluice_stream stream);
void sl_check_take_over(enum sl_hand_over how, const char *channel, struct sluice_stream stream);

/* A frame begins in this slot. Others must wait for the stream `behind` to use it, unless that is SLUICE_ON_CPU.
 */
void sl_check_slot(const void *slot, uint64_t bytes, struct sluice_stream behind);

/* Its frame is given back; NULL: a channel is closed, and all frames count as given back. */
void sl_check_slot_over(const void *slot);

#endif
