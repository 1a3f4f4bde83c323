/* SPDX-License-Identifier: MIT
 *
 * What the multi-process tests share: frames whose bytes show whether they are whole, and two roles that are led line
 * by line.
 */
#ifndef MULTI_KIT_H
#define MULTI_KIT_H

#include <sluice/sluice.h>

#include "harness/resources.h"
#include "harness/test.h"

/* ---- the device of channels: SLUICE_TEST_DEVICE ---- */

/* The GPU of the kit's channels; NULL: host memory. */
const char *kit_device(void);

/* The time limit in seconds for dropped memory to be freed: at once, but a GPU's is freed on other threads. */
int kit_frees_in(void);

/* All bytes of an array, out and in, and one byte. */
void kit_get(const struct sluice_array *array, void *bytes);
void kit_put(const struct sluice_array *array, const void *bytes);
int kit_byte(const struct sluice_array *array, uint64_t at);

/* For a test of what only holds in host memory. */
#define KIT_HOST_ONLY(why) \
    do { \
        if (kit_device()) \
            SKIP("in host memory only: %s", why); \
    } while (0)

/* ---- frames ---- */

/* A format of one array "data" of `bytes` bytes. */
struct sluice_format kit_format(int64_t bytes);

/* Writes the value into every 4 KiB of every array, and at each end. */
void kit_fill(const struct sluice_frame *frame, uint64_t value);

/* True if every 4 KiB of it holds `value`. */
bool kit_whole(const struct sluice_frame *frame, uint64_t value);

/* begin, fill with the sequence that it will have, commit. Returns the result of begin. */
int kit_commit(sluice_writer *writer);

/* The same n times; each must find a slot. */
void kit_commits(sluice_writer *writer, int n);

/* acquire; the frame must be whole. */
struct sluice_frame kit_take(sluice_reader *reader);

/* The frame must still be whole; release. */
void kit_give(sluice_reader *reader, struct sluice_frame *frame);

/* Takes all that is there, with timeouts of 0. Returns how many, and the last result. */
int kit_take_all(sluice_reader *reader, int *end);

/* ---- this process's writers and readers ---- */

struct sluice_writer_params kit_writer_params(const char *name, const struct sluice_format *format);
struct sluice_reader_params kit_reader_params(const char *name);
sluice_writer *kit_writer(const char *name, int64_t bytes);
sluice_reader *kit_reader(const char *name, uint32_t mode);

/* Of channel "cam" with frames of 16 KiB. The writer waits if wait_ns is not 0. */
sluice_writer *kit_open_writer(uint32_t slots, uint32_t max_slots, int64_t wait_ns);
sluice_reader *kit_open_reader(uint32_t mode, uint32_t depth, uint32_t hold, uint32_t every);
sluice_reader *kit_newest(int64_t open_timeout_ns);

/* Opens and closes one; returns the result of open. */
int kit_try_write(const char *name);
int kit_try_read(const char *name);

struct sluice_writer_stats kit_writer_stats(sluice_writer *writer);
struct sluice_reader_stats kit_reader_stats(sluice_reader *reader);

/* How many frames a process has taken as a reader of the channel's present session, as the writer counts. */
uint64_t kit_taken(const char *name, pid_t pid);

/* ---- roles ----
 *
 * kit_start("writer", "name=cam", "bytes=65536", ..., NULL); see kit_roles.c for the words. Each line sent
 * is answered by one line.
 */
#define kit_start(...) role_start_at("kit_roles.c", __VA_ARGS__)

/* Sends a line, returns the answer. */
const char *ask(struct child *child, const char *line);

/* The same; the answer must begin with `answer`. */
#define EXPECT_ANSWER(child, line, answer) expect_answer(__FILE__, __LINE__, (child), (line), (answer))
void expect_answer(const char *file, int line_number, struct child *child, const char *line, const char *answer);

/* The number after `word` in a text "... word 12 ...". */
#define NUMBER(text, word) number_at(__FILE__, __LINE__, (text), (word))
long long number_at(const char *file, int line, const char *text, const char *word);

/* The value of NAME=VALUE among a role's arguments, or `otherwise`. */
const char *option(int argc, char **argv, const char *name, const char *otherwise);
long long option_number(int argc, char **argv, const char *name, long long otherwise);

#endif
