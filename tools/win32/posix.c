/* SPDX-License-Identifier: MIT
 *
 * posix.h: text, sorting, files and variables with names in UTF-8, libraries.
 */
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#include <io.h>
#include <stdlib.h>
#include <string.h>

#include "include/dlfcn.h"
#include "text.h"

/* ---- text ---- */

wchar_t *text_to_wide(const char *text)
{
    int length = MultiByteToWideChar(CP_UTF8, 0, text, -1, NULL, 0);
    wchar_t *wide = length > 0 ? malloc((size_t)length * sizeof *wide) : NULL;

    if (wide)
        MultiByteToWideChar(CP_UTF8, 0, text, -1, wide, length);
    return wide;
}

char *text_from_wide(const wchar_t *wide)
{
    int length = WideCharToMultiByte(CP_UTF8, 0, wide, -1, NULL, 0, NULL, NULL);
    char *text = length > 0 ? malloc((size_t)length) : NULL;

    if (text)
        WideCharToMultiByte(CP_UTF8, 0, wide, -1, text, length, NULL, NULL);
    return text;
}

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

/* ---- sorting ---- */

struct order {
    int (*compare)(const void *, const void *, void *);
    void *context;
};

static int compare_in(void *order, const void *a, const void *b)
{
    const struct order *by = order;

    return by->compare(a, b, by->context);
}

void qsort_r(void *list, size_t count, size_t size, int (*compare)(const void *, const void *, void *), void *context)
{
    qsort_s(list, count, size, compare_in, &(struct order){ compare, context });
}

/* ---- files ---- */

FILE *win32_fopen(const char *path, const char *mode)
{
    wchar_t *wide = text_to_wide(path), wide_mode[8];
    size_t length = 0;

    for (; *mode && length < 7; mode++)
        if (*mode != 'e') /* no handle is inherited unless the child is given it */
            wide_mode[length++] = (wchar_t)*mode;
    wide_mode[length] = L'\0';
    FILE *file = wide ? _wfopen(wide, wide_mode) : NULL;
    free(wide);
    return file;
}

int win32_unlink(const char *path)
{
    wchar_t *wide = text_to_wide(path);
    int r = wide ? _wunlink(wide) : -1;

    free(wide);
    return r;
}

/* ---- variables ---- */

static int set_variable(const char *name, const char *value)
{
    wchar_t *wide_name = text_to_wide(name), *wide = value ? text_to_wide(value) : NULL;
    bool set = wide_name && (wide || !value) && SetEnvironmentVariableW(wide_name, wide);

    free(wide_name);
    free(wide);
    return set ? 0 : -1;
}

int setenv(const char *name, const char *value, int replace)
{
    (void)replace;
    return set_variable(name, value);
}

int unsetenv(const char *name)
{
    return set_variable(name, NULL);
}

char **win32_environ(void)
{
    static char *none, **list;
    wchar_t *all = list ? NULL : GetEnvironmentStringsW();
    size_t count = 0;

    if (!all)
        return list ? list : &none;
    for (const wchar_t *at = all; *at; at += wcslen(at) + 1)
        count++;
    list = calloc(count + 1, sizeof *list);
    count = 0;
    for (const wchar_t *at = all; list && *at; at += wcslen(at) + 1)
        if ((list[count] = text_from_wide(at)) != NULL)
            count++;
    FreeEnvironmentStringsW(all);
    return list ? list : &none;
}

/* ---- libraries ---- */

void *dlopen(const char *name, int flags)
{
    wchar_t *wide = text_to_wide(strncmp(name, "libnvidia-ml", 12) == 0 ? "nvml.dll" : name);
    void *library = wide ? (void *)LoadLibraryW(wide) : NULL;

    (void)flags;
    free(wide);
    return library;
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
