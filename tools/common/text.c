/* SPDX-License-Identifier: MIT */
#include "text.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

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
    if ((s[0] == 0xE0 && s[1] < 0xA0) || (s[0] == 0xED && s[1] > 0x9F) || (s[0] == 0xF0 && s[1] < 0x90) ||
        (s[0] == 0xF4 && s[1] > 0x8F))
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
        bool control = first < 0x20 || first == 0x7F || (first == 0xC2 && (unsigned char)text[1] < 0xA0);
        if (length == 0 || control)
            *text = '?';
        text += length && !control ? length : 1;
    }
}

/* ---- near names ---- */

/* The edit distance: letters to insert, delete, replace or swap with their neighbour. */
static size_t distance(const char *a, const char *b)
{
    size_t d[32][32], m = strlen(a), n = strlen(b);
    if (m >= 32 || n >= 32)
        return SIZE_MAX;
    for (size_t i = 0; i <= m; i++)
        for (size_t j = 0; j <= n; j++) {
            size_t best = i ? d[i - 1][j] + 1 : j;
            if (j && i && d[i][j - 1] + 1 < best)
                best = d[i][j - 1] + 1;
            if (i && j && d[i - 1][j - 1] + (a[i - 1] != b[j - 1]) < best)
                best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && d[i - 2][j - 2] + 1 < best)
                best = d[i - 2][j - 2] + 1;
            d[i][j] = best;
        }
    return d[m][n];
}

const char *text_nearest(const char *text, const char *const *names, size_t count)
{
    const char *best = NULL;
    size_t best_distance = strlen(text) > 4 ? 3 : 2; /* that many typos are too many */
    for (size_t i = 0; i < count; i++) {
        size_t d = distance(text, names[i]);
        if (d < best_distance) {
            best = names[i];
            best_distance = d;
        }
    }
    for (size_t i = 0; !best && strlen(text) >= 2 && i < count; i++)
        if (strncmp(text, names[i], strlen(text)) == 0)
            best = names[i];
    return best;
}
