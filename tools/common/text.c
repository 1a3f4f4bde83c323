/* SPDX-License-Identifier: MIT */
#include "text.h"

#include <stdbool.h>

size_t text_character(const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    size_t n = 0;
    if (s[0] < 0x80)
        n = 1;
    else if (s[0] >= 0xC2 && s[0] < 0xE0)
        n = 2;
    else if ((s[0] & 0xF0) == 0xE0)
        n = 3;
    else if (s[0] >= 0xF0 && s[0] < 0xF5)
        n = 4;
    for (size_t i = 1; i < n; i++)
        if ((s[i] & 0xC0) != 0x80)
            return 0;
    if ((s[0] == 0xE0 && s[1] < 0xA0) || (s[0] == 0xED && s[1] > 0x9F) ||
        (s[0] == 0xF0 && s[1] < 0x90) || (s[0] == 0xF4 && s[1] > 0x8F))
        return 0;
    return n;
}

unsigned text_width(const char *text)
{
    unsigned width = 0;
    for (; *text; text++)
        width += ((unsigned char)*text & 0xC0) != 0x80;
    return width;
}

void text_clean(char *text)
{
    while (*text) {
        unsigned char first = (unsigned char)text[0];
        size_t length = text_character(text);
        bool control = first < 0x20 || first == 0x7F ||
                       (first == 0xC2 && (unsigned char)text[1] < 0xA0);
        if (length == 0 || control)
            *text = '?';
        text += length && !control ? length : 1;
    }
}
