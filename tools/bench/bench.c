/* SPDX-License-Identifier: MIT
 *
 * sluice bench: measures this machine. Each row is compared with its limit, measured alternately in the same run: what
 * two processes achieve with just a cache line, a futex or a memcpy.
 */
#include "bench.h"

#include <stdlib.h>
#include <string.h>

#include "../common/args.h"
#include "../common/scratch.h"
#include "../common/term.h"
#include "../common/text.h"

enum { QUICKLY, JSON, TIMERS, DEVICE };

static const struct args_option options[] = {
    [QUICKLY] = { 'q', "quick", NULL, "fewer samples: 10 s in all instead of 3 minutes" },
    [JSON] = { 'j', "json", NULL, "print JSON" },
    [TIMERS] = { 't', "timers", NULL, "also time the stages of each call, which slows down the rows" },
    [DEVICE] = { 'd', "device", "host|GPU", "memory of the frames: host (default) or cuda:0" },
    { 0 },
};

/* A row's name, or the beginning of its name, chooses it. */
static const struct {
    const char *name;
    bool (*run)(struct bench *bench);
    bool gpu; /* also for channels on a GPU */
} benches[] = {
    { "clock_read", bench_clock_read, false },
    { "handoff_spinning", bench_handoff_spinning, true },
    { "handoff_sleeping", bench_handoff_sleeping, true },
    { "handoff_size", bench_handoff_size, true },
    { "begin_commit", bench_begin_commit, false },
    { "acquire_release", bench_acquire_release, false },
    { "readers_waiting", bench_readers, false },
    { "readers_idle", bench_readers_idle, false },
    { "send", bench_send, true },
    { "fetch", bench_fetch, true },
    { "idle_cpu", bench_idle_cpu, false },
    { "loaded_spinning", bench_loaded_spinning, false },
    { "loaded_sleeping", bench_loaded_sleeping, false },
    { "kill_reader", bench_kill_reader, true },
    { "kill_writer", bench_kill_writer, true },
    { "connect", bench_connect, true },
    { "convert_nv12", bench_convert_nv12, false },
    { "convert_tensor", bench_convert_tensor, false },
    { "kernel_launch", bench_kernel_launch, false },
    { "kernel_barrier", bench_kernel_barrier, false },
    { "kernel_sobel", bench_kernel_sobel, false },
};
#define BENCH_COUNT (sizeof benches / sizeof benches[0])

static bool is_chosen(const struct args *args, size_t index)
{
    bool chosen = args->count == 0;
    for (int i = 0; i < args->count && !chosen; i++)
        chosen = strncmp(benches[index].name, args->rest[i], strlen(args->rest[i])) == 0;
    return chosen;
}

/* Of rows that a GPU has, too, if it is one. */
static bool names_are_known(const struct bench *bench, const struct args *args)
{
    const char *names[BENCH_COUNT];
    for (size_t k = 0; k < BENCH_COUNT; k++)
        names[k] = benches[k].name;
    for (int i = 0; i < args->count; i++) {
        bool known = false, fits = false;
        for (size_t k = 0; k < BENCH_COUNT && !fits; k++)
            if (strncmp(names[k], args->rest[i], strlen(args->rest[i])) == 0) {
                known = true;
                fits = !bench->device || benches[k].gpu;
            }
        if (fits)
            continue;
        if (known) {
            say_error("bench", "%s works in host memory only; see bench/gpu/run for a GPU.", args->rest[i]);
            return false;
        }
        const char *near = text_nearest(args->rest[i], names, BENCH_COUNT);
        if (near)
            say_error("bench", "unknown row '%s'; did you mean '%s'?", args->rest[i], near);
        else
            say_error("bench", "unknown row '%s'; see sluice bench --help.", args->rest[i]);
        return false;
    }
    return true;
}

