/* SPDX-License-Identifier: MIT
 *
 * The demo's report: a table, a contact sheet and a histogram.
 */
#include "demo.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/term.h"
#include "../media/font.h"
#include "../media/pixels.h"
#include "../media/png.h"

#define COLUMNS    4
#define MARGIN     6
#define CAPTION    20
#define FONT_SCALE 2

static const uint8_t mark_colours[3][3] = { { 90, 90, 90 }, { 220, 60, 60 }, { 70, 200, 90 } };

void sheet_add(struct sheet *sheet, const struct sluice_array *image, enum tile_mark mark, int64_t at_ns,
               uint64_t index)
{
    struct sluice_array small = { 0 };
    if (sheet->count == TILES || !pixels_channels(&image->image))
        return;
    if (!sheet->height)
        sheet->height = TILE_WIDTH * image->image.height / image->image.width;
    struct tile *tile = &sheet->tiles[sheet->count];
    if (pixels_alloc(&small, SLUICE_PIXEL_RGB24, TILE_WIDTH, sheet->height) || pixels_convert(&small, image)) {
        free(small.data);
        return;
    }
    tile->rgb = small.data;
    tile->mark = mark;
    tile->at_ns = at_ns;
    tile->index = index;
    sheet->count++;
}

/* The colour of the sheet at (x, y). */
static void sheet_point(const struct sheet *sheet, uint32_t x, uint32_t y, uint8_t rgb[3])
{
    uint32_t cell_width = TILE_WIDTH + MARGIN, cell_height = sheet->height + CAPTION + MARGIN;
    uint32_t number = y / cell_height * COLUMNS + x / cell_width;
    memset(rgb, 24, 3);
    x %= cell_width;
    y %= cell_height;
    if (number >= sheet->count || x < MARGIN || y < MARGIN)
        return;
    const struct tile *tile = &sheet->tiles[number];
    x -= MARGIN;
    y -= MARGIN;
    if (y < sheet->height) {
        bool edge = tile->mark && (x < 3 || y < 3 || x >= TILE_WIDTH - 3 || y >= sheet->height - 3);
        memcpy(rgb, edge ? mark_colours[tile->mark] : tile->rgb + ((size_t)y * TILE_WIDTH + x) * 3, 3);
        return;
    }
    char text[40];
    snprintf(text, sizeof text, "%.2fs #%" PRIu64, (double)tile->at_ns / 1e9, tile->index);
    uint32_t column = x / FONT_SCALE, row = (y - sheet->height) / FONT_SCALE;
    if (row >= 1 && column / FONT_STEP < strlen(text) &&
        font_point(text[column / FONT_STEP], column % FONT_STEP, row - 1))
        memset(rgb, 230, 3);
}

bool sheet_write(const struct sheet *sheet, const char *path)
{
    struct png png;
    uint32_t rows = (sheet->count + COLUMNS - 1) / COLUMNS;
    uint32_t width = COLUMNS * (TILE_WIDTH + MARGIN) + MARGIN;
    uint32_t height = rows * (sheet->height + CAPTION + MARGIN) + MARGIN;
    uint8_t row[(COLUMNS * (TILE_WIDTH + MARGIN) + MARGIN) * 3];
    FILE *out = sheet->count ? fopen(path, "wbe") : NULL;
    bool done = false;
    if (out) {
        png_begin(&png, out, width, height, 3, 8);
        for (uint32_t y = 0; y < height; y++) {
            for (uint32_t x = 0; x < width; x++)
                sheet_point(sheet, x, y, row + 3 * (size_t)x);
            png_row(&png, row);
        }
        done = png_end(&png);
        done = fclose(out) == 0 && done;
    }
    if (!done)
        say_error("demo", "cannot write the contact sheet %s: %s.", path,
                  sheet->count ? strerror(errno) : "there were no frames");
    return done;
}

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static int64_t percentile(struct tally *tally, unsigned percent)
{
    if (tally->count == 0)
        return -1;
    qsort(tally->latency, tally->count, sizeof tally->latency[0], compare);
    return tally->latency[(uint64_t)(tally->count - 1) * percent / 100];
}

