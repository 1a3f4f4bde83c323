/* SPDX-License-Identifier: MIT */
#include "failure.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "memory.h"

static struct failure {
    bool missing;
    char text[512];
} * failure;

bool failure_open(void)
{
    if (!failure)
        failure = memory_shared(sizeof *failure);
    return failure != NULL;
}

const char *failure_text(void)
{
    return failure ? failure->text : "";
}

bool failure_is_missing(void)
{
    return failure && failure->missing;
}

void failure_clear(void)
{
    if (failure)
        *failure = (struct failure){ .missing = false };
}

static void set(const char *format, va_list list)
{
    if (!failure) {
        vfprintf(stderr, format, list);
        fputc('\n', stderr);
    } else if (!failure->text[0]) {
        vsnprintf(failure->text, sizeof failure->text, format, list);
    }
}

void failure_set(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    set(format, list);
    va_end(list);
}

void die(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    set(format, list);
    va_end(list);
    _exit(1);
}

void die_errno(const char *what)
{
    die("%s: %s", what, strerror(errno));
}

void die_missing(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    set(format, list);
    va_end(list);
    if (failure)
        failure->missing = true;
    _exit(EXIT_MISSING);
}
