/* SPDX-License-Identifier: MIT
 *
 * Bare channels register here the streams of their readers that wait for frames. Work that is ordered behind such a wait must
 * not be published before the frame has come. park.c keeps them in the same list as its own.
 */
#ifndef SL_CHANNEL_STREAM_DEPS_H
#define SL_CHANNEL_STREAM_DEPS_H

#include "device/device.h"

/* Before the wait is queued, on a stream that the caller holds. `owner` and `number` identify it. False if there is no room.
 * With no lock held. */
bool sl_behind_begin(const void *owner, uint64_t number, const struct sl_stream *stream);

/* The frame is lost; before the stream is let go on. From then on `then` is the owner. Under the service lock. */
void sl_behind_lose(const void *owner, uint64_t number, const void *then);

/* The frame has come, or its loss was reported. Under the service lock. */
void sl_behind_end(const void *owner, uint64_t number);
void sl_behind_end_all(const void *owner);

#endif
