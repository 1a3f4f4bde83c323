/* SPDX-License-Identifier: MIT */
#include "channel/arrays.h"

#include <string.h>

#include "format/format.h"
#include "util/result.h"

static bool is_given(const struct sluice_array *arrays, uint32_t count, const char *name)
{
    for (uint32_t i = 0; i < count; i++)
        if (strncmp(arrays[i].name, name, SLUICE_ARRAY_NAME) == 0)
            return true;
    return false;
}

static int wrong_count(const struct sluice_format *format, const char *channel, const struct sluice_array *arrays,
                       uint32_t count)
{
    uint32_t missing = count == 1 && arrays[0].name[0] == '\0' ? 1 : 0; /* an unnamed one is the first */

    while (missing < format->array_count && is_given(arrays, count, format->arrays[missing].name))
        missing++;
    if (count > format->array_count || missing == format->array_count)
        return sl_fail(SLUICE_E_FORMAT, "channel '%s': %u arrays were given, a frame has %u", channel, count,
                       format->array_count);
    return sl_fail(SLUICE_E_FORMAT, "channel '%s': %u arrays were given, a frame has %u: '%.31s' is missing", channel,
                   count, format->array_count, format->arrays[missing].name);
}

int sl_arrays_match(const struct sluice_format *format, const char *channel, const struct sluice_array *arrays,
                    uint32_t count, bool all, uint32_t *indices)
{
    uint32_t seen = 0;

    if (!arrays || count == 0 || count > format->array_count || (all && count < format->array_count))
        return wrong_count(format, channel, arrays, arrays ? count : 0);
    for (uint32_t i = 0; i < count; i++) {
        if (!memchr(arrays[i].name, '\0', SLUICE_ARRAY_NAME))
            return sl_fail(SLUICE_E_FORMAT, "channel '%s': the name of array %u has no end", channel, i);
        int index = count == 1 && arrays[i].name[0] == '\0' ? 0 : sl_format_find(format, arrays[i].name);
        if (index < 0)
            return sl_fail(SLUICE_E_FORMAT, "channel '%s': its frames have no array '%s'", channel, arrays[i].name);
        if (seen & 1u << index)
            return sl_fail(SLUICE_E_FORMAT, "channel '%s': array '%s' is given twice", channel, arrays[i].name);
        if (!arrays[i].data && arrays[i].nbytes > 0)
            return sl_fail(SLUICE_E_INVALID, "channel '%s': array '%s' has no data", channel, arrays[i].name);
        seen |= 1u << index;
        indices[i] = (uint32_t)index;
    }
    return 0;
}

int sl_arrays_begin(struct sl_copier *copier, enum sl_copy_way way, const struct sluice_array *arrays, uint32_t count,
                    struct sluice_stream stream, struct sl_copy_job *job)
{
    int r = 0;

    job->way = way;
    job->count = count;
    for (uint32_t i = 0; i < count && r == 0 && copier->ops->needs_sides; i++) {
        struct sl_copy_side *side = &job->sides[i];
        side->name = arrays[i].name;
        r = sl_array_span(&arrays[i], &side->first, &side->bytes);
    }
    return r == 0 ? sl_copy_begin(copier, job, stream) : r;
}
