/* SPDX-License-Identifier: MIT
 *
 * sluice run: runs a kernel between channels.
 */
#include "run.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "../common/args.h"
#include "../common/picture.h"
#include "../common/term.h"

enum {
    WATCH,
    SET,
    SIZE,
    RATE,
    FORMAT,
    DEVICE,
    KERNEL,
    SLOTS,
    IN_ORDER,
    ONCE,
    FRAMES,
    DEFINE,
    INCLUDE,
    HASH,
    QUIET,
};

static const struct args_option options[] = {
    [WATCH] = { 'w', "watch", NULL, "compile KERNEL.cu again whenever it is saved" },
    [SET] = { 'x', "set", "NAME=VALUE", "change a setting; may be repeated" },
    [SIZE] = { 's', "size", "WxH", "size of TO; default: that of the first FROM, or 1280x720" },
    [RATE] = { 'r', "rate", "N", "frames per second; default: those of the first FROM, or 60" },
    [FORMAT] = { 'f', "format", "FORMAT", "pixel format of TO; default: that of the first FROM, or rgba" },
    [DEVICE] = { 'd', "device", "host|GPU", "where it runs; default: where FROM is, or cuda:0 if there is one" },
    [KERNEL] = { 'k', "kernel", "NAME", "run only this kernel of the file" },
    [SLOTS] = { 0, "slots", "N", "initial number of slots of TO, 3 to 64; default 4" },
    [IN_ORDER] = { 0, "in-order", NULL, "take every frame of the first FROM, as far as possible" },
    [ONCE] = { 0, "once", NULL, "stop when the first FROM closes" },
    [FRAMES] = { 'n', "frames", "N", "stop after N frames" },
    [DEFINE] = { 'D', "define", "NAME=VALUE", "define a macro; may be repeated" },
    [INCLUDE] = { 'I', "include", "FOLDER", "look for headers there; may be repeated" },
    [HASH] = { 0, "hash", NULL, "check the hash in FROM's metadata, and add TO's; in host memory only" },
    [QUIET] = { 'q', "quiet", NULL, "print errors only" },
    { 0 },
};

/* ---- values of settings ---- */

bool run_value_parse(const struct run *run, const char *line, struct run_value *value)
{
    size_t name = strcspn(line, " \t="), between = strspn(line + name, " \t=");
    const char *text = line + name + between;
    size_t size = strcspn(text, " \t\r");
    if (name == 0 || between == 0 || size == 0 || name >= sizeof value->name || size >= sizeof value->text ||
        text[size + strspn(text + size, " \t\r")]) {
        say_error(run->command, "'%s' is no setting: write its name and its value, such as: gain 2", line);
        return false;
    }
    snprintf(value->name, sizeof value->name, "%.*s", (int)name, line);
    snprintf(value->text, sizeof value->text, "%.*s", (int)size, text);
    return true;
}

void run_value_keep(struct run_kept *kept, const struct run_value *value)
{
    uint32_t i = 0;
    while (i < kept->value_count && strcmp(kept->values[i].name, value->name) != 0)
        i++;
    if (i == RUN_SETTINGS)
        return; /* a program has no more */
    kept->values[i] = *value;
    kept->value_count += i == kept->value_count;
}

/* ---- the command line ---- */

static bool add_set(struct run *run, const char *text)
{
    struct run_value value;
    if (!run_value_parse(run, text, &value))
        return false;
    run_value_keep(run->kept, &value);
    return true;
}

static bool add_option(struct run *run, const char *option, const char *value)
{
    if (run->option_count + 2 > RUN_OPTIONS) {
        say_error(run->command, "too many options -D and -I.");
        return false;
    }
    run->options[run->option_count++] = option;
    run->options[run->option_count++] = value;
    return true;
}

static bool parse_option(struct run *run, const struct args *args, int option)
{
    switch (option) {
    case WATCH: return run->watch = true;
    case SET: return add_set(run, args->value);
    case SIZE: return args_size(args, &run->width, &run->height);
    case RATE: return args_number(args, 0.01, 100000, &run->rate);
    case FORMAT: return args_pixel_format(args, &run->format);
    case DEVICE: run->device = args->value; return true;
    case KERNEL: run->kernel = args->value; return true;
    case SLOTS: return args_u32(args, 3, SLUICE_MAX_SLOTS, &run->slots);
    case IN_ORDER: return run->in_order = true;
    case ONCE: return run->once = true;
    case FRAMES: return args_u32(args, 1, UINT32_MAX, &run->max_frames);
    case DEFINE: return add_option(run, "-D", args->value);
    case INCLUDE: return add_option(run, "-I", args->value);
    case HASH: return run->hash = true;
    case QUIET: return run->quiet = true;
    default: return false;
    }
}

static int run_run(const struct command *command, int argc, char **argv)
{
    struct run run = { .command = command->name };
    struct args args;
    int option;
    run.kept = mmap(NULL, sizeof *run.kept, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (run.kept == MAP_FAILED)
        return say_result(command->name, SLUICE_E_NO_MEMORY, NULL);
    args_begin(&args, command, argc, argv);
    while ((option = args_next(&args)) >= 0)
        if (!parse_option(&run, &args, option))
            return EXIT_USAGE;
    if (option != ARGS_END)
        return option == ARGS_HELP ? EXIT_DONE : EXIT_USAGE;
    run.path = args.rest[0];
    run.name = strrchr(run.path, '/') ? strrchr(run.path, '/') + 1 : run.path;
    run.from_count = (uint32_t)args.count - 2;
    run.to = args.rest[args.count - 1];
    for (uint32_t i = 0; i < run.from_count; i++) {
        run.from[i] = args.rest[1 + i];
        if (strcmp(run.from[i], run.to) == 0) {
            say_error(command->name, "FROM and TO are both '%s'; a kernel reads its own frames by 'sluice_in last'.",
                      run.to);
            return EXIT_USAGE;
        }
    }
    stop_on_signals();
    return run_supervise(&run);
}

const struct command run_command = {
    .name = "run",
    .arguments = "KERNEL.cu [FROM ...] TO",
    .summary = "run a CUDA kernel on the frames of channels",
    .details = "KERNEL.cu has __global__ functions in CUDA C++; those with a sluice_out run one after the\n"
               "other, on a GPU or, compiled by the C++ compiler, on the CPU. Their parameters get what their\n"
               "names say: sluice_in the frames of FROM, in order; 'last' the frame before in TO; 'time',\n"
               "'frame' and 'rate' their numbers. Other numbers are settings, whose default and range are in a\n"
               "comment: float gain /* = 1 (0..4) */. A line on standard input changes one: gain 2. Without\n"
               "FROM the kernel generates frames. If it crashes, it is started again. Ctrl-C stops.\n",
    .examples = "  sluice run edges.cu camera edges              a filter\n"
                "  sluice run glow.cu camera out --watch --set gain=2\n"
                "  sluice run blend.cu camera titles out         two channels, at the rate of the first\n"
                "  sluice run plasma.cu out --size 1280x720 --rate 60\n",
    .options = options,
    .min_arguments = 2,
    .max_arguments = 2 + RUN_INPUTS,
    .run = run_run,
};
