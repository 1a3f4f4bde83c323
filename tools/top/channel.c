/* SPDX-License-Identifier: MIT
 *
 * Two pages of sluice top: one channel with its readers, and the help.
 */
#include "top.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "../common/describe.h"
#include "../common/term.h"

/* ---- one channel ---- */

static void put_label(struct canvas *canvas, const char *text)
{
    canvas_put(canvas, STYLE_BOLD, "%-9s", text);
}

static void draw_title(struct canvas *canvas, const struct top_channel *channel)
{
    bool live = channel->entry.live && channel->result == SLUICE_OK;
    canvas_put(canvas, STYLE_BOLD, "%s", channel->entry.name);
    canvas_put(canvas,
               live                   ? STYLE_GREEN
               : top_is_dead(channel) ? STYLE_RED
                                      : STYLE_YELLOW,
               "  %s", top_state(channel));
    if (top_is_dead(channel))
        canvas_put(canvas, STYLE_PLAIN, ": the writer died; the name may be reused");
    else if (!live)
        canvas_put(canvas, STYLE_PLAIN, ": %s", channel->reason);
    canvas_line(canvas);
    if (!live && channel->answered) {
        canvas_put(canvas, STYLE_DIM, "below is its last answer");
        canvas_line(canvas);
    }
}

/* The leased slots, with the number of readers that hold each. */
static void put_leases(struct canvas *canvas, const struct top_channel *channel)
{
    bool any = false;
    for (unsigned slot = 0; slot < 64; slot++) {
        unsigned count = 0;
        for (uint32_t i = 0; i < channel->reader_count; i++)
            count += (unsigned)(channel->readers[i].info.held_slots >> slot & 1);
        if (!count)
            continue;
        canvas_put(canvas, STYLE_PLAIN, any ? ", %u" : "; leased: %u", slot);
        if (count > 1)
            canvas_put(canvas, STYLE_PLAIN, " by %u", count);
        any = true;
    }
}

static void draw_writer(struct canvas *canvas, const struct top_channel *channel)
{
    const struct sluice_channel_info *info = &channel->info;
    char format[FORMAT_TEXT], device[DEVICE_TEXT], a[TERM_TEXT];
    put_label(canvas, "writer");
    canvas_put(canvas, STYLE_PLAIN, "%s, process %u, user %u, device %s, wire version %u", info->program, info->pid,
               info->uid, text_device(device, info), info->wire_version);
    canvas_line(canvas);
    put_label(canvas, "session");
    canvas_put(canvas, STYLE_PLAIN, "%016" PRIx64 ", open for %s, generation %u", info->session,
               text_duration(a, info->now_ns - info->opened_ns), info->generation);
    canvas_line(canvas);
    put_label(canvas, "format");
    canvas_put(canvas, STYLE_PLAIN, "%s", text_format(format, &info->format));
    if (info->writable)
        canvas_put(canvas, STYLE_YELLOW, "; readers may change frames");
    canvas_line(canvas);
    put_label(canvas, "slots");
    canvas_put(canvas, STYLE_PLAIN, "%u of at most %u, %s each; without a free slot the writer %s", info->slots,
               info->max_slots, text_bytes(a, info->format.slot_bytes),
               info->policy == SLUICE_WAIT ? "waits" : "drops");
    put_leases(canvas, channel);
    canvas_line(canvas);
}

static void draw_history(struct canvas *canvas, const struct top_channel *channel)
{
    size_t first = 0;
    while (first < TOP_HISTORY && isnan(channel->history[first]))
        first++;
    size_t count = TOP_HISTORY - first;
    put_label(canvas, "fps");
    if (canvas->column + count > canvas->width)
        count = canvas->width > canvas->column ? canvas->width - canvas->column : 0;
    canvas_sparkline(canvas, STYLE_CYAN, channel->history + TOP_HISTORY - count, count, (unsigned)count);
    canvas_line(canvas);
}

static void draw_frames(struct canvas *canvas, const struct top_channel *channel)
{
    const struct sluice_channel_info *info = &channel->info;
    char a[TERM_TEXT], b[TERM_TEXT];
    put_label(canvas, "frames");
    canvas_put(canvas, STYLE_PLAIN, "%" PRIu64 " committed (%s)", info->committed, text_bytes(a, info->bytes));
    if (channel->fps >= 0)
        canvas_put(canvas, STYLE_BOLD, ", %.1f per second (%s)", channel->fps, text_bytes(a, (uint64_t)channel->bytes));
    if (info->last_commit_ns)
        canvas_put(canvas, STYLE_PLAIN, ", the last %s ago", text_duration(b, info->now_ns - info->last_commit_ns));
    canvas_line(canvas);
    put_label(canvas, "lost");
    canvas_put(canvas, info->dropped ? STYLE_YELLOW : STYLE_PLAIN, "%" PRIu64 " dropped", info->dropped);
    if (channel->new_drops)
        canvas_put(canvas, STYLE_YELLOW | STYLE_BOLD, " (+%" PRIu64 ")", channel->new_drops);
    canvas_put(canvas, STYLE_PLAIN, ", %" PRIu64 " overwritten before slow readers read them", info->stolen);
    canvas_line(canvas);
    put_label(canvas, "readers");
    canvas_put(canvas, STYLE_PLAIN, "%u of at most %u; %" PRIu64 " died, %" PRIu64 " evicted, %" PRIu64 " refused",
               info->readers, info->max_readers, info->died, info->evicted, info->refused);
    canvas_line(canvas);
    draw_history(canvas, channel);
}

