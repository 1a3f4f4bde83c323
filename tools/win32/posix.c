/* SPDX-License-Identifier: MIT
 *
 * posix.h; and consoles, which show UTF-8 and colours from the start of the command on.
 */
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "include/dlfcn.h"

__attribute__((constructor)) static void begin(void)
{
    DWORD mode;

    SetConsoleOutputCP(CP_UTF8);
    HANDLE out = GetStdHandle(STD_OUTPUT_HANDLE);
    if (GetConsoleMode(out, &mode))
        SetConsoleMode(out, mode | ENABLE_VIRTUAL_TERMINAL_PROCESSING);
    _setmode(_fileno(stdout), _O_BINARY); /* lines end as on Linux, and pictures stay whole */
}

/* ---- Ctrl-C, and the end of the session ---- */

static void (*handler)(int);

static BOOL WINAPI on_event(DWORD event)
{
    (void)event;
    if (handler)
        handler(2);
    return handler != NULL;
}

int sigemptyset(int *set)
{
    *set = 0;
    return 0;
}

int sigaction(int number, const struct sigaction *action, struct sigaction *before)
{
    (void)before;
    if (number != 2)
        return 0;
    handler = action->sa_handler;
    return SetConsoleCtrlHandler(on_event, TRUE) ? 0 : -1;
}

/* Until a time of the monotonic clock. */
int win32_nanosleep(int clock, int flags, const struct timespec *until, struct timespec *left)
{
    struct timespec now;

    (void)flags;
    (void)left;
    clock_gettime(clock, &now);
    int64_t ms = (int64_t)(until->tv_sec - now.tv_sec) * 1000 + (until->tv_nsec - now.tv_nsec) / 1000000;
    if (ms > 0)
        Sleep((DWORD)ms);
    return 0;
}

/* ---- text ---- */

ssize_t getline(char **line, size_t *capacity, FILE *file)
{
    size_t length = 0;

    for (int c; (c = getc(file)) != EOF;) {
        if (length + 2 > *capacity) {
            char *more = realloc(*line, *capacity = *capacity * 2 + 256);
            if (!more)
                return -1;
            *line = more;
        }
        (*line)[length++] = (char)c;
        if (c == '\n')
            break;
    }
    if (length == 0)
        return -1;
    (*line)[length] = '\0';
    return (ssize_t)length;
}

int setenv(const char *name, const char *value, int replace)
{
    (void)replace;
    return SetEnvironmentVariableA(name, value) ? 0 : -1;
}

int unsetenv(const char *name)
{
    return SetEnvironmentVariableA(name, NULL) ? 0 : -1;
}

/* ---- libraries ---- */

void *dlopen(const char *name, int flags)
{
    (void)flags;
    return (void *)LoadLibraryA(strncmp(name, "libnvidia-ml", 12) == 0 ? "nvml.dll" : name);
}

void *dlsym(void *library, const char *name)
{
    FARPROC found = GetProcAddress(library, name);
    void *symbol;

    memcpy(&symbol, &found, sizeof symbol);
    return symbol;
}

int dlclose(void *library)
{
    return FreeLibrary(library) ? 0 : -1;
}
