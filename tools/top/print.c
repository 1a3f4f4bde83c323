/* SPDX-License-Identifier: MIT
 *
 * sluice top for scripts: tables of text, and JSON.
 */
#include "top.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/args.h"
#include "../common/describe.h"
#include "../common/json.h"
#include "../common/term.h"
#include "../common/text.h"

static bool is_shown(const struct top_channel *channel, const struct top_options *options)
{
    return options->all || channel->was_live || !top_is_dead(channel);
}

/* Selects and sorts the channels to show; the caller frees the list. */
static struct top_sorted *sort_shown(const struct top *top, const struct top_options *options, size_t *count)
{
    struct top_sorted *sorted = calloc(top->count ? top->count : 1, sizeof *sorted);
    *count = 0;
    for (size_t i = 0; sorted && i < top->count; i++)
        if (is_shown(top->list[i], options))
            sorted[(*count)++].row = top->list[i];
    if (sorted)
        top_sort(&top_channels, sorted, *count, top_column_of(&top_channels, options->sort), options->reverse);
    return sorted;
}

/* ---- text ---- */

static enum colour colour_of(unsigned style)
{
    switch (style & STYLE_COLOUR) {
    case STYLE_RED: return COLOUR_RED;
    case STYLE_GREEN: return COLOUR_GREEN;
    case STYLE_YELLOW: return COLOUR_YELLOW;
    default: return COLOUR_PLAIN;
    }
}

static void print_text(const struct top *top, const struct top_sorted *sorted, size_t count)
{
    char titles[32][32];
    const char *headers[32] = { NULL };
    struct table table;
    struct top_cell cell;
    if (count == 0) {
        print_no_channels();
        return;
    }
    for (size_t c = 0; c < top_channels.count && c < 32; c++) {
        const struct top_column *column = &top_channels.columns[c];
        snprintf(titles[c], sizeof titles[c], "%s%s", column->text ? "" : ">", column->title);
        headers[c] = titles[c];
    }
    table_begin(&table, headers, top_channels.count);
    for (size_t i = 0; i < count; i++)
        for (size_t c = 0; c < top_channels.count; c++) {
            top_channels.cell(sorted[i].row, c, &cell);
            table_cell(&table, colour_of(cell.style), "%s", cell.text);
        }
    table_print(&table);
    for (size_t i = 0; i < count; i++)
        if (top_channels.note(sorted[i].row, &cell)) {
            text_clean(cell.text);
            printf("%s: %s\n", ((const struct top_channel *)sorted[i].row)->entry.name, cell.text);
        }
    for (size_t i = 0; i < top->gpu_count; i++) {
        char text[TOP_GPU_TEXT];
        if (!top->gpus[i].now.handle)
            continue;
        text_clean(top_gpu_text(text, &top->gpus[i].now));
        printf("%s\n", text);
    }
}

/* ---- JSON ---- */

static void json_reader(struct json *json, const struct top_reader *reader)
{
    const struct sluice_reader_info *info = &reader->info;
    json_object(json);
    json_pair_string(json, "program", info->program);
    json_pair_uint(json, "pid", info->pid);
    json_pair_string(json, "mode", info->mode == SLUICE_IN_ORDER ? "in_order" : "newest");
    json_pair_double(json, "fps", reader->fps);
    json_pair_double(json, "latency_ns", reader->latency_ns);
    json_pair_double(json, "longest_ns", reader->longest_ns);
    json_pair_double(json, "held_ns", reader->lease_ns);
    json_pair_uint(json, "leases", info->held);
    json_pair_int(json, "oldest_ns", info->held ? info->held_ns : 0);
    json_slots(json, "slots", info->held_slots);
    json_pair_bool(json, "ahead", info->ahead != 0);
    json_pair_uint(json, "parked", info->parked);
    json_pair_uint(json, "lag", info->lag);
    json_pair_uint(json, "taken", info->taken);
    json_pair_uint(json, "missed", info->missed);
    json_pair_uint(json, "depth", info->depth);
    json_pair_uint(json, "hold", info->hold);
    json_pair_uint(json, "every", info->every);
    json_close(json);
}

