/* SPDX-License-Identifier: MIT
 *
 * The checks: each prints the values that it compared, and ends the process if the check fails.
 */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "harness/harness.h"

/* Not exit(): other threads may be in the middle of something, and a leak report would bury the reason. */
void test_fail(const char *file, int line, const char *format, ...)
{
    char text[1024];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    const char *slash = strrchr(file, '/');
    fflush(stdout);
    fprintf(stderr, "%s:%d: %s\n", slash ? slash + 1 : file, line, text);
    harness_leave(1);
}

static bool holds(intmax_t a, intmax_t b, char how)
{
    switch (how) {
    case '=': return a == b;
    case '!': return a != b;
    case '<': return a <= b;
    default: return a >= b;
    }
}

void test_check_int(const char *file, int line, const char *a_text, intmax_t a, const char *b_text, intmax_t b,
                    char how)
{
    static const char words[][12] = { "equal", "differ from", "be at most", "be at least" };
    if (holds(a, b, how))
        return;
    const char *word = words[how == '=' ? 0 : how == '!' ? 1 : how == '<' ? 2 : 3];
    test_fail(file, line, "%s should %s %s: %" PRIdMAX " (0x%" PRIxMAX ") and %" PRIdMAX " (0x%" PRIxMAX ")", a_text,
              word, b_text, a, (uintmax_t)a, b, (uintmax_t)b);
}

void test_check_near(const char *file, int line, const char *a_text, double a, const char *b_text, double b,
                     double tolerance)
{
    if (!(fabs(a - b) <= tolerance))
        test_fail(file, line, "%s should be within %g of %s: %g and %g", a_text, tolerance, b_text, a, b);
}

void test_check_str(const char *file, int line, const char *a_text, const char *a, const char *b_text, const char *b)
{
    if (!a || !b || strcmp(a, b) != 0)
        test_fail(file, line, "%s should equal %s: \"%s\" and \"%s\"", a_text, b_text, a ? a : "(null)",
                  b ? b : "(null)");
}

void test_check_has(const char *file, int line, const char *what, const char *text, const char *part)
{
    if (!text || !strstr(text, part))
        test_fail(file, line, "%s should contain \"%s\": \"%s\"", what, part, text ? text : "(null)");
}

void test_check_mem(const char *file, int line, const char *a_text, const void *a, const char *b_text, const void *b,
                    size_t size)
{
    const unsigned char *x = a, *y = b;
    if (size == 0 || memcmp(a, b, size) == 0)
        return;
    for (size_t i = 0; i < size; i++)
        if (x[i] != y[i])
            test_fail(file, line, "%s and %s differ first at byte %zu of %zu: 0x%02x and 0x%02x", a_text, b_text, i,
                      size, x[i], y[i]);
    test_fail(file, line, "%s and %s differed for a moment", a_text, b_text);
}

void test_check_result(const char *file, int line, const char *call, int result, int expected, const char *word)
{
    if (result != expected)
        test_fail(file, line, "%s gave %d %s, not %d %s; last error: \"%s\"", call, result, sluice_result_name(result),
                  expected, sluice_result_name(expected), sluice_last_error());
    if (word && !strstr(sluice_last_error(), word))
        test_fail(file, line, "%s gave %s as it should, but its sentence lacks \"%s\": \"%s\"", call,
                  sluice_result_name(result), word, sluice_last_error());
}