static void draw_gpu(struct canvas *canvas, const struct nvml_gpu *gpu)
{
    char text[TOP_GPU_TEXT];
    if (!gpu)
        return;
    put_label(canvas, "gpu");
    canvas_put(canvas, STYLE_PLAIN, "%s", top_gpu_text(text, gpu));
    canvas_line(canvas);
}

void top_draw_channel(struct canvas *canvas, const struct top *top, const struct top_channel *channel,
                      struct top_grid *readers, unsigned until)
{
    const void *rows[SLUICE_MAX_READERS];
    uint32_t count = channel->reader_count;
    draw_title(canvas, channel);
    if (!channel->answered)
        return;
    draw_writer(canvas, channel);
    draw_gpu(canvas, top_gpu_of(top, channel));
    draw_frames(canvas, channel);
    canvas_line(canvas);
    for (uint32_t i = 0; i < count; i++)
        rows[i] = &channel->readers[i];
    if (count)
        top_grid_draw(readers, canvas, rows, count, until);
    else
        canvas_put(canvas, STYLE_DIM, "no readers");
    if (!count)
        canvas_line(canvas);
}

/* ---- help ---- */

static const char *const keys[][2] = {
    { "up, down, pages, Home, End", "choose a channel, or scroll its readers" },
    { "Enter", "open the channel; Esc, Backspace or Left goes back" },
    { "< >", "sort by the column to the left or right" },
    { "r", "reverse the order" },
    { "/", "show only names that contain a text or match a pattern such as cam*; Esc shows all" },
    { "a", "show or hide channels whose writer died earlier" },
    { "p, Space", "pause; no writer is queried meanwhile" },
    { "+ -", "refresh less often, more often" },
    { "? h F1", "show this help; any key closes it" },
    { "q, Ctrl-C", "quit" },
};
#define KEY_COUNT (sizeof keys / sizeof keys[0])

struct page {
    struct canvas *canvas;
    size_t first, count;
    unsigned until;
};

/* A line with `left` padded to `width`, followed by the first `length` bytes of `right`. */
static void put_line(struct page *page, unsigned style, const char *left, unsigned width, const char *right,
                     size_t length)
{
    if (page->count++ < page->first || page->canvas->row >= page->until)
        return;
    canvas_put(page->canvas, width ? STYLE_BOLD : style, "%-*s", (int)width, left);
    canvas_put(page->canvas, style, "%.*s", (int)length, right);
    canvas_line(page->canvas);
}

/* The length of the first line when the text is wrapped at words. */
static size_t wrapped_length(const char *text, size_t width)
{
    size_t length = strlen(text), end = width;
    if (length <= width)
        return length;
    while (end && text[end] != ' ')
        end--;
    return end ? end : width;
}

/* A long text is wrapped; on a narrow screen it starts on the line below the key. */
static void put_help(struct page *page, const char *left, const char *right)
{
    unsigned width = page->canvas->width, indent = width < 60 ? 6 : 29;
    char key[64];
    snprintf(key, sizeof key, "  %s", left);
    if (strlen(key) >= indent) {
        put_line(page, STYLE_PLAIN, key, indent, "", 0);
        key[0] = 0;
    }
    do {
        size_t length = wrapped_length(right, width > indent ? width - indent : 1);
        put_line(page, STYLE_PLAIN, key, indent, right, length);
        key[0] = 0;
        right += length + strspn(right + length, " ");
    } while (*right);
}

static void put_title(struct page *page, unsigned style, const char *title)
{
    put_line(page, style, title, 0, "", 0);
}

static void put_columns(struct page *page, const char *title, const struct top_table *table)
{
    put_title(page, STYLE_PLAIN, "");
    put_title(page, STYLE_REVERSE, title);
    for (size_t i = 0; i < table->count; i++)
        put_help(page, table->columns[i].title, table->columns[i].help);
}

size_t top_draw_help(struct canvas *canvas, size_t first, unsigned until)
{
    struct page page = { .canvas = canvas, .first = first, .until = until };
    put_title(&page, STYLE_REVERSE, "keys");
    for (size_t i = 0; i < KEY_COUNT; i++)
        put_help(&page, keys[i][0], keys[i][1]);
    put_columns(&page, "columns: channels", &top_channels);
    put_columns(&page, "columns: readers of one channel", &top_readers);
    put_title(&page, STYLE_PLAIN, "");
    put_title(&page, STYLE_DIM, "sluice top holds no leases and costs a writer nothing per frame");
    return page.count;
}
