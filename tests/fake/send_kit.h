/* SPDX-License-Identifier: MIT
 *
 * A writer and a reader on the fake driver that send and fetch one array, in any kind of memory, while driver calls
 * fail.
 */
#ifndef FAKE_SEND_KIT_H
#define FAKE_SEND_KIT_H

#include <sluice/sluice.h>

#include "fake/fake.h"

#define TRANSFER_SIZE  (3 * 1024 * 1024) /* more than the staging buffers hold at once */
#define TRANSFER_KINDS 3

struct transfer {
    sluice_writer *writer;
    sluice_reader *reader;
    struct sluice_device device;
    struct sluice_stream stream;
    struct sluice_array arrays[TRANSFER_KINDS]; /* pageable, pinned, the GPU's */
};

struct transfer transfer_begin(void);
struct transfer transfer_begin_with(uint32_t slots, int arrays, uint32_t graph);
void transfer_end(struct transfer *transfer);

/* Blocks the stream until transfer_unblock. */
void transfer_block(struct transfer *transfer);
void transfer_unblock(void);

/* Waits for all of the GPU's work, none of which may fail. */
void transfer_finish(void);

/* One frame there and back. Returns the first error message, "" if there was none. */
void transfer_frame(struct transfer *transfer, int kind, struct sluice_stream stream, char value, char sentence[1024]);

/* The same with each of `calls` calls of a function failing, in turn: a failure without another way is reported, and
 * the frame after it works. */
void transfer_fail_each(struct transfer *transfer, int kind, struct sluice_stream stream, enum fake_function function,
                        long calls);

/* Does it restore the caller's state? Nothing can be done where that fails. */
bool transfer_restores(enum fake_function function);

#endif
