/* SPDX-License-Identifier: MIT
 *
 * Internals of the host kind of device: what its streams and events do while a graph is captured.
 */
#ifndef SL_DEVICE_HOST_H
#define SL_DEVICE_HOST_H

#include "device/device.h"

/* Commands of a capture, by their numbers. */
struct sl_host_nodes {
    uint32_t count;
    uint32_t *list;
};

struct sl_host_event {
    _Atomic int64_t at;        /* sl_os_now() when it was recorded */
    struct sl_host_nodes mark; /* what waits for it come after, in the capture event->capture */
};

static inline struct sl_host_event *sl_host_event_of(struct sl_event *event)
{
    return (struct sl_host_event *)event->native;
}

/* Marks the place in the stream's capture; 0 as event->capture if it takes part in none. */
int sl_host_capture_record(struct sl_stream *stream, struct sl_event *event);

/* SLUICE_E_CAPTURING: the event marks a place in a capture, not a moment. */
int sl_host_capture_moment(struct sl_event *event);

/* Makes the commands that `stream` records from now on come after the place that the event marks, or after what `other`
 * has recorded; a stream that captures nothing joins the capture. SLUICE_E_CAPTURING for what CUDA refuses. */
int sl_host_capture_wait_event(struct sl_stream *stream, struct sl_event *event);
int sl_host_capture_wait_stream(struct sl_stream *stream, struct sl_stream *other);

#endif