void report_table(struct tally *in, struct tally *out, double seconds)
{
    static const char *const headers[] = { "CHANNEL", ">FRAMES", ">FPS", ">UNREAD", ">DROPPED",
                                           ">TORN",   ">P50",    ">P95", ">P99" };
    struct tally *const both[2] = { in, out };
    struct table table;
    char text[TERM_TEXT];
    table_begin(&table, headers, 9);
    for (int i = 0; i < 2; i++) {
        struct tally *tally = both[i];
        uint64_t committed = tally_committed(tally);
        table_cell(&table, COLOUR_PLAIN, "%s", tally->name);
        table_cell(&table, COLOUR_PLAIN, "%" PRIu64, committed);
        table_cell(&table, COLOUR_PLAIN, "%.1f", (double)committed / seconds);
        table_cell(&table, COLOUR_PLAIN, "%" PRIu64, committed > tally->read ? committed - tally->read : 0);
        table_cell(&table, COLOUR_PLAIN, "%" PRIu64, tally_dropped(tally));
        table_cell(&table, tally->torn ? COLOUR_RED : COLOUR_PLAIN, "%" PRIu64, tally->torn);
        for (unsigned k = 0; k < 3; k++)
            table_cell(&table, COLOUR_PLAIN, "%s",
                       text_duration(text, percentile(tally, k == 0   ? 50
                                                             : k == 1 ? 95
                                                                      : 99)));
    }
    table_print(&table);
    printf("unread: replaced by newer frames while the next program was dead or busy; dropped: no slot was free\n");
}

/* The histogram has eight bars per power of ten, from 1 us to 100 ms. */
#define BARS        40
#define PLOT_WIDTH  640
#define PLOT_HEIGHT 150
#define PLOT_LEFT   60

static double bar_position(int64_t ns)
{
    double x = (log10((double)(ns > 1 ? ns : 1)) - 3) * 8;
    return x < 0 ? 0 : x > BARS - 0.001 ? BARS - 0.001 : x;
}

static void plot(FILE *out, struct tally *tally, const char *title, const char *fill, int top)
{
    unsigned bars[BARS] = { 0 }, most = 1;
    static const unsigned percents[3] = { 50, 95, 99 };
    static const char *const ticks[] = { "1 us", "10 us", "100 us", "1 ms", "10 ms", "100 ms" };
    int base = top + PLOT_HEIGHT;
    for (uint32_t i = 0; i < tally->count; i++) {
        unsigned *bar = &bars[(int)bar_position(tally->latency[i])];
        *bar += 1;
        most = *bar > most ? *bar : most;
    }
    fprintf(out, "<text x='%d' y='%d' font-weight='bold'>%s</text>\n", PLOT_LEFT, top - 24, title);
    for (int i = 0; i < BARS; i++) {
        double height = (double)bars[i] / most * PLOT_HEIGHT;
        if (bars[i])
            fprintf(out,
                    "<rect x='%d' y='%.1f' width='%d' height='%.1f' fill='%s'>"
                    "<title>%u frames</title></rect>\n",
                    PLOT_LEFT + i * PLOT_WIDTH / BARS, base - height, PLOT_WIDTH / BARS - 1, height, fill, bars[i]);
    }
    fprintf(out, "<line x1='%d' y1='%d' x2='%d' y2='%d' stroke='#444'/>\n", PLOT_LEFT, base, PLOT_LEFT + PLOT_WIDTH,
            base);
    for (int i = 0; i < 6; i++)
        fprintf(out, "<text x='%d' y='%d' text-anchor='middle' fill='#444'>%s</text>\n", PLOT_LEFT + i * PLOT_WIDTH / 5,
                base + 16, ticks[i]);
    fprintf(out, "<text x='%d' y='%d' text-anchor='end' fill='#444'>%u</text>\n", PLOT_LEFT - 6, top + 10, most);
    for (int i = 0; tally->count && i < 3; i++) {
        int64_t value = percentile(tally, percents[i]);
        double x = PLOT_LEFT + bar_position(value) * PLOT_WIDTH / BARS;
        char text[TERM_TEXT];
        fprintf(out,
                "<line x1='%.1f' y1='%d' x2='%.1f' y2='%d' stroke='#c33' "
                "stroke-dasharray='4 3'/>\n",
                x, top - 8, x, base);
        fprintf(out, "<text x='%d' y='%d' text-anchor='end' fill='#c33'>p%u %s</text>\n", PLOT_LEFT + PLOT_WIDTH,
                top + 10 + 16 * i, percents[i], text_duration(text, value));
    }
}

bool histogram_write(const char *path, struct tally *in, struct tally *out)
{
    FILE *file = fopen(path, "we");
    if (file) {
        fprintf(file,
                "<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='480' "
                "font-family='sans-serif' font-size='13'>\n<rect width='100%%' height='100%%' "
                "fill='white'/>\n",
                PLOT_LEFT + PLOT_WIDTH + 40);
        plot(file, in, "commit to acquire, " DEMO_IN " (player to filter), frames", "#4a7db8", 60);
        plot(file, out, "commit to acquire, " DEMO_OUT " (filter to this program), frames", "#5a9e6f", 290);
        fprintf(file, "</svg>\n");
    }
    bool done = file && !ferror(file);
    if (!file || fclose(file) != 0 || !done) {
        say_error("demo", "cannot write the histogram %s: %s.", path, strerror(errno));
        return false;
    }
    return true;
}
