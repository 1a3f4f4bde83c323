/* SPDX-License-Identifier: MIT
 *
 * The numbers of sluice top for browsers and for Prometheus. Writers are queried once a second while somebody asks.
 */
#ifndef TOOLS_WEB_STATS_H
#define TOOLS_WEB_STATS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../top/top.h"
#include "stream.h"
#include "web.h"

struct web_stats {
    const struct web_settings *settings;
    struct top top;
    struct web_stream events; /* a part for each refresh: the list of channels */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wanted;
    int64_t asked_ns, refreshed_ns;
    atomic_bool stop;
};

int web_stats_open(struct web_stats *stats, const struct web_settings *settings); /* 0, or an errno */
void web_stats_stop(struct web_stats *stats);
void web_stats_close(struct web_stats *stats);

/* Says that somebody looks, so that the numbers are kept fresh for a while. True if they are fresh already; if not, the
 * next event says when they are. */
bool web_stats_ask(struct web_stats *stats);

/* True if the numbers are of a refresh that began after this time. */
bool web_stats_since(struct web_stats *stats, int64_t ns);

/* False for channels whose writer was dead before they were seen first, as in sluice top. */
bool web_stats_shown(const struct top_channel *channel);

bool web_stats_has(struct web_stats *stats, const char *name);

/* The texts: all channels, one channel (NULL: there is none of that name), metrics. The caller frees them. */
char *web_stats_channels(struct web_stats *stats, size_t *size);
char *web_stats_channel(struct web_stats *stats, const char *name, size_t *size);
char *web_stats_metrics(struct web_stats *stats, size_t *size);

#endif
