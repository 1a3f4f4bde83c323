/* SPDX-License-Identifier: MIT
 *
 * The worker: waits for frames and runs the kernel on them.
 */
#include "worker.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/args.h"
#include "../common/term.h"

#define SLICE        (20 * SLUICE_MS) /* how long a line or a saved file may go unnoticed */
#define DEFAULT_RATE 60

int run_failure(const struct run *run, int result)
{
    if (result == SLUICE_E_DRIVER)
        return WORKER_CRASHED;
    return result == SLUICE_E_WRONG_DEVICE ? WORKER_MOVED : say_result(run->command, result, NULL);
}

/* ---- the device ---- */

/* All frames must be on one device. */
static int find_device(struct run_worker *worker, char name[64])
{
    const struct run *run = worker->run;
    struct sluice_device_report gpu = { .size = sizeof gpu };
    if (run->from_count == 0)
        snprintf(name, 64, "%s",
                 run->device                                 ? run->device
                 : sluice_device_probe(0, &gpu) == SLUICE_OK ? "cuda:0"
                                                             : "host");
    for (uint32_t i = 0; i < run->from_count; i++) {
        char other[64];
        int result = sluice_frame_device(&worker->inputs[i].frame, i ? other : name, 64);
        if (result)
            return run_failure(run, result);
        if (i && strcmp(name, other) != 0) {
            say_error(run->command, "'%s' is on %s, but '%s' is on %s: copy one of them, by sluice bridge --device.",
                      run->from[0], name, run->from[i], other);
            return EXIT_FAILED;
        }
    }
    return EXIT_DONE;
}

/* Opens the device that the frames are on, and compiles the first version for it. */
static int open_device(struct run_worker *worker)
{
    struct run *run = worker->run;
    char name[64];
    int code = find_device(worker, name);
    if (code != EXIT_DONE)
        return code;
    if (worker->device.id)
        return strcmp(name, worker->device_name) == 0 ? EXIT_DONE : WORKER_MOVED;
    if (run->hash && strcmp(name, "host") != 0) {
        say_error(run->command, "--hash works in host memory only.");
        return EXIT_USAGE;
    }
    memcpy(worker->device_name, name, sizeof name);
    int result = sluice_device_open(&worker->device, name);
    if (result == SLUICE_OK)
        result = sluice_stream_create(worker->device, NULL, &worker->stream);
    if (result)
        return run_failure(run, result);
    if (!worker->text)
        return EXIT_DONE; /* until the file is saved */
    struct run_program *program = run_program_load(run, worker->device, worker->text);
    worker->text = NULL;
    if (!program)
        return run->watch ? EXIT_DONE : EXIT_FAILED;
    return run_use(worker, program) || run->kept->opened ? EXIT_DONE : EXIT_USAGE;
}

/* ---- frames ---- */

/* Once a version has finished a frame, it is the one that a new worker starts with. */
static int keep_source(struct run_worker *worker)
{
    struct run_kept *kept = worker->run->kept;
    if (!kept->untried)
        return EXIT_DONE;
    int result = sluice_stream_synchronize(worker->stream);
    if (result)
        return run_failure(worker->run, result);
    memcpy(kept->works, worker->program->text, strlen(worker->program->text) + 1);
    kept->untried = false;
    return EXIT_DONE;
}

/* Waits for the next frame to make, but not for long; *due: there is one. */
static int wait_for_frame(struct run_worker *worker, bool *due, bool *closed)
{
    const struct run *run = worker->run;
    const struct run_input *first = &worker->inputs[0];
    int64_t period = (int64_t)(1e9 / (run->rate > 0 ? run->rate : DEFAULT_RATE)), limit = now_ns() + SLICE;
    bool clocked = run->rate > 0 || !run->from_count;
    if (clocked && worker->next_ns) {
        sleep_until(worker->next_ns < limit ? worker->next_ns : limit);
        if (now_ns() < worker->next_ns)
            return EXIT_DONE;
    }
    *due = true;
    if (run->from_count) {
        int code = run_inputs_take(worker, clocked ? 0 : SLICE, due, closed);
        if (code != EXIT_DONE)
            return code;
        *due = *due || (clocked && worker->frames && first->held);
    }
    if (!*due) {
        sleep_until(limit);
        return EXIT_DONE;
    }

    int64_t now = now_ns(), tick = clocked && now - worker->next_ns <= period ? worker->next_ns : now;
    double before = worker->time;
    worker->next_ns = tick + period;
    if (!clocked && first->frame.capture_clock == SLUICE_CLOCK_MONOTONIC)
        tick = first->frame.capture_ns;
    if (!worker->start_ns)
        worker->start_ns = tick;
    worker->time = (double)(tick - worker->start_ns) / 1e9;
    if (!clocked && worker->time > before)
        worker->rate += (1 / (worker->time - before) - worker->rate) / 8;
    return EXIT_DONE;
}

static int make_frame(struct run_worker *worker)
{
    int code = run_output_prepare(worker);
    if (code == EXIT_DONE)
        code = run_output_frame(worker);
    if (code == EXIT_DONE)
        code = keep_source(worker);
    if (!worker->run->quiet)
        progress("running %s: %" PRIu64 " frames, %" PRIu64 " dropped", worker->run->name, worker->frames,
                 worker->dropped);
    return code;
}

static int work(struct run_worker *worker)
{
    const struct run *run = worker->run;
    int code = run_inputs_open(worker);
    while (code == EXIT_DONE && !stop_asked() && (!run->max_frames || worker->frames < run->max_frames)) {
        bool due = false, closed = false;
        run_news_take(worker);
        code = wait_for_frame(worker, &due, &closed);
        if (closed && run->once)
            break;
        if (code == EXIT_DONE && due)
            code = open_device(worker);
        if (code == EXIT_DONE && due && worker->program)
            code = make_frame(worker);
    }
    return code;
}

int run_work(struct run *run)
{
    struct run_worker worker = { .run = run, .rate = run->rate > 0 ? run->rate : DEFAULT_RATE };
    const struct run_kept *kept = run->kept;
    worker.text = kept->works[0] ? strdup(kept->works) : kept->waits ? NULL : run_read(run);
    if (!worker.text && !kept->waits)
        return EXIT_FAILED;
    int code = work(&worker);
    if (code == WORKER_CRASHED || code == WORKER_MOVED)
        return code; /* TO is not closed: its readers wait for the next worker */
    run_news_end(&worker);
    if (worker.program)
        run_program_unload(worker.program);
    run_inputs_close(&worker);
    run_output_close(&worker);
    sluice_device_close(&worker.device);
    progress_end();
    if (!run->quiet && code == EXIT_DONE)
        printf("ran %s on %" PRIu64 " frames, dropped %" PRIu64 "\n", run->name, worker.frames, worker.dropped);
    fflush(stdout);
    return code;
}
