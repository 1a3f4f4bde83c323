/* SPDX-License-Identifier: MIT
 *
 * Messages, colours, progress and tables on the terminal; signals that stop a command; the clock.
 */
#ifndef TOOLS_TERM_H
#define TOOLS_TERM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Prints "sluice: COMMAND: sentence" to stderr, and removes the progress line. */
void say_error(const char *command, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Prints the library's message for a failed call; if `channel` does not exist, also suggests a channel with a
 * similar name. Returns the exit code. */
int say_result(const char *command, int result, const char *channel);

enum colour { COLOUR_PLAIN, COLOUR_BOLD, COLOUR_DIM, COLOUR_RED, COLOUR_GREEN, COLOUR_YELLOW };

/* The escape sequence of a colour; "" if stdout is not a terminal, or NO_COLOR is set. */
const char *colour(enum colour colour);

/* Replaces the progress line on stderr; only on a terminal, and at most 5 times a second. */
void progress(const char *format, ...) __attribute__((format(printf, 1, 2)));
void progress_end(void);

/* "1.5 MiB", "12.3 ms", "4 min". Returns `text`. */
#define TERM_TEXT 32
char *text_bytes(char text[TERM_TEXT], uint64_t bytes);
char *text_duration(char text[TERM_TEXT], int64_t ns);

/* Ignores case. */
bool text_ends_with(const char *text, const char *end);

/* Cells are collected row by row and printed in aligned columns. A header that starts with '>' aligns its column to the
 * right. */
struct table {
    char **cells;
    enum colour *colours;
    size_t columns, count, capacity;
};
void table_begin(struct table *table, const char *const *headers, size_t columns);
void table_cell(struct table *table, enum colour colour, const char *format, ...) __attribute__((format(printf, 3, 4)));
void table_print(struct table *table); /* and frees it */

/* From now on SIGINT, SIGTERM and SIGHUP make stop_asked() true, and blocking calls return with EINTR. */
void stop_on_signals(void);
bool stop_asked(void);

int64_t now_ns(void); /* CLOCK_MONOTONIC */

/* Sleeps until `when`, or until stop_asked(). */
void sleep_until(int64_t when);

#endif
