/* SPDX-License-Identifier: MIT
 *
 * What hostile readers are made of: each step of a connection by hand, descriptors of every wrong kind.
 */
#ifndef HOSTILE_ATTACKER_H
#define HOSTILE_ATTACKER_H

#include "hostile/attack.h"

/* ---- one connection to "cam" ---- */

enum foe_step { CONNECTED, GREETED, WELCOMED, GIVEN, ARRIVED, SLEEPING, HOLDING, FOE_STEPS };

struct foe {
    int fd, wake, control_fd, page_fd, memory_fd; /* -1: not there yet */
    struct sl_control *control;
    struct sl_reader_page *page;
    uint64_t control_size, page_size;
    uint32_t memory;
};

union sl_message foe_hello(void);

/* Goes as far as a step, as a sane reader would (in newest mode, unless `hello` says otherwise; NULL: a
 * plain one). False if the writer hung up or refused. */
bool foe_go(struct foe *foe, enum foe_step step, const union sl_message *hello);

/* Takes and acknowledges what other memories have come. */
void foe_attend(struct foe *foe);

void foe_close(struct foe *foe);

/* Sends a message as its header says. */
void foe_say(int fd, const union sl_message *message);

/* Has the other side ended the connection, once all that it sent is read? Waits up to so long. */
bool foe_ended(int fd, int timeout_ms);

/* Up to so many descriptors may be open from now on. */
void foe_many_fds(void);

/* ---- descriptors ---- */

enum { FOE_FDS = 14 };

/* A new descriptor of a kind from 0 to FOE_FDS - 1: files, pipes, folders, sockets, memory of all wrong
 * kinds; -1 where this machine has none. */
int foe_fd(int kind);

/* A TCP socket that lingers for an hour in whoever closes it last; -1 without a network. */
int foe_lingering(void);

/* Closes one of these, which need not be over before an hour. */
void foe_close_lingering(int fd);

/* ---- bytes ---- */

uint64_t foe_random(void);
void foe_scribble(void *bytes, size_t size);

#endif
