/* SPDX-License-Identifier: MIT
 *
 * sluice bridge: what its two halves share, taking frames from one channel and handing them on to another.
 */
#ifndef TOOLS_BRIDGE_H
#define TOOLS_BRIDGE_H

#include <stdbool.h>
#include <stdint.h>

#include <sluice/sluice.h>

#include "../common/readback.h"

struct bridge {
    const char *command; /* for messages */
    const char *from, *to, *array;
    const char *device; /* that TO is on; NULL: as FROM */
    const char *from_device; /* that FROM is read on; NULL: as it says */
    uint64_t limit;     /* frames; 0: all */
    int64_t seconds_ns, timeout_ns;
    uint32_t depth, every, slots, undeclared;
    bool newest, wait, once, close, stats, quiet;

    bool from_cipd, to_cipd; /* channels of cuda-link's protocol */
    struct sluice_cipd_writer_params to_params;

    sluice_reader *reader;
    sluice_writer *writer; /* NULL until the first frame has told what it must be, and while TO is closed */
    char on[64];           /* the device that TO is on, once it was opened */
    struct readback readback;
    struct sluice_format format; /* that TO has */
    bool refused;                /* TO cannot carry what FROM has now; that was said */

    int64_t end_ns;
    uint32_t to_skip; /* frames of a cipd: FROM until the next one that is handed on, by --every */
    uint64_t frames, missed, dropped, lost, session;
    unsigned sessions;
    int64_t delay_ns; /* from commit to commit, of all frames since the last line */
    uint64_t delays;
};

/* Hands one frame on: opens or reformats TO as it wants. Returns an exit code. */
int bridge_send(struct bridge *bridge, const struct sluice_frame *frame);

/* Ends TO, if it is open. */
void bridge_close_output(struct bridge *bridge);

/* A line about what has changed, unless it is to be quiet. */
void bridge_note(const struct bridge *bridge, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
