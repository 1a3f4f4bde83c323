/* SPDX-License-Identifier: MIT
 *
 * The other end of a connection, which keeps to no rule: any bytes, any descriptors.
 */
#ifndef FUZZ_RAW_PEER_H
#define FUZZ_RAW_PEER_H

#include "fuzz.h"

/* Sends a message with descriptors; what cannot be sent is not. */
void stranger_send(int fd, const void *message, size_t size, const int *fds, int count);

/* Sends bytes of the input: a length, what comes with them, and they themselves. */
void stranger_send_input(struct input *input, int fd);

/* A descriptor of some kind that nobody asked for; it stays open. */
int stranger_fd(uint8_t kind);

/* How many descriptors are open, and how many pieces of shared memory are mapped. */
int stranger_open_fds(void);
int stranger_mappings(void);

#endif
