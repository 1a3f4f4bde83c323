/* SPDX-License-Identifier: MIT
 *
 * What the command uses of POSIX, and mingw has not. Included into every file of tools/ by the build.
 */
#ifndef TOOLS_WIN32_POSIX_H
#define TOOLS_WIN32_POSIX_H

#include <pthread.h>
#include <pthread_signal.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

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
#define sigfillset(set)         ((void)(set))
#undef pthread_sigmask
#define pthread_sigmask(how, set, before) ((void)(set), (void)(before))

typedef int sigset_t;
#define getuid() 0u /* users have no numbers here */

#define clock_nanosleep             win32_nanosleep /* mingw's takes no monotonic clock */
#define pthread_cond_timedwait(...) win32_cond_timedwait(__VA_ARGS__)
int win32_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *until);
int win32_nanosleep(int clock, int flags, const struct timespec *until, struct timespec *left);

#define PER_SYSTEM(posix, win32) win32

/* Names are UTF-8. */
#undef environ
#define environ win32_environ()
#define fopen   win32_fopen
#define unlink  win32_unlink
char **win32_environ(void);
FILE *win32_fopen(const char *path, const char *mode);
int win32_unlink(const char *path);
int setenv(const char *name, const char *value, int replace);
int unsetenv(const char *name);
void qsort_r(void *list, size_t count, size_t size, int (*compare)(const void *, const void *, void *), void *context);
ssize_t getline(char **line, size_t *capacity, FILE *file);

/* Whole characters for a console. */
#define fprintf(...)                 win32_fprintf(__VA_ARGS__)
#define vfprintf(file, format, list) win32_vfprintf(file, format, list)
int win32_fprintf(FILE *file, const char *format, ...);
int win32_vfprintf(FILE *file, const char *format, va_list list);

#endif
