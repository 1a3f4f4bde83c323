/* SPDX-License-Identifier: MIT
 *
 * sluice demo: its programs, the statistics of its channels, and the report.
 */
#ifndef TOOLS_DEMO_H
#define TOOLS_DEMO_H

#include <stdbool.h>
#include <stdint.h>

#include <sluice/sluice.h>

#include "../common/child.h"

#define DEMO_IN  "demo-in"
#define DEMO_OUT "demo-out"

/* One of the three programs. */
struct member {
    const char *title;
    struct child_args args;
    struct child child;
    unsigned starts, failures; /* failures: exits with an error, not by a signal */
    int64_t killed_ns;         /* when it ended; 0: its frames are back */
    int64_t started_ns;
};

enum { PLAYER, FILTER, RECORDER, TEAM };

/* A channel's numbers over all sessions of its writer. */
struct tally {
    const char *name;
    uint64_t session, committed, dropped;  /* of the current session */
    uint64_t past_committed, past_dropped; /* of earlier sessions */
    int64_t *latency;                      /* commit to acquire */
    uint32_t count, capacity;
    uint64_t read; /* by the next program */
    uint64_t torn;
};

#define TILES      12
#define TILE_WIDTH 240
enum tile_mark { TILE_PLAIN, TILE_LAST_BEFORE, TILE_FIRST_AFTER }; /* before and after a kill */

struct tile {
    uint8_t *rgb; /* TILE_WIDTH by height */
    enum tile_mark mark;
    int64_t at_ns; /* since the first frame */
    uint64_t index;
};

struct sheet {
    struct tile tiles[TILES];
    uint32_t count, height;
};

/* ---- the programs ---- */

bool member_start(struct member *member);

/* Sends SIGKILL; team_watch restarts the program. */
void member_kill(struct member *member);

/* Restarts programs that ended; false, after a message, if one fails repeatedly. */
bool team_watch(struct member *team, uint64_t frame);

/* Call for each frame: reports which programs are back, given the capture time of the frame. */
void team_frame_seen(struct member *team, int64_t capture_ns);

void team_stop(struct member *team);

/* ---- statistics ---- */

void tally_update(struct tally *tally); /* queries the channel's writer */
void tally_latency(struct tally *tally, int64_t latency_ns);
uint64_t tally_committed(const struct tally *tally);
uint64_t tally_dropped(const struct tally *tally);

/* ---- the report; false after a message ---- */
void sheet_add(struct sheet *sheet, const struct sluice_array *image, enum tile_mark mark, int64_t at_ns,
               uint64_t index);
bool sheet_write(const struct sheet *sheet, const char *path);
bool histogram_write(const char *path, struct tally *in, struct tally *out);
void report_table(struct tally *in, struct tally *out, double seconds);

#endif
