/* SPDX-License-Identifier: MIT
 *
 * Inside sluice top. top_ask.c asks the writers, top_model.c keeps what they say and measures by
 * it, top_gpu.c has figures of the GPUs, top_columns.c puts it into words, top_grid.c shows rows
 * that are sorted and cut to fit, top_live.c is the screen with its keys, top_channel.c its page
 * about one channel, top_print.c is for scripts.
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

/* ---- what is known; numbers that are not are NAN ---- */

struct top_reader {
    struct sluice_reader_info info;
    double fps;        /* taken */
    double latency_ns; /* commit to acquire, on average */
    double longest_ns; /* the longest of the last seconds */
    double lease_ns;   /* acquire to release, on average */
    uint64_t new_missed;
};

/* Of the folder, or one of cuda-link's, whose names may be longer. */
struct top_entry {
    char name[sizeof "cipd:" + SLUICE_CIPD_MAX_NAME];
    bool live;
    uint32_t uid, pid;
};

struct top_channel {
    struct top_entry entry;
    bool lived;    /* while we looked */
    bool answered; /* `info` is there: of its last answer */
    int result;    /* of asking last */
    char reason[TOP_REASON];
    struct sluice_channel_info info;
    struct top_reader *readers;
    uint32_t reader_count;

    double fps, bytes; /* a second */
    double latency_ns, longest_ns, lease_ns;
    uint64_t new_drops, new_missed; /* since the answer before */
    uint64_t missed, lag, leases;   /* of all readers; of the one that is furthest behind; of all */
    int64_t oldest_ns;              /* lease */
    float history[TOP_HISTORY];     /* of fps, the newest last */

    unsigned silent;   /* times that its writer did not answer */
    int64_t ask_after; /* it is left alone until then */
};

#define TOP_GPUS 16
struct top_gpu {
    unsigned char uuid[16];
    struct nvml_gpu now; /* no handle: nothing is known of it */
};

/* The channels, by name. Whoever is not the only one at it holds the lock. */
struct top {
    char **patterns; /* names that are wanted; none: all */
    int pattern_count;
    pthread_mutex_t lock;
    struct top_channel **list;
    size_t count;
    int result; /* of listing the folder last, with its sentence */
    char reason[TOP_REASON];
    sluice_watch *watch; /* of the folder; NULL: it must be listed each time */
    bool listed;
    struct sluice_registry_entry *folder; /* when it was listed last */
    size_t folder_count;
    bool cipd; /* channels of cuda-link's are wanted, too: no pattern leaves them all out */
    struct top_gpu gpus[TOP_GPUS]; /* that the channels are on */
    size_t gpu_count;
};

/* "live", "stuck", ...; what is wrong, or "". */
const char *top_state(const struct top_channel *channel);
bool top_is_dead(const struct top_channel *channel);

/* Does one of the patterns fit? A pattern without *, ? or [ may stand anywhere in the name if
 * `anywhere`. */
bool top_matches(const char *name, const char *pattern, bool anywhere);

/* The names that there are now; those that are gone are forgotten. */
bool top_list(struct top *top, const struct top_entry *entries, size_t count);

/* What a writer said: measures against the answer before. On a failure `info` is not looked at. */
void top_update(struct top_channel *channel, int result, const char *reason,
                const struct sluice_channel_info *info, const struct sluice_reader_info *readers);

void top_free(struct top *top);

/* ---- asking ---- */

void top_open(struct top *top, char **patterns, int pattern_count);
void top_close(struct top *top);

/* Looks at the folder if something changed there, and asks every writer once; several at a time, so
 * that those that do not answer hold nobody up. `stop` ends it early. */
void top_refresh(struct top *top, const atomic_bool *stop);

/* ---- GPUs: none where the driver's management library is not there ---- */

/* Reads the figures of the GPUs that channels are on. On the thread that asks. */
void top_refresh_gpus(struct top *top);

/* The GPU that a channel is on; NULL: none, or nothing is known of it. */
const struct nvml_gpu *top_gpu_of(const struct top *top, const struct top_channel *channel);

#define TOP_GPU_TEXT 512
char *top_gpu_text(char text[TOP_GPU_TEXT], const struct nvml_gpu *gpu);
void top_draw_gpus(struct canvas *canvas, const struct top *top); /* the first few, a line each */
void top_json_gpus(struct json *json, const struct top *top);     /* the key "gpus" and its array */

/* ---- columns and grids ---- */

#define TOP_CELL 280 /* bytes: a name is one, whatever is shown of it */
struct top_cell {
    char text[TOP_CELL];
    double number; /* to sort by; columns of text are sorted by that */
    unsigned style;
};

struct top_column {
    const char *key; /* for --sort and in JSON */
    const char *title;
    const char *help;
    unsigned width; /* at least; of text as wide as it needs */
    unsigned rank;  /* the columns of lower ranks stay when it gets narrow */
    bool text;      /* aligned to the left, sorted upwards */
};

struct top_table {
    const struct top_column *columns;
    size_t count;
    void (*cell)(const void *row, size_t column, struct top_cell *cell);
    void (*name)(const void *row, char name[TOP_CELL]); /* that tells it from all others */
    /* Instead of all columns from `note_from` on: what is wrong with this row. May be NULL. */
    bool (*note)(const void *row, struct top_cell *cell);
    size_t note_from;
    /* Takes the room that is left at the right, and some from columns above this rank; may be NULL.
     */
    const float *(*spark)(const void *row);
    unsigned spark_rank;
};

extern const struct top_table top_channels, top_readers;

/* The column called so; the table's count if there is none. */
size_t top_column_of(const struct top_table *table, const char *key);

struct top_sorted {
    const void *row;
    struct top_cell key;
    size_t place; /* before */
};

/* Sorts rows, given in `sorted[].row`, by a column; equal ones stay as they are. */
void top_sort(const struct top_table *table, struct top_sorted *sorted, size_t count, size_t column,
              bool reverse);

/* A table on the screen, and where the user is in it. */
struct top_grid {
    const struct top_table *table;
    size_t sort;
    bool reverse;
    bool selects; /* a row is selected, not only scrolled to */
    char selected[TOP_CELL];
    size_t at, first, shown; /* index of the selected row, of the top one; rows that fit */
};

/* Moves by a key: up, down, pages, home, end; < and > choose the column, r reverses. */
bool top_grid_key(struct top_grid *grid, int key, size_t count);

/* Header and rows, down to row `until` of the canvas. Frees nothing, keeps nothing of the rows. */
void top_grid_draw(struct top_grid *grid, struct canvas *canvas, const void **rows, size_t count,
                   unsigned until);

/* "12345", "1.2M". */
char *top_count(char *text, size_t size, double number);

/* ---- ways to show it ---- */

struct top_options {
    int64_t interval_ns;
    const char *sort; /* key of a column */
    bool reverse, all, json;
    uint32_t looks; /* 0: until the end */
};

int top_print(struct top *top, const struct top_options *options);
int top_live(struct top *top, const struct top_options *options);

/* The page about one channel: what its writer says, and its readers in a grid. */
void top_draw_channel(struct canvas *canvas, const struct top *top,
                      const struct top_channel *channel, struct top_grid *readers, unsigned until);

/* The page about keys and columns, from its `first` line. Returns how many there are. */
size_t top_draw_help(struct canvas *canvas, size_t first, unsigned until);

#endif
