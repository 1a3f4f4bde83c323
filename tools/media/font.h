/* SPDX-License-Identifier: MIT
 *
 * A font of 5 by 7 pixels with digits and a few other characters, for frame numbers and labels.
 */
#ifndef TOOLS_FONT_H
#define TOOLS_FONT_H

#include <stdbool.h>

#define FONT_WIDTH  5
#define FONT_HEIGHT 7
#define FONT_STEP   6 /* from one character to the next */

/* True if the pixel at column x, row y of the character is set. Characters not in the font are blank. */
bool font_point(char character, unsigned x, unsigned y);

#endif
