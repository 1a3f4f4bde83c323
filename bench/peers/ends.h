/* SPDX-License-Identifier: MIT
 *
 * For the peers that send bytes through two connected descriptors. Both sides copy.
 */
#ifndef BENCH_ENDS_H
#define BENCH_ENDS_H

#include "peer.h"

extern int ends[2]; /* the reader's and the writer's, opened by prepare */

void ends_writer_open(size_t bytes);
void ends_send(const void *own);
void ends_reader_open(size_t bytes);
const void *ends_receive(void);

#define ENDS_PEER \
    { \
        .prepare = prepare, .writer_open = ends_writer_open, .send = ends_send, .reader_open = ends_reader_open, \
        .receive = ends_receive, \
    }

#endif
