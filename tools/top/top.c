/* SPDX-License-Identifier: MIT
 *
 * sluice top: a live view of the channels, in a terminal or for scripts.
 */
#include "top.h"

#include <stdio.h>

#include "../common/args.h"
#include "../common/per_system.h"
#include "../common/term.h"
#include "../common/text.h"
#include "screen.h"

#define MIN_INTERVAL 0.05 /* seconds */
#define MAX_INTERVAL 3600

enum { INTERVAL, SORT, REVERSE, ALL, ONCE, BATCH, JSON };

static const struct args_option options[] = {
    [INTERVAL] = { 'i', "interval", "S", "refresh every S seconds; default 1" },
    [SORT] = { 's', "sort", "COLUMN", "sort by this column, such as fps; default name" },
    [REVERSE] = { 'r', "reverse", NULL, "reverse the order" },
    [ALL] = { 'a', "all", NULL, "include channels whose writer died" },
    [ONCE] = { '1', "once", NULL, "print one table, measured over one interval" },
    [BATCH] = { 'n', "batch", "N", "print N tables; 0: until Ctrl-C" },
    [JSON] = { 'j', "json", NULL, "print JSON, one document per interval" },
    { 0 },
};

static bool report_unknown_column(const char *text)
{
    const char *names[32];
    char list[256] = "";
    size_t used = 0;
    for (size_t i = 0; i < top_channels.count && i < 32 && used < sizeof list - 16; i++) {
        names[i] = top_channels.columns[i].key;
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", names[i]);
    }
    const char *near = text_nearest(text, names, top_channels.count);
    if (near)
        say_error("top", "unknown column '%s'; did you mean '%s'?", text, near);
    else
        say_error("top", "unknown column '%s'; columns are %s.", text, list);
    return false;
}

static bool parse_option(const struct args *args, int option, struct top_options *to, bool *print)
{
    double seconds;
    *print = *print || option == ONCE || option == BATCH || option == JSON;
    switch (option) {
    case INTERVAL:
        if (!args_number(args, MIN_INTERVAL, MAX_INTERVAL, &seconds))
            return false;
        to->interval_ns = (int64_t)(seconds * 1e9);
        return true;
    case SORT:
        to->sort = args->value;
        return top_column_of(&top_channels, args->value) < top_channels.count || report_unknown_column(args->value);
    case REVERSE: to->reverse = true; return true;
    case ALL: to->all = true; return true;
    case ONCE: to->count = 1; return true;
    case BATCH: return args_u32(args, 0, UINT32_MAX, &to->count);
    default: to->json = true; return true;
    }
}

static int top_run(const struct command *command, int argc, char **argv)
{
    struct top_options to = { .interval_ns = SLUICE_S, .sort = "name" };
    struct top top;
    struct args args;
    const char *why;
    bool print = false;
    int option;
    args_begin(&args, command, argc, argv);
    while ((option = args_next(&args)) >= 0)
        if (!parse_option(&args, option, &to, &print))
            return EXIT_USAGE;
    if (option != ARGS_END)
        return option == ARGS_HELP ? EXIT_DONE : EXIT_USAGE;
    top_open(&top, args.rest, args.count);
    int code = print || !screen_possible(&why) ? top_print(&top, &to) : top_live(&top, &to);
    top_close(&top);
    return code;
}

static const char *column_name(size_t index)
{
    return index < top_channels.count ? top_channels.columns[index].key : NULL;
}

const struct command top_command = {
    .name = "top",
    .arguments = "[CHANNEL ...]",
    .summary = "live view of channels: rates, latencies, losses",
    .details = "A table in the terminal, like htop. Press ? for the keys and the meaning of the columns,\n"
               "Enter to open a channel with its readers, q to quit. CHANNEL is a name or a pattern such\n"
               "as 'cam*'. Without a terminal it prints tables. It acquires no frames and holds no\n"
               "leases; a refresh takes some microseconds of a writer's service thread, and does not slow\n"
               "down begin and commit. Channels of cuda-link's protocol are listed as cipd:NAME.\n",
    .examples = PER_SYSTEM("  sluice top\n"
                           "  sluice top 'cam*' --sort latency --interval 0.5\n"
                           "  sluice top --once --sort drops\n"
                           "  sluice top 'cipd:*'                          only channels of cuda-link's protocol\n"
                           "  sluice top --json --batch 10 | jq -c '.channels[] | {name, fps, lag}'\n",
                           "  sluice top\n"
                           "  sluice top \"cipd:cam*\" --sort fps --interval 0.5\n"
                           "  sluice top --once\n"
                           "  sluice top --json --batch 10\n"),
    .options = options,
    .max_arguments = 1000,
    .run = top_run,
    .word = column_name,
};
