/* SPDX-License-Identifier: MIT
 *
 * Copies a frame's arrays into the program's own: sluice_reader_fetch, for all kinds of channels.
 */
#ifndef SL_CHANNEL_FETCH_H
#define SL_CHANNEL_FETCH_H

#include "channel/channel.h"

int sl_fetch(struct sluice_reader *reader, const struct sluice_frame *frame, const struct sluice_array *arrays,
             uint32_t count, struct sluice_stream stream, struct sluice_ticket *ticket);

/* Ends all copiers: the reader ends. `working`: the device is busy with something that does not end. False: copies are
 * under way still. */
bool sl_fetch_end(struct sluice_reader *reader, bool working);

#endif
