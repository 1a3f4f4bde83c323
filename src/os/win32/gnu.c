/* SPDX-License-Identifier: MIT
 *
 * Functions of the GNU C library that Windows' has not.
 */
#include "os/win32/win32.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "os/win32/gnu.h"

/* ---- the environment ---- */

struct value {
    struct value *next;
    char *text;
    char name[];
};

static SRWLOCK lock = SRWLOCK_INIT; /* also of the files in memory */
static struct value *values;

static char *keep(const char *name, const char *text)
{
    struct value *value = values;

    while (value && strcmp(value->name, name) != 0)
        value = value->next;
    if (!value && (value = calloc(1, sizeof *value + strlen(name) + 1)) != NULL) {
        strcpy(value->name, name);
        value->next = values;
        values = value;
    }
    if (value && (!value->text || strcmp(value->text, text) != 0))
        value->text = _strdup(text); /* the old one stays: somebody may have it */
    return value ? value->text : NULL;
}

/* No program runs with another user's rights here. */
char *secure_getenv(const char *name)
{
    wchar_t wide_name[128], wide[8192];
    char text[3 * 8192];

    if (!sl_wide(name, wide_name, 128))
        return NULL;
    SetLastError(0);
    DWORD length = GetEnvironmentVariableW(wide_name, wide, 8192);
    if ((length == 0 && GetLastError() == ERROR_ENVVAR_NOT_FOUND) || length >= 8192)
        return NULL;
    sl_narrow(wide, text, sizeof text);
    AcquireSRWLockExclusive(&lock);
    char *kept = keep(name, length ? text : "");
    ReleaseSRWLockExclusive(&lock);
    return kept;
}

void *memmem(const void *bytes, size_t size, const void *part, size_t part_size)
{
    const char *at = bytes;

    for (; size >= part_size; at++, size--)
        if (memcmp(at, part, part_size) == 0)
            return (void *)(uintptr_t)at;
    return NULL;
}

char *strchrnul(const char *text, int character)
{
    const char *found = strchr(text, character);

    return (char *)(uintptr_t)(found ? found : text + strlen(text));
}

char *strcasestr(const char *text, const char *part)
{
    size_t length = strlen(part);

    for (; *text; text++)
        if (_strnicmp(text, part, length) == 0)
            return (char *)(uintptr_t)text;
    return length ? NULL : (char *)(uintptr_t)text;
}

/* ---- files in memory: a file that goes when it is closed, whose bytes are read then ---- */

struct stream {
    FILE *file;
    char **text;
    size_t *size;
    struct stream *next;
};

static struct stream *streams;

FILE *open_memstream(char **text, size_t *size)
{
    wchar_t folder[MAX_PATH], path[MAX_PATH];
    struct stream *stream = malloc(sizeof *stream);

    if (!stream || !GetTempPathW(MAX_PATH, folder) || !GetTempFileNameW(folder, L"slu", 0, path) ||
        !(stream->file = _wfopen(path, L"w+bTD"))) {
        free(stream);
        errno = ENOMEM;
        return NULL;
    }
    stream->text = text;
    stream->size = size;
    AcquireSRWLockExclusive(&lock);
    stream->next = streams;
    streams = stream;
    ReleaseSRWLockExclusive(&lock);
    return stream->file;
}

static struct stream *take(FILE *file)
{
    AcquireSRWLockExclusive(&lock);
    struct stream **at = &streams;
    while (*at && (*at)->file != file)
        at = &(*at)->next;
    struct stream *stream = *at;
    if (stream)
        *at = stream->next;
    ReleaseSRWLockExclusive(&lock);
    return stream;
}

static int read_back(const struct stream *stream)
{
    int64_t length = _ftelli64(stream->file);
    char *text = length >= 0 && !ferror(stream->file) ? malloc((size_t)length + 1) : NULL;

    rewind(stream->file);
    if (!text || fread(text, 1, (size_t)length, stream->file) != (size_t)length) {
        free(text);
        return EOF;
    }
    text[length] = '\0';
    *stream->text = text;
    *stream->size = (size_t)length;
    return 0;
}

#undef fclose
int sl_gnu_fclose(FILE *file)
{
    struct stream *stream = take(file);
    int r = stream ? read_back(stream) : 0;

    free(stream);
    return fclose(file) == 0 ? r : EOF;
}
