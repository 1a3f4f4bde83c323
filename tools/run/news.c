/* SPDX-License-Identifier: MIT
 *
 * What changes while a kernel runs: settings, by lines on standard input, and its file, which is compiled on another
 * thread when it was saved.
 */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "../common/term.h"
#include "worker.h"

#define QUIET_TIME (30 * SLUICE_MS) /* editors write in several steps */

/* ---- the file ---- */

char *run_read(const struct run *run)
{
    FILE *file = fopen(run->path, "re");
    char *text = file ? malloc(RUN_SOURCE) : NULL;
    size_t size = text ? fread(text, 1, RUN_SOURCE, file) : 0;
    if (size == RUN_SOURCE)
        errno = EFBIG;
    if (!text || ferror(file) || size == RUN_SOURCE) {
        say_error(run->command, "cannot read %s: %s.", run->path, strerror(errno));
        free(text);
        text = NULL;
    } else {
        text[size] = 0;
    }
    if (file)
        fclose(file);
    return text;
}

/* By its folder, as editors replace files. */
bool run_watch(struct run *run)
{
    char folder[PATH_MAX];
    char *slash = realpath(run->path, folder) ? strrchr(folder, '/') : NULL;
    if (slash) {
        snprintf(run->watched, sizeof run->watched, "%s", slash + 1);
        slash[slash == folder] = 0;
        run->watch_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
        if (run->watch_fd >= 0 && inotify_add_watch(run->watch_fd, folder, IN_CLOSE_WRITE | IN_MOVED_TO) >= 0)
            return true;
    }
    say_error(run->command, "cannot watch %s: %s.", run->path, strerror(errno));
    return false;
}

static bool is_source(const struct run *run, const char *name)
{
    return strcmp(name, run->watched) == 0 || text_ends_with(name, ".cuh") || text_ends_with(name, ".h");
}

/* True once the file, or a header beside it, was saved, and nothing has come since. */
static bool was_saved(const struct run *run)
{
    _Alignas(struct inotify_event) char bytes[4096];
    int64_t *saved = &run->kept->saved_ns, now = now_ns();
    ssize_t got;
    while ((got = read(run->watch_fd, bytes, sizeof bytes)) > 0)
        for (char *at = bytes; at < bytes + got;) {
            const struct inotify_event *event = (const struct inotify_event *)(const void *)at;
            if ((event->len && is_source(run, event->name)) || event->mask & IN_Q_OVERFLOW)
                *saved = now;
            at += sizeof *event + event->len;
        }
    return *saved && now - *saved >= QUIET_TIME;
}

/* ---- versions of the source ---- */

static void *compile(void *of)
{
    struct run_worker *worker = of;
    worker->compiled = run_program_load(worker->run, worker->device, worker->text);
    return NULL;
}

bool run_use(struct run_worker *worker, struct run_program *program)
{
    struct run_kept *kept = worker->run->kept;
    bool quiet = worker->program || kept->opened, fit = true;
    for (uint32_t i = 0; i < kept->value_count; i++)
        fit = run_program_set(worker->run, program, &kept->values[i], quiet) && fit;
    if (worker->program && !worker->run->quiet)
        say_error(worker->run->command, "%s was compiled; the new version runs.", worker->run->name);
    if (worker->program)
        run_program_unload(worker->program);
    worker->program = program;
    kept->untried = strcmp(program->text, kept->works) != 0;
    return fit;
}

static void take_file(struct run_worker *worker)
{
    struct run *run = worker->run;
    if (worker->compiles && pthread_tryjoin_np(worker->thread, NULL) == 0) {
        worker->compiles = false;
        if (worker->compiled)
            (void)run_use(worker, worker->compiled);
        else if (worker->program && !run->quiet)
            say_error(run->command, "the last version goes on.");
    }
    if (!worker->compiles && was_saved(run)) {
        run->kept->saved_ns = 0;
        worker->text = run_read(run);
        worker->compiles = worker->text && pthread_create(&worker->thread, NULL, compile, worker) == 0;
    }
}

/* ---- standard input ---- */

static void take_line(struct run_worker *worker, const char *line)
{
    struct run_value value;
    if (run_value_parse(worker->run, line, &value) && run_program_set(worker->run, worker->program, &value, false))
        run_value_keep(worker->run->kept, &value);
}

static void take_input(struct run_worker *worker)
{
    struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };
    char bytes[1024];
    if (worker->input_ended || (isatty(STDIN_FILENO) && tcgetpgrp(STDIN_FILENO) != getpgrp()))
        return; /* in the background a read of the terminal would stop this process */
    if (poll(&input, 1, 0) <= 0)
        return;
    ssize_t got = read(STDIN_FILENO, bytes, sizeof bytes);
    worker->input_ended = got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN);
    for (ssize_t i = 0; i < got; i++)
        if (bytes[i] == '\n') {
            worker->line[worker->line_size] = 0;
            worker->line_size = 0;
            take_line(worker, worker->line);
        } else if (worker->line_size + 1 < sizeof worker->line) {
            worker->line[worker->line_size++] = bytes[i];
        }
}

void run_news_take(struct run_worker *worker)
{
    if (worker->device.id && worker->run->watch)
        take_file(worker);
    if (worker->program)
        take_input(worker);
}

void run_news_end(struct run_worker *worker)
{
    if (!worker->compiles)
        return;
    pthread_join(worker->thread, NULL);
    if (worker->compiled)
        run_program_unload(worker->compiled);
}
