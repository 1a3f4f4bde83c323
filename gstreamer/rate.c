/* SPDX-License-Identifier: MIT
 *
 * The nominal rate of a channel, which its format does not have: measured over its first frames.
 */
#include "rate.h"

#include <math.h>

/* A measured rate is one of these if it is within 10 %: a muxer wants the number that was meant. */
static const int usual[] = { 1, 2, 5, 10, 12, 15, 20, 24, 25, 30, 48, 50, 60, 72, 75, 90, 100, 120, 144, 240 };

void gst_sluice_rate(const struct sluice_frame *first, const struct sluice_frame *last, int *fps_n, int *fps_d)
{
    gint64 time = last->capture_ns - first->capture_ns;
    double rate, best = 0.1;

    *fps_n = 0;
    *fps_d = 1;
    if (first->session != last->session || last->sequence <= first->sequence)
        return;
    if (time <= 0)
        time = last->commit_ns - first->commit_ns;
    if (time <= 0)
        return;
    rate = (double)(last->sequence - first->sequence) * 1e9 / (double)time;
    for (gsize i = 0; i < G_N_ELEMENTS(usual); i++)
        if (fabs(rate - usual[i]) / usual[i] < best) {
            best = fabs(rate - usual[i]) / usual[i];
            *fps_n = usual[i];
        }
    if (*fps_n == 0 && rate < 1000) {
        *fps_n = (int)lround(rate * 10);
        *fps_d = 10;
    }
    if (*fps_n == 0)
        *fps_d = 1;
}
