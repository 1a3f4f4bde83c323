/* SPDX-License-Identifier: MIT
 *
 * A font of 5 by 7 points for digits and a few signs: frame counters and labels.
 */
#ifndef TOOLS_FONT_H
#define TOOLS_FONT_H

#include <stdbool.h>

#define FONT_WIDTH  5
#define FONT_HEIGHT 7
#define FONT_STEP   6 /* from one character to the next */

/* Is the point at column x, row y of the character set? Characters without a shape are blank. */
bool font_point(char character, unsigned x, unsigned y);

#endif
