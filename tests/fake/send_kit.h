/* SPDX-License-Identifier: MIT
 *
 * A writer and a reader on the fake driver that send and fetch one array, whatever memory that lies in, while calls of
 * the driver fail.
 */
#ifndef FAKE_SEND_KIT_H
#define FAKE_SEND_KIT_H

#include <sluice/sluice.h>

#include "fake/fake.h"

#define SENDING_SIZE  (3 * 1024 * 1024) /* more than goes by way of the stages at once */
#define SENDING_KINDS 3

struct sending {
    sluice_writer *writer;
    sluice_reader *reader;
    struct sluice_device device;
    struct sluice_stream stream;
    struct sluice_array arrays[SENDING_KINDS]; /* plain, pinned, the GPU's */
};

struct sending sending_begin(void);
struct sending sending_begin_with(uint32_t slots, int arrays, uint32_t graph);
void sending_end(struct sending *sending);

/* The stream waits from now on, until it may go on. */
void sending_hold_up(struct sending *sending);
void sending_go_on(void);

/* Waits for all of the GPU's work, none of which may fail. */
void sending_finish(void);

/* One frame there and back. The first sentence of a failure; "" if there was none. */
void sending_turn(struct sending *sending, int kind, struct sluice_stream stream, char value, char sentence[1024]);

/* The same with each of so many calls of a function failing, in its turn: whatever is not done in another way is said,
 * and turns work behind that. */
void sending_fail_each(struct sending *sending, int kind, struct sluice_stream stream, enum fake_function function, long calls);

/* Does it put back what the caller had? Nothing can be done where that fails. */
bool sending_puts_back(enum fake_function function);

#endif
