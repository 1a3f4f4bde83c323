/* SPDX-License-Identifier: MIT
 *
 * A picture of text, clipped to a size, with styles: what is shown on a screen.
 */
#ifndef TOOLS_CANVAS_H
#define TOOLS_CANVAS_H

#include <stdbool.h>
#include <stddef.h>

enum style {
    STYLE_PLAIN = 0,
    STYLE_RED = 1, /* one colour, and any of the rest */
    STYLE_GREEN = 2,
    STYLE_YELLOW = 3,
    STYLE_CYAN = 4,
    STYLE_COLOUR = 7,
    STYLE_BOLD = 8,
    STYLE_DIM = 16,
    STYLE_REVERSE = 32,
};

struct canvas {
    unsigned width, height, row, column;
    bool escapes; /* false: lines of plain text */
    bool colour;  /* colours too, not only bold and reverse */
    bool utf8;
    unsigned base; /* style of all that is put, until the end of the line */
    char *bytes;
    size_t used, room;
};

/* Starts a new picture in the same memory. */
void canvas_begin(struct canvas *canvas, unsigned width, unsigned height);
void canvas_free(struct canvas *canvas);

/* Text at the end of the line, cut at the edge. What is no printable text in it becomes '?'. */
void canvas_put(struct canvas *canvas, unsigned style, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Ends the line. Lines below the last one are not there. */
void canvas_line(struct canvas *canvas);

/* Empty lines up to a row, counted from the top. */
void canvas_skip_to(struct canvas *canvas, unsigned row);

/* `values` as blocks of different height, the newest at the right; NAN is a gap. */
void canvas_sparkline(struct canvas *canvas, unsigned style, const float *values, size_t count,
                  unsigned width);

#endif
