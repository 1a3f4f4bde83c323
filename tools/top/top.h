/* SPDX-License-Identifier: MIT
 *
 * sluice top: the data that its files share. ask.c queries the writers, model.c keeps and measures the answers, gpu.c
 * has the metrics of GPUs, columns.c formats cells, grid.c draws sorted tables, live.c is the screen with its keys,
 * channel.c its page about one channel, print.c the output for scripts.
 */
#ifndef TOOLS_TOP_H
#define TOOLS_TOP_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sluice/sluice.h>

#include "../common/json.h"
#include "../common/nvml.h"
#include "canvas.h"

#define TOP_HISTORY 120
#define TOP_REASON  200

/* ---- the model; unknown numbers are NAN ---- */

struct top_reader {
    struct sluice_reader_info info;
    double fps;        /* frames acquired per second */
    double latency_ns; /* commit to acquire, average */
    double longest_ns; /* the longest of the last seconds */
    double lease_ns;   /* acquire to release, average */
    uint64_t new_missed;
};

/* The name of a channel in the folder, or of a cipd: channel, which may be longer. */
struct top_entry {
    char name[sizeof "cipd:" + SLUICE_CIPD_MAX_NAME];
    bool live;
    uint32_t uid, pid;
};

struct top_channel {
    struct top_entry entry;
    bool was_live; /* since sluice top started */
    bool answered; /* `info` is its last answer */
    int result;    /* of the last query */
    char reason[TOP_REASON];
    struct sluice_channel_info info;
    struct top_reader *readers;
    uint32_t reader_count;

    double fps, bytes; /* per second */
    double latency_ns, longest_ns, lease_ns;
    uint64_t new_drops, new_missed; /* since the answer before */
    uint64_t missed, leases;        /* of all readers */
    uint64_t lag;                   /* of the reader that is furthest behind */
    int64_t oldest_ns;              /* age of the oldest lease */
    float history[TOP_HISTORY];     /* fps, the newest last */

    unsigned timeouts;     /* queries without an answer, in a row */
    int64_t next_query_ns; /* no query before this time */
};

#define TOP_GPUS 16
struct top_gpu {
    unsigned char uuid[16];
    struct nvml_gpu now; /* handle NULL: no metrics */
};

/* The channels, sorted by name. Hold the lock to access what two threads share. */
struct top {
    char **patterns; /* of the names to show; none: all */
    int pattern_count;
    pthread_mutex_t lock;
    struct top_channel **list;
    size_t count;
    int result; /* of listing the folder */
    char reason[TOP_REASON];
    sluice_watch *watch; /* of the folder; NULL: list it every time */
    bool listed;
    struct sluice_registry_entry *folder; /* the last list */
    size_t folder_count;
    bool cipd;                     /* a pattern may match cipd: channels */
    struct top_gpu gpus[TOP_GPUS]; /* the GPUs of the channels */
    size_t gpu_count;
};

/* "live", "stuck", ... as in sluice ls. */
const char *top_state(const struct top_channel *channel);
bool top_is_dead(const struct top_channel *channel);

/* True if the name matches. A pattern without *, ? and [ has to be the whole name, or any part of it if `anywhere`. */
bool top_matches(const char *name, const char *pattern, bool anywhere);

/* Adds new channels and removes those that are gone. Both lists are sorted by name. */
bool top_list(struct top *top, const struct top_entry *entries, size_t count);

/* Stores a writer's answer and measures the difference to the one before. `info` is not used if `result` is an error.
 * */
void top_update(struct top_channel *channel, int result, const char *reason, const struct sluice_channel_info *info,
                const struct sluice_reader_info *readers);

void top_free(struct top *top);

/* ---- queries ---- */

void top_open(struct top *top, char **patterns, int pattern_count);
void top_close(struct top *top);

/* Lists the folder if it changed, and queries every writer once; several at a time, so that one without an answer does
 * not delay the others. *stop ends it early. */
