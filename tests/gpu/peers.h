/* SPDX-License-Identifier: MIT
 *
 * Processes that read and write channel "cam" on a GPU as they are told, line by line, until something
 * befalls them. Each line is answered by one.
 *
 * Both:   fork MS        a child that lives so long and does nothing
 *         reset          the primary context, as cudaDeviceReset does
 *         finish         waits for its stream
 *         settle         the same, whatever becomes of that
 *         forget         ends at once, without closing anything
 * Reader: take MS        acquires for its stream and checks; "took SEQUENCE FLAGS", else result and sentence
 *         release MS     the frame taken last, behind a kernel that takes so long
 *         store          lets a kernel store into that frame
 *         cut            its connection breaks, without its doing
 *         join           has gone over to its next connection; holds no more than before
 *         exec           becomes another program, which sleeps
 *         lost, close
 * Writer: commit MS      behind such a kernel (-1: with no work at all); "committed SEQUENCE", else result
 *                        and sentence
 *         begin          and cancels it
 *         free           "N free", of its slots
 *         crash          commits behind a kernel that stores where nothing is
 *         close
 */
#ifndef GPU_PEERS_H
#define GPU_PEERS_H

#include "harness/test.h"

/* Wait until it is open. `options` of a reader: "order": in order, "ahead", "many": it may hold 18, "host": it holds a frame of the host channel
 * "near", too. Of a writer: "few": three slots and no more. */
struct child player_reader(const char *options);
struct child player_writer(const char *options);

#define PLAYER_ENDLESS "60000" /* MS: of work that a death comes before */

/* Sends a line, gives the answer. */
const char *player_ask(struct child *player, const char *line);

/* The same; the answer must have this in it. */
#define PLAYER(player, line, answer) player_tell(__FILE__, __LINE__, (player), (line), (answer))
void player_tell(const char *file, int at, struct child *player, const char *line, const char *answer);

/* A fact: how long something took behind a death. */
void player_note(const char *what, int64_t ns);

#endif
