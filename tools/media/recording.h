/* SPDX-License-Identifier: MIT
 *
 * Sluice recordings: frames with their timing, formats and metadata, bit for bit, in a file that is
 * only ever appended to. docs/recording.md has every byte. What is read may come from anywhere:
 * every length is checked before it is used.
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

/* Writing. Each returns false if the file did not take it: errno says why. */
bool recording_create(FILE *file, const char *channel);
bool recording_put_format(FILE *file, const struct sluice_format *format);
bool recording_put_frame(FILE *file, const struct sluice_frame *frame,
                         const struct sluice_array arrays[]);
bool recording_put_end(FILE *file, uint64_t frames, uint64_t missed);

/* A frame's head: all but its data. */
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
    RECORDING_FRAME = 2,  /* recording.frame is new; its data may be taken */
    RECORDING_END = 3,    /* all was read, up to the end block */
    RECORDING_CUT = 4,    /* the file ends without one: its writer died, or the disk was full */
    RECORDING_BAD = -1,   /* damaged, or no recording: recording.problem */
};

struct recording {
    FILE *file;
    char channel[SLUICE_MAX_NAME + 1];
    int64_t created_ns; /* CLOCK_REALTIME */
    struct sluice_format format;
    struct recording_frame frame;
    uint32_t data_next; /* array whose data comes next in the file */
    uint64_t size;      /* of the file; UINT64_MAX if not known */
    uint64_t at;        /* offset of what is being read */
    const char *problem;
};

/* Reads the header. RECORDING_FORMAT: it is a recording; RECORDING_CUT, RECORDING_BAD. The file
 * stays the caller's. */
enum recording_block recording_open(struct recording *recording, FILE *file);

/* Reads on to the next block's head; data that was not taken is passed over. */
enum recording_block recording_next(struct recording *recording);

/* Reads the data of frame.arrays[data_next] into `to`, nbytes long, and steps on. RECORDING_FRAME:
 * it is whole; RECORDING_CUT, RECORDING_BAD. `to` may be NULL: then it is only checked. */
enum recording_block recording_data(struct recording *recording, void *to);

struct recording_summary {
    uint64_t formats, frames, bytes;
};

/* Reads and checks all of it. */
enum recording_block recording_read(FILE *file, struct recording_summary *summary);

#endif
