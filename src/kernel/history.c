/* SPDX-License-Identifier: MIT
 *
 * What launches did with memory (SLUICE_CHECK=streams): which bytes they used, how, and when.
 */
#include <stdio.h>
#include <string.h>

#include "kernel/check.h"

struct past {
    struct sl_use use;
    struct sl_moment moment;
    uint64_t stream; /* its handle at that time */
    uint64_t number; /* the launch's; 0: not a launch */
    char text[SL_HISTORY_TEXT];
};

static struct past pasts[SL_HISTORY_USES]; /* oldest first; order.c's lock guards it */
static uint32_t count;
static uint64_t numbers;

/* ---- ranges ---- */

/* Rows with the same pitch may not overlap: the left and the right half of a picture. */
static bool overlaps(const struct sl_range *a, const struct sl_range *b)
{
    if (a->begin >= b->end || b->begin >= a->end)
        return false;
    if (a->pitch == 0 || a->pitch != b->pitch)
        return true;
    uint64_t ahead = a->begin <= b->begin ? (b->begin - a->begin) % a->pitch
                                          : (a->pitch - (a->begin - b->begin) % a->pitch) % a->pitch;
    return ahead < a->row || ahead + b->row > a->pitch;
}

static bool covers(const struct sl_range *a, const struct sl_range *b)
{
    if (a->begin > b->begin || a->end < b->end)
        return false;
    return a->pitch == 0 || (a->begin == b->begin && a->pitch == b->pitch && a->row >= b->row);
}

/* ---- what is kept ---- */

static void keep(bool (*keeps)(const struct past *past, const void *argument), const void *argument)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < count; i++) {
        if (!keeps(&pasts[i], argument))
            continue;
        if (kept != i)
            pasts[kept] = pasts[i];
        kept++;
    }
    count = kept;
}

static bool is_elsewhere(const struct past *past, const void *range)
{
    return !overlaps(&past->use.range, range);
}

static bool is_of_another(const struct past *past, const void *number)
{
    return past->number != *(const uint64_t *)number;
}

/* Does it still matter, given a new use that is ordered after it? */
static bool says_more(const struct past *past, const void *argument)
{
    const struct past *new = argument;

    if (!covers(&new->use.range, &past->use.range))
        return true;
    return !new->use.writes && (past->use.writes || past->moment.at != new->moment.at);
}

static void add(const struct past *new)
{
    keep(says_more, new);
    if (count == SL_HISTORY_USES) { /* the oldest eighth */
        count -= SL_HISTORY_USES / 8;
        memmove(pasts, pasts + SL_HISTORY_USES / 8, count * sizeof *pasts);
    }
    pasts[count++] = *new;
}

/* ---- launches ---- */

static const struct past *find(const struct sl_use *use, struct sl_moment now)
{
    for (const struct past *p = pasts; p < pasts + count; p++)
        if ((use->writes || p->use.writes) && overlaps(&use->range, &p->use.range) &&
            !sl_order_is_behind(now, p->moment))
            return p;
    return NULL;
}

bool sl_history_add(const struct sl_place *place, const char *kernel, const struct sl_use *uses, uint32_t use_count,
                    uint64_t *number, struct sl_conflict *conflict)
{
    const struct past *earlier = NULL;

    sl_order_lock();
    struct past new = { .moment = sl_order_now(place), .stream = place->stream, .number = ++numbers };
    *number = new.number;
    for (uint32_t i = 0; i < use_count && !earlier; i++) {
        earlier = find(&uses[i], new.moment);
        conflict->use = i;
    }
    for (uint32_t i = 0; i < use_count && !earlier; i++) {
        new.use = uses[i];
        snprintf(new.text, sizeof new.text, "kernel '%.80s' may still %s it", kernel,
                 uses[i].writes ? "write" : "read");
        add(&new);
    }
    if (earlier) {
        conflict->stream = earlier->stream;
        memcpy(conflict->earlier, earlier->text, sizeof earlier->text);
    }
    sl_order_unlock();
    return earlier == NULL;
}

void sl_history_undo(uint64_t number)
{
    sl_order_lock();
    keep(is_of_another, &number);
    sl_order_unlock();
}

void sl_history_begin(const void *memory, uint64_t bytes, struct sluice_stream handle, const char *text)
{
    struct past new = { .use = { .range = { (uintptr_t)memory, (uintptr_t)memory + bytes, 0, 0 }, .writes = true },
                        .stream = handle.id };
    struct sl_object *object = sl_object_find(handle.id, SL_HANDLE_STREAM);
    struct sl_place place = { .captures = true };

    if (object) {
        sl_order_place((struct sl_stream *)object, &place);
        sl_object_drop(object);
    }
    sl_order_lock();
    keep(is_elsewhere, &new.use.range);
    if (!place.captures) {
        new.moment = sl_order_now(&place);
        snprintf(new.text, sizeof new.text, "%s", text);
        add(&new);
    }
    sl_order_unlock();
}
