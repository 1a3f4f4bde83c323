/* SPDX-License-Identifier: MIT
 *
 * Looks up a frame's arrays, for both the writer and the reader.
 */
#include <stdio.h>
#include <string.h>

#include "channel/channel.h"
#include "format/format.h"
#include "util/result.h"

int sl_view_begin(const struct sluice_frame *frame, struct sl_view *view)
{
    int r;

    if (!frame)
        return sl_fail(SLUICE_E_INVALID, "frame is NULL");
    if ((r = sl_object_forked()) != 0)
        return r;
    uint64_t owner = frame->opaque[SL_FRAME_OWNER];
    if (owner == 0)
        return sl_fail(SLUICE_E_STALE, "this frame has ended, or never began");
    memset(view, 0, sizeof *view);
    if ((view->object = sl_object_find(owner, SL_HANDLE_READER))) {
        struct sluice_reader *reader = (struct sluice_reader *)view->object;
        view->streams = &reader->streams;
        r = reader->ops->reader_view(reader, frame, view);
    } else if ((view->object = sl_object_find(owner, SL_HANDLE_WRITER))) {
        struct sluice_writer *writer = (struct sluice_writer *)view->object;
        view->streams = &writer->streams;
        r = writer->ops->writer_view(writer, frame, view);
    } else {
        return sl_fail(SLUICE_E_STALE, "the writer or reader that this frame came from is closed");
    }
    if (r != 0)
        sl_view_end(view);
    return r;
}

void sl_view_end(struct sl_view *view)
{
    sl_object_drop(view->object);
}

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
        used +=
            (size_t)snprintf(names + used, sizeof names - used, "%s'%s'", i ? ", " : "", view->format->arrays[i].name);
    return sl_fail(SLUICE_E_NOT_FOUND, "the frame has no array '%.31s'; it has %s", name, names);
}

/* An array whose geometry differs from the format's: checks it. */
static int check_reshaped(const struct sl_view *view, const struct sluice_array *capacity,
                          const struct sl_geometry *shared, struct sluice_array *array)
{
    struct sl_geometry geometry = *shared; /* copied once, then checked, then used (protocol 5.12) */

    sl_geometry_to_array(&geometry, array);
    if (array->image.pixel_format == SLUICE_PIXEL_NONE)
        array->image = capacity->image;
    return sl_format_geometry_check(capacity, array, view->format->slot_bytes);
}

int sl_view_array(const struct sl_view *view, uint32_t index, struct sluice_array *array)
{
    int r;

    if (index >= view->format->array_count)
        return sl_fail(SLUICE_E_NOT_FOUND, "the frame has %u arrays; there is no array %u", view->format->array_count,
                       index);
    const struct sluice_array *capacity = &view->format->arrays[index];
    const struct sl_geometry *geometry = &view->geometries[index];
    struct sluice_array a = *capacity; /* which was checked when the format came */
    if (!sl_geometry_is_of(geometry, capacity) && (r = check_reshaped(view, capacity, geometry, &a)) != 0)
        return r;
    a.data = view->address + a.offset;
    a.read_only = view->read_only;
    *array = a;
    return 0;
}
