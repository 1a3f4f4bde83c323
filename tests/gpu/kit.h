/* SPDX-License-Identifier: MIT
 *
 * For tests of what a GPU does. Each runs twice: against the fake driver (suite fake, everywhere)
 * and on a GPU (suite gpu), where it skips itself if there is none. In both the test is the rest of
 * the program: by `cu` it calls the driver as it likes.
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
    MORE_FUNCTIONS(GPU_MEMBER)
#undef GPU_MEMBER
};
extern struct gpu_driver cu;

/* First in every test: without a GPU it is skipped. */
void gpu_begin(void);

/* The same for those that need more of them. */
void gpu_begin_with(int devices);

/* What they do once there are enough GPUs, the fake driver's not counted (warm_up.c); NULL in programs without that. */
extern void (*gpu_warm_up)(void);

/* Is there a driver? Then `cu` has its functions. */
bool gpu_load(void);
bool gpu_is_fake(void);

/* The driver's answer must be 0. */
#define CU(name, ...) gpu_check(__FILE__, __LINE__, "cu" #name, cu.name(__VA_ARGS__))
void gpu_check(const char *file, int line, const char *function, int code);

/* Makes the primary context of a GPU the thread's current one, as the CUDA runtime does. It is kept
 * until gpu_end. */
struct sl_cu_context *gpu_use(int device);
void gpu_end(void);

/* A stream as another library would make it. */
struct sl_cu_stream *gpu_stream(unsigned flags);

/* All of the above for a test of one stream on GPU 0, whose kernels are loaded. */
struct sl_cu_stream *gpu_begin_on_stream(int devices);
void gpu_end_on_stream(struct sl_cu_stream *stream);

/* Opens "cuda:0". */
struct sluice_device gpu_open(void);
struct sl_cu_stream *gpu_native(struct sluice_stream stream);

/* Where facts about the driver at hand go, as JSON lines: the file that SLUICE_GPU_FACTS names, if
 * any (tools/gpu-check reads it). */
FILE *gpu_facts(void);

/* Waits until none of the library's own threads is about to free something in this process, or to make a reader's page known to
 * the GPU. A close waits for that, but not for ever; nothing else does. To be called before what they free is counted, and
 * before frames are to be taken ahead of their writer. */
void gpu_settle(void);

/* Work. Kernels are loaded on first use of a context. Their text is the benches', too. */
extern const char gpu_kernels[];
void gpu_spin(struct sl_cu_stream *stream, int64_t ns);
void gpu_fill(struct sl_cu_stream *stream, uint64_t words, uint64_t count, uint32_t value);
void gpu_store(struct sl_cu_stream *stream, uint64_t word, uint64_t value);
uint64_t gpu_memory(size_t bytes); /* until gpu_end */

/* Behind the stream's work adds to the word at `bad` how many words are not `value`. */
void gpu_compare(struct sl_cu_stream *stream, uint64_t words, uint64_t count, uint32_t value,
                 uint64_t bad);

/* Copies behind the stream's work and counts the words that are not `value`; waits. */
uint64_t gpu_differ(struct sl_cu_stream *stream, uint64_t words, uint64_t count, uint32_t value);

/* What is queued on a stream behind a gate waits until that is opened, however slow everybody is. */
struct gpu_gate {
    _Atomic uint64_t *word; /* in pinned memory: streams that wait hold up others, so a CPU opens it */
    uint64_t turn;
    bool words; /* a stream waits for it; else a function in one */
    pthread_t thread;
    atomic_bool open;
};
struct gpu_gate gpu_gate_new(void);
void gpu_gate_close(struct gpu_gate *gate, struct sl_cu_stream *stream);
void gpu_gate_open(struct gpu_gate *gate);
void gpu_gate_open_later(struct gpu_gate *gate); /* by a thread, in a moment */
void gpu_gate_opened(struct gpu_gate *gate);     /* ends that; it must have opened the gate already */
void gpu_gate_end(struct gpu_gate *gate);

/* How long a spin takes that must be noticed, and what counts as none of it. */
#define SPIN ((int64_t)(60 * SLUICE_MS * test_slowness()))
#define SOON (SPIN / 3)

#endif
