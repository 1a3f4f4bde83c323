/* SPDX-License-Identifier: MIT
 *
 * The content of frames, for peers in C and in Python: written, read and checked at the speed of
 * memory.
 */
#ifndef BENCH_BYTES_H
#define BENCH_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BYTES_API __attribute__((visibility("default")))

/* Writes every byte of a frame. `bytes` is a multiple of 8. */
BYTES_API void bytes_fill(void *frame, size_t bytes, uint64_t sequence);

/* Reads every byte; false if one of them is not what bytes_fill wrote. */
BYTES_API bool bytes_check(const void *frame, size_t bytes, uint64_t sequence);

#endif
