/* SPDX-License-Identifier: MIT
 *
 * Text in lines of a given width, with escape sequences.
 */
#include "canvas.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/text.h"

#define MAX_TEXT 512

static bool reserve(struct canvas *canvas, size_t more)
{
    if (canvas->used + more <= canvas->capacity)
        return true;
    size_t capacity = 2 * (canvas->used + more);
    char *bytes = realloc(canvas->bytes, capacity);
    if (!bytes)
        return false;
    canvas->bytes = bytes;
    canvas->capacity = capacity;
    return true;
}

static void add_bytes(struct canvas *canvas, const char *text, size_t size)
{
    if (!reserve(canvas, size + 1))
        return;
    memcpy(canvas->bytes + canvas->used, text, size);
    canvas->used += size;
    canvas->bytes[canvas->used] = 0;
}

static void add_text(struct canvas *canvas, const char *text)
{
    add_bytes(canvas, text, strlen(text));
}

void canvas_begin(struct canvas *canvas, unsigned width, unsigned height)
{
    canvas->width = width;
    canvas->height = height;
    canvas->row = canvas->column = canvas->base = 0;
    canvas->used = 0;
    add_text(canvas, canvas->escapes ? "\033[0m\033[H" : "");
}

void canvas_free(struct canvas *canvas)
{
    free(canvas->bytes);
    canvas->bytes = NULL;
    canvas->used = canvas->capacity = 0;
}

/* ---- text ---- */

static void begin_style(struct canvas *canvas, unsigned style)
{
    static const char *const colours[] = { "", "\033[31m", "\033[32m", "\033[33m", "\033[36m" };
    if (style & STYLE_BOLD)
        add_text(canvas, "\033[1m");
    if (style & STYLE_DIM)
        add_text(canvas, "\033[2m");
    if (style & STYLE_REVERSE)
        add_text(canvas, "\033[7m");
    if (canvas->colour && (style & STYLE_COLOUR) <= STYLE_CYAN)
        add_text(canvas, colours[style & STYLE_COLOUR]);
}

/* For text without control characters. */
static void put_clean(struct canvas *canvas, unsigned style, const char *text)
{
    unsigned left = canvas->width - canvas->column, taken = 0;
    size_t size = 0;
    if (canvas->row >= canvas->height)
        return;
    while (text[size] && taken < left) {
        size += text_character(text + size);
        taken++;
    }
    if (size == 0)
        return;
    if (canvas->base & STYLE_REVERSE)
        style &= ~(unsigned)STYLE_COLOUR; /* in reverse it would colour the background */
    style |= canvas->base;
    if (canvas->escapes && style)
        begin_style(canvas, style);
    add_bytes(canvas, text, size);
    if (canvas->escapes && style)
        add_text(canvas, "\033[0m");
    canvas->column += taken;
}

void canvas_put(struct canvas *canvas, unsigned style, const char *format, ...)
{
    char text[MAX_TEXT];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    text_clean(text);
    put_clean(canvas, style, text);
}

void canvas_line(struct canvas *canvas)
{
    if (canvas->row >= canvas->height)
        return;
    if (canvas->base & STYLE_REVERSE && canvas->column < canvas->width)
        canvas_put(canvas, STYLE_PLAIN, "%*s", (int)(canvas->width - canvas->column), "");
    if (canvas->escapes && canvas->column < canvas->width)
        add_text(canvas, "\033[K");
    canvas->base = STYLE_PLAIN;
    canvas->column = 0;
    canvas->row++;
    if (!canvas->escapes)
        add_text(canvas, "\n");
    else if (canvas->row < canvas->height)
        add_text(canvas, "\r\n");
}

void canvas_skip_to(struct canvas *canvas, unsigned row)
{
    while (canvas->row < row && canvas->row < canvas->height)
        canvas_line(canvas);
}

/* ---- sparklines ---- */

void canvas_sparkline(struct canvas *canvas, unsigned style, const float *values, size_t count, unsigned width)
{
    static const char *const blocks[] = { "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" };
    static const char *const ascii[] = { "_", ".", ":", "-", "=", "+", "*", "#" };
    const char *const *levels = canvas->utf8 ? blocks : ascii;
    char text[MAX_TEXT] = "";
    size_t used = 0, most = MAX_TEXT / 4;
    float top = 0;
    if (width > most)
        width = (unsigned)most;
    if (count > width) {
        values += count - width;
        count = width;
    }
    for (size_t i = 0; i < count; i++)
        if (isfinite(values[i]) && values[i] > top)
            top = values[i];
    used = (size_t)snprintf(text, sizeof text, "%*s", (int)(width - count), "");
    for (size_t i = 0; i < count; i++) {
        bool known = isfinite(values[i]) && values[i] >= 0;
        size_t level = known && top > 0 ? (size_t)lroundf(values[i] / top * 6) : 0;
        used += (size_t)snprintf(text + used, sizeof text - used, "%s", known ? levels[level] : " ");
    }
    put_clean(canvas, style, text);
}
