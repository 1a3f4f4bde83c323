/* SPDX-License-Identifier: MIT
 *
 * A pool whose buffers are free slots of a channel, so that what comes before sluicesink renders into them.
 */
#ifndef GST_SLUICE_POOL_H
#define GST_SLUICE_POOL_H

#include "slots.h"

G_DECLARE_FINAL_TYPE(GstSluicePool, gst_sluice_pool, GST, SLUICE_POOL, GstBufferPool)

GstBufferPool *gst_sluice_pool_new(struct gst_sluice_channel *channel, guint pitch_align);

#endif
