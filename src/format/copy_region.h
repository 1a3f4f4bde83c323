/* SPDX-License-Identifier: MIT
 *
 * A copy from one array to another as runs of bytes.
 */
#ifndef SL_FORMAT_COPY_REGION_H
#define SL_FORMAT_COPY_REGION_H

#include <stdint.h>

#include <sluice/format.h>

/* One dimension of a copy. */
struct sl_copy_step {
    int64_t count;
    int64_t to, from; /* strides */
};

/* `run` bytes in one piece, repeated over `depth` dimensions, the innermost first. */
struct sl_copy_part {
    char *to;
    const char *from;
    uint64_t run;
    int depth;
    struct sl_copy_step steps[SLUICE_MAX_DIMS];
};

/* One array: a part, or one for each plane of an image. */
struct sl_copy {
    int count;
    struct sl_copy_part parts[SLUICE_MAX_PLANES];
};

/* Repeats the whole part. If the repetitions are adjacent on both sides, they are merged into one run. */
void sl_part_repeat(struct sl_copy_part *part, int64_t count, int64_t to, int64_t from);

uint64_t sl_part_bytes(const struct sl_copy_part *part);

/* The two halves of a copy through the buffer `middle`, in which its bytes are contiguous. */
void sl_part_halve(const struct sl_copy_part *part, char *middle, struct sl_copy_part *in, struct sl_copy_part *out);

/* Cuts the part into pieces of at most `room` bytes, and calls `piece` for each until one fails. */
int sl_part_each(const struct sl_copy_part *part, uint64_t room,
                 int (*piece)(void *user, const struct sl_copy_part *part), void *user);

/* Copies on the CPU, now. */
void sl_part_run(const struct sl_copy_part *part);

#endif
