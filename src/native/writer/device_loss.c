/* SPDX-License-Identifier: MIT
 *
 * The loss of a writer's device: how it is noticed, and what becomes of the frames that the device worked on.
 */
#include <stdio.h>

#include "native/writer/writer.h"
#include "util/result.h"

/* A stream reports a crash only when it is queried, so it is queried about work that should have ended long ago. */
int sl_writer_check_device(struct sl_writer *writer, int64_t now)
{
    if (writer->in_flight.idle && now - writer->last_commit_ns > SL_LATE && sl_in_flight_count(&writer->ring) > 0) {
        writer->took_long = true;
        return sl_in_flight_probe(&writer->in_flight);
    }
    return writer->in_flight.sync->alive(writer->in_flight.pages);
}

int sl_writer_lose_frames(struct sl_writer *writer, int result)
{
    uint32_t lost = sl_in_flight_lose(&writer->ring);

    if (lost == 0)
        return result;
    sl_log(SLUICE_LOG_WARN, "channel '%s': %u frames are lost with the device", writer->base.name, lost);
    sl_mutex_lock(&writer->serve->lock);
    sl_serve_wake(writer->serve, SL_LAST_SEQUENCE); /* readers must not wait for them (protocol 3.3) */
    sl_mutex_unlock(&writer->serve->lock);
    return result;
}

int sl_writer_explain_failure(struct sl_writer *writer, int result)
{
    char message[640];

    snprintf(message, sizeof message, "%s", sl_last_error());
    if (sl_writer_check_device(writer, sl_os_now()) != 0)
        (void)sl_writer_lose_frames(writer, result);
    return sl_fail_text(result, message);
}
