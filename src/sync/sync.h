/* SPDX-License-Identifier: MIT
 *
 * How a word of a timeline is raised behind work: at once on `host`, by a queued write on a GPU. A kind
 * is one file with one table; sync.c is the only file that knows them all.
 */
#ifndef SL_SYNC_H
#define SL_SYNC_H

#include <sluice/device.h>

#include "util/atomic.h"

struct sl_sync_ops {
    const char *device; /* "host" */
    /* Stores `value` into a word that others wait on, behind the work queued on `stream`: everything
     * written before is visible to whoever sees it. Does nothing on failure. */
    int (*signal)(struct sluice_stream stream, sl_word *word, uint64_t value);
    /* Once, before signalling work that the CPU did: makes streaming stores visible too. */
    void (*settle)(void);
};

const struct sl_sync_ops *sl_sync_of_device(const char *device);

/* What a frame whose writer will never finish it holds in `ready`. */
#define SL_POISON (UINT64_C(1) << 62)

/* Has a timeline reached `value`? Compared as a GPU compares, cyclically; a poisoned word has not. */
static inline int sl_reached(uint64_t word, uint64_t value)
{
    return word != SL_POISON && (int64_t)(word - value) >= 0;
}

#endif
