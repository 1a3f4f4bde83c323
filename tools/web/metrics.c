/* SPDX-License-Identifier: MIT
 *
 * The numbers as text for Prometheus.
 */
#include <stdio.h>

#include "stats.h"

/* A label's value. */
static void put_label(FILE *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            fputc('\\', out);
        fputc((unsigned char)*text < ' ' ? '?' : *text, out);
    }
}

struct metric {
    const char *name, *type, *help;
    bool (*value)(const struct top_channel *channel, double *value);
};

static bool up(const struct top_channel *c, double *value)
{
    *value = c->entry.live && c->result == SLUICE_OK;
    return true;
}

#define COUNTER(name, expression) \
    static bool name(const struct top_channel *c, double *value) \
    { \
        *value = (double)(expression); \
        return c->answered; \
    }
COUNTER(frames, c->info.committed)
COUNTER(bytes, c->info.bytes)
COUNTER(drops, c->info.dropped)
COUNTER(missed, c->missed)
COUNTER(readers, c->info.readers)
COUNTER(leases, c->leases)

static bool latency(const struct top_channel *c, double *value)
{
    *value = c->latency_ns / 1e9;
    return c->answered && c->latency_ns >= 0;
}

static bool longest(const struct top_channel *c, double *value)
{
    *value = c->longest_ns / 1e9;
    return c->answered && c->longest_ns >= 0;
}

static bool age(const struct top_channel *c, double *value)
{
    *value = (double)(c->info.now_ns - c->info.last_commit_ns) / 1e9;
    return c->answered && c->info.last_commit_ns;
}

static const struct metric metrics[] = {
    { "sluice_up", "gauge", "1 if the channel's writer answers", up },
    { "sluice_frames_total", "counter", "Frames committed in this session", frames },
    { "sluice_bytes_total", "counter", "Bytes committed in this session", bytes },
    { "sluice_drops_total", "counter", "Frames that the writer dropped, since no slot was free", drops },
    { "sluice_missed_total", "counter", "Frames that the readers there are now did not get", missed },
    { "sluice_readers", "gauge", "Readers", readers },
    { "sluice_leases", "gauge", "Frames that readers hold", leases },
    { "sluice_latency_seconds", "gauge", "Commit to acquire, average of the last interval", latency },
    { "sluice_latency_max_seconds", "gauge", "Commit to acquire, the longest of the last seconds", longest },
    { "sluice_last_frame_age_seconds", "gauge", "Time since the last commit", age },
};

char *web_stats_metrics(struct web_stats *stats, size_t *size)
{
    char *text = NULL;
    FILE *out = open_memstream(&text, size);
    if (!out)
        return NULL;
    pthread_mutex_lock(&stats->top.lock);
    for (size_t m = 0; m < sizeof metrics / sizeof metrics[0]; m++) {
        fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", metrics[m].name, metrics[m].help, metrics[m].name,
                metrics[m].type);
        for (size_t i = 0; i < stats->top.count; i++) {
            const struct top_channel *channel = stats->top.list[i];
            double value;
            if (!web_stats_shown(channel) || !metrics[m].value(channel, &value))
                continue;
            fprintf(out, "%s{channel=\"", metrics[m].name);
            put_label(out, channel->entry.name);
            fprintf(out, "\"} %.17g\n", value);
        }
    }
    pthread_mutex_unlock(&stats->top.lock);
    return fclose(out) == 0 ? text : NULL;
}
