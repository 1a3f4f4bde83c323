/* SPDX-License-Identifier: MIT
 *
 * JPEG is made only if a viewer waits for it; video needs every frame, since each packet depends on the one before.
 */
#include "view.h"

#include <stdlib.h>

#include "../common/term.h"

#define RETRY_TIME (2 * SLUICE_S)

struct web_view *web_view_new(const struct web_settings *settings, const struct web_look *look, bool video)
{
    struct web_view *view = calloc(1, sizeof *view);
    if (!view)
        return NULL;
    view->settings = settings;
    view->look = *look;
    view->video = video;
    web_stream_init(&view->stream);
    view->h264.encoder = settings->encoder;
    view->h264.stream = &view->stream;
    return view;
}

void web_view_free(struct web_view *view)
{
    web_h264_close(&view->h264);
    web_jpeg_free(&view->jpeg);
    web_picture_free(&view->picture);
    web_stream_destroy(&view->stream);
    free(view);
}

bool web_view_wanted(struct web_view *view)
{
    return view->video ? web_stream_viewers(&view->stream) > 0 && now_ns() >= view->retry_ns
                       : web_stream_wanted(&view->stream);
}

static uint32_t limit(uint32_t asked, uint32_t most)
{
    return asked && asked < most ? asked : most;
}

void web_view_take(struct web_view *view, const struct sluice_array *arrays, uint32_t count, uint64_t frame)
{
    const struct web_settings *settings = view->settings;
    const struct sluice_array *array = web_picture_choose(arrays, count, view->look.array);
    view->frame = frame;
    if (!array) {
        web_stream_fail(&view->stream, "the channel has no array of that name");
        return;
    }
    if (!web_picture_make(&view->picture, array, &view->look, limit(view->look.width, settings->max_width),
                          limit(view->look.height, settings->max_height))) {
        web_stream_fail(&view->stream, view->picture.problem);
        return;
    }
    if (view->video) {
        web_stream_fail(&view->stream,
                        web_h264_take(&view->h264, &view->picture.image) ? "" : "it is too small for H.264");
        return;
    }
    struct web_part *part = web_jpeg_encode(&view->jpeg, &view->picture.image, settings->quality);
    web_stream_fail(&view->stream, part ? "" : "it cannot be encoded as JPEG");
    if (part)
        web_stream_publish(&view->stream, part);
}

void web_view_push(struct web_view *view)
{
    if (view->video && !web_h264_push(&view->h264))
        view->retry_ns = now_ns() + RETRY_TIME;
}
