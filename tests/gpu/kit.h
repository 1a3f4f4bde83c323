/* SPDX-License-Identifier: MIT
 *
 * For tests of what a GPU does. Each runs twice: on the fake driver (suite fake, everywhere) and on a GPU (suite gpu),
 * where it is skipped if there is none. In both, the test is the rest of the program, and calls the driver by `cu` as
 * it likes.
 */
#ifndef GPU_KIT_H
#define GPU_KIT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <sluice/device.h>

#include "gpu/extra_functions.h"
#include "harness/test.h"

struct gpu_driver {
#define GPU_MEMBER(name, version, parameters, arguments) int(*name) parameters;
    SL_CUDA_FUNCTIONS(GPU_MEMBER)
    EXTRA_FUNCTIONS(GPU_MEMBER)
#undef GPU_MEMBER
};
extern struct gpu_driver cu;

/* The first call of every test: skips it if there is no GPU. */
void gpu_begin(void);

/* The same for tests that need several GPUs. */
void gpu_begin_with(int devices);

/* Called once there are enough GPUs, except on the fake driver (warm_up.c); NULL in programs without it. */
extern void (*gpu_warm_up)(void);

/* True if there is a driver; `cu` then has its functions. */
bool gpu_load(void);
bool gpu_is_fake(void);

/* The driver must return 0. */
#define CU(name, ...) gpu_check(__FILE__, __LINE__, "cu" #name, cu.name(__VA_ARGS__))
void gpu_check(const char *file, int line, const char *function, int code);

/* Makes the primary context of a GPU current on this thread, as the CUDA runtime does. It is kept until gpu_end. */
struct sl_cu_context *gpu_use(int device);
void gpu_end(void);

/* A stream as another library would make it. */
struct sl_cu_stream *gpu_stream(unsigned flags);

/* All of the above for a test with one stream on GPU 0; its kernels are loaded. */
struct sl_cu_stream *gpu_begin_on_stream(int devices);
void gpu_end_on_stream(struct sl_cu_stream *stream);

/* Opens "cuda:0". */
struct sluice_device gpu_open(void);
struct sl_cu_stream *gpu_native(struct sluice_stream stream);

/* The file for facts about the driver, as JSON lines: SLUICE_GPU_FACTS, if set (gpu-check reads it). */
FILE *gpu_facts(void);

/* Waits until no thread of the library's is about to free something in this process, or to register a reader's page
 * with the GPU. Only a close waits for that, for a limited time. Call it before resources are counted, and before
 * frames are to be taken ahead of their writer. */
void gpu_settle(void);

/* GPU work. Kernels are loaded on the first use of a context; the benchmarks use the same ones. */
extern const char gpu_kernels[];
void gpu_spin(struct sl_cu_stream *stream, int64_t ns);
void gpu_fill(struct sl_cu_stream *stream, uint64_t words, uint64_t count, uint32_t value);
void gpu_store(struct sl_cu_stream *stream, uint64_t word, uint64_t value);
uint64_t gpu_memory(size_t bytes); /* until gpu_end */

/* After the stream's work, adds to the word at `bad` how many words differ from `value`. */
void gpu_compare(struct sl_cu_stream *stream, uint64_t words, uint64_t count, uint32_t value, uint64_t bad);

/* After the stream's work, copies and counts the words that differ from `value`; waits. */
uint64_t gpu_differ(struct sl_cu_stream *stream, uint64_t words, uint64_t count, uint32_t value);

/* Work that is queued on a stream behind a gate waits until the gate is opened, however slow the machine is. */
struct gpu_gate {
    _Atomic uint64_t *word; /* in pinned memory, opened by a CPU, as waiting streams hold up others */
    uint64_t turn;
    bool words; /* a stream waits for it; else a host function does */
    pthread_t thread;
    atomic_bool open;
};
struct gpu_gate gpu_gate_new(void);
void gpu_gate_close(struct gpu_gate *gate, struct sl_cu_stream *stream);
void gpu_gate_open(struct gpu_gate *gate);
void gpu_gate_open_later(struct gpu_gate *gate); /* by a thread, in a moment */
void gpu_gate_join(struct gpu_gate *gate);       /* ends that thread; it must have opened the gate already */
void gpu_gate_end(struct gpu_gate *gate);

/* The time of a spin that must be noticed, and a time that is too short to include one. */
#define SPIN ((int64_t)(60 * SLUICE_MS * test_slowness()))
#define SOON (SPIN / 3)

#endif
