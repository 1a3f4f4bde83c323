/* SPDX-License-Identifier: MIT */
#ifndef GST_SLUICE_SINK_H
#define GST_SLUICE_SINK_H

#include <gst/base/gstbasesink.h>

G_DECLARE_FINAL_TYPE(GstSluiceSink, gst_sluice_sink, GST, SLUICE_SINK, GstBaseSink)
GST_ELEMENT_REGISTER_DECLARE(sluicesink)

#endif
