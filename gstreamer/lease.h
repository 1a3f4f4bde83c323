/* SPDX-License-Identifier: MIT
 *
 * A channel's frames as memory of GStreamer. A frame is released when the last buffer with it is freed, on any thread;
 * the reader ends behind the last frame, so buffers outlive the element.
 */
#ifndef GST_SLUICE_LEASE_H
#define GST_SLUICE_LEASE_H

#include <gst/gst.h>
#include <sluice/sluice.h>

struct gst_sluice_reader {
    gint refs;
    gint held; /* frames, that taken last included */
    sluice_reader *handle;
};

struct gst_sluice_lease {
    struct gst_sluice_reader *reader;
    struct sluice_frame frame;
    struct sluice_stream behind; /* whose work the frame ends; SLUICE_ON_CPU: at once */
};

/* Takes over the handle. */
struct gst_sluice_reader *gst_sluice_reader_new(sluice_reader *handle);

/* Takes no more frames. Clears the pointer. */
void gst_sluice_reader_stop(struct gst_sluice_reader **reader);

/* Takes a frame, without waiting. Returns: as sluice_reader_acquire. */
int gst_sluice_lease_take(struct gst_sluice_reader *reader, struct gst_sluice_lease **lease);

void gst_sluice_lease_end(gpointer lease);

#endif
