/* SPDX-License-Identifier: MIT
 *
 * One picture of a channel, encoded once for all who view it. Used by the thread of its channel alone, but for its
 * stream.
 */
#ifndef TOOLS_WEB_VIEW_H
#define TOOLS_WEB_VIEW_H

#include "h264.h"
#include "jpeg.h"
#include "picture.h"
#include "stream.h"
#include "web.h"

struct web_view {
    const struct web_settings *settings;
    struct web_look look;
    bool video; /* H.264 */
    struct web_stream stream;
    struct web_picture picture;
    struct web_jpeg jpeg;
    struct web_h264 h264;
    uint64_t frame;   /* count of the frame that was shown last; 0: none */
    int64_t idle_ns;  /* since when it has no viewer; 0: it has */
    int64_t retry_ns; /* ffmpeg failed: when to start it again */
    struct web_view *next;
};

struct web_view *web_view_new(const struct web_settings *settings, const struct web_look *look, bool video);
void web_view_free(struct web_view *view);

/* True if somebody waits for a picture. */
bool web_view_wanted(struct web_view *view);

/* Takes the picture of a frame, and publishes it unless it is video. */
void web_view_take(struct web_view *view, const struct sluice_array *arrays, uint32_t count, uint64_t frame);

/* Gives the video's picture to its encoder: once the frame was released, since that may wait. */
void web_view_push(struct web_view *view);

#endif
