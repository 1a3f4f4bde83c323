/* SPDX-License-Identifier: MIT
 *
 * Consoles, which show UTF-8 and colours from the start of the command on; arguments in UTF-8; Ctrl-C.
 */
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "console.h"
#include "text.h"

/* ---- the console ---- */

static UINT page_before; /* of the console's output, which outlives the command */

static void put_page_back(void)
{
    SetConsoleOutputCP(page_before);
}

static void begin(void)
{
    HANDLE out = GetStdHandle(STD_OUTPUT_HANDLE);
    DWORD mode;

    page_before = GetConsoleOutputCP();
    if (page_before && SetConsoleOutputCP(CP_UTF8))
        atexit(put_page_back);
    if (GetConsoleMode(out, &mode)) {
        SetConsoleMode(out, mode | ENABLE_VIRTUAL_TERMINAL_PROCESSING);
        setvbuf(stdout, NULL, _IOFBF, 1 << 16); /* else each byte of a character is written by itself */
    }
    _setmode(_fileno(stdout), _O_BINARY); /* lines end as on Linux, and pictures stay whole */
}

/* At once, so that a console gets whole characters: stderr has no buffer, and the C library converts them. */
int win32_vfprintf(FILE *file, const char *format, va_list list)
{
    char text[8192];

    if (file != stderr)
        return (vfprintf)(file, format, list);
    int length = vsnprintf(text, sizeof text, format, list);
    DWORD wrote;
    WriteFile(GetStdHandle(STD_ERROR_HANDLE), text, (DWORD)strlen(text), &wrote, NULL);
    return length;
}

int win32_fprintf(FILE *file, const char *format, ...)
{
    va_list list;

    va_start(list, format);
    int length = win32_vfprintf(file, format, list);
    va_end(list);
    return length;
}

/* ---- arguments ---- */

int main(int argc, char **argv);
int wmain(int argc, wchar_t **wide);

int wmain(int argc, wchar_t **wide)
{
    char **argv = calloc((size_t)argc + 1, sizeof *argv);

    begin();
    for (int i = 0; argv && i < argc; i++)
        if (!(argv[i] = text_from_wide(wide[i])))
            argv = NULL;
    if (argv)
        return main(argc, argv);
    fputs("sluice: out of memory.\n", stderr);
    return 1;
}

/* ---- Ctrl-C, Ctrl-Break, and the end of the console or the session ---- */

static void (*handler)(int);
static HANDLE stop;

static BOOL WINAPI on_event(DWORD event)
{
    handler(2);
    SetEvent(stop);
    /* When this returns, Windows ends the process if its console is closed. It ends by itself now. */
    if (event != CTRL_C_EVENT && event != CTRL_BREAK_EVENT)
        Sleep(INFINITE);
    return TRUE;
}

HANDLE console_stop(void)
{
    return stop;
}

int sigemptyset(int *set)
{
    *set = 0;
    return 0;
}

int sigaction(int number, const struct sigaction *action, struct sigaction *before)
{
    (void)before;
    if (number != 2 || stop)
        return 0;
    handler = action->sa_handler;
    stop = CreateEventW(NULL, TRUE, FALSE, NULL);
    return stop && SetConsoleCtrlHandler(on_event, TRUE) ? 0 : -1;
}

/* ---- until a time of the monotonic clock ---- */

static int64_t left_until(const struct timespec *until)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)(until->tv_sec - now.tv_sec) * 1000000000 + until->tv_nsec - now.tv_nsec;
}

/* mingw's knows the other clock only. */
int win32_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *until)
{
    int64_t left = left_until(until);
    struct timespec then;

    clock_gettime(CLOCK_REALTIME, &then);
    int64_t ns = then.tv_nsec + (left > 0 ? left : 0);
    then.tv_sec += (time_t)(ns / 1000000000);
    then.tv_nsec = (long)(ns % 1000000000);
    return (pthread_cond_timedwait)(condition, mutex, &then);
}

/* Or until Ctrl-C. */
int win32_nanosleep(int clock, int flags, const struct timespec *until, struct timespec *left)
{
    int64_t ms = left_until(until) / 1000000;
    DWORD patience = ms > INT32_MAX ? INT32_MAX : ms > 0 ? (DWORD)ms : 0;

    (void)clock;
    (void)flags;
    (void)left;
    if (!stop)
        Sleep(patience);
    return stop && WaitForSingleObject(stop, patience) == WAIT_OBJECT_0 ? EINTR : 0;
}
