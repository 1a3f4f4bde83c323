/* SPDX-License-Identifier: MIT
 *
 * sluice ls: lists the channels.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sluice/sluice.h>

#include "../common/args.h"
#include "../common/describe.h"
#include "../common/json.h"
#include "../common/per_system.h"
#include "../common/term.h"
#include "ls.h"

#define RATE_TIME (250 * SLUICE_MS)

enum { JSON, ALL, RATE, WATCH };

static const struct args_option options[] = {
    [JSON] = { 'j', "json", NULL, "print JSON; with --watch one document per line" },
    [ALL] = { 'a', "all", NULL, "include channels whose writer died" },
    [RATE] = { 'r', "rate", NULL, "measure frames per second (takes 250 ms)" },
    [WATCH] = { 'w', "watch", NULL, "repeat every second, until Ctrl-C" },
    { 0 },
};

struct row {
    struct sluice_registry_entry entry;
    struct sluice_channel_info info;
    int result;  /* of querying `info` */
    double rate; /* frames per second; negative: not measured */
};

struct rows {
    struct row *list;
    size_t count;
    struct cipd_rows cipd;
};

static const char *row_state(const struct row *row)
{
    return channel_state(row->entry.live, row->result);
}

static bool is_dead(const struct row *row)
{
    return strcmp(row_state(row), "dead") == 0;
}

static void query_row(struct row *row, int64_t until)
{
    row->info = (struct sluice_channel_info){ .size = sizeof row->info };
    row->result = SLUICE_E_NOT_FOUND;
    row->rate = -1;
    if (row->entry.live)
        row->result = query_channel(row->entry.name, row->entry.pid, until, NULL, &row->info, NULL, 0);
}

static int query_all(struct rows *rows)
{
    struct sluice_registry_entry *entries = NULL;
    size_t count = 0;
    int64_t until = now_ns() + WRITER_TIMEOUT; /* for all writers together */
    *rows = (struct rows){ 0 };
    int result = list_channels(&entries, &count);
    if (result)
        return say_result("ls", result, NULL);
    if (count) {
        rows->list = calloc(count, sizeof *rows->list);
        rows->count = rows->list ? count : 0;
    }
    for (size_t i = 0; i < rows->count; i++) {
        rows->list[i].entry = entries[i];
        query_row(&rows->list[i], until);
    }
    free(entries);
    ls_cipd_list(&rows->cipd);
    return EXIT_DONE;
}

static void free_rows(struct rows *rows)
{
    free(rows->list);
    free(rows->cipd.list);
    *rows = (struct rows){ 0 };
}

/* Computes frames per second since an earlier query. */
static void set_rates(struct rows *rows, const struct rows *before)
{
    ls_cipd_set_rates(&rows->cipd, &before->cipd);
    for (size_t i = 0; i < rows->count; i++)
        for (size_t k = 0; k < before->count; k++) {
            struct row *a = &rows->list[i];
            const struct row *b = &before->list[k];
            bool same = a->result == SLUICE_OK && b->result == SLUICE_OK && a->info.session == b->info.session;
            int64_t time = a->info.now_ns - b->info.now_ns;
            if (same && time > 0)
                a->rate = (double)(a->info.committed - b->info.committed) * 1e9 / (double)time;
        }
}

static void print_json(const struct rows *rows, bool all, bool compact)
{
    struct json json;
    char format[FORMAT_TEXT];
    json_begin(&json, stdout, compact);
    json_object(&json);
    json_pair_string(&json, "folder", sluice_registry_folder());
    json_key(&json, "channels");
    json_array(&json);
    for (size_t i = 0; i < rows->count; i++) {
        const struct row *row = &rows->list[i];
        const struct sluice_channel_info *info = &row->info;
        if (is_dead(row) && !all)
            continue;
        json_object(&json);
        json_pair_string(&json, "name", row->entry.name);
        json_pair_string(&json, "state", row_state(row));
        json_pair_uint(&json, "pid", row->result ? row->entry.pid : info->pid);
        json_pair_uint(&json, "uid", row->entry.uid);
        if (row->result == SLUICE_OK) {
            json_pair_string(&json, "program", info->program);
            json_pair_string(&json, "device", info->device);
            json_pair_string(&json, "format", text_format(format, &info->format));
            json_pair_uint(&json, "frames", info->committed);
            json_pair_uint(&json, "dropped", info->dropped);
            json_pair_uint(&json, "readers", info->readers);
            json_pair_uint(&json, "slots", info->slots);
            json_key(&json, "age_ns");
            if (info->last_commit_ns)
                json_int(&json, info->now_ns - info->last_commit_ns);
            else
                json_null(&json);
            if (row->rate >= 0)
                json_pair_double(&json, "fps", row->rate);
        }
        json_close(&json);
    }
    json_close_array(&json);
    ls_cipd_print_json(&json, &rows->cipd, all);
    json_close(&json);
    json_end(&json);
}

