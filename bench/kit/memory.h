/* SPDX-License-Identifier: MIT
 *
 * Memory for a bench's processes. Both functions return NULL if there is none.
 */
#ifndef BENCH_KIT_MEMORY_H
#define BENCH_KIT_MEMORY_H

#include <stddef.h>

void *memory_shared(size_t bytes); /* with processes that are forked later; zeroed; until munmap */
void *memory_own(size_t bytes);    /* page-aligned and touched; until free */

#endif
