/* SPDX-License-Identifier: MIT
 *
 * Messages, colours, progress, tables, signals and the clock.
 */
#include "term.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <sluice/sluice.h>

#include "args.h"
#include "text.h"

static bool progress_shown;
static _Atomic bool stop; /* atomic: any thread may get the signal */

void say_error(const char *command, const char *format, ...)
{
    char text[2048];
    va_list list;
    progress_end();
    fflush(stdout);
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    text_clean(text);
    fprintf(stderr, "sluice: %s%s%s\n", command ? command : "", command ? ": " : "", text);
}

static void suggest_channel(const char *channel)
{
    struct sluice_registry_entry entries[256];
    const char *names[256];
    size_t count = 0;
    if (sluice_registry_list(NULL, entries, 256, &count) != SLUICE_OK)
        return;
    if (count > 256)
        count = 256;
    for (size_t i = 0; i < count; i++)
        names[i] = entries[i].name;
    const char *near = text_nearest(channel, names, count);
    if (near && strcmp(near, channel) != 0)
        fprintf(stderr, "sluice: did you mean the channel '%s'?\n", near);
}

int say_result(const char *command, int result, const char *channel)
{
    const char *sentence = sluice_last_error();
    say_error(command, "%s", sentence[0] ? sentence : sluice_result_text(result));
    if (result == SLUICE_E_NOT_FOUND || result == SLUICE_NO_WRITER) {
        if (channel)
            suggest_channel(channel);
        return EXIT_NO_CHANNEL;
    }
    return result == SLUICE_TIMEOUT ? EXIT_TIMED_OUT : EXIT_FAILED;
}

const char *colour(enum colour which)
{
    static const char *const escapes[] = { "\033[0m", "\033[1m", "\033[2m", "\033[31m", "\033[32m", "\033[33m" };
    const char *none = getenv("NO_COLOR");
    const char *term = getenv("TERM");
    if (!isatty(STDOUT_FILENO) || (none && none[0]) || (term && strcmp(term, "dumb") == 0))
        return "";
    return escapes[which];
}

void progress(const char *format, ...)
{
    static int64_t last;
    int64_t now = now_ns();
    if (!isatty(STDERR_FILENO) || (last && now - last < 200 * SLUICE_MS))
        return;
    last = now;
    progress_shown = true;
    va_list list;
    va_start(list, format);
    fputc('\r', stderr);
    vfprintf(stderr, format, list);
    fputs("\033[K", stderr);
    fflush(stderr);
    va_end(list);
}

void progress_end(void)
{
    if (progress_shown)
        fputs("\r\033[K", stderr);
    progress_shown = false;
}

char *text_bytes(char text[TERM_TEXT], uint64_t bytes)
{
    static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
    double value = (double)bytes;
    size_t unit = 0;
    while (value >= 1024 && unit < 6) {
        value /= 1024;
        unit++;
    }
    snprintf(text, TERM_TEXT, unit && value < 100 ? "%.1f %s" : "%.0f %s", value, units[unit]);
    return text;
}

char *text_duration(char text[TERM_TEXT], int64_t ns)
{
    double s = (double)ns / 1e9;
    if (ns < 0)
        snprintf(text, TERM_TEXT, "-");
    else if (s < 1e-6)
        snprintf(text, TERM_TEXT, "%.0f ns", s * 1e9);
    else if (s < 1e-3)
        snprintf(text, TERM_TEXT, "%.1f us", s * 1e6);
    else if (s < 1)
        snprintf(text, TERM_TEXT, "%.1f ms", s * 1e3);
    else if (s < 60)
        snprintf(text, TERM_TEXT, "%.1f s", s);
    else if (s < 3600)
        snprintf(text, TERM_TEXT, "%.0f min", s / 60);
    else if (s < 48 * 3600)
        snprintf(text, TERM_TEXT, "%.1f h", s / 3600);
    else
        snprintf(text, TERM_TEXT, "%.1f days", s / 86400);
    return text;
}

bool text_ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcasecmp(text + n - m, end) == 0;
}

void table_begin(struct table *table, const char *const *headers, size_t columns)
{
    *table = (struct table){ .columns = columns };
    for (size_t i = 0; i < columns; i++)
        table_cell(table, COLOUR_BOLD, "%s", headers[i]);
}

void table_cell(struct table *table, enum colour which, const char *format, ...)
{
    char text[256];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    text_clean(text);
    if (table->count == table->capacity) {
        size_t capacity = table->capacity ? 2 * table->capacity : 64;
        char **cells = realloc(table->cells, capacity * sizeof *cells);
        if (cells)
            table->cells = cells;
        enum colour *colours = realloc(table->colours, capacity * sizeof *colours);
        if (colours)
            table->colours = colours;
        if (!cells || !colours)
            return;
        table->capacity = capacity;
    }
    table->cells[table->count] = strdup(text);
    table->colours[table->count] = which;
    table->count++;
}

static void print_cell(const struct table *table, size_t index, size_t width, bool right)
{
    const char *text = table->cells[index] ? table->cells[index] : "";
    size_t column = index % table->columns;
    bool last = column + 1 == table->columns;
    if (index < table->columns && text[0] == '>')
        text++;
    int pad = (int)(width - text_width(text));
    enum colour which = table->colours[index];
    printf("%*s%s%s%s%*s%s", right ? pad : 0, "", which ? colour(which) : "", text, which ? colour(COLOUR_PLAIN) : "",
           right || last ? 0 : pad, "", last ? "\n" : "  ");
}

void table_print(struct table *table)
{
    size_t rows = table->columns ? table->count / table->columns : 0;
    size_t width[32] = { 0 };
    bool right[32] = { false };
    for (size_t i = 0; i < rows * table->columns; i++) {
        const char *text = table->cells[i] ? table->cells[i] : "";
        size_t column = i % table->columns % 32;
        bool arrow = i < table->columns && text[0] == '>';
        size_t w = text_width(text) - arrow;
        right[column] = right[column] || arrow;
        if (w > width[column])
            width[column] = w;
    }
    for (size_t i = 0; i < rows * table->columns; i++)
        print_cell(table, i, width[i % table->columns % 32], right[i % table->columns % 32]);
    for (size_t i = 0; i < table->count; i++)
        free(table->cells[i]);
    free(table->cells);
    free(table->colours);
    *table = (struct table){ 0 };
}

static void on_signal(int signal)
{
    (void)signal;
    stop = true;
}

void stop_on_signals(void)
{
    struct sigaction action = { .sa_handler = on_signal }; /* no SA_RESTART: blocking calls must return */
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
}

bool stop_asked(void)
{
    return stop;
}

int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * SLUICE_S + t.tv_nsec;
}

void sleep_until(int64_t when)
{
    struct timespec t = { .tv_sec = when / SLUICE_S, .tv_nsec = (long)(when % SLUICE_S) };
    while (!stop_asked() && clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
        continue;
}
