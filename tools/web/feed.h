/* SPDX-License-Identifier: MIT
 *
 * The channels that are viewed now. Each has one reader, on a thread of its own, from its first viewer until a little
 * after its last.
 */
#ifndef TOOLS_WEB_FEED_H
#define TOOLS_WEB_FEED_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "snap.h"
#include "stream.h"
#include "web.h"

struct web_feeds {
    const struct web_settings *settings;
    pthread_mutex_t lock;
    pthread_cond_t left; /* a feed has ended */
    struct web_feed *list;
    size_t count; /* threads */
    atomic_uint encoders;
    bool stopping;
};

void web_feeds_open(struct web_feeds *feeds, const struct web_settings *settings);

/* Ends all jobs, streams and threads: no connection is suspended from then on. */
void web_feeds_stop(struct web_feeds *feeds);

/* Frees everything: after the server has ended its connections. */
void web_feeds_close(struct web_feeds *feeds);

/* Adds a viewer of this picture. Returns 0, or the HTTP status that says why not. */
unsigned web_feeds_view(struct web_feeds *feeds, const char *name, const struct web_look *look, bool video,
                        struct web_viewer *viewer);

/* Runs the job on the channel's newest frame, then resumes its connection, which is suspended. False: no memory. */
bool web_feeds_run(struct web_feeds *feeds, struct web_job *job);

#endif
