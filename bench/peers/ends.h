/* SPDX-License-Identifier: MIT
 *
 * What the peers share that send bytes through two connected descriptors. Both sides copy.
 */
#ifndef BENCH_ENDS_H
#define BENCH_ENDS_H

#include "peer.h"

extern int ends[2]; /* the reader's, the writer's; made by prepare */

void ends_writer_open(size_t bytes);
void ends_hand(const void *own);
void ends_reader_open(size_t bytes);
const void *ends_take(void);

#define ENDS_PEER \
    { \
        .prepare = prepare, .writer_open = ends_writer_open, .hand = ends_hand, \
        .reader_open = ends_reader_open, .take = ends_take, \
    }

#endif
