/* SPDX-License-Identifier: MIT
 *
 * The file with the kernel, by inotify on its folder, as editors replace files; and lines of standard input.
 */
#include "files.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "../common/term.h"

#define QUIET_TIME (30 * SLUICE_MS) /* editors write in several steps */

char *run_file_read(const struct run *run, bool quiet)
{
    FILE *file = fopen(run->path, "re");
    size_t size = 0, room = 4096;
    char *text = file ? malloc(room) : NULL;
    int error = file ? 0 : errno;
    while (text) {
        size_t got = fread(text + size, 1, room - size - 1, file);
        size += got;
        if (got == 0)
            break;
        if (size + 1 == room) {
            char *more = realloc(text, room *= 2);
            if (!more)
                free(text);
            text = more;
        }
    }
    if (file && ferror(file)) {
        error = errno;
        free(text);
        text = NULL;
    }
    if (file)
        fclose(file);
    if (text)
        text[size] = 0;
    else if (!quiet)
        say_error(run->command, "cannot read %s: %s.", run->path, strerror(error ? error : ENOMEM));
    return text;
}

/* ---- watching ---- */

bool run_file_watch(struct run_file *file, const struct run *run)
{
    char *path = realpath(run->path, NULL), *slash = path ? strrchr(path, '/') : NULL;
    bool watched = false;
    if (slash) {
        snprintf(file->name, sizeof file->name, "%s", slash + 1);
        slash[slash == path] = 0; /* the folder */
        file->fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
        watched = file->fd >= 0 && inotify_add_watch(file->fd, path, IN_CLOSE_WRITE | IN_MOVED_TO) >= 0;
    }
    if (!watched)
        say_error(run->command, "cannot watch %s: %s.", run->path, strerror(errno));
    free(path);
    return watched;
}

static bool is_source(const struct run_file *file, const char *name)
{
    return strcmp(name, file->name) == 0 || text_ends_with(name, ".cuh") || text_ends_with(name, ".h");
}

static bool read_news(struct run_file *file)
{
    _Alignas(struct inotify_event) char bytes[4096];
    bool found = false;
    ssize_t got;
    while ((got = read(file->fd, bytes, sizeof bytes)) > 0)
        for (char *at = bytes; at < bytes + got;) {
            const struct inotify_event *event = (const struct inotify_event *)(const void *)at;
            found = found || (event->len && is_source(file, event->name)) || event->mask & IN_Q_OVERFLOW;
            at += sizeof *event + event->len;
        }
    return found;
}

int run_file_wait(const struct run_file *file, int most)
{
    int64_t left = file->due_ns ? (file->due_ns - now_ns()) / SLUICE_MS + 1 : most;
    return left < 0 ? 0 : left < most ? (int)left : most;
}

bool run_file_changed(struct run_file *file, bool news)
{
    if (news && read_news(file))
        file->due_ns = now_ns() + QUIET_TIME;
    if (!file->due_ns || now_ns() < file->due_ns)
        return false;
    file->due_ns = 0;
    return true;
}

void run_file_close(struct run_file *file)
{
    if (file->fd >= 0)
        close(file->fd);
}

/* ---- standard input ---- */

int run_lines_fd(const struct run_lines *lines)
{
    if (lines->ended || (isatty(STDIN_FILENO) && tcgetpgrp(STDIN_FILENO) != getpgrp()))
        return -1; /* in the background a read of the terminal would stop this process */
    return STDIN_FILENO;
}

void run_lines_read(struct run_lines *lines)
{
    memmove(lines->text, lines->text + lines->taken, lines->size - lines->taken);
    lines->size -= lines->taken;
    lines->taken = 0;
    if (lines->size == sizeof lines->text)
        lines->size = 0; /* no line is so long */
    ssize_t got = read(STDIN_FILENO, lines->text + lines->size, sizeof lines->text - lines->size);
    lines->ended = got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN);
    lines->size += got > 0 ? (size_t)got : 0;
}

const char *run_lines_next(struct run_lines *lines)
{
    char *start = lines->text + lines->taken;
    char *end = memchr(start, '\n', lines->size - lines->taken);
    if (!end)
        return NULL;
    *end = 0;
    lines->taken = (size_t)(end + 1 - lines->text);
    return start;
}
