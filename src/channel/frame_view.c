/* SPDX-License-Identifier: MIT
 *
 * A frame's arrays, for both the writer and the reader.
 */
#include <stdio.h>
#include <string.h>

#include "format/format.h"
#include "channel/frame_view.h"
#include "device/device.h"
#include "util/result.h"

int sl_view_begin(const struct sluice_frame *frame, struct sl_view *view)
{
    int r;

    if (!frame)
        return sl_fail(SLUICE_E_INVALID, "no frame was given");
    if ((r = sl_object_forked()) != 0)
        return r;
    uint64_t owner = frame->opaque[SL_FRAME_OWNER];
    if (owner == 0)
        return sl_fail(SLUICE_E_STALE, "this frame has ended, or never began");
    memset(view, 0, sizeof *view);
    if ((view->object = sl_object_find(owner, SL_HANDLE_READER)))
        r = sl_reader_view(view->object, frame, view);
    else if ((view->object = sl_object_find(owner, SL_HANDLE_WRITER)))
        r = sl_writer_view(view->object, frame, view);
    else
        return sl_fail(SLUICE_E_STALE, "the writer or reader that this frame came from is closed");
    if (r != 0)
        sl_view_end(view);
    return r;
}

void sl_view_end(struct sl_view *view) { sl_object_drop(view->object); }

int sl_view_find(const struct sl_view *view, const char *name, uint32_t *index)
{
    char names[SLUICE_MAX_ARRAYS * (SLUICE_ARRAY_NAME + 2)];
    size_t used = 0;

    *index = 0;
    if (!name || name[0] == '\0')
        return 0;
    for (uint32_t i = 0; i < view->format->array_count; i++) {
        if (strcmp(view->format->arrays[i].name, name) == 0) {
            *index = i;
            return 0;
        }
    }
    for (uint32_t i = 0; i < view->format->array_count; i++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s'%s'", i ? ", " : "",
                                 view->format->arrays[i].name);
    return sl_fail(SLUICE_E_NOT_FOUND, "the frame has no array '%.31s'; it has %s", name, names);
}

int sl_view_array(const struct sl_view *view, uint32_t index, struct sluice_array *array)
{
    int r;

    if (index >= view->format->array_count)
        return sl_fail(SLUICE_E_NOT_FOUND, "the frame has %u arrays; there is no array %u", view->format->array_count,
                       index);
    const struct sluice_array *capacity = &view->format->arrays[index];
    struct sluice_array a = *capacity;
    /* Copied once, then checked, then used (protocol 5.12). */
    struct sl_geometry geometry = view->record->arrays[index];
    sl_geometry_to_array(&geometry, &a);
    if (a.image.pixel_format == SLUICE_PIXEL_NONE)
        a.image = capacity->image;
    if ((r = sl_format_geometry_check(capacity, &a, view->format->slot_bytes)) != 0)
        return r;
    a.data = view->address + a.offset;
    a.read_only = view->read_only;
    *array = a;
    return 0;
}

int sluice_frame_array(const struct sluice_frame *frame, const char *name, struct sluice_array *array)
{
    struct sl_view view;
    uint32_t index;
    int r = sl_view_begin(frame, &view);

    if (r != 0)
        return r;
    if (!array)
        r = sl_fail(SLUICE_E_INVALID, "no place for the array was given");
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
    r = array ? sl_view_array(&view, index, array) : sl_fail(SLUICE_E_INVALID, "no place for the array was given");
    sl_view_end(&view);
    return r;
}

int sluice_frame_device(const struct sluice_frame *frame, char *name, size_t size)
{
    struct sl_view view;
    int r = sl_view_begin(frame, &view);

    if (r != 0)
        return r;
    size_t length = strlen(view.device) + 1;
    if (!name)
        r = sl_fail(SLUICE_E_INVALID, "no place for the device's name was given");
    else if (size < length)
        r = sl_fail(SLUICE_E_LIMIT, "the device's name needs %zu bytes, there is room for %zu; %d are always enough", length,
                    size, SL_DEVICE_NAME);
    else
        memcpy(name, view.device, length);
    sl_view_end(&view);
    return r;
}

/* ---- a writer's own shapes ---- */

static int writers_view(struct sluice_frame *frame, const char *name, struct sl_view *view, uint32_t *index)
{
    int r = sl_view_begin(frame, view);

    if (r != 0)
        return r;
    if (!view->writable_record)
        r = sl_fail(SLUICE_E_INVALID, "only a frame that is being written can change its shape");
    else
        r = sl_view_find(view, name, index);
    if (r != 0)
        sl_view_end(view);
    return r;
}

static void set_geometry(struct sl_view *view, uint32_t index, const struct sluice_array *array)
{
    sl_geometry_from_array(&view->writable_record->arrays[index], array);
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
    if (!to_view.writable_record) {
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
