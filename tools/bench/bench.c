/* SPDX-License-Identifier: MIT
 *
 * sluice bench: measures this machine. Each row stands beside its bare limit, measured in the same
 * run and in turn with it: what two processes could do at best with one cache line, a futex, a
 * memcpy.
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
    [QUICKLY] = { 'q', "quick", NULL,
                  "fewer samples: about 10 s in all, a full run takes 3 minutes" },
    [JSON] = { 'j', "json", NULL, "one JSON object on standard output" },
    [TIMERS] = { 't', "timers", NULL,
                 "also what the stages of the calls took; timing them makes the rows slower" },
    [DEVICE] = { 'd', "device", "host|GPU", "where frames lie: host (default), or cuda:0" },
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
            say_error("bench", "%s is of host memory; bench/gpu/run has what calls cost on a GPU.",
                      args->rest[i]);
            return false;
        }
        const char *near = text_nearest(args->rest[i], names, BENCH_COUNT);
        say_error("bench", "there is no row '%s'%s%s; sluice bench --help lists them.",
                  args->rest[i], near ? "; near is " : "", near ? near : "");
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
        say_error("bench", "there is no temporary folder; set TMPDIR to one that may be written.");
        goto out;
    }
#ifndef NDEBUG
    fprintf(stderr,
            "sluice: bench: this is a debug build; for figures build with -Dbuildtype=release.\n");
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
    .summary = "measures this machine: each row beside its bare limit",
    .details =
        "A ROW chooses all rows whose names begin with it; without one all are measured:\n"
        "  clock_read         what the clock costs that measures the others\n"
        "  handoff_spinning   from commit to acquire, the reader spins; limit: one cache line\n"
        "  handoff_sleeping   the same, the reader sleeps; limit: one futex\n"
        "  handoff_size       the same spinning, for frames from 64 B to 1 GiB\n"
        "  begin_commit       CPU time of both calls, nobody waits\n"
        "  acquire_release    CPU time of both calls, a frame waits\n"
        "  readers_waiting    commit and handoff with 1 to 64 readers asleep\n"
        "  readers_idle       begin and commit with 1 to 64 readers that do not wait\n"
        "  send, fetch        the calls that copy; limit: memcpy of the same memory\n"
        "  idle_cpu           CPU time in a second of threads that sleep\n"
        "  loaded_spinning, loaded_sleeping   handoffs while every CPU is kept busy\n"
        "  kill_reader        SIGKILL of a reader until its slot is free; limit: its pidfd\n"
        "  kill_writer        SIGKILL of a writer until its reader knows; limit: its pidfd\n"
        "With --device cuda:0 the rows handoff_*, send, fetch and kill_*: no work is in the\n"
        "frames; copies are between pinned memory and the GPU, until they are done. bench/gpu/run\n"
        "has more, beside what the driver alone does.\n",
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
