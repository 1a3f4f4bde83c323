/* SPDX-License-Identifier: MIT
 *
 * Half precision of IEEE 754: floats of 16 bits.
 */
#ifndef TOOLS_HALF_H
#define TOOLS_HALF_H

#include <stdint.h>

float half_to_float(uint16_t half);
uint16_t half_from_float(float value); /* the nearest */

#endif
