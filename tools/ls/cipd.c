/* SPDX-License-Identifier: MIT
 *
 * sluice ls: channels of cuda-link's protocol.
 */
#include "ls.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/cipd.h"
#include "../common/describe.h"
#include "../common/term.h"

static int add_row(void *user, const char *name)
{
    struct cipd_rows *rows = user;
    struct cipd_row *more = realloc(rows->list, (rows->count + 1) * sizeof *more);
    if (!more)
        return 1;
    rows->list = more;
    struct cipd_row *row = &more[rows->count++];
    *row = (struct cipd_row){ .info.size = sizeof row->info, .rate = -1 };
    row->result = sluice_cipd_look(name, &row->info);
    row->read_ns = now_ns();
    if (row->result) {
        snprintf(row->reason, sizeof row->reason, "%.150s", sluice_last_error());
        snprintf(row->info.name, sizeof row->info.name, "%s", name);
    }
    return 0;
}

static int compare_names(const void *a, const void *b)
{
    const struct cipd_row *x = a, *y = b;
    return strcmp(x->info.name, y->info.name);
}

void ls_cipd_list(struct cipd_rows *rows)
{
    *rows = (struct cipd_rows){ 0 };
    rows->result = sluice_cipd_list(add_row, rows);
    if (rows->result)
        snprintf(rows->reason, sizeof rows->reason, "%.150s", sluice_last_error());
    if (rows->count)
        qsort(rows->list, rows->count, sizeof *rows->list, compare_names);
}

void ls_cipd_set_rates(struct cipd_rows *rows, const struct cipd_rows *before)
{
    for (size_t i = 0; i < rows->count; i++)
        for (size_t k = 0; k < before->count; k++) {
            struct cipd_row *a = &rows->list[i];
            const struct cipd_row *b = &before->list[k];
            if (strcmp(a->info.name, b->info.name) == 0 && a->info.version == b->info.version && !a->result &&
                !b->result && a->read_ns > b->read_ns && a->info.index >= b->info.index)
                a->rate = (double)(a->info.index - b->info.index) * 1e9 / (double)(a->read_ns - b->read_ns);
        }
}

static bool is_gone(const struct cipd_row *row)
{
    return row->result == SLUICE_OK && (row->info.state == SLUICE_CIPD_SHUT || row->info.state == SLUICE_CIPD_ABSENT);
}

static const char *row_state(const struct cipd_row *row)
{
    return row->result == SLUICE_OK             ? cipd_state_name(row->info.state)
           : row->result == SLUICE_E_PERMISSION ? "refused"
                                                : "odd";
}

static void print_row(struct table *table, const struct cipd_row *row, bool rate)
{
    const struct sluice_cipd_info *info = &row->info;
    char format[FORMAT_TEXT], age[TERM_TEXT];
    bool known = row->result == SLUICE_OK && info->slot_count;
    table_cell(table, COLOUR_PLAIN, "cipd:%s", info->name);
    table_cell(table, info->state == SLUICE_CIPD_RUNNING ? COLOUR_GREEN : COLOUR_YELLOW, "%s", row_state(row));
    table_cell(table, COLOUR_PLAIN, "%s",
               known         ? cipd_text_frame(format, info)
               : row->result ? row->reason
                             : info->why);
    table_cell(table, COLOUR_PLAIN, known ? "%" PRIu32 : "-", info->index);
    if (rate)
        table_cell(table, COLOUR_PLAIN, row->rate >= 0 ? "%.1f" : "-", row->rate);
    table_cell(table, COLOUR_PLAIN, known ? "%u" : "-", info->slot_count);
    table_cell(table, COLOUR_PLAIN, known ? "%" PRIu64 : "-", info->version);
    table_cell(table, COLOUR_PLAIN, "%s",
               info->last_frame_ns ? text_duration(age, row->read_ns - info->last_frame_ns) : "-");
    if (info->by_sluice && info->writer_pid)
        table_cell(table, COLOUR_PLAIN, "Sluice[%u]", info->writer_pid);
    else
        table_cell(table, COLOUR_PLAIN, "%s", info->by_sluice ? "Sluice" : "unknown");
}

void ls_cipd_print(const struct cipd_rows *rows, bool all, bool rate)
{
    static const char *const plain[] = { "CUDA-LINK", "STATE",    "FORMAT", ">FRAMES",
                                         ">SLOTS",    ">VERSION", ">AGE",   "WRITER" };
    static const char *const rated[] = { "CUDA-LINK", "STATE",    "FORMAT", ">FRAMES", ">FPS",
                                         ">SLOTS",    ">VERSION", ">AGE",   "WRITER" };
    struct table table;
    size_t shown = 0;
    if (rows->result)
        printf("%s(cannot list channels of cuda-link: %s)%s\n", colour(COLOUR_DIM), rows->reason, colour(COLOUR_PLAIN));
    for (size_t i = 0; i < rows->count; i++)
        shown += all || !is_gone(&rows->list[i]);
    if (!shown)
        return;
    if (has_own_channels())
        printf("\n");
    table_begin(&table, rate ? rated : plain, rate ? 9 : 8);
    for (size_t i = 0; i < rows->count; i++)
        if (all || !is_gone(&rows->list[i]))
            print_row(&table, &rows->list[i], rate);
    table_print(&table);
}

void ls_cipd_print_json(struct json *json, const struct cipd_rows *rows, bool all)
{
    char format[FORMAT_TEXT], name[sizeof rows->list->info.name + 8];
    json_key(json, "cuda_link");
    json_array(json);
    for (size_t i = 0; i < rows->count; i++) {
        const struct cipd_row *row = &rows->list[i];
        const struct sluice_cipd_info *info = &row->info;
        if (is_gone(row) && !all)
            continue;
        snprintf(name, sizeof name, "cipd:%s", info->name);
        json_object(json);
        json_pair_string(json, "name", name);
        json_pair_string(json, "state", row_state(row));
        json_pair_string(json, "reason", row->result ? row->reason : info->why[0] ? info->why : NULL);
        json_pair_uint(json, "pid", info->writer_pid);
        if (row->result == SLUICE_OK && info->slot_count) {
            json_pair_string(json, "format", cipd_text_frame(format, info));
            json_pair_uint(json, "frames", info->index);
            json_pair_uint(json, "slots", info->slot_count);
            json_pair_uint(json, "version", info->version);
            json_key(json, "age_ns");
            if (info->last_frame_ns)
                json_int(json, row->read_ns - info->last_frame_ns);
            else
                json_null(json);
            if (row->rate >= 0)
                json_pair_double(json, "fps", row->rate);
        }
        json_close(json);
    }
    json_close_array(json);
}
