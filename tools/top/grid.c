/* SPDX-License-Identifier: MIT
 *
 * A table on the screen: sorted, without the least important columns if the screen is narrow, and scrolled to the
 * selected row.
 */
#include "top.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/text.h"
#include "screen.h"

#define MAX_COLUMNS     24
#define SHORT_NAME      20 /* the first column is cut to this width before the sparkline is left out */
#define MIN_SPARKLINE   12
#define MAX_TEXT_COLUMN 40

/* ---- sorting ---- */

struct order {
    bool text, reverse;
};

static int compare(const void *a, const void *b, void *context)
{
    const struct top_sorted *x = a, *y = b;
    const struct order *order = context;
    int result = 0;
    if (order->text) {
        result = strcmp(x->key.text, y->key.text);
    } else {
        bool p = isnan(x->key.number), q = isnan(y->key.number);
        if (p != q)
            return p ? 1 : -1; /* unknown numbers come last in either order */
        if (!p)
            result = x->key.number < y->key.number ? 1 : x->key.number > y->key.number ? -1 : 0;
    }
    if (result == 0)
        return x->index < y->index ? -1 : x->index > y->index;
    return order->reverse ? -result : result;
}

void top_sort(const struct top_table *table, struct top_sorted *sorted, size_t count, size_t column, bool reverse)
{
    struct order order = { .text = table->columns[column].text, .reverse = reverse };
    for (size_t i = 0; i < count; i++) {
        table->cell(sorted[i].row, column, &sorted[i].key);
        sorted[i].index = i;
    }
    if (count)
        qsort_r(sorted, count, sizeof *sorted, compare, &order);
}

/* ---- keys ---- */

bool top_grid_key(struct top_grid *grid, int key, size_t count)
{
    size_t page = grid->shown > 1 ? grid->shown - 1 : 1, last = count ? count - 1 : 0;
    size_t *at = grid->selects ? &grid->at : &grid->first;
    switch (key) {
    case KEY_UP: *at -= *at > 0; break;
    case KEY_DOWN: *at += *at < last; break;
    case KEY_PAGE_UP: *at -= *at < page ? *at : page; break;
    case KEY_PAGE_DOWN: *at = *at + page < last ? *at + page : last; break;
    case KEY_HOME: *at = 0; break;
    case KEY_END: *at = last; break;
    case '<':
    case ',': grid->sort -= grid->sort > 0; break;
    case '>':
    case '.': grid->sort += grid->sort + 1 < grid->table->count; break;
    case 'r': grid->reverse = !grid->reverse; break;
    default: return false;
    }
    if (key >= KEY_UP)
        grid->selected[0] = 0; /* select by index, not by name */
    return true;
}

/* ---- layout ---- */

struct layout {
    unsigned width[MAX_COLUMNS];
    bool shown[MAX_COLUMNS];
    unsigned sparkline; /* 0: none */
};

static unsigned total_width(const struct layout *layout, size_t count)
{
    unsigned total = 0;
    for (size_t i = 0; i < count; i++)
        if (layout->shown[i])
            total += layout->width[i] + (total ? 2 : 0);
    return total;
}

static void measure(struct layout *layout, const struct top_table *table, const struct top_sorted *sorted, size_t count)
{
    struct top_cell cell;
    for (size_t c = 0; c < table->count; c++) {
        unsigned width = text_width(table->columns[c].title);
        layout->shown[c] = true;
        layout->width[c] = width > table->columns[c].width ? width : table->columns[c].width;
        for (size_t i = 0; table->columns[c].text && i < count; i++) {
            table->cell(sorted[i].row, c, &cell);
            width = text_width(cell.text);
            unsigned most = c == 0 ? SLUICE_MAX_NAME : MAX_TEXT_COLUMN; /* cipd: names may be longer */
            if (width > most)
                width = most;
            if (width > layout->width[c])
                layout->width[c] = width;
        }
    }
}

/* The visible column with the highest rank, except the name and the sort column; the table's count if there is none. */
static size_t least_important(const struct top_grid *grid, const struct layout *layout)
{
    const struct top_column *columns = grid->table->columns;
    size_t least = grid->table->count;
    for (size_t i = 1; i < grid->table->count; i++)
        if (layout->shown[i] && i != grid->sort &&
            (least == grid->table->count || columns[i].rank > columns[least].rank))
            least = i;
    return least;
}

/* Shrinks the layout to the width of the screen. */
static void fit_width(struct layout *layout, const struct top_grid *grid, unsigned width)
{
    const struct top_table *table = grid->table;
    unsigned sparkline = table->sparkline ? 2 + MIN_SPARKLINE : 0, used;
    while ((used = total_width(layout, table->count) + sparkline) > width) {
        unsigned excess = used - width, spare = 0;
        size_t least = least_important(grid, layout);
        if (layout->width[0] > SHORT_NAME)
            spare = layout->width[0] - SHORT_NAME;
        if (least < table->count && table->columns[least].rank > table->sparkline_rank)
            layout->shown[least] = false;
        else if (spare)
            layout->width[0] -= excess < spare ? excess : spare;
        else if (sparkline)
            sparkline = 0;
        else if (least < table->count)
            layout->shown[least] = false;
        else
            break;
    }
    layout->sparkline = sparkline && used <= width ? width - used + MIN_SPARKLINE : 0;
    if (layout->sparkline > TOP_HISTORY)
        layout->sparkline = TOP_HISTORY;
}

