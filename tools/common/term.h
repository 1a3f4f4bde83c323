/* SPDX-License-Identifier: MIT
 *
 * What the commands say and how: messages, colours, progress, tables, and when to stop.
 */
#ifndef TOOLS_TERM_H
#define TOOLS_TERM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* "sluice: COMMAND: sentence" on stderr, behind the progress line if there is one. */
void say_error(const char *command, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Says what a failed library call said, and for a channel that is not there the nearest name that
 * is. Returns the exit code. */
int say_result(const char *command, int result, const char *channel);

enum colour { COLOUR_PLAIN, COLOUR_BOLD, COLOUR_DIM, COLOUR_RED, COLOUR_GREEN, COLOUR_YELLOW };

/* The escape for a colour on stdout, or "" where there is no terminal, or NO_COLOR is set. */
const char *colour(enum colour colour);

/* A line on stderr that replaces the one before; only on a terminal, and at most 5 times a second.
 */
void progress(const char *format, ...) __attribute__((format(printf, 1, 2)));
void progress_end(void);

/* "1.5 MiB", "12.3 ms", "4 min": into `text`, which is returned. */
#define TERM_TEXT 32
char *text_bytes(char text[TERM_TEXT], uint64_t bytes);
char *text_duration(char text[TERM_TEXT], int64_t ns);

/* Whatever the case of letters. */
bool text_ends_with(const char *text, const char *end);

/* Rows of cells, printed with columns aligned once all are there. A column whose header starts with
 * '>' is aligned to the right. */
struct table {
    char **cells;
    enum colour *colours;
    size_t columns, count, capacity;
};
void table_begin(struct table *table, const char *const *headers, size_t columns);
void table_cell(struct table *table, enum colour colour, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void table_print(struct table *table); /* and frees it */

/* SIGINT, SIGTERM and SIGHUP ask for a stop; calls that block return with EINTR. */
void stop_on_signals(void);
bool stop_asked(void);

int64_t now_ns(void); /* CLOCK_MONOTONIC */

/* Sleeps until `when` or until a stop is asked for. */
void sleep_until(int64_t when);

#endif
