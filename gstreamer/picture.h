/* SPDX-License-Identifier: MIT
 *
 * A frame of a channel as a buffer: in place if what follows can read it there, else a copy.
 */
#ifndef GST_SLUICE_PICTURE_H
#define GST_SLUICE_PICTURE_H

#include "format.h"
#include "lease.h"

/* The image that is shown: the array `name`, or, if that is NULL, the first image. Returns: 0, or a failure with its
 * sentence in sluice_last_error or, if it is set, in *why. */
int gst_sluice_picture_find(const struct sluice_frame *frame, const char *name, struct sluice_array *array, char **why);

/* Takes over the lease: it ends with the buffer, or at once if the frame is copied. `room`: there may be one more
 * buffer in place. `any_layout`: what follows reads GstVideoMeta. */
GstBuffer *gst_sluice_picture_wrap(struct gst_sluice_lease *lease, const struct sluice_array *array,
                                   const struct gst_sluice_format *format, gboolean room, gboolean any_layout,
                                   gboolean *copied);

#endif
