/* SPDX-License-Identifier: MIT
 *
 * The public calls of sluice/frame.h: a frame's arrays, for both the writer and the reader.
 */
#include <sluice/frame.h>

#include <string.h>

#include "channel/frame_streams.h"
#include "channel/frame_view.h"
#include "device/device.h"
#include "format/format.h"
#include "util/result.h"

int sluice_frame_array(const struct sluice_frame *frame, const char *name, struct sluice_array *array)
{
    struct sl_view view;
    uint32_t index;
    int r = sl_view_begin(frame, &view);

    if (r != 0)
        return r;
    if (!array)
        r = sl_fail(SLUICE_E_INVALID, "array is NULL");
    else if ((r = sl_view_find(&view, name, &index)) == 0)
        r = sl_view_array(&view, index, array);
    sl_view_end(&view);
    return r;
}

int sluice_frame_array_at(const struct sluice_frame *frame, uint32_t index, struct sluice_array *array)
{
    struct sl_view view;
    int r = sl_view_begin(frame, &view);

    if (r != 0)
        return r;
    r = array ? sl_view_array(&view, index, array) : sl_fail(SLUICE_E_INVALID, "array is NULL");
    sl_view_end(&view);
    return r;
}

int sluice_frame_device(const struct sluice_frame *frame, char *name, size_t size)
{
    struct sl_view view;
    int r = sl_view_begin(frame, &view);

    if (r != 0)
        return r;
    r = name ? sl_device_copy_name(view.device, name, size) : sl_fail(SLUICE_E_INVALID, "name is NULL");
    sl_view_end(&view);
    return r;
}

/* ---- more than one stream ---- */

int sluice_frame_used_on(const struct sluice_frame *frame, struct sluice_stream stream, void (*release)(void *user),
                         void *user)
{
    struct sl_view view;
    int r = sl_view_begin(frame, &view);

    if (r != 0)
        return r;
    r = sl_frame_streams_add(view.streams, frame, view.device, stream, release, user);
    sl_view_end(&view);
    return r;
}

int sluice_frame_wait(const struct sluice_frame *frame, struct sluice_stream stream)
{
    struct sl_view view;
    int r = sl_view_begin(frame, &view);

    if (r != 0)
        return r;
    r = sl_frame_streams_wait(view.streams, frame, stream);
    sl_view_end(&view);
    return r;
}

int sluice_frame_stream(const struct sluice_frame *frame, struct sluice_stream *stream)
{
    struct sl_view view;
    int r = sl_view_begin(frame, &view);

    if (r != 0)
        return r;
    r = stream ? sl_frame_streams_join(view.streams, frame, stream) : sl_fail(SLUICE_E_INVALID, "stream is NULL");
    sl_view_end(&view);
    return r;
}

int sluice_frame_captures(const struct sluice_frame *frame)
{
    struct sl_view view;
    int r = sl_view_begin(frame, &view);

    if (r != 0)
        return r;
    r = sl_frame_streams_captures(view.streams, frame);
    sl_view_end(&view);
    return r;
}

/* ---- a writer's own shapes ---- */

static int writers_view(struct sluice_frame *frame, const char *name, struct sl_view *view, uint32_t *index)
{
    int r = sl_view_begin(frame, view);

    if (r != 0)
        return r;
    if (!view->writable_geometries)
        r = sl_fail(SLUICE_E_INVALID, "only a frame that is being written can change its shape");
    else
        r = sl_view_find(view, name, index);
    if (r != 0)
        sl_view_end(view);
    return r;
}

static void set_geometry(struct sl_view *view, uint32_t index, const struct sluice_array *array)
{
    sl_geometry_from_array(&view->writable_geometries[index], array);
    *view->reshaped = true;
}

int sluice_frame_reshape(struct sluice_frame *frame, const char *name, int ndim, const int64_t *shape)
{
    struct sluice_array array;
    struct sl_view view;
    uint32_t index;
    int r = writers_view(frame, name, &view, &index);

    if (r != 0)
        return r;
    if ((r = sl_format_reshape(&view.format->arrays[index], ndim, shape, &array)) == 0)
        set_geometry(&view, index, &array);
    sl_view_end(&view);
    return r;
}

int sluice_frame_resize(struct sluice_frame *frame, const char *name, uint32_t width, uint32_t height)
{
    struct sluice_array array;
    struct sl_view view;
    uint32_t index;
    int r = writers_view(frame, name, &view, &index);

    if (r != 0)
        return r;
    r = sl_format_resize(&view.format->arrays[index], width, height, view.format->pitch_align, &array);
    if (r == 0)
        set_geometry(&view, index, &array);
    sl_view_end(&view);
    return r;
}

int sluice_frame_inherit(struct sluice_frame *to, const struct sluice_frame *from)
{
    struct sl_view to_view, from_view;
    int r = sl_view_begin(to, &to_view);

    if (r != 0)
        return r;
    if ((r = sl_view_begin(from, &from_view)) != 0)
        goto out;
    if (!to_view.writable_geometries) {
        r = sl_fail(SLUICE_E_INVALID, "only a frame that is being written can inherit");
    } else {
        uint32_t size = from->meta_size <= SLUICE_MAX_META ? from->meta_size : 0;
        to->capture_ns = from->capture_ns;
        to->capture_clock = from->capture_clock;
        to->meta_size = size;
        if (size > 0 && from->meta != to->meta)
            memcpy(to->meta, from->meta, size);
    }
    sl_view_end(&from_view);
out:
    sl_view_end(&to_view);
    return r;
}
