/* SPDX-License-Identifier: MIT
 *
 * The jobs of gpu-limit, one file a family.
 */
#ifndef BENCH_GPU_LIMITS_H
#define BENCH_GPU_LIMITS_H

void limit_handoff(int index);
void limit_fetch(int index);
void limit_pipeline(int index);
void limit_far(int index);
void limit_parked(int index);
void limit_sleeping(int index);

#endif
