/* SPDX-License-Identifier: MIT
 *
 * What bare channels tell of their readers' streams that wait for frames: which work comes behind such a wait, and may not be
 * published before the frame has come. park.c keeps it, with what it has of its own.
 */
#ifndef SL_CORE_BEHIND_H
#define SL_CORE_BEHIND_H

#include "device/device.h"

/* Before the wait is queued, on a stream that the caller holds. `owner` and `number` name it. False if there is no room. With
 * no lock held. */
bool sl_behind_begin(const void *owner, uint64_t number, const struct sl_stream *stream);

/* The frame has not come, and the stream goes on: before it does. It is `then`'s from there on. Under the service lock. */
void sl_behind_lose(const void *owner, uint64_t number, const void *then);

/* The frame has come, or it was told that it has not. Under the service lock. */
void sl_behind_end(const void *owner, uint64_t number);
void sl_behind_end_all(const void *owner);

#endif
