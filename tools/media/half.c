/* SPDX-License-Identifier: MIT
 *
 * Half precision of IEEE 754.
 */
#include "half.h"

#include <math.h>

float half_to_float(uint16_t half)
{
    unsigned exponent = half >> 10 & 31, fraction = half & 1023;
    float sign = half & 0x8000 ? -1.0f : 1.0f;
    if (exponent == 31)
        return fraction ? NAN : sign * INFINITY;
    if (exponent == 0)
        return sign * ldexpf((float)fraction, -24);
    return sign * ldexpf((float)(fraction + 1024), (int)exponent - 25);
}

uint16_t half_from_float(float value)
{
    uint16_t sign = signbit(value) ? 0x8000 : 0;
    float size = fabsf(value);
    int exponent;
    if (isnan(value))
        return 0x7E00;
    if (size >= 65520.0f)
        return sign | 0x7C00;
    frexpf(size, &exponent); /* size = [0.5, 1) * 2^exponent */
    if (size < ldexpf(1.0f, -14))
        return (uint16_t)(sign | (uint16_t)lrintf(ldexpf(size, 24)));
    unsigned rounded = (unsigned)lrintf(ldexpf(size, 11 - exponent)); /* 1024 to 2048 */
    return (uint16_t)(sign | (rounded - 1024 + ((unsigned)(exponent + 14) << 10)));
}
