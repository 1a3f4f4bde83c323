/* SPDX-License-Identifier: MIT
 *
 * Repeated sends: what was found out about the last one is reused.
 */
#include "channel/arrays.h"

#include <stddef.h>
#include <string.h>

static bool is_alike(const struct sluice_array *a, const struct sluice_array *b)
{
    return memcmp(a, b, offsetof(struct sluice_array, data)) == 0 &&
           memcmp(&a->offset, &b->offset, sizeof *a - offsetof(struct sluice_array, offset)) == 0;
}

bool sl_send_cache_is_known(const struct sl_send_cache *cache, uint32_t generation, const struct sluice_array *arrays,
                            uint32_t count)
{
    return count == 1 && cache->generation == generation && arrays && arrays->data && is_alike(&cache->given, arrays);
}

void sl_send_cache_remember(struct sl_send_cache *cache, uint32_t generation, uint32_t index,
                            const struct sluice_array *array, const struct sl_copy_job *job,
                            const struct sluice_array *to, const struct sl_copy *copy)
{
    const struct sl_copy_side *side = &job->sides[0];

    if (job->count != 1 || copy->count == 0)
        return;
    *cache = (struct sl_send_cache){ .generation = generation,
                                     .index = index,
                                     .given = *array,
                                     .to = *to,
                                     .below = (uint64_t)((const char *)array->data - (const char *)side->first),
                                     .bytes = side->bytes,
                                     .number = cache->number + 1,
                                     .copy = *copy };
}

int sl_send_cache_begin(const struct sl_send_cache *cache, struct sl_copier *copier, const struct sluice_array *array,
                        struct sluice_stream stream, struct sl_copy_job *job)
{
    job->way = SL_COPY_SEND;
    job->count = 1;
    job->sides[0].name = array->name;
    job->sides[0].first = (const char *)array->data - cache->below;
    job->sides[0].bytes = cache->bytes;
    return sl_copy_begin(copier, job, stream);
}

static struct sl_copy_key key_of(const struct sl_send_cache *cache, const struct sluice_array *array, char *address)
{
    return (struct sl_copy_key){ cache->number, array->data, address };
}

bool sl_send_cache_repeat(const struct sl_send_cache *cache, const struct sluice_array *array, char *address,
                          struct sl_copy_job *job)
{
    struct sl_copy_key key = key_of(cache, array, address);

    return sl_copy_reuse(job, &key);
}

bool sl_send_cache_plan(const struct sl_send_cache *cache, const struct sluice_array *array, char *address,
                        struct sl_copy_job *job, struct sl_copy *copy)
{
    char *to = address + cache->to.offset;
    const char *from = array->data, *first = from - cache->below;

    if ((uintptr_t)to < (uintptr_t)first + cache->bytes && (uintptr_t)first < (uintptr_t)to + cache->to.nbytes)
        return false;
    job->key = key_of(cache, array, address);
    copy->count = cache->copy.count;
    for (int i = 0; i < copy->count; i++) {
        const struct sl_copy_part *part = &cache->copy.parts[i];
        struct sl_copy_part *now = &copy->parts[i];
        now->to = to + (part->to - (char *)cache->to.data);
        now->from = from + (part->from - (const char *)cache->given.data);
        now->run = part->run;
        now->depth = part->depth;
        memcpy(now->steps, part->steps, sizeof *part->steps * (size_t)part->depth);
    }
    return true;
}
