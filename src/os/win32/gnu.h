/* SPDX-License-Identifier: MIT
 *
 * What the sources use of the GNU C library and Windows' has not. Included into every file by the build.
 */
#ifndef SL_OS_WIN32_GNU_H
#define SL_OS_WIN32_GNU_H

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

/* printf of mingw knows %zu and %lld; the compiler would check for Windows' own otherwise. */
#define SL_PRINTF(f, a) __attribute__((format(gnu_printf, f, a)))

/* Every symbol is hidden that is not exported. */
#define SL_TRACE_HIDDEN

/* mingw's take a float for a double at times. */
#undef isfinite
#undef isinf
#undef isnan
#define isfinite(x) __builtin_isfinite(x)
#define isinf(x)    __builtin_isinf(x)
#define isnan(x)    __builtin_isnan(x)

/* Of this process's environment now, in UTF-8; the value stays valid. Programs such as Python change it through
 * another C library, whose changes getenv does not see. */
char *secure_getenv(const char *name);
#define getenv secure_getenv
void *memmem(const void *bytes, size_t size, const void *part, size_t part_size);
char *strchrnul(const char *text, int character);
char *strcasestr(const char *text, const char *part);

/* Writes into memory that grows; it is the caller's after sl_close_memstream, which mingw's fclose is for such files.
 */
FILE *open_memstream(char **text, size_t *size);
int sl_gnu_fclose(FILE *file);
#define fclose sl_gnu_fclose

#endif
