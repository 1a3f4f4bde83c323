/* SPDX-License-Identifier: MIT
 *
 * Encoded pictures on their way to viewers. A stream keeps the parts since the last one that needs no other; each
 * viewer takes the next part when the last one has left, so a slow viewer skips parts and costs the others nothing.
 */
#ifndef TOOLS_WEB_STREAM_H
#define TOOLS_WEB_STREAM_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <microhttpd.h>

/* Bytes that any number of viewers share, freed by the last one. */
struct web_part {
    atomic_uint references;
    bool key; /* it can be shown without the parts before it */
    size_t size;
    size_t body_size; /* of the encoded picture alone, at the start of the bytes */
    uint8_t bytes[];
};

struct web_part *web_part_new(size_t size); /* NULL: out of memory */
void web_part_drop(struct web_part *part);

#define WEB_PARTS 128 /* kept at most; longer groups lose their end until the next key */

struct web_viewer {
    struct web_stream *stream;
    struct MHD_Connection *connection;
    uint64_t next; /* number of the part that it takes next */
    bool waiting;  /* its connection is suspended until there is a part */
    bool single;   /* it takes one part only, and one that is newer than its request */
    bool gone;     /* its browser has closed the connection */
    struct web_part *part;
    size_t sent; /* bytes of the part */
    const char *preamble;
    struct web_viewer *after;
};

struct web_stream {
    pthread_mutex_t lock;
    struct web_part *parts[WEB_PARTS];
    size_t count;
    uint64_t first; /* number of parts[0] */
    struct web_viewer *viewers;
    unsigned viewer_count;
    bool ended;
    char problem[160]; /* why there is no picture; "": there is, or none was tried */
};

void web_stream_init(struct web_stream *stream);
void web_stream_destroy(struct web_stream *stream); /* without viewers */

/* Adds a part, which the stream owns from now on, and wakes the viewers that wait for it. */
void web_stream_publish(struct web_stream *stream, struct web_part *part);

/* The part published last is still the newest picture there is: viewers that wait for a single one may have it. */
void web_stream_settle(struct web_stream *stream);

/* True if a viewer waits for a part that comes next. */
bool web_stream_wanted(struct web_stream *stream);
bool web_stream_empty(struct web_stream *stream); /* nothing was published yet */
unsigned web_stream_viewers(struct web_stream *stream);

/* Says why there is no picture, and ends requests that wait for a single one. "": there is one again. */
void web_stream_fail(struct web_stream *stream, const char *problem);

/* Wakes all viewers, whose connections then end. */
void web_stream_end(struct web_stream *stream);

void web_viewer_join(struct web_viewer *viewer, struct web_stream *stream);
void web_viewer_leave(struct web_viewer *viewer);

/* Takes the next part into viewer->part. If there is none, it suspends the connection and returns false; also false if
 * the stream ended. */
bool web_viewer_take(struct web_viewer *viewer);

/* True if the viewer, or its stream, has ended: nothing will come. Stores why, if that is known. */
bool web_viewer_ended(struct web_viewer *viewer, char *problem, size_t size);

/* For MHD_create_response_from_callback. */
ssize_t web_viewer_read(void *viewer, uint64_t at, char *to, size_t size);

/* Ends a viewer that waits: its browser has gone, or it waited too long. */
void web_viewer_end(struct web_viewer *viewer);

#endif
