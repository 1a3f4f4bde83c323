/* SPDX-License-Identifier: MIT
 *
 * Bytes from a child process or another pipe, with a limit until the first ones are there, and a sentence when nothing
 * comes.
 */
#ifndef TOOLS_FEED_H
#define TOOLS_FEED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FEED_BYTES (1 << 16) /* that are read at once */

struct feed {
    int fd;
    const char *command, *name; /* for the sentence: whose bytes they are */
    int64_t deadline;           /* when to give up; 0: never */
    bool keep;                  /* what was read stays in `bytes`, from its start on */
    bool timed_out, ended;
    size_t at, size, capacity;
    uint8_t *bytes;
};

/* Reads `size` bytes; fewer at the end, at the deadline, or when stop_asked(). `feed` is a struct feed. */
size_t feed_read(void *feed, void *to, size_t size);

/* Reads what is there into the buffer, at least one byte; false at the end, as above. What comes from `other`
 * meanwhile, which keeps its bytes, is read too: a program that writes to both never has to wait for the other one. */
bool feed_more(struct feed *feed, struct feed *other);

/* The same for bytes in memory: `bytes` is a struct feed_bytes. */
struct feed_bytes {
    const uint8_t *at;
    size_t left;
};
size_t feed_read_bytes(void *bytes, void *to, size_t size);

void feed_free(struct feed *feed);

#endif
