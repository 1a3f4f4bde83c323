/* SPDX-License-Identifier: MIT
 *
 * Processes that read and write channel "cam" on a GPU, led line by line. Each line gets a line as its answer.
 *
 * Both:   fork MS        makes a child that lives for MS and does nothing
 *         reset          the primary context, as cudaDeviceReset does
 *         finish         waits for its stream
 *         settle         the same, ignoring errors
 *         forget         exits at once, without closing anything
 * Reader: take MS        acquires for its stream and checks; "took SEQUENCE FLAGS", else result and message
 *         release MS     the frame taken last, after a kernel that takes MS
 *         store          lets a kernel store into that frame
 *         cut            breaks its connection
 *         join           waits until it uses its next connection, and holds no more than before
 *         exec           becomes another program, which sleeps
 *         lost, close
 * Writer: commit MS      after such a kernel (-1: without any work); "committed SEQUENCE", else result and message
 *         begin          and cancels it
 *         free           "N free", of its slots
 *         crash          commits after a kernel that stores to an unmapped address
 *         close
 */
#ifndef GPU_PEERS_H
#define GPU_PEERS_H

#include "harness/test.h"

/* Both wait until it is open. `options` of a reader: "order": in order, "ahead", "many": it may hold 18, "host": it
 * also holds a frame of the host channel "near". Of a writer: "few": exactly three slots. */
struct child peer_reader(const char *options);
struct child peer_writer(const char *options);

#define PEER_ENDLESS "60000" /* MS: of work during which a process dies */

/* Sends a line, returns the answer. */
const char *peer_ask(struct child *peer, const char *line);

/* The same; the answer must contain `answer`. */
#define PEER(peer, line, answer) peer_expect(__FILE__, __LINE__, (peer), (line), (answer))
void peer_expect(const char *file, int at, struct child *peer, const char *line, const char *answer);

/* Records how long something took after a death. */
void peer_fact(const char *what, int64_t ns);

#endif
