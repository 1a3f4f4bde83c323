/* SPDX-License-Identifier: MIT
 *
 * What hostile readers are made of: each step of a connection by hand, and invalid descriptors of every kind.
 */
#ifndef HOSTILE_ATTACKER_H
#define HOSTILE_ATTACKER_H

#include "hostile/attack.h"

/* ---- one connection to "cam" ---- */

enum attacker_step { CONNECTED, GREETED, WELCOMED, GIVEN, ARRIVED, SLEEPING, HOLDING, ATTACKER_STEPS };

struct attacker {
    int fd, wake, control_fd, page_fd, memory_fd; /* -1: not there yet */
    struct sl_control *control;
    struct sl_reader_page *page;
    uint64_t control_size, page_size;
    uint32_t memory;
};

union sl_message attacker_hello(void);

/* Goes as far as a step, as a sane reader would (in newest mode, unless `hello` says otherwise; NULL: a plain one).
 * False if the writer hung up or refused. */
bool attacker_go(struct attacker *attacker, enum attacker_step step, const union sl_message *hello);

/* Receives and acknowledges other memories that have arrived. */
void attacker_attend(struct attacker *attacker);

void attacker_close(struct attacker *attacker);

/* Sends a message with the size in its header. */
void attacker_say(int fd, const union sl_message *message);

/* True if the other side ends the connection in time, once all that it sent is read. */
bool attacker_ended(int fd, int timeout_ms);

/* Raises the limit of open descriptors to the hard limit. */
void attacker_many_fds(void);

/* ---- descriptors ---- */

enum { ATTACKER_FDS = 14 };

/* A new descriptor of a kind from 0 to ATTACKER_FDS - 1: files, pipes, folders, sockets, invalid memory of all kinds;
 * -1 where this machine has none. */
int attacker_fd(int kind);

/* A TCP socket whose last close lingers for an hour; -1 without a network. */
int attacker_lingering(void);

/* Closes one of these on another thread, as that may take an hour. */
void attacker_close_lingering(int fd);

/* ---- bytes ---- */

uint64_t attacker_random(void);
void attacker_scribble(void *bytes, size_t size);

#endif