static void print_row(struct table *table, const struct row *row, bool rate)
{
    const struct sluice_channel_info *info = &row->info;
    const char *state = row_state(row);
    char format[FORMAT_TEXT], age[TERM_TEXT];
    bool known = row->result == SLUICE_OK;
    table_cell(table, COLOUR_PLAIN, "%s", row->entry.name);
    table_cell(table, known ? COLOUR_GREEN : is_dead(row) ? COLOUR_RED : COLOUR_YELLOW, "%s", state);
    table_cell(table, COLOUR_PLAIN, "%s", known ? text_format(format, &info->format) : "-");
    table_cell(table, COLOUR_PLAIN, "%s", known ? info->device : "-");
    table_cell(table, COLOUR_PLAIN, known ? "%" PRIu64 : "-", info->committed);
    if (rate)
        table_cell(table, COLOUR_PLAIN, row->rate >= 0 ? "%.1f" : "-", row->rate);
    table_cell(table, COLOUR_PLAIN, known ? "%u" : "-", info->readers);
    table_cell(table, COLOUR_PLAIN, known ? "%u" : "-", info->slots);
    table_cell(table, COLOUR_PLAIN, "%s",
               known && info->last_commit_ns ? text_duration(age, info->now_ns - info->last_commit_ns) : "-");
    if (known)
        table_cell(table, COLOUR_PLAIN, "%s[%u]", info->program, info->pid);
    else if (row->entry.pid)
        table_cell(table, COLOUR_PLAIN, "[%u]", row->entry.pid);
    else
        table_cell(table, COLOUR_PLAIN, "-");
}

static void print_table(const struct rows *rows, bool all, bool rate)
{
    static const char *const plain[] = { "NAME",     "STATE",  "FORMAT", "DEVICE", ">FRAMES",
                                         ">READERS", ">SLOTS", ">AGE",   "WRITER" };
    static const char *const rated[] = { "NAME", "STATE",    "FORMAT", "DEVICE", ">FRAMES",
                                         ">FPS", ">READERS", ">SLOTS", ">AGE",   "WRITER" };
    struct table table;
    size_t shown = 0, dead = 0;
    for (size_t i = 0; i < rows->count; i++) {
        dead += is_dead(&rows->list[i]);
        shown += all || !is_dead(&rows->list[i]);
    }
    if (shown) {
        table_begin(&table, rate ? rated : plain, rate ? 10 : 9);
        for (size_t i = 0; i < rows->count; i++)
            if (all || !is_dead(&rows->list[i]))
                print_row(&table, &rows->list[i], rate);
        table_print(&table);
    } else if (has_own_channels() || !rows->cipd.count) {
        print_no_channels();
    }
    if (dead && !all)
        printf("%s(%zu with a dead writer; --all shows them)%s\n", colour(COLOUR_DIM), dead, colour(COLOUR_PLAIN));
    ls_cipd_print(&rows->cipd, all, rate);
}

static int watch(bool json, bool all)
{
    struct rows before = { 0 }, rows;
    bool screen = isatty(STDOUT_FILENO) && !json;
    int code = EXIT_DONE;
    stop_on_signals();
    for (int64_t next = now_ns(); code == EXIT_DONE && !stop_asked(); next += SLUICE_S) {
        sleep_until(next);
        code = stop_asked() ? EXIT_DONE : query_all(&rows);
        if (code != EXIT_DONE || stop_asked())
            break;
        set_rates(&rows, &before);
        if (screen)
            printf("\033[H\033[J");
        if (json)
            print_json(&rows, all, true);
        else
            print_table(&rows, all, true);
        if (!screen && !json)
            printf("\n");
        if (fflush(stdout) != 0)
            code = EXIT_FAILED;
        free_rows(&before);
        before = rows;
    }
    free_rows(&before);
    return code;
}

static int ls_run(const struct command *command, int argc, char **argv)
{
    bool given[WATCH + 1] = { false };
    struct rows rows, before = { 0 };
    struct args args;
    int option;
    args_begin(&args, command, argc, argv);
    while ((option = args_next(&args)) >= 0)
        given[option] = true;
    if (option != ARGS_END)
        return option == ARGS_HELP ? EXIT_DONE : EXIT_USAGE;
    if (given[WATCH])
        return watch(given[JSON], given[ALL]);
    int code = EXIT_DONE;
    if (given[RATE]) {
        code = query_all(&before);
        sleep_until(now_ns() + RATE_TIME);
    }
    if (code == EXIT_DONE)
        code = query_all(&rows);
    if (code == EXIT_DONE) {
        set_rates(&rows, &before);
        if (given[JSON])
            print_json(&rows, given[ALL], false);
        else
            print_table(&rows, given[ALL], given[RATE]);
        free_rows(&rows);
    }
    free_rows(&before);
    return code;
}

const struct command ls_command = {
    .name = "ls",
    .arguments = "",
    .summary = "list the channels",
    .details = "STATE is live; stuck: the writer did not answer for 3 s and may be stopped; dead: the\n"
               "writer was killed, and its name may be reused; refused: another user's channel; version:\n"
               "another wire version. AGE is the time since the last frame. Listing costs a writer nothing\n"
               "per frame. Channels of cuda-link's protocol follow: running; stalled: no frame for 2 s;\n"
               "unfinished; shut.\n",
    .examples = PER_SYSTEM("  sluice ls\n"
                           "  sluice ls --rate          with frames per second\n"
                           "  watch sluice ls           repeat the list\n"
                           "  sluice ls --json | jq -r '.channels[].name'\n",
                           "  sluice ls\n"
                           "  sluice ls --rate          with frames per second\n"
                           "  sluice ls --watch         repeat the list\n"
                           "  sluice ls --json\n"),
    .options = options,
    .run = ls_run,
};
