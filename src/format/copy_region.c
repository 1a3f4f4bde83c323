/* SPDX-License-Identifier: MIT
 *
 * Copies as runs of bytes: merging them, cutting them into pieces, and splitting a copy through a
 * buffer.
 */
#include "format/copy_region.h"

void sl_part_repeat(struct sl_copy_part *part, int64_t count, int64_t to, int64_t from)
{
    struct sl_copy_step *last = part->depth ? &part->steps[part->depth - 1] : NULL;

    if (count == 1)
        return;
    if (!last && to == (int64_t)part->run && from == (int64_t)part->run)
        part->run *= (uint64_t)count;
    else if (last && to == last->to * last->count && from == last->from * last->count)
        last->count *= count;
    else
        part->steps[part->depth++] = (struct sl_copy_step){ count, to, from };
}

uint64_t sl_part_bytes(const struct sl_copy_part *part)
{
    uint64_t bytes = part->run;

    for (int d = 0; d < part->depth; d++)
        bytes *= (uint64_t)part->steps[d].count;
    return bytes;
}

void sl_part_halve(const struct sl_copy_part *part, char *middle, struct sl_copy_part *in, struct sl_copy_part *out)
{
    int64_t side_by_side = (int64_t)part->run;

    in->to = middle;
    in->from = part->from;
    out->to = part->to;
    out->from = middle;
    in->run = out->run = part->run;
    in->depth = out->depth = 0;
    for (int d = 0; d < part->depth; d++) {
        const struct sl_copy_step *step = &part->steps[d];
        sl_part_repeat(in, step->count, side_by_side, step->from);
        sl_part_repeat(out, step->count, step->to, side_by_side);
        side_by_side *= step->count;
    }
}

static int64_t least(uint64_t a, int64_t b)
{
    return a < (uint64_t)b ? (int64_t)a : b;
}

static int each_of_run(const struct sl_copy_part *part, uint64_t room,
                       int (*piece)(void *, const struct sl_copy_part *), void *user)
{
    struct sl_copy_part some = { .depth = 0 };
    int r = 0;

    for (uint64_t at = 0; at < part->run && r == 0; at += some.run) {
        some.to = part->to + at;
        some.from = part->from + at;
        some.run = part->run - at < room ? part->run - at : room;
        r = piece(user, &some);
    }
    return r;
}

/* Cuts along the outermost dimension first, and cuts what is still too large along the next. */
int sl_part_each(const struct sl_copy_part *part, uint64_t room, int (*piece)(void *, const struct sl_copy_part *),
                 void *user)
{
    uint64_t bytes = sl_part_bytes(part);
    struct sl_copy_part some = *part;
    int r = 0;

    if (bytes == 0)
        return 0;
    if (bytes <= room)
        return piece(user, part);
    if (part->depth == 0)
        return each_of_run(part, room, piece, user);
    const struct sl_copy_step *outer = &part->steps[part->depth - 1];
    uint64_t one = bytes / (uint64_t)outer->count;
    int64_t count;
    for (int64_t at = 0; at < outer->count && r == 0; at += count) {
        count = one <= room ? least(room / one, outer->count - at) : 1;
        some.to = part->to + at * outer->to;
        some.from = part->from + at * outer->from;
        some.steps[part->depth - 1].count = count;
        some.depth = count > 1 ? part->depth : part->depth - 1;
        r = sl_part_each(&some, room, piece, user);
    }
    return r;
}
