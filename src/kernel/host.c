/* SPDX-License-Identifier: MIT
 *
 * Kernels on "host": compiled code is a library, and a launch runs its blocks on all cores before it returns.
 */
#include <stdlib.h>
#include <string.h>

#include "kernel/host_module.h"
#include "os/os.h"
#include "util/result.h"

#define MOST_THREADS 1024
#define MOST_SHARED  (227u << 10) /* as today's largest GPUs have */
#define ALIGNMENT    128
#define UNIT         1024 /* so many threads of a launch make another core worthwhile */

/* The coroutines of one range of blocks and their stacks, kept for the next range. */
struct fibers {
    struct fibers *next;
    void *memory;
};

struct host_module {
    void *library;
    uint64_t fibers_size; /* 0: it has no barriers */
    sl_mutex lock;        /* guards the list */
    struct fibers *free;
};

/* ---- modules ---- */

static int load(struct sl_module *module)
{
    struct host_module *host;

    if (module->code.kernel_count == 0)
        return sl_fail(SLUICE_E_UNSUPPORTED,
                       "%s: PTX and binaries run on GPUs only; on \"host\" load the source of the kernels",
                       module->name);
    if (!(host = calloc(1, sizeof *host)))
        return sl_fail(SLUICE_E_NO_MEMORY, "no memory to load %s", module->name);
    int r = sl_os_dl_load("sluice kernels", module->code.bytes, module->code.size, &host->library);
    if (r != 0) {
        free(host);
        return r;
    }
    const uint64_t *size = sl_os_dl_symbol(host->library, SL_HOST_FIBERS);
    host->fibers_size = size ? *size : 0;
    sl_mutex_init(&host->lock);
    module->native = host;
    return 0;
}

/* The last reference is gone, so no launch is running: a launch holds its kernel, and a kernel its module. */
static void unload(struct sl_module *module)
{
    struct host_module *host = module->native;

    while (host->free) {
        struct fibers *fibers = host->free;
        host->free = fibers->next;
        sl_os_unmap(fibers->memory, host->fibers_size);
        free(fibers);
    }
    sl_mutex_finish(&host->lock);
    sl_os_dl_close(host->library);
    free(host);
    module->native = NULL;
}

static int get(struct sl_kernel *kernel, const char *symbol)
{
    const struct host_module *host = kernel->module->native;

    if (!(kernel->native = sl_os_dl_symbol(host->library, symbol)))
        return SLUICE_E_NOT_FOUND;
    kernel->most_threads = MOST_THREADS;
    kernel->most_shared = MOST_SHARED;
    return 0;
}

static int parameters(struct sl_kernel *kernel, struct sluice_parameter *list, uint32_t *count)
{
    (void)kernel;
    (void)list;
    (void)count;
    return SLUICE_NOT_READY; /* each kernel here was compiled, and described */
}

/* ---- launches ---- */

static struct fibers *make_fibers(const struct host_module *host)
{
    struct fibers *fibers = malloc(sizeof *fibers);

    if (fibers && sl_os_reserve(host->fibers_size, &fibers->memory) == 0)
        return fibers;
    free(fibers);
    return NULL;
}

static struct fibers *take_fibers(struct host_module *host)
{
    sl_mutex_lock(&host->lock);
    struct fibers *fibers = host->free;
    if (fibers)
        host->free = fibers->next;
    sl_mutex_unlock(&host->lock);
    return fibers ? fibers : make_fibers(host);
}

static void give_fibers(struct host_module *host, struct fibers *fibers)
{
    sl_mutex_lock(&host->lock);
    fibers->next = host->free;
    host->free = fibers;
    sl_mutex_unlock(&host->lock);
}

struct run {
    struct host_module *host;
    sl_host_function *function;
    struct sl_host_job job;
    uint32_t shared;
    sl_word32 no_memory;
    sl_word lines; /* the lines of two barriers at which threads of one block wait, as in sl_host_job */
};

static void run_with_memory(struct run *run, struct sl_host_job *job)
{
    struct fibers *fibers = NULL;

    if (run->host->fibers_size > 0) {
        if (!(fibers = take_fibers(run->host))) {
            sl_store(&run->no_memory, 1, relaxed);
            return;
        }
        job->fibers = fibers->memory;
    }
    run->function(job);
    if (fibers)
        give_fibers(run->host, fibers);
    if (job->lines[1])
        sl_store(&run->lines, (uint64_t)job->lines[1] << 32 | job->lines[0], relaxed);
}

