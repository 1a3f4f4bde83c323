/* SPDX-License-Identifier: MIT
 *
 * Arithmetic with overflow checks. Each function returns 1 if the result fits, else 0.
 */
#ifndef SL_UTIL_CHECKED_H
#define SL_UTIL_CHECKED_H

#include <stdint.h>

static inline int sl_checked_add(uint64_t a, uint64_t b, uint64_t *sum)
{
    *sum = a + b;
    return *sum >= a;
}

static inline int sl_checked_mul(uint64_t a, uint64_t b, uint64_t *product)
{
    *product = a * b;
    return a == 0 || *product / a == b;
}

/* Rounds up to a multiple of `unit` (a power of two is not needed; 0 counts as 1). */
static inline int sl_checked_align(uint64_t a, uint64_t unit, uint64_t *aligned)
{
    if (unit < 2) {
        *aligned = a;
        return 1;
    }
    uint64_t rest = a % unit;
    return sl_checked_add(a, rest ? unit - rest : 0, aligned);
}

#endif
