/* SPDX-License-Identifier: MIT
 *
 * Text that may come from anywhere, such as another process's name, on its way to a terminal.
 */
#ifndef TOOLS_TEXT_H
#define TOOLS_TEXT_H

#include <stddef.h>

/* Bytes of the UTF-8 character at `text`; 0 if it is none, overlong, or a surrogate. */
size_t text_character(const char *text);

/* Columns that it takes: UTF-8's continuation bytes take none. */
unsigned text_width(const char *text);

/* Control characters and what is no UTF-8 become '?'. */
void text_clean(char *text);

/* The name that differs from `text` by a typo or two, or starts with it; NULL if there is none. */
const char *text_nearest(const char *text, const char *const *names, size_t count);

#endif
