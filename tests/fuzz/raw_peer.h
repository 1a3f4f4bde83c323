/* SPDX-License-Identifier: MIT
 *
 * A hostile peer at the other end of a connection: any bytes, any descriptors.
 */
#ifndef FUZZ_RAW_PEER_H
#define FUZZ_RAW_PEER_H

#include "fuzz.h"

/* Sends a message with descriptors; errors are ignored. */
void raw_peer_send(int fd, const void *message, size_t size, const int *fds, int count);

/* Sends bytes of the input: a length, the descriptors, and the bytes. */
void raw_peer_send_input(struct input *input, int fd);

/* An unrequested descriptor of some kind; it stays open. */
int raw_peer_fd(uint8_t kind);

/* How many descriptors are open, and how many pieces of shared memory are mapped. */
int raw_peer_open_fds(void);
int raw_peer_mappings(void);

#endif
