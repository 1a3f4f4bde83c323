/* SPDX-License-Identifier: MIT
 *
 * The jobs of gpu-limit.
 */
#ifndef BENCH_GPU_LIMIT_H
#define BENCH_GPU_LIMIT_H

#include <stdint.h>

struct cu_stream;

void limit_driver(int index);
void limit_handoff(int index);
void limit_events(int index);
void limit_fetch(int index);
void limit_pipeline(int index);
void limit_far(int index);
void limit_parked(int index);
void limit_sleeping(int index);

/* limit_copies.c */
void limit_copies(int index);

/* limit_kernels.c */
void limit_launch(int index);
void limit_kernel_graph(int index);
void limit_recapture(int index);
void limit_staged(int index);
void limit_fork(int index);
void limit_load(int index);

/* What NVRTC makes of a source with this extern "C" kernel for GPU 0: a cubin, to be freed. SLUICE_NVRTC names NVRTC,
 * else it is where the system looks for libraries. */
void *nvrtc_cubin(const char *text, const char *kernel);

/* limit_graph.c: a copy of a frame and the word after it, as job->graph says. */
void graph_open(uint64_t to, uint64_t from, uint64_t word);
void graph_launch(struct cu_stream *stream, uint64_t value);
void graph_launch_alone(struct cu_stream *stream); /* the copy without a word */
void graph_close(void);

#endif