static int bench_run(const struct command *command, int argc, char **argv)
{
    struct bench *bench = calloc(1, sizeof *bench);
    struct scratch scratch;
    struct args args;
    bool json = false, timers = false, well = true;
    int option, code = EXIT_USAGE;

    args_begin(&args, command, argc, argv);
    while ((option = args_next(&args)) >= 0) {
        json = json || option == JSON;
        timers = timers || option == TIMERS;
        if (bench && option == QUICKLY)
            bench->quick = true;
        if (bench && option == DEVICE && strcmp(args.value, "host") != 0)
            bench->device = args.value;
    }
    if (option != ARGS_END)
        code = option == ARGS_HELP ? EXIT_DONE : EXIT_USAGE;
    if (option != ARGS_END || (bench && !names_are_known(bench, &args)))
        goto out;
    code = EXIT_FAILED;
    if (!bench || !scratch_enter(&scratch)) {
        say_error("bench", "cannot create a temporary folder; set TMPDIR to a writable one.");
        goto out;
    }
#ifndef NDEBUG
    fprintf(stderr, "sluice: bench: this is a debug build; build with -Dbuildtype=release for real numbers.\n");
#endif
    stop_on_signals();
    bench_find_cpus(bench);
    actor_set_device(bench->device);
    well = !timers || bench_timers_open();
    for (size_t i = 0; i < BENCH_COUNT && !stop_asked(); i++) {
        if (!is_chosen(&args, i) || (bench->device && !benches[i].gpu))
            continue;
        progress("%s", benches[i].name);
        well = benches[i].run(bench) && well;
        bench_timers_note(bench, benches[i].name);
    }
    progress_end();
    scratch_leave(&scratch);
    if (json)
        bench_print_json(bench, stdout);
    else
        bench_print_text(bench);
    code = well && !stop_asked() ? EXIT_DONE : EXIT_FAILED;
out:
    if (bench) {
        free(bench->rows);
        free(bench->stages);
    }
    free(bench);
    return code;
}

static const char *row_name(size_t index)
{
    return index < BENCH_COUNT ? benches[index].name : NULL;
}

const struct command bench_command = {
    .name = "bench",
    .arguments = "[ROW...]",
    .summary = "measure this machine, compared with the limits of its hardware",
    .details = "A ROW selects all rows whose names start with it; the default is all rows:\n"
               "  clock_read         the cost of reading the clock that measures the others\n"
               "  handoff_spinning   commit to acquire with a spinning reader; limit: one cache line\n"
               "  handoff_sleeping   commit to acquire with a sleeping reader; limit: one futex\n"
               "  handoff_size       handoff_spinning for frames from 64 B to 1 GiB\n"
               "  begin_commit       CPU time of both calls, without waiting readers\n"
               "  acquire_release    CPU time of both calls, with a frame ready\n"
               "  readers_waiting    commit and handoff with 1 to 64 sleeping readers\n"
               "  readers_idle       begin and commit with 1 to 64 readers that do not wait\n"
               "  send, fetch        the calls that copy; limit: memcpy of the same memory\n"
               "  idle_cpu           CPU time per second of sleeping threads\n"
               "  loaded_spinning, loaded_sleeping   handoffs while every CPU is busy\n"
               "  kill_reader        SIGKILL of a reader until its slot is free; limit: its pidfd\n"
               "  kill_writer        SIGKILL of a writer until its reader knows; limit: its pidfd\n"
               "  connect            a writer's opening to a waiting reader's first frame; limit: inotify\n"
               "  convert_nv12, convert_tensor   1080p on one CPU: NV12 to RGBA, RGBA to 3x512x512 floats; limit:\n"
               "                     memcpy of half the bytes that are read and written\n"
               "  kernel_launch, kernel_barrier, kernel_sobel   kernels on one CPU: an empty launch, a barrier of\n"
               "                     256 threads, edges of a grey 1080p picture; limit: plain C\n"
               "With --device cuda:0 only handoff_*, send, fetch, kill_* and connect are measured. Frames contain\n"
               "no GPU work; send and fetch copy between pinned memory and the GPU and wait for the copy.\n"
               "bench/gpu/run measures more, compared with the driver alone.\n",
    .examples = "  sluice bench --quick\n"
                "  sluice bench --quick --device cuda:0\n"
                "  sluice bench --json > figures.json\n"
                "  sluice bench --quick handoff begin_commit\n"
                "  sluice bench --quick --timers handoff_sleeping\n",
    .options = options,
    .min_arguments = 0,
    .max_arguments = 64,
    .run = bench_run,
    .word = row_name,
};
