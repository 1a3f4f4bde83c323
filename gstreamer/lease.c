/* SPDX-License-Identifier: MIT
 *
 * A channel's frames as memory of GStreamer: the count of who uses a reader.
 */
#include "lease.h"

struct gst_sluice_reader *gst_sluice_reader_new(sluice_reader *handle)
{
    struct gst_sluice_reader *reader = g_new0(struct gst_sluice_reader, 1);

    reader->refs = 1;
    reader->handle = handle;
    return reader;
}

static void drop(struct gst_sluice_reader *reader)
{
    if (!g_atomic_int_dec_and_test(&reader->refs))
        return;
    sluice_reader_close(&reader->handle);
    g_free(reader);
}

void gst_sluice_reader_stop(struct gst_sluice_reader **reader)
{
    if (!*reader)
        return;
    sluice_reader_stop((*reader)->handle);
    drop(*reader);
    *reader = NULL;
}

int gst_sluice_lease_take(struct gst_sluice_reader *reader, struct gst_sluice_lease **out)
{
    struct sluice_frame frame;
    int r = sluice_reader_acquire(reader->handle, SLUICE_ON_CPU, 0, &frame);

    if (r != 0)
        return r;
    struct gst_sluice_lease *lease = g_new(struct gst_sluice_lease, 1);
    lease->reader = reader;
    lease->frame = frame;
    lease->behind = SLUICE_ON_CPU;
    g_atomic_int_inc(&reader->refs);
    g_atomic_int_inc(&reader->held);
    *out = lease;
    return 0;
}

void gst_sluice_lease_end(gpointer data)
{
    struct gst_sluice_lease *lease = data;

    sluice_reader_release(lease->reader->handle, &lease->frame, lease->behind);
    g_atomic_int_add(&lease->reader->held, -1);
    drop(lease->reader);
    g_free(lease);
}