static void run_range(void *argument, uint64_t first, uint64_t last)
{
    struct run *run = argument;
    struct sl_host_job job = run->job;

    job.first = first;
    job.last = last;
    if (run->shared > 0) {
        size_t size = (run->shared + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        if (!(job.shared = sl_os_aligned_alloc(ALIGNMENT, size))) {
            sl_store(&run->no_memory, 1, relaxed);
            return;
        }
    }
    run_with_memory(run, &job);
    sl_os_aligned_free(job.shared);
}

/* True if SLUICE_CHECK is set to anything: comparing two numbers costs nothing then. */
static bool is_checked(void)
{
    static sl_word32 asked; /* 0: not yet; 1: no; 2: yes */
    uint32_t known = sl_load(&asked, relaxed);

    if (known == 0) {
        const char *check = getenv("SLUICE_CHECK");
        known = check && *check ? 2 : 1;
        sl_store(&asked, known, relaxed);
    }
    return known == 2;
}

static int report(const struct sl_call *call, struct run *run)
{
    uint64_t lines = sl_load(&run->lines, relaxed);

    if (sl_load(&run->no_memory, relaxed))
        return sl_fail(SLUICE_E_NO_MEMORY, "kernel '%s' (%s): no memory for the blocks; some of them have not run",
                       call->kernel->name, call->kernel->module->name);
    if (lines)
        return sl_fail(
            SLUICE_E_ORDER,
            "kernel '%s' (%s): some threads of a block wait at the __syncthreads in line %u while others wait "
            "at the one in line %u: all threads must reach the same one",
            call->kernel->name, call->kernel->module->name, (uint32_t)lines, (uint32_t)(lines >> 32));
    return 0;
}

static int run_now(const struct sl_call *call)
{
    struct run run = {
        .host = call->kernel->module->native,
        .job = { .values = call->values, .check = is_checked() },
        .shared = call->shared,
    };
    uint64_t count = (uint64_t)call->grid[0] * call->grid[1] * call->grid[2];
    uint32_t threads = call->block[0] * call->block[1] * call->block[2];

    memcpy(&run.function, &call->kernel->native, sizeof run.function);
    memcpy(run.job.grid, call->grid, sizeof run.job.grid);
    memcpy(run.job.block, call->block, sizeof run.job.block);
    sl_host_run(count, run.host->fibers_size > 0 ? 1 : 1 + UNIT / threads, run_range, &run);
    return report(call, &run);
}

/* ---- launches of graphs ---- */

#define VALUE_ALIGNMENT 16

/* The arguments' bytes follow. */
struct recorded {
    struct sl_call call;
    _Alignas(VALUE_ALIGNMENT) unsigned char bytes[];
};

static int run_recorded(void *data)
{
    return run_now(&((const struct recorded *)data)->call);
}

static void drop_recorded(void *data)
{
    struct recorded *recorded = data;

    sl_object_drop(&recorded->call.kernel->object);
    free(recorded);
}

static size_t bytes_of(const struct sl_call *call, uint32_t i)
{
    return (call->kernel->parameters[i].bytes + VALUE_ALIGNMENT - 1) / VALUE_ALIGNMENT * VALUE_ALIGNMENT;
}

static int record(const struct sl_call *call, struct sl_stream *stream)
{
    size_t bytes = 0, at = 0;

    for (uint32_t i = 0; i < call->count; i++)
        bytes += bytes_of(call, i);
    struct recorded *recorded = malloc(sizeof *recorded + bytes);
    if (!recorded)
        return sl_fail(SLUICE_E_NO_MEMORY, "no memory to record a kernel");
    recorded->call = *call;
    for (uint32_t i = 0; i < call->count; at += bytes_of(call, i++))
        recorded->call.values[i] = memcpy(recorded->bytes + at, call->values[i], call->kernel->parameters[i].bytes);
    sl_object_keep(&call->kernel->object);
    int r = sl_host_capture_add(stream, run_recorded, drop_recorded, recorded);
    if (r != 0)
        drop_recorded(recorded);
    return r;
}

static int launch(const struct sl_call *call, struct sl_stream *stream)
{
    int r = sl_host_captures(stream) ? record(call, stream) : SLUICE_NOT_READY;

    return r == SLUICE_NOT_READY ? run_now(call) : r; /* all work queued on it is done */
}

/* ---- scratch memory ---- */

static int memory_alloc(struct sl_stream *stream, size_t bytes, void **memory)
{
    const size_t unit = 256; /* CUDA's alignment */

    (void)stream;
    if (bytes > SIZE_MAX - unit || !(*memory = sl_os_aligned_alloc(unit, (bytes + unit - 1) / unit * unit)))
        return sl_fail(SLUICE_E_NO_MEMORY, "no memory: %zu bytes were asked for", bytes);
    return 0;
}

static int memory_free(struct sl_device *device, struct sl_stream *stream, void *memory)
{
    (void)device;
    (void)stream;
    sl_os_aligned_free(memory);
    return 0;
}

const struct sl_kernel_ops sl_kernel_host = {
    .kind = "host",
    .compiler = sl_host_compiler,
    .compiler_name = sl_host_compiler_name,
    .compile = sl_host_compile,
    .load = load,
    .unload = unload,
    .get = get,
    .parameters = parameters,
    .launch = launch,
    .memory_alloc = memory_alloc,
    .memory_free = memory_free,
};
