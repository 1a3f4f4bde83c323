/* SPDX-License-Identifier: MIT
 *
 * Peers written by hand: a raw socket, and a whole writer whose messages and pages a test may corrupt.
 */
#ifndef MULTI_RAW_H
#define MULTI_RAW_H

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/un.h>

#include "multi/kit.h"
#include "native/wire/message.h"

#define RAW_PAGE 4096
#define RAW_FDS  254 /* one more than the kernel passes */

/* The address of a channel's socket. */
struct sockaddr_un raw_address(const char *name);

/* A connection to a channel, which waits up to 5 s for each message. */
int raw_dial(const char *name);

/* The first message of a reader of the newest frame. */
union sl_message raw_hello(const char *program);

/* False if it could not be sent. */
bool raw_send(int fd, const void *message, size_t size, const int *fds, int count);

/* One message; 0 at the end. Descriptors go to fds, or are closed if that is NULL. */
size_t raw_receive(int fd, union sl_message *message, int *fds, int *count);

/* ---- a writer of channel "cam" ---- */

#define SIZE_SEALS (F_SEAL_SHRINK | F_SEAL_GROW)
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif
#define ALL_SEALS (SIZE_SEALS | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL)

struct fake {
    int listener;
    pthread_t thread;
    atomic_int stop, connections;
    void (*corrupt)(struct fake *fake, union sl_message *message, int *fds, int *count);
    int how; /* for corrupt */

    struct sl_control *control;
    uint64_t control_size;
    struct sl_reader_page *page;
    char *memory;
    uint64_t memory_size;
    struct sluice_format format;
};

/* A memory object, mapped at *address unless that is NULL. */
int fake_memory(uint64_t size, void **address, int seals);

/* A writer that answers by itself, from a thread. */
void fake_start(struct fake *fake);

/* A writer that is led step by step: accept returns a connection, or -1; answer reads its hello, and sends the welcome
 * and a memory. */
void fake_listen(struct fake *fake);
int fake_accept(struct fake *fake, int timeout_ms);
void fake_answer(struct fake *fake, int connection);
void fake_stop(struct fake *fake);

#endif
