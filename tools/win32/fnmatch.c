/* SPDX-License-Identifier: MIT
 *
 * Patterns of names: *, ?, [...] and \.
 */
#include <fnmatch.h>

#include <stdbool.h>
#include <string.h>

/* The text behind a set, whose '[' is at `pattern`; NULL if it does not end, and '[' means itself. */
static const char *match_set(const char *pattern, char c, bool *matches)
{
    const char *at = pattern + 1;
    bool negated = *at == '!' || *at == '^', found = false;

    at += negated;
    for (bool first = true; *at && (first || *at != ']'); first = false) {
        unsigned char low = (unsigned char)*at++, high = low;
        if (low == '\\' && *at)
            high = low = (unsigned char)*at++;
        if (*at == '-' && at[1] && at[1] != ']') {
            high = (unsigned char)at[1];
            at += 2;
        }
        found = found || (low <= (unsigned char)c && (unsigned char)c <= high);
    }
    *matches = found != negated;
    return *at ? at + 1 : NULL;
}

int fnmatch(const char *pattern, const char *text, int flags)
{
    const char *star = NULL, *from = NULL; /* behind the last *, and what it has not taken */

    (void)flags;
    for (;;) {
        const char *next = NULL;
        bool matches = false;
        if (*pattern == '*') {
            star = ++pattern;
            from = text;
            continue;
        }
        if (!*pattern && !*text)
            return 0;
        if (*text && *pattern == '[')
            next = match_set(pattern, *text, &matches);
        if (*text && *pattern && !next) {
            const char *plain = *pattern == '\\' && pattern[1] ? pattern + 1 : pattern;
            matches = *pattern == '?' || *plain == *text;
            next = plain + 1;
        }
        if (next && matches) {
            pattern = next;
            text++;
        } else if (star && *from) {
            pattern = star;
            text = ++from;
        } else {
            return 1;
        }
    }
}
