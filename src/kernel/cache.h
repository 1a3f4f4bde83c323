/* SPDX-License-Identifier: MIT
 *
 * The cache of compiled code, for its own files and its tests. kernel.h has what other files use.
 */
#ifndef SL_KERNEL_CACHE_H
#define SL_KERNEL_CACHE_H

#include "kernel/kernel.h"

#define SL_CACHE_ENTRIES 512 /* at most */

/* Makes a code of an entry's bytes. They may be anything: false if they are not a valid entry for this key. */
bool sl_cache_read(const struct sl_source *source, const void *key, size_t key_size, const void *entry, size_t size,
                   struct sl_code *code);

/* Writes the magic and the checksum into an entry of at least 32 bytes. */
void sl_cache_seal(void *entry, size_t size);

/* Removes the oldest entries if there are too many, and files that killed processes have left. */
void sl_cache_trim(int dir);

/* ---- includes.c ---- */

/* A line for each file that a source includes; it changes when the file changes. The caller frees the text.
 * <sluice.cuh> and the compiler's own headers belong to the compiler's version. NULL if a macro names a file, or there
 * is no memory. */
char *sl_source_includes(const struct sl_source *source);

#endif
