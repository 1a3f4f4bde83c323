/* SPDX-License-Identifier: MIT
 *
 * Styled text, clipped to the size of the screen.
 */
#ifndef TOOLS_CANVAS_H
#define TOOLS_CANVAS_H

#include <stdbool.h>
#include <stddef.h>

enum style {
    STYLE_PLAIN = 0,
    STYLE_RED = 1, /* one colour, combined with any of the bits below */
    STYLE_GREEN = 2,
    STYLE_YELLOW = 3,
    STYLE_CYAN = 4,
    STYLE_COLOUR = 7, /* mask */
    STYLE_BOLD = 8,
    STYLE_DIM = 16,
    STYLE_REVERSE = 32,
};

struct canvas {
    unsigned width, height, row, column;
    bool escapes; /* false: plain text */
    bool colour;  /* false: only bold, dim and reverse */
    bool utf8;
    unsigned base; /* added to all styles until the end of the line */
    char *bytes;
    size_t used, capacity;
};

/* Starts a new screen in the same memory. */
void canvas_begin(struct canvas *canvas, unsigned width, unsigned height);
void canvas_free(struct canvas *canvas);

/* Appends text to the line, clipped at the edge. Unprintable characters become '?'. */
void canvas_put(struct canvas *canvas, unsigned style, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Ends the line. Lines below the screen are ignored. */
void canvas_line(struct canvas *canvas);

/* Adds empty lines up to a row, counted from the top. */
void canvas_skip_to(struct canvas *canvas, unsigned row);

/* Draws values as blocks of different height, the last one at the right; NAN is a gap. */
void canvas_sparkline(struct canvas *canvas, unsigned style, const float *values, size_t count, unsigned width);

#endif
