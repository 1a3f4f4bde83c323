/* SPDX-License-Identifier: MIT
 *
 * The nominal rate of a channel, which its format does not have: measured over its first frames.
 */
#ifndef GST_SLUICE_RATE_H
#define GST_SLUICE_RATE_H

#include <gst/gst.h>
#include <sluice/sluice.h>

/* From two frames of a session; 0/1 if they do not tell. */
void gst_sluice_rate(const struct sluice_frame *first, const struct sluice_frame *last, int *fps_n, int *fps_d);

#endif
