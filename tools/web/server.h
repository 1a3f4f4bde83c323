/* SPDX-License-Identifier: MIT
 *
 * The HTTP server: server.c listens, limits and ends connections; answer.c answers requests.
 */
#ifndef TOOLS_WEB_SERVER_H
#define TOOLS_WEB_SERVER_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <microhttpd.h>

#include "feed.h"
#include "stats.h"
#include "web.h"

/* One request and its answer. */
struct web_exchange {
    struct web_request request;
    bool begun, checked;
    bool refreshed; /* the numbers were fresh, or it has waited for them */
    bool joined;    /* the viewer is in a stream */
    bool streams;   /* the answer has no end */
    bool running;   /* the job was given to the channel's thread */
    int64_t begun_ns;
    struct web_viewer viewer;
    struct web_job job;
};

/* One connection. */
struct web_client {
    struct MHD_Connection *connection;
    int fd;
    int64_t since_ns; /* it was opened, or its last request ended */
    bool over;        /* one more than are answered */
    struct web_exchange *exchange;
    struct web_client *before, *after;
};

struct web_server {
    const struct web_settings *settings;
    struct web_stats stats;
    struct web_feeds feeds;
    struct MHD_Daemon *daemon;
    const char *hosts[WEB_HOSTS + 2];
    size_t host_count;
    char cookie[32]; /* its name: cookies are shared by all ports of a machine */
    pthread_mutex_t lock;
    struct web_client *clients;
    size_t client_count;
};

/* Answers, or suspends the connection and is called again. */
enum MHD_Result web_answer(struct web_server *server, struct web_client *client, struct web_exchange *exchange,
                           const char *method);

/* Files of the page, embedded at build time. */
struct web_file {
    const char *name, *type;
    const unsigned char *bytes;
    size_t size;
};
extern const struct web_file web_files[];
extern const size_t web_file_count;

#endif
