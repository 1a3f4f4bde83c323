/* SPDX-License-Identifier: MIT
 *
 * Semaphores of readers that wait for frames on their GPU: words in each reader's own page, which the writer signals as
 * well as the channel's. The list of readers is the writer's own, so commit needs no lock; begin updates it.
 *
 * Each signal takes the GPU most of a microsecond, in which it runs no other work of this stream, nor of other
 * processes. So a semaphore is signalled only for as many frames as its reader requests (semaphores_to). Before it
 * publishes a frame, the writer stores from which frame on it signals (semaphores_from), so no reader waits for a
 * signal that does not come.
 */
#ifndef SL_NATIVE_WRITER_READER_SEMAPHORES_H
#define SL_NATIVE_WRITER_READER_SEMAPHORES_H

#include "native/writer/in_flight.h"

struct sl_reader_semaphore {
    struct sl_shared_page *page;
    bool in_table;  /* the reader is */
    bool requested; /* it is signalled: semaphores_from is stored */
};

struct sl_reader_semaphores {
    struct sl_reader_semaphore list[SLUICE_MAX_READERS];
    uint32_t count;
};

/* A reader has joined: registers its page with the device, on a thread of its own, so that begin does not wait for the
 * driver (protocol 6.2). The reader is welcomed when that is done, or earlier if the driver takes long: then its CPU
 * waits for frames. On the service thread. */
void sl_reader_semaphores_register(struct sl_shared_page *page, const struct sl_sync_ops *sync, const char *device);

/* Adds readers whose pages are registered by now, and drops those that have left: the last user of a page has it
 * unregistered, also on a thread of its own. While the device is `busy` with frames of this writer no reader is
 * dropped: their words are still to be signalled. */
void sl_reader_semaphores_update(struct sl_reader_semaphores *semaphores, struct sl_serve *serve, bool busy);

/* Updates which readers request signals, and stores semaphores_from for them. Before frames from `next` on are
 * committed. */
void sl_reader_semaphores_update_requests(struct sl_reader_semaphores *semaphores, uint64_t next);

/* Drops all readers. */
void sl_reader_semaphores_close(struct sl_reader_semaphores *semaphores);

/* Step W7 for all readers that request it: fills in one signal for each. Returns how many. */
uint32_t sl_reader_semaphores_fill_signals(const struct sl_reader_semaphores *semaphores, uint32_t slot,
                                           uint64_t sequence, struct sl_signal *signals);

#endif
