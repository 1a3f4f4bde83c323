/* SPDX-License-Identifier: MIT
 *
 * What the command uses of POSIX, and mingw has not. Included into every file of tools/ by the build.
 */
#ifndef TOOLS_WIN32_POSIX_H
#define TOOLS_WIN32_POSIX_H

#include <signal.h>
#include <stdint.h>
#include <sys/types.h>

/* Signals that never come here. */
#define SIGHUP  1001
#define SIGPIPE 1002
#define SIGXFSZ 1003

struct sigaction {
    void (*sa_handler)(int);
    int sa_mask;
};

int sigemptyset(int *set);
int sigaction(int number, const struct sigaction *action, struct sigaction *before);
#define signal(number, handler) ((void)(number), (void)(handler))

ssize_t getline(char **line, size_t *capacity, FILE *file);
#define clock_nanosleep win32_nanosleep /* mingw's takes no monotonic clock */
int setenv(const char *name, const char *value, int replace);
int unsetenv(const char *name);

#endif
