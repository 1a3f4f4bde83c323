/* SPDX-License-Identifier: MIT
 *
 * Text from untrusted sources, such as the name of another process, and UTF-8.
 */
#ifndef TOOLS_TEXT_H
#define TOOLS_TEXT_H

#include <stddef.h>

/* The size of the UTF-8 character at `text` in bytes; 0 if it is invalid, overlong, or a surrogate. */
size_t text_character(const char *text);

/* The number of characters, which is the width on a terminal for most scripts. */
unsigned text_width(const char *text);

/* Replaces control characters and invalid UTF-8 by '?'. */
void text_clean(char *text);

/* The name that differs from `text` by a typo or two, or starts with it; NULL if there is none. */
const char *text_nearest(const char *text, const char *const *names, size_t count);

#endif