/* ---- drawing ---- */

static void draw_cell(struct canvas *canvas, const struct top_column *column, unsigned width, unsigned style,
                      const char *text, bool last)
{
    unsigned wide = text_width(text), pad = wide < width ? width - wide : 0;
    char cut[TOP_CELL];
    if (wide > width && width) { /* cut names end in '~'; numbers are never cut */
        size_t size = 0, at = 0;
        for (; text[size] && at < width; size++)
            at += ((unsigned char)text[size + 1] & 0xC0) != 0x80;
        snprintf(cut, sizeof cut, "%.*s", (int)size, text);
        if (size && column->text)
            cut[strlen(cut) - 1] = (unsigned char)cut[strlen(cut) - 1] < 0x80 ? '~' : cut[strlen(cut) - 1];
        text = cut;
    }
    if (!column->text)
        canvas_put(canvas, STYLE_PLAIN, "%*s", (int)pad, "");
    canvas_put(canvas, style, "%s", text);
    if (column->text && !last)
        canvas_put(canvas, STYLE_PLAIN, "%*s", (int)pad, "");
}

static void draw_header(struct canvas *canvas, const struct top_grid *grid, const struct layout *layout)
{
    const struct top_table *table = grid->table;
    bool up = table->columns[grid->sort].text != grid->reverse;
    canvas->base = STYLE_REVERSE;
    for (size_t c = 0; c < table->count; c++) {
        char title[32];
        if (!layout->shown[c])
            continue;
        snprintf(title, sizeof title, "%s", table->columns[c].title);
        if (c == grid->sort)
            snprintf(title, sizeof title, "%s%s", table->columns[c].title,
                     canvas->utf8 ? (up ? "▲" : "▼")
                     : up         ? "^"
                                  : "v");
        canvas_put(canvas, STYLE_PLAIN, "%s", canvas->column ? "  " : "");
        draw_cell(canvas, &table->columns[c], layout->width[c], c == grid->sort ? STYLE_BOLD : STYLE_PLAIN, title,
                  false);
    }
    if (layout->sparkline)
        canvas_put(canvas, STYLE_PLAIN, "  %*s", (int)layout->sparkline, "FPS HISTORY");
    canvas_line(canvas);
}

static void draw_row(struct canvas *canvas, const struct top_grid *grid, const struct layout *layout, const void *row,
                     bool selected)
{
    const struct top_table *table = grid->table;
    struct top_cell cell, note;
    bool noted = table->note && table->note(row, &note);
    canvas->base = selected ? STYLE_REVERSE : STYLE_PLAIN;
    for (size_t c = 0; c < table->count && !(noted && c >= table->note_from); c++) {
        if (!layout->shown[c])
            continue;
        table->cell(row, c, &cell);
        canvas_put(canvas, STYLE_PLAIN, "%s", canvas->column ? "  " : "");
        draw_cell(canvas, &table->columns[c], layout->width[c], cell.style, cell.text, false);
    }
    if (noted)
        canvas_put(canvas, note.style, "  %s", note.text);
    else if (layout->sparkline) {
        const float *values = table->sparkline(row);
        canvas_put(canvas, STYLE_PLAIN, "  ");
        canvas_sparkline(canvas, STYLE_CYAN, values, TOP_HISTORY, layout->sparkline);
    }
    canvas_line(canvas);
}

/* Finds the selected row after sorting, and scrolls to it. */
static void scroll(struct top_grid *grid, const struct top_sorted *sorted, size_t count, size_t visible)
{
    char name[TOP_CELL];
    for (size_t i = 0; grid->selects && grid->selected[0] && i < count; i++) {
        grid->table->name(sorted[i].row, name);
        if (strcmp(name, grid->selected) == 0)
            grid->at = i;
    }
    if (grid->at >= count)
        grid->at = count ? count - 1 : 0;
    if (grid->selects && count)
        grid->table->name(sorted[grid->at].row, grid->selected);
    if (grid->selects && grid->at < grid->first)
        grid->first = grid->at;
    if (grid->selects && visible && grid->at >= grid->first + visible)
        grid->first = grid->at - visible + 1;
    if (grid->first + visible > count)
        grid->first = count > visible ? count - visible : 0;
    grid->shown = visible;
}

void top_grid_draw(struct top_grid *grid, struct canvas *canvas, const void **rows, size_t count, unsigned until)
{
    struct layout layout = { 0 };
    struct top_sorted *sorted = calloc(count ? count : 1, sizeof *sorted);
    if (!sorted || canvas->row >= until) {
        free(sorted);
        return;
    }
    for (size_t i = 0; i < count; i++)
        sorted[i].row = rows[i];
    top_sort(grid->table, sorted, count, grid->sort, grid->reverse);
    measure(&layout, grid->table, sorted, count);
    fit_width(&layout, grid, canvas->width);
    draw_header(canvas, grid, &layout);
    scroll(grid, sorted, count, until - canvas->row);
    for (size_t i = grid->first; i < count && canvas->row < until; i++)
        draw_row(canvas, grid, &layout, sorted[i].row, grid->selects && i == grid->at);
    free(sorted);
}
