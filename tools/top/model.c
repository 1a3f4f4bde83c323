/* SPDX-License-Identifier: MIT
 *
 * The model of sluice top: numbers measured between two answers of a writer. Readers write their own numbers, so any
 * value may appear; implausible ones count as unknown.
 */
#include "top.h"

#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/describe.h"

#define MAX_PLAUSIBLE_NS (3600 * 1e9)

const char *top_state(const struct top_channel *channel)
{
    return channel_state(channel->entry.live, channel->result);
}

bool top_is_dead(const struct top_channel *channel)
{
    return strcmp(top_state(channel), "dead") == 0;
}

bool top_matches(const char *name, const char *pattern, bool anywhere)
{
    if (strpbrk(pattern, "*?[") == NULL)
        return anywhere ? strstr(name, pattern) != NULL : strcmp(name, pattern) == 0;
    return fnmatch(pattern, name, 0) == 0;
}

/* ---- the list ---- */

static void free_channel(struct top_channel *channel)
{
    free(channel->readers);
    free(channel);
}

void top_free(struct top *top)
{
    for (size_t i = 0; i < top->count; i++)
        free_channel(top->list[i]);
    free(top->list);
    top->list = NULL;
    top->count = 0;
}

static bool is_wanted(const struct top *top, const char *name)
{
    for (int i = 0; i < top->pattern_count; i++)
        if (top_matches(name, top->patterns[i], false))
            return true;
    return top->pattern_count == 0;
}

static struct top_channel *new_channel(void)
{
    struct top_channel *channel = calloc(1, sizeof *channel);
    if (!channel)
        return NULL;
    channel->result = SLUICE_E_NOT_FOUND;
    channel->fps = channel->bytes = NAN;
    channel->latency_ns = channel->longest_ns = channel->lease_ns = NAN;
    for (size_t i = 0; i < TOP_HISTORY; i++)
        channel->history[i] = NAN;
    return channel;
}

bool top_list(struct top *top, const struct top_entry *entries, size_t count)
{
    struct top_channel **list = calloc(count ? count : 1, sizeof(struct top_channel *));
    size_t kept = 0, old = 0;
    if (!list)
        return false;
    for (size_t i = 0; i < count; i++) {
        if (!is_wanted(top, entries[i].name))
            continue;
        while (old < top->count && strcmp(top->list[old]->entry.name, entries[i].name) < 0)
            free_channel(top->list[old++]);
        bool same = old < top->count && strcmp(top->list[old]->entry.name, entries[i].name) == 0;
        struct top_channel *channel = same ? top->list[old++] : new_channel();
        if (!channel)
            continue;
        if (!channel->entry.live || channel->entry.pid != entries[i].pid) { /* another writer */
            channel->timeouts = 0;
            channel->next_query_ns = 0;
        }
        channel->entry = entries[i];
        if (!entries[i].live) {
            channel->result = SLUICE_E_NOT_FOUND;
            channel->reason[0] = 0;
        }
        list[kept++] = channel;
    }
    while (old < top->count)
        free_channel(top->list[old++]);
    free(top->list);
    top->list = list;
    top->count = kept;
    return true;
}

/* ---- measuring ---- */

/* How much a counter grew; NAN if it did not count up. */
static double growth(uint64_t now, uint64_t before)
{
    return now >= before && now - before < (uint64_t)1 << 62 ? (double)(now - before) : NAN;
}

static uint64_t growth_or_zero(uint64_t now, uint64_t before)
{
    return now > before ? now - before : 0;
}

static const struct top_reader *find_reader(const struct top_channel *channel, const struct sluice_reader_info *info)
{
    for (uint32_t i = 0; i < channel->reader_count; i++) {
        const struct sluice_reader_info *old = &channel->readers[i].info;
        if (old->pid == info->pid && old->joined_ns == info->joined_ns)
            return &channel->readers[i];
    }
    return NULL;
}

static double plausible(double ns)
{
    return ns >= 0 && ns < MAX_PLAUSIBLE_NS ? ns : NAN;
}

