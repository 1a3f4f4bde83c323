/* SPDX-License-Identifier: MIT
 *
 * Readers that wait for frames on their GPU: the writer raises a word in each one's own page, beside the
 * channel's. The list is the writer's own, so that commit needs no lock; begin brings it up to date.
 *
 * Each write takes the GPU most of a microsecond, in which no other work of this stream runs, nor of other processes.
 * So the words are raised only for readers that ask for them, for as many frames as each of them asks (semaphores_to). The writer says
 * from which frame on it raises them before it publishes that frame (semaphores_from), so a reader never waits for a word that
 * nobody raises.
 */
#ifndef SL_NATIVE_WRITER_READER_SEMAPHORES_H
#define SL_NATIVE_WRITER_READER_SEMAPHORES_H

#include "native/writer/in_flight.h"

struct sl_reader_semaphore {
    struct sl_shared_page *page;
    bool here;                   /* the reader is still in the table */
    bool asks;                   /* its words are raised: semaphores_from is stored */
};

struct sl_reader_semaphores {
    struct sl_reader_semaphore list[SLUICE_MAX_READERS];
    uint32_t count;
};

/* A reader has joined: registers its page with the device, on a thread of its own, so that begin does not wait for the driver
 * (protocol 6.2). The reader is welcomed when that is done, or earlier if the driver takes long: then its CPU waits for
 * frames. On the service thread. */
void sl_reader_semaphores_register(struct sl_shared_page *page, const struct sl_sync_ops *sync, const char *device);

/* Adds readers whose pages are registered by now, and drops those that have left: the last user of a page has it unregistered,
 * also on a thread of its own. While the device is `busy` with frames of this writer no reader is dropped: their words are
 * still to be raised. */
void sl_reader_semaphores_update(struct sl_reader_semaphores *semaphores, struct sl_serve *serve, bool busy);

/* Updates which readers ask for words, and stores semaphores_from for them. Before frames from `next` on are committed. */
void sl_reader_semaphores_update_requests(struct sl_reader_semaphores *semaphores, uint64_t next);

/* Drops all readers. */
void sl_reader_semaphores_close(struct sl_reader_semaphores *semaphores);

/* W7 for all readers that ask: adds one signal for each to `signals`, which has room. Returns how many. */
uint32_t sl_reader_semaphores_fill_signals(const struct sl_reader_semaphores *semaphores, uint32_t slot, uint64_t sequence,
                           struct sl_signal *signals);

#endif
