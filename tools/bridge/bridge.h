/* SPDX-License-Identifier: MIT
 *
 * sluice bridge: the state shared by its two halves, reading FROM and writing TO.
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
    const char *device;      /* of TO; NULL: FROM's */
    const char *from_device; /* that FROM is read on; NULL: its own */
    uint32_t max_frames;     /* 0: no limit */
    int64_t duration_ns;     /* 0: no limit */
    int64_t open_timeout_ns; /* negative: no limit */
    uint32_t depth, every, slots, undeclared;
    bool newest, wait, once, close, stats, quiet;

    bool from_cipd, to_cipd; /* channels of cuda-link's protocol */
    struct sluice_cipd_writer_params to_params;

    sluice_reader *reader;
    sluice_writer *writer; /* NULL until the first frame arrives, and while TO is closed */
    char to_device[64];    /* set when TO is opened */
    struct readback readback;
    struct sluice_format format; /* of TO */
    bool refused;                /* TO cannot have FROM's current format; reported */

    int64_t end_ns;
    uint32_t to_skip; /* frames of a cipd: FROM to skip until the next one, by --every */
    uint64_t frames, missed, dropped, lost, session;
    unsigned sessions;
    int64_t delay_ns; /* sum of the times from commit to commit, since the last line of --stats */
    uint64_t delays;  /* number of them */
};

/* Sends one frame to TO, and opens or reformats TO as the frame needs. Returns an exit code. */
int bridge_send(struct bridge *bridge, const struct sluice_frame *frame);

/* Closes TO, if it is open. */
void bridge_close_output(struct bridge *bridge);

/* Prints a message about a change, unless --quiet. */
void bridge_note(const struct bridge *bridge, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
