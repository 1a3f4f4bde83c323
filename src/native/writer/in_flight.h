/* SPDX-License-Identifier: MIT
 *
 * What a writer's device still works on: frames that are committed but not ready, and cancelled slots with queued work.
 * On `host` there is never any.
 */
#ifndef SL_NATIVE_WRITER_IN_FLIGHT_H
#define SL_NATIVE_WRITER_IN_FLIGHT_H

#include "native/protocol/ring.h"
#include "sync/sync.h"

struct sl_in_flight {
    const struct sl_sync_ops *sync;
    struct sl_sync_pages *pages; /* the channel's words, registered with the device */
    sl_word *idle;               /* [ids] raised behind the work on a cancelled slot; NULL on host */
    struct sl_sync_pages *idle_pages;
    uint64_t idle_bytes;
    bool stuck; /* work on the device did not end in time: no call may wait for all of it */
};

/* Registers the words at `address` with the device. */
int sl_in_flight_open(struct sl_in_flight *flight, const char *device, void *address, uint64_t size);

/* Before the words are unmapped; with no lock held, and only once nothing is in flight. */
void sl_in_flight_close(struct sl_in_flight *flight);

/* Queues signals behind the work on `stream`; SLUICE_E_CAPTURING if it captures a graph. */
int sl_in_flight_signal(struct sl_in_flight *flight, struct sluice_stream stream, const struct sl_signal *signals,
                        uint32_t count);

/* Cancel: the slot may be taken again once the work queued on `stream` so far has ended. */
int sl_in_flight_cancel(struct sl_in_flight *flight, struct sl_ring *ring, uint32_t slot, struct sluice_stream stream);

/* 0 while the device goes on with what is in flight; else SLUICE_E_DRIVER with the reason. Calls the driver. */
int sl_in_flight_probe(const struct sl_in_flight *flight);

/* Slots that the device still works on. */
uint32_t sl_in_flight_count(const struct sl_ring *ring);

/* Waits until there are none, up to `timeout_ns`. True if nothing is in flight any more. */
bool sl_in_flight_wait(const struct sl_in_flight *flight, const struct sl_ring *ring, int64_t timeout_ns);

/* Frames in flight will never be ready: poisons their words, so that readers know (protocol 3.3). Returns how many. */
uint32_t sl_in_flight_lose(struct sl_ring *ring);

#endif