static void json_answer(struct json *json, const struct top *top, const struct top_channel *channel)
{
    const struct nvml_gpu *gpu = top_gpu_of(top, channel);
    const struct sluice_channel_info *info = &channel->info;
    char session[20], format[FORMAT_TEXT];
    snprintf(session, sizeof session, "%016" PRIx64, info->session);
    json_pair_string(json, "program", info->program);
    json_pair_string(json, "device", info->device);
    if (gpu)
        json_pair_string(json, "gpu", gpu->uuid);
    json_pair_string(json, "format", text_format(format, &info->format));
    json_pair_string(json, "session", session);
    json_pair_uint(json, "generation", info->generation);
    json_pair_uint(json, "slots", info->slots);
    json_pair_double(json, "fps", channel->fps);
    json_pair_double(json, "bytes_per_s", channel->bytes);
    json_pair_double(json, "latency_ns", channel->latency_ns);
    json_pair_double(json, "longest_ns", channel->longest_ns);
    json_pair_double(json, "held_ns", channel->lease_ns);
    json_pair_uint(json, "frames", info->committed);
    json_pair_uint(json, "drops", info->dropped);
    json_pair_uint(json, "missed", channel->missed);
    json_pair_uint(json, "lag", channel->lag);
    json_pair_uint(json, "leases", channel->leases);
    json_pair_int(json, "oldest_ns", channel->oldest_ns);
    json_key(json, "age_ns");
    if (info->last_commit_ns)
        json_int(json, info->now_ns - info->last_commit_ns);
    else
        json_null(json);
    json_key(json, "readers");
    json_array(json);
    for (uint32_t i = 0; i < channel->reader_count; i++)
        json_reader(json, &channel->readers[i]);
    json_close_array(json);
}

void top_json_channel(struct json *json, const struct top *top, const struct top_channel *channel)
{
    struct top_cell note;
    json_pair_string(json, "name", channel->entry.name);
    json_pair_string(json, "state", top_state(channel));
    json_pair_uint(json, "pid", channel->entry.pid);
    json_pair_uint(json, "uid", channel->entry.uid);
    if (top_channels.note(channel, &note))
        json_pair_string(json, "reason", note.text);
    else if (channel->answered)
        json_answer(json, top, channel);
}

static void print_json(const struct top *top, const struct top_sorted *sorted, size_t count, bool compact)
{
    struct json json;
    json_begin(&json, stdout, compact);
    json_object(&json);
    json_pair_string(&json, "folder", sluice_registry_folder());
    json_pair_int(&json, "time_ns", now_ns());
    json_key(&json, "channels");
    json_array(&json);
    for (size_t i = 0; i < count; i++) {
        json_object(&json);
        top_json_channel(&json, top, sorted[i].row);
        json_close(&json);
    }
    json_close_array(&json);
    top_json_gpus(&json, top);
    json_close(&json);
    json_end(&json);
}

/* ---- the loop ---- */

/* A name that was asked for, and is no channel: says so. A pattern may match nothing. */
static int check_names(const struct top *top, const struct top_sorted *sorted, size_t count)
{
    int code = EXIT_DONE;
    for (int i = 0; i < top->pattern_count; i++) {
        const char *name = top->patterns[i];
        struct sluice_channel_info info = { .size = sizeof info };
        bool shown = strpbrk(name, "*?[");
        for (size_t k = 0; k < count && !shown; k++)
            shown = strcmp(((const struct top_channel *)sorted[k].row)->entry.name, name) == 0;
        int result = shown ? SLUICE_OK : sluice_channel_info(name, SLUICE_DEFAULT, &info, NULL, 0);
        if (result == SLUICE_E_NOT_FOUND || result == SLUICE_E_NAME)
            code = say_result("top", result, name);
    }
    return code;
}

static int print_once(const struct top *top, const struct top_options *options)
{
    size_t count;
    if (top->result) {
        say_error("top", "%s", top->reason[0] ? top->reason : sluice_result_text(top->result));
        return EXIT_FAILED;
    }
    struct top_sorted *sorted = sort_shown(top, options, &count);
    if (!sorted) {
        say_error("top", "out of memory for %zu channels.", top->count);
        return EXIT_FAILED;
    }
    if (options->json)
        print_json(top, sorted, count, options->count != 1);
    else
        print_text(top, sorted, count);
    if (!options->json && options->count != 1)
        printf("\n");
    int code = fflush(stdout) == 0 ? EXIT_DONE : EXIT_FAILED;
    if (code == EXIT_DONE && options->count == 1)
        code = check_names(top, sorted, count);
    free(sorted);
    return code;
}

int top_print(struct top *top, const struct top_options *options)
{
    atomic_bool never = false;
    int code = EXIT_DONE;
    int64_t next = now_ns();
    stop_on_signals();
    top_refresh(top, &never); /* the start of the first interval */
    for (uint32_t i = 0; code == EXIT_DONE && (options->count == 0 || i < options->count); i++) {
        int64_t now = now_ns();
        next = next + options->interval_ns > now ? next + options->interval_ns : now;
        sleep_until(next);
        if (stop_asked())
            break;
        top_refresh(top, &never);
        code = print_once(top, options);
    }
    return code;
}
