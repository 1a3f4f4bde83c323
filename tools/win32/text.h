/* SPDX-License-Identifier: MIT
 *
 * Windows' text is UTF-16, the command's is UTF-8.
 */
#ifndef TOOLS_WIN32_TEXT_H
#define TOOLS_WIN32_TEXT_H

#include <wchar.h>

/* The caller frees both. NULL: out of memory. */
wchar_t *text_to_wide(const char *text);
char *text_from_wide(const wchar_t *wide);

#endif
