/* SPDX-License-Identifier: MIT
 *
 * sluice web: what its files share. server.c has the connections, answer.c answers them, request.c parses; stats.c has
 * the numbers; feed.c reads a channel, view.c makes a picture of it for any number of viewers, stream.c hands that out.
 */
#ifndef TOOLS_WEB_H
#define TOOLS_WEB_H

#include <stdbool.h>
#include <stdint.h>

#include "request.h"

#define WEB_HOSTS       16
#define WEB_CONNECTIONS 64 /* answered at a time */
#define WEB_ENCODERS    8  /* of H.264, at a time */

struct web_settings {
    const char *listen;
    char token[WEB_TOKEN]; /* "": none */
    bool generated;        /* the token is ours: show it */
    const char *hosts[WEB_HOSTS];
    size_t host_count;
    uint32_t quality, max_width, max_height;
    const char *encoder; /* of ffmpeg, "auto" or "none"; once it was chosen NULL: no H.264 */
    char **patterns;     /* of the channels that may be seen; none: all */
    int pattern_count;
};

/* Chooses the encoder, then serves until a signal. Returns an exit code, after a message. */
int web_serve(struct web_settings *settings);

#endif
