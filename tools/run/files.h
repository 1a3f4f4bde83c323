/* SPDX-License-Identifier: MIT
 *
 * What a supervisor reads: the file with the kernel, whose folder it watches, and lines of standard input.
 */
#ifndef TOOLS_RUN_FILES_H
#define TOOLS_RUN_FILES_H

#include "run.h"

struct run_file {
    int fd;         /* inotify; -1: nothing is watched */
    char name[256]; /* in its folder */
    int64_t due_ns; /* when a change has been quiet for long enough; 0: there is none */
};

/* The whole text, to be freed; NULL after a message, unless `quiet`. */
char *run_file_read(const struct run *run, bool quiet);

/* False after a message. */
bool run_file_watch(struct run_file *file, const struct run *run);

/* How long to sleep, in ms: `most`, or until a change is due. */
int run_file_wait(const struct run_file *file, int most);

/* True if the file, or a header beside it, was saved, and nothing has come since. `news`: `fd` is readable. */
bool run_file_changed(struct run_file *file, bool news);

void run_file_close(struct run_file *file);

struct run_lines {
    char text[1024];
    size_t size, taken;
    bool ended;
};

/* Standard input, or -1 at its end, and while this process may not read its terminal. */
int run_lines_fd(const struct run_lines *lines);

void run_lines_read(struct run_lines *lines);

/* The next whole line, valid until the next read; NULL if there is none. */
const char *run_lines_next(struct run_lines *lines);

#endif
