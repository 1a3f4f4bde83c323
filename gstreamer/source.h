/* SPDX-License-Identifier: MIT */
#ifndef GST_SLUICE_SOURCE_H
#define GST_SLUICE_SOURCE_H

#include <gst/base/gstpushsrc.h>

G_DECLARE_FINAL_TYPE(GstSluiceSrc, gst_sluice_src, GST, SLUICE_SRC, GstPushSrc)
GST_ELEMENT_REGISTER_DECLARE(sluicesrc)

#endif
