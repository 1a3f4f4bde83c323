/* SPDX-License-Identifier: MIT
 *
 * Messages about captures: a wait that leads out of one, and an end before all its streams are joined.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "device/device.h"
#include "util/result.h"

void sl_names_add(struct sl_names *names, uint64_t stream)
{
    size_t length = names->count ? strlen(names->text) : 0;

    if (length < sizeof names->text - 24) /* more are counted, and not named */
        snprintf(names->text + length, sizeof names->text - length, "%s0x%" PRIx64, names->count ? ", " : "", stream);
    else if (strcmp(names->text + length - 3, "...") != 0)
        strcpy(names->text + length, ", ...");
    names->count++;
}

int sl_capture_unjoined(uint64_t origin, const struct sl_names *names)
{
    if (names->count == 0)
        return sl_fail(SLUICE_E_CAPTURE,
                       "the capture on stream 0x%" PRIx64 " has ended without a graph: a stream takes part for whose "
                       "work it does not wait; join it (sluice_join, sluice_stream_wait_stream) before the end",
                       origin);
    return sl_fail(SLUICE_E_CAPTURE,
                   "the capture on stream 0x%" PRIx64 " has ended without a graph: it does not wait for the work of "
                   "stream%s %s, which take%s part; join %s (sluice_join, sluice_stream_wait_stream) before the end",
                   origin, names->count > 1 ? "s" : "", names->text, names->count > 1 ? "" : "s",
                   names->count > 1 ? "them" : "it");
}

int sl_capture_may_wait(const struct sl_stream *stream, bool is_default, uint64_t part, uint64_t other)
{
    const char *device = stream->object.device->name;

    if (part != 0 && other == 0)
        return sl_fail(
            SLUICE_E_CAPTURING,
            "%s: the stream captures a graph, which cannot wait for work outside of it; record the event, or "
            "queue the work, within the capture",
            device);
    if (part != 0 && part != other)
        return sl_fail(SLUICE_E_CAPTURING, "%s: the two streams take part in two captures", device);
    if (other != 0 && is_default)
        return sl_fail(SLUICE_E_CAPTURING,
                       "%s: what it would wait for is being captured into a graph, and the default stream cannot take "
                       "part; use a stream of your own",
                       device);
    return 0;
}
