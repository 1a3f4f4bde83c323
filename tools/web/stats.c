/* SPDX-License-Identifier: MIT
 *
 * A thread refreshes the model of sluice top and publishes the list to the pages that are open.
 */
#include "stats.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../common/describe.h"
#include "../common/json.h"
#include "../common/term.h"

#define INTERVAL   SLUICE_S
#define FRESH_TIME (2 * SLUICE_S)
#define WATCH_TIME (10 * SLUICE_S) /* refreshes go on for this time after somebody asked */

/* ---- texts ---- */

bool web_stats_shown(const struct top_channel *channel)
{
    return channel->was_live || !top_is_dead(channel);
}

static void json_channels(struct json *json, const struct web_stats *stats)
{
    json_object(json);
    json_pair_string(json, "version", SLUICE_VERSION);
    json_pair_string(json, "encoder", stats->settings->encoder);
    json_pair_int(json, "time_ns", now_ns());
    json_key(json, "channels");
    json_array(json);
    for (size_t i = 0; i < stats->top.count; i++) {
        if (!web_stats_shown(stats->top.list[i]))
            continue;
        json_object(json);
        top_json_channel(json, &stats->top, stats->top.list[i]);
        json_close(json);
    }
    json_close_array(json);
    top_json_gpus(json, &stats->top);
    json_close(json);
    json_end(json);
}

static const struct top_channel *find_channel(const struct web_stats *stats, const char *name)
{
    for (size_t i = 0; i < stats->top.count; i++)
        if (strcmp(stats->top.list[i]->entry.name, name) == 0)
            return stats->top.list[i];
    return NULL;
}

bool web_stats_has(struct web_stats *stats, const char *name)
{
    pthread_mutex_lock(&stats->top.lock);
    bool found = find_channel(stats, name) != NULL;
    pthread_mutex_unlock(&stats->top.lock);
    return found;
}

char *web_stats_channels(struct web_stats *stats, size_t *size)
{
    char *text = NULL;
    struct json json;
    FILE *out = open_memstream(&text, size);
    if (!out)
        return NULL;
    pthread_mutex_lock(&stats->top.lock);
    json_begin(&json, out, true);
    json_channels(&json, stats);
    pthread_mutex_unlock(&stats->top.lock);
    return fclose(out) == 0 ? text : NULL;
}

char *web_stats_channel(struct web_stats *stats, const char *name, size_t *size)
{
    char *text = NULL;
    struct json json;
    FILE *out = open_memstream(&text, size);
    if (!out)
        return NULL;
    pthread_mutex_lock(&stats->top.lock);
    const struct top_channel *channel = find_channel(stats, name);
    if (channel) {
        json_begin(&json, out, true);
        json_object(&json);
        top_json_channel(&json, &stats->top, channel);
        if (channel->answered) {
            json_key(&json, "arrays");
            json_format(&json, &channel->info.format);
        }
        json_close(&json);
        json_end(&json);
    }
    pthread_mutex_unlock(&stats->top.lock);
    fclose(out);
    if (channel)
        return text;
    free(text);
    return NULL;
}

/* ---- the thread ---- */

/* One event of text/event-stream; the text is a line. */
static void publish(struct web_stats *stats)
{
    size_t size;
    char *text = web_stats_channels(stats, &size);
    struct web_part *part = text ? web_part_new(size + 7) : NULL;
    if (part) {
        memcpy(part->bytes, "data: ", 6);
        memcpy(part->bytes + 6, text, size);
        part->bytes[6 + size] = '\n';
        web_stream_publish(&stats->events, part);
    }
    free(text);
}

static void wait_until(struct web_stats *stats, int64_t when)
{
    struct timespec until = { .tv_sec = when / SLUICE_S, .tv_nsec = when % SLUICE_S };
    while (!atomic_load(&stats->stop) && now_ns() < when)
        pthread_cond_timedwait(&stats->wanted, &stats->lock, &until);
}

static bool is_asked(struct web_stats *stats)
{
    return now_ns() - stats->asked_ns < WATCH_TIME || web_stream_viewers(&stats->events);
}

static void *refresh_loop(void *context)
{
    struct web_stats *stats = context;
    pthread_mutex_lock(&stats->lock);
    while (!atomic_load(&stats->stop)) {
        if (!is_asked(stats)) {
            pthread_cond_wait(&stats->wanted, &stats->lock);
            continue;
        }
        int64_t start = now_ns();
        pthread_mutex_unlock(&stats->lock);
        top_refresh(&stats->top, &stats->stop);
        top_refresh_gpus(&stats->top);
        pthread_mutex_lock(&stats->lock);
        stats->refreshed_ns = start;
        pthread_mutex_unlock(&stats->lock);
        publish(stats);
        pthread_mutex_lock(&stats->lock);
        wait_until(stats, start + INTERVAL);
    }
    pthread_mutex_unlock(&stats->lock);
    return NULL;
}

bool web_stats_ask(struct web_stats *stats)
{
    pthread_mutex_lock(&stats->lock);
    stats->asked_ns = now_ns();
    bool fresh = stats->asked_ns - stats->refreshed_ns < FRESH_TIME;
    pthread_cond_signal(&stats->wanted);
    pthread_mutex_unlock(&stats->lock);
    return fresh;
}

bool web_stats_since(struct web_stats *stats, int64_t ns)
{
    pthread_mutex_lock(&stats->lock);
    bool since = stats->refreshed_ns > ns;
    pthread_mutex_unlock(&stats->lock);
    return since;
}

int web_stats_open(struct web_stats *stats, const struct web_settings *settings)
{
    pthread_condattr_t clock;
    sigset_t all, ours;
    *stats = (struct web_stats){ .settings = settings };
    top_open(&stats->top, settings->patterns, settings->pattern_count);
    web_stream_init(&stats->events);
    pthread_mutex_init(&stats->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&stats->wanted, &clock);
    pthread_condattr_destroy(&clock);
    stats->asked_ns = now_ns();
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &ours);
    int error = pthread_create(&stats->thread, NULL, refresh_loop, stats);
    pthread_sigmask(SIG_SETMASK, &ours, NULL);
    return error;
}

void web_stats_stop(struct web_stats *stats)
{
    pthread_mutex_lock(&stats->lock);
    atomic_store(&stats->stop, true);
    pthread_cond_signal(&stats->wanted);
    pthread_mutex_unlock(&stats->lock);
    pthread_join(stats->thread, NULL);
    web_stream_end(&stats->events);
}

void web_stats_close(struct web_stats *stats)
{
    web_stream_destroy(&stats->events);
    pthread_cond_destroy(&stats->wanted);
    pthread_mutex_destroy(&stats->lock);
    top_close(&stats->top);
}
