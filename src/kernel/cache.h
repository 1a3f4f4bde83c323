/* SPDX-License-Identifier: MIT
 *
 * Between the files of the cache of compiled code, and for its tests. kernel.h has what others use.
 */
#ifndef SL_KERNEL_CACHE_H
#define SL_KERNEL_CACHE_H

#include "kernel/kernel.h"

#define SL_CACHE_ENTRIES 512 /* at most */

/* Makes a code of an entry's bytes, which may be anything. False if they are no valid entry of this key. */
bool sl_cache_read(const struct sl_source *source, const void *key, size_t key_size, const void *entry, size_t size,
                   struct sl_code *code);

/* Makes the magic and the checksum of an entry's bytes, at least 56, right. */
void sl_cache_seal(void *entry, size_t size);

/* Removes what is too much, and what killed processes have left. */
void sl_cache_trim(int dir);

/* ---- includes.c ---- */

/* A line for each file that a source includes, with what changes when the file does; to be freed. <sluice.cuh> and what
 * a compiler has itself belong to the compiler's version. NULL: they are not known, as a macro names one; or no memory.
 */
char *sl_source_includes(const struct sl_source *source);

#endif