void top_refresh(struct top *top, const atomic_bool *stop);

/* ---- GPUs; none without the driver's management library ---- */

/* Reads the metrics of the channels' GPUs. Call it on the querying thread. */
void top_refresh_gpus(struct top *top);

/* The metrics of a channel's GPU; NULL if there are none. */
const struct nvml_gpu *top_gpu_of(const struct top *top, const struct top_channel *channel);

#define TOP_GPU_TEXT 512
char *top_gpu_text(char text[TOP_GPU_TEXT], const struct nvml_gpu *gpu);
void top_draw_gpus(struct canvas *canvas, const struct top *top); /* the first few, a line each */
void top_json_gpus(struct json *json, const struct top *top);     /* the key "gpus" and its array */

/* ---- columns and grids ---- */

#define TOP_CELL 280 /* bytes; fits the longest name */
struct top_cell {
    char text[TOP_CELL];
    double number; /* the sort key, except for columns of text */
    unsigned style;
};

struct top_column {
    const char *key; /* for --sort and in JSON */
    const char *title;
    const char *help;
    unsigned width; /* minimum; columns of text may be wider */
    unsigned rank;  /* columns with a high rank are left out first on a narrow screen */
    bool text;      /* aligned to the left, and sorted in ascending order */
};

struct top_table {
    const struct top_column *columns;
    size_t count;
    void (*cell)(const void *row, size_t column, struct top_cell *cell);
    void (*name)(const void *row, char name[TOP_CELL]); /* unique among the rows */
    /* True if a note replaces the columns of this row from `note_from` on. May be NULL. */
    bool (*note)(const void *row, struct top_cell *cell);
    size_t note_from;
    /* The values of a sparkline in the remaining width. Columns with a rank above `sparkline_rank` give way to it. May
     * be NULL. */
    const float *(*sparkline)(const void *row);
    unsigned sparkline_rank;
};

extern const struct top_table top_channels, top_readers;

/* The index of the column with this key; the table's count if there is none. */
size_t top_column_of(const struct top_table *table, const char *key);

struct top_sorted {
    const void *row;
    struct top_cell key;
    size_t index; /* before sorting */
};

/* Sorts the rows in `sorted[].row` by a column; the sort is stable. */
void top_sort(const struct top_table *table, struct top_sorted *sorted, size_t count, size_t column, bool reverse);

/* A table on the screen, with its sort order, selection and scroll position. */
struct top_grid {
    const struct top_table *table;
    size_t sort;
    bool reverse;
    bool selects; /* the user can select a row, not only scroll */
    char selected[TOP_CELL];
    size_t at;    /* index of the selected row */
    size_t first; /* index of the first visible row */
    size_t shown; /* number of rows that fit */
};

/* Handles a key: up, down, pages, Home, End; < and > choose the sort column, r reverses. False: another key. */
bool top_grid_key(struct top_grid *grid, int key, size_t count);

/* Draws the header and the rows, down to row `until` of the canvas. */
void top_grid_draw(struct top_grid *grid, struct canvas *canvas, const void **rows, size_t count, unsigned until);

/* "12345", "1.2M". */
char *top_count(char *text, size_t size, double number);

/* ---- output ---- */

struct top_options {
    int64_t interval_ns;
    const char *sort; /* key of a column */
    bool reverse, all, json;
    uint32_t count; /* tables to print; 0: no limit */
};

/* The keys of a channel, within an object. */
void top_json_channel(struct json *json, const struct top *top, const struct top_channel *channel);

int top_print(struct top *top, const struct top_options *options);
int top_live(struct top *top, const struct top_options *options);

/* Draws the page about one channel, with its readers in a grid. */
void top_draw_channel(struct canvas *canvas, const struct top *top, const struct top_channel *channel,
                      struct top_grid *readers, unsigned until);

/* Draws the help page from line `first` on. Returns the number of lines. */
size_t top_draw_help(struct canvas *canvas, size_t first, unsigned until);

#endif
