/* SPDX-License-Identifier: MIT
 *
 * One lock for each stream. The server's thread calls the functions of viewers, the encoder's publishes.
 */
#include "stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct web_part *web_part_new(size_t size)
{
    struct web_part *part = malloc(sizeof *part + size);
    if (!part)
        return NULL;
    memset(part, 0, sizeof *part);
    atomic_init(&part->references, 1);
    part->size = part->body_size = size;
    part->key = true;
    return part;
}

void web_part_drop(struct web_part *part)
{
    if (part && atomic_fetch_sub(&part->references, 1) == 1)
        free(part);
}

void web_stream_init(struct web_stream *stream)
{
    *stream = (struct web_stream){ .count = 0 };
    pthread_mutex_init(&stream->lock, NULL);
}

static void drop_parts(struct web_stream *stream)
{
    for (size_t i = 0; i < stream->count; i++)
        web_part_drop(stream->parts[i]);
    stream->first += stream->count;
    stream->count = 0;
}

void web_stream_destroy(struct web_stream *stream)
{
    drop_parts(stream);
    pthread_mutex_destroy(&stream->lock);
}

static void wake(struct web_viewer *viewer)
{
    if (!viewer->waiting)
        return;
    viewer->waiting = false;
    MHD_resume_connection(viewer->connection);
}

static void wake_all(struct web_stream *stream)
{
    for (struct web_viewer *viewer = stream->viewers; viewer; viewer = viewer->after)
        wake(viewer);
}

void web_stream_publish(struct web_stream *stream, struct web_part *part)
{
    pthread_mutex_lock(&stream->lock);
    if (part->key)
        drop_parts(stream);
    /* What follows a part that was lost cannot be shown before the next key. */
    if (stream->count == WEB_PARTS || (!part->key && stream->count == 0)) {
        web_part_drop(part);
    } else {
        stream->parts[stream->count++] = part;
        wake_all(stream);
    }
    pthread_mutex_unlock(&stream->lock);
}

void web_stream_settle(struct web_stream *stream)
{
    pthread_mutex_lock(&stream->lock);
    for (struct web_viewer *viewer = stream->viewers; viewer && stream->count; viewer = viewer->after)
        if (viewer->single && viewer->waiting) {
            viewer->next = stream->first + stream->count - 1;
            wake(viewer);
        }
    pthread_mutex_unlock(&stream->lock);
}

bool web_stream_wanted(struct web_stream *stream)
{
    bool wanted = false;
    pthread_mutex_lock(&stream->lock);
    for (struct web_viewer *viewer = stream->viewers; viewer; viewer = viewer->after)
        wanted = wanted || viewer->waiting;
    pthread_mutex_unlock(&stream->lock);
    return wanted;
}

bool web_stream_empty(struct web_stream *stream)
{
    pthread_mutex_lock(&stream->lock);
    bool empty = stream->count == 0;
    pthread_mutex_unlock(&stream->lock);
    return empty;
}

unsigned web_stream_viewers(struct web_stream *stream)
{
    pthread_mutex_lock(&stream->lock);
    unsigned count = stream->viewer_count;
    pthread_mutex_unlock(&stream->lock);
    return count;
}

void web_stream_fail(struct web_stream *stream, const char *problem)
{
    pthread_mutex_lock(&stream->lock);
    snprintf(stream->problem, sizeof stream->problem, "%s", problem);
    for (struct web_viewer *viewer = stream->viewers; viewer && problem[0]; viewer = viewer->after)
        if (viewer->single && viewer->waiting) {
            viewer->gone = true;
            wake(viewer);
        }
    pthread_mutex_unlock(&stream->lock);
}

void web_stream_end(struct web_stream *stream)
{
    pthread_mutex_lock(&stream->lock);
    stream->ended = true;
    wake_all(stream);
    pthread_mutex_unlock(&stream->lock);
}

/* ---- viewers ---- */

void web_viewer_join(struct web_viewer *viewer, struct web_stream *stream)
{
    pthread_mutex_lock(&stream->lock);
    viewer->stream = stream;
    viewer->next = viewer->single ? stream->first + stream->count : stream->first;
    viewer->after = stream->viewers;
    stream->viewers = viewer;
    stream->viewer_count++;
    pthread_mutex_unlock(&stream->lock);
}

void web_viewer_leave(struct web_viewer *viewer)
{
    struct web_stream *stream = viewer->stream;
    pthread_mutex_lock(&stream->lock);
    struct web_viewer **at = &stream->viewers;
    while (*at && *at != viewer)
        at = &(*at)->after;
    if (*at) {
        *at = viewer->after;
        stream->viewer_count--;
    }
    pthread_mutex_unlock(&stream->lock);
    web_part_drop(viewer->part);
    viewer->part = NULL;
}

void web_viewer_end(struct web_viewer *viewer)
{
    pthread_mutex_lock(&viewer->stream->lock);
    viewer->gone = true;
    wake(viewer);
    pthread_mutex_unlock(&viewer->stream->lock);
}

bool web_viewer_take(struct web_viewer *viewer)
{
    struct web_stream *stream = viewer->stream;
    pthread_mutex_lock(&stream->lock);
    uint64_t end = stream->first + stream->count;
    if (viewer->next < stream->first)
        viewer->next = stream->first;
    bool there = viewer->next < end && !stream->ended && !viewer->gone;
    if (there) {
        viewer->part = stream->parts[viewer->next - stream->first];
        atomic_fetch_add(&viewer->part->references, 1);
        viewer->next++;
        viewer->sent = 0;
    } else if (!stream->ended && !viewer->gone) {
        viewer->waiting = true;
        MHD_suspend_connection(viewer->connection);
    }
    pthread_mutex_unlock(&stream->lock);
    return there;
}

bool web_viewer_ended(struct web_viewer *viewer, char *problem, size_t size)
{
    pthread_mutex_lock(&viewer->stream->lock);
    bool ended = viewer->gone || viewer->stream->ended;
    snprintf(problem, size, "%s", viewer->stream->problem);
    pthread_mutex_unlock(&viewer->stream->lock);
    return ended;
}

ssize_t web_viewer_read(void *context, uint64_t at, char *to, size_t size)
{
    struct web_viewer *viewer = context;
    (void)at;
    if (viewer->preamble) {
        size_t length = strlen(viewer->preamble);
        length = length < size ? length : size;
        memcpy(to, viewer->preamble, length);
        viewer->preamble = viewer->preamble[length] ? viewer->preamble + length : NULL;
        return (ssize_t)length;
    }
    char problem[sizeof viewer->stream->problem];
    if (!viewer->part && !web_viewer_take(viewer))
        return web_viewer_ended(viewer, problem, sizeof problem) ? MHD_CONTENT_READER_END_OF_STREAM : 0;
    size_t left = viewer->part->size - viewer->sent;
    size = left < size ? left : size;
    memcpy(to, viewer->part->bytes + viewer->sent, size);
    viewer->sent += size;
    if (viewer->sent == viewer->part->size) {
        web_part_drop(viewer->part);
        viewer->part = NULL;
    }
    return (ssize_t)size;
}
