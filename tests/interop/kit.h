/* SPDX-License-Identifier: MIT
 *
 * A peer in Python that follows commands, and a reader of ours that follows a channel through all its sessions.
 */
#ifndef INTEROP_KIT_H
#define INTEROP_KIT_H

#include "unit/cipd_kit.h"

/* Starts one; commands and answers are in peer.py. Skips the test without Python. */
struct child peer_start(void);

/* Sends a command whose words are separated by tabs; arguments as of printf. */
void peer_tell(struct child *peer, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same, and the answer must be `answer`. */
void peer_do(struct child *peer, const char *answer, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* True if it has answered; receives the answer. */
bool peer_answered(struct child *peer);

/* Closes its stdin; it ends as a program does that is finished. */
void peer_end(struct child *peer);

/* Follows a channel: reconnects whenever it must. The first 4 bytes of a session's handles identify it; that is
 * `session`. */
struct follower {
    struct sl_cipd_segment_reader consumer;
    struct sl_cipd_frame frame;
    uint32_t session;
    long frames, sessions, shuts, changes, losses;
    long mixed; /* copies of two sessions that were noticed before a frame was read by them */
    bool early; /* it joined before the session had its handles, and had a frame of the one before */
};
void follower_init(struct follower *follower, const char *name);
void follower_end(struct follower *follower);

/* Polls once. True: there is a frame. */
bool follower_poll(struct follower *follower);

/* Polls until it has had a frame of this session, and is still in it. */
#define follower_reach(follower, number, seconds) CHECK_SOON(follower_has(follower, (uint32_t)(number)), seconds)
bool follower_has(struct follower *follower, uint32_t session);

/* A session of ours that is identified in the same way, 1 x `session` uint8. */
void begin_as(struct sl_cipd_segment_writer *producer, uint32_t slots, uint32_t session);

#endif