static void measure_reader(struct top_reader *reader, const struct top_reader *before, double seconds)
{
    const struct sluice_reader_info *info = &reader->info;
    reader->fps = reader->latency_ns = reader->longest_ns = reader->lease_ns = NAN;
    reader->new_missed = 0;
    if (!before)
        return;
    double taken = growth(info->taken, before->info.taken);
    reader->fps = seconds > 0 ? taken / seconds : NAN;
    reader->new_missed = growth_or_zero(info->missed, before->info.missed);
    if (!(taken > 0))
        return;
    bool sums = info->latency_total_ns != 0; /* readers of older releases report only their last latency */
    double waited = growth(info->latency_total_ns, before->info.latency_total_ns);
    reader->latency_ns = plausible(sums ? waited / taken : (double)info->latency_ns);
    reader->longest_ns = plausible((double)(sums ? info->latency_max_ns : info->latency_ns));
    reader->lease_ns = info->lease_mean_ns ? plausible((double)info->lease_mean_ns) : NAN;
}

static bool measure_readers(struct top_channel *channel, const struct sluice_reader_info *infos, uint32_t count,
                            double seconds)
{
    struct top_reader *readers = calloc(count ? count : 1, sizeof *readers);
    if (!readers)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        readers[i].info = infos[i];
        measure_reader(&readers[i], isnan(seconds) ? NULL : find_reader(channel, &infos[i]), seconds);
    }
    free(channel->readers);
    channel->readers = readers;
    channel->reader_count = count;
    return true;
}

/* Averages are weighted by the frames that each reader acquired. */
static void sum_readers(struct top_channel *channel)
{
    double latency = 0, latency_weight = 0, lease = 0, lease_weight = 0;
    channel->missed = channel->new_missed = channel->lag = channel->leases = 0;
    channel->oldest_ns = 0;
    channel->longest_ns = NAN;
    for (uint32_t i = 0; i < channel->reader_count; i++) {
        const struct top_reader *reader = &channel->readers[i];
        channel->missed += reader->info.missed;
        channel->new_missed += reader->new_missed;
        channel->leases += reader->info.held;
        if (reader->info.lag > channel->lag)
            channel->lag = reader->info.lag;
        if (reader->info.held_ns > channel->oldest_ns)
            channel->oldest_ns = reader->info.held_ns;
        if (reader->fps > 0 && !isnan(reader->latency_ns)) {
            latency += reader->latency_ns * reader->fps;
            latency_weight += reader->fps;
        }
        if (reader->fps > 0 && !isnan(reader->lease_ns)) {
            lease += reader->lease_ns * reader->fps;
            lease_weight += reader->fps;
        }
        channel->longest_ns = fmax(channel->longest_ns, reader->longest_ns);
    }
    channel->latency_ns = latency_weight > 0 ? latency / latency_weight : NAN;
    channel->lease_ns = lease_weight > 0 ? lease / lease_weight : NAN;
}

static void add_history(struct top_channel *channel, double fps)
{
    memmove(channel->history, channel->history + 1, sizeof channel->history - sizeof(float));
    channel->history[TOP_HISTORY - 1] = (float)fps;
}

static void clear_measurements(struct top_channel *channel, const char *reason)
{
    if (channel->entry.live)
        snprintf(channel->reason, sizeof channel->reason, "%s", reason);
    channel->fps = channel->bytes = NAN;
    channel->latency_ns = channel->longest_ns = channel->lease_ns = NAN;
    channel->new_drops = channel->new_missed = 0;
    add_history(channel, NAN);
}

void top_update(struct top_channel *channel, int result, const char *reason, const struct sluice_channel_info *info,
                const struct sluice_reader_info *readers)
{
    const struct sluice_channel_info *old = &channel->info;
    channel->result = result;
    if (result != SLUICE_OK) {
        clear_measurements(channel, reason);
        return;
    }
    bool same = channel->answered && old->session == info->session && info->now_ns > old->now_ns;
    double seconds = same ? (double)(info->now_ns - old->now_ns) / 1e9 : NAN;
    uint32_t count = info->readers < SLUICE_MAX_READERS ? info->readers : SLUICE_MAX_READERS;
    channel->fps = same ? growth(info->committed, old->committed) / seconds : NAN;
    channel->bytes = same ? growth(info->bytes, old->bytes) / seconds : NAN;
    channel->new_drops = same ? growth_or_zero(info->dropped, old->dropped) : 0;
    measure_readers(channel, readers, count, seconds);
    sum_readers(channel);
    channel->info = *info;
    channel->reason[0] = 0;
    channel->answered = channel->was_live = true;
    if (same)
        add_history(channel, channel->fps);
}
