/* SPDX-License-Identifier: MIT
 *
 * What a held frame points at, whichever side holds it.
 */
#ifndef SL_CHANNEL_FRAME_VIEW_H
#define SL_CHANNEL_FRAME_VIEW_H

#include <sluice/device.h>
#include <sluice/frame.h>

#include "device/device.h"
#include "format/format.h"

/* In struct sluice_frame's opaque words. */
enum { SL_FRAME_OWNER, SL_FRAME_TOKEN, SL_FRAME_ENTRY };

struct sl_view {
    const struct sluice_format *format;      /* of the frame's generation */
    const struct sl_geometry *geometries;    /* of the frame's arrays; a hostile writer may change them at any moment */
    struct sl_geometry *writable_geometries; /* writer's frames only */
    bool *reshaped;                          /* writer's frames only: set when a geometry was changed */
    char *address;                           /* of the slot */
    const char *device;                      /* where that is: "host", "cuda:0" */
    struct sluice_stream behind; /* a reader's frame: on which stream it will be ready; SLUICE_ON_CPU: it is */
    bool read_only;
    struct sl_frame_streams *streams; /* the writer's or reader's */
    struct sl_object *object;         /* held until sl_view_end */
};

/* SLUICE_E_STALE for a frame that has ended, SLUICE_E_INVALID for one that never began. */
int sl_view_begin(const struct sluice_frame *frame, struct sl_view *view);
void sl_view_end(struct sl_view *view);

/* One array of a view, checked. */
int sl_view_array(const struct sl_view *view, uint32_t index, struct sluice_array *array);

/* The index of an array by name (NULL or "": the first). */
int sl_view_find(const struct sl_view *view, const char *name, uint32_t *index);

#endif
