/* SPDX-License-Identifier: MIT
 *
 * Sluice recordings: append-only files of frames, bit for bit, with timing, formats and metadata. docs/recording.md
 * defines every byte. Files are untrusted: every length is checked before it is used.
 */
#ifndef TOOLS_RECORDING_H
#define TOOLS_RECORDING_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <sluice/sluice.h>

#define RECORDING_VERSION    1
#define RECORDING_MAGIC      "\x89SLR\r\n\x1a\n"
#define RECORDING_MAGIC_SIZE 8

/* Writing. Each returns false on an error, with errno. */
bool recording_create(FILE *file, const char *channel);
bool recording_put_format(FILE *file, const struct sluice_format *format);
bool recording_put_frame(FILE *file, const struct sluice_frame *frame, const struct sluice_array arrays[]);
bool recording_put_end(FILE *file, uint64_t frames, uint64_t missed);

/* A frame without its data. */
struct recording_frame {
    uint64_t sequence, session, missed;
    int64_t capture_ns, commit_ns;
    uint32_t capture_clock, generation, flags, meta_size, array_count;
    uint8_t meta[SLUICE_MAX_META];
    struct sluice_array arrays[SLUICE_MAX_ARRAYS]; /* data is NULL */
    uint64_t hashes[SLUICE_MAX_ARRAYS];            /* of their data */
};

enum recording_block {
    RECORDING_FORMAT = 1, /* recording.format is new */
    RECORDING_FRAME = 2,  /* recording.frame is new; its data can be read */
    RECORDING_END = 3,    /* the end block was read */
    RECORDING_CUT = 4,    /* the file has no end block: its writer died, or the disk was full */
    RECORDING_BAD = -1,   /* damaged, or not a recording: see recording.problem */
};

struct recording {
    FILE *file;
    char channel[SLUICE_MAX_NAME + 1];
    int64_t created_ns; /* CLOCK_REALTIME */
    struct sluice_format format;
    struct recording_frame frame;
    uint32_t data_next; /* the array whose data is next in the file */
    uint64_t size;      /* of the file; UINT64_MAX: unknown */
    uint64_t at;        /* current offset */
    const char *problem;
};

/* Reads the header. Returns RECORDING_FORMAT for a recording, or RECORDING_CUT or RECORDING_BAD. The caller closes the
 * file. */
enum recording_block recording_open(struct recording *recording, FILE *file);

/* Reads the head of the next block. Data that was not read is checked and skipped. */
enum recording_block recording_next(struct recording *recording);

/* Reads the data of frame.arrays[data_next] into `to`, and advances data_next. If `to` is NULL, the data is only
 * checked. Returns RECORDING_FRAME if it is intact, or RECORDING_CUT or RECORDING_BAD. */
enum recording_block recording_data(struct recording *recording, void *to);

struct recording_summary {
    uint64_t formats, frames, bytes;
};

/* Reads and checks a whole file. */
enum recording_block recording_read(FILE *file, struct recording_summary *summary);

#endif
