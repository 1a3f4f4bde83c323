/* SPDX-License-Identifier: MIT
 *
 * The worker: takes frames, runs the kernel on them, and meanwhile compiles new versions of it on another thread.
 */
#include "worker.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../common/args.h"
#include "../common/term.h"

#define SLICE        (20 * SLUICE_MS) /* how long a message may go unnoticed */
#define DEFAULT_RATE 60

void run_note(const struct run *run, const char *format, ...)
{
    char text[1024];
    va_list list;
    if (run->quiet)
        return;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    say_error(run->command, "%s", text);
}

int run_failure(const struct run *run, int result)
{
    if (result == SLUICE_E_DRIVER)
        return WORKER_CRASHED;
    return result == SLUICE_E_WRONG_DEVICE ? WORKER_MOVED : say_result(run->command, result, NULL);
}

/* ---- new versions of the source ---- */

struct compiler {
    const struct run_worker *worker;
    pthread_t thread;
    bool runs;
    atomic_bool done;
    char *text, *waiting; /* that is compiled, and that comes next */
    uint32_t number, waiting_number;
    struct run_program *program; /* the result; NULL: it failed */
};

static void *compile(void *of)
{
    struct compiler *compiler = of;
    compiler->program =
        run_program_load(compiler->worker->run, compiler->worker->device, compiler->text, compiler->number);
    compiler->done = true;
    return NULL;
}

static void compile_next(struct compiler *compiler)
{
    if (compiler->runs || !compiler->waiting)
        return;
    free(compiler->text);
    compiler->text = compiler->waiting;
    compiler->number = compiler->waiting_number;
    compiler->waiting = NULL;
    compiler->done = false;
    compiler->runs = pthread_create(&compiler->thread, NULL, compile, compiler) == 0;
}

/* It keeps the values that the user has set, as far as it has such settings. */
static void use_program(struct run_worker *worker, struct run_program *program)
{
    for (uint32_t i = 0; i < worker->run->value_count; i++)
        (void)run_program_set(worker->run, program, &worker->run->values[i], true);
    if (worker->program) {
        run_program_unload(worker->program);
        run_note(worker->run, "%s was compiled; the new version runs.", worker->run->name);
    }
    worker->program = program;
}

/* Between two frames: goes on with the version that was compiled meanwhile. */
static void take_program(struct run_worker *worker, struct compiler *compiler)
{
    if (compiler->runs && compiler->done) {
        pthread_join(compiler->thread, NULL);
        compiler->runs = false;
        if (compiler->program)
            use_program(worker, compiler->program);
        else if (worker->program)
            run_note(worker->run, "the last version goes on.");
    }
    compile_next(compiler);
}

static void end_compiler(struct compiler *compiler)
{
    if (compiler->runs) {
        pthread_join(compiler->thread, NULL);
        if (compiler->program)
            run_program_unload(compiler->program);
    }
    free(compiler->text);
    free(compiler->waiting);
}

/* ---- messages ---- */

static bool receive(int fd, void *bytes, size_t size)
{
    char *to = bytes;
    while (size) {
        ssize_t got = read(fd, to, size);
        if (got == 0 || (got < 0 && errno != EINTR))
            return false;
        if (got > 0) {
            to += got;
            size -= (size_t)got;
        }
    }
    return true;
}

static void take_line(struct run_worker *worker, const char *line)
{
    struct run_value value;
    if (run_value_parse(worker->run, line, &value) &&
        (!worker->program || run_program_set(worker->run, worker->program, &value, false)))
        run_value_keep(worker->run, &value);
}

/* False once the other process has ended, or wants this one to end. */
static bool take_message(struct run_worker *worker, struct compiler *compiler, int fd)
{
    struct run_message message;
    if (!receive(fd, &message, sizeof message))
        return false;
    char *text = malloc((size_t)message.bytes + 1);
    if (!text || !receive(fd, text, message.bytes)) {
        free(text);
        return false;
    }
    text[message.bytes] = 0;
    if (message.kind == RUN_SOURCE) {
        free(compiler->waiting);
        compiler->waiting = text;
        compiler->waiting_number = message.number;
        return true;
    }
    take_line(worker, text);
    free(text);
    return true;
}

static bool take_messages(struct run_worker *worker, struct compiler *compiler, int fd)
{
    struct pollfd poller = { .fd = fd, .events = POLLIN };
    while (poll(&poller, 1, 0) > 0)
        if (!take_message(worker, compiler, fd))
            return false;
    return true;
}

/* ---- the device ---- */

static bool has_gpu(void)
{
    struct sluice_device_report gpu = { .size = sizeof gpu };
    return sluice_device_probe(0, &gpu) == SLUICE_OK;
}

/* All frames must be on one device. */
static int find_device(struct run_worker *worker, char name[64])
{
    const struct run *run = worker->run;
    if (!run->from_count)
        snprintf(name, 64, "%s", run->device ? run->device : has_gpu() ? "cuda:0" : "host");
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
    struct run_program *program = run_program_load(run, worker->device, run->text, run->number);
    if (!program)
        return run->watch ? EXIT_DONE : EXIT_FAILED;
    for (uint32_t i = 0; i < run->value_count && !run->restarted; i++)
        if (!run_program_set(run, program, &run->values[i], false) && i < run->set_count)
            code = EXIT_USAGE;
    use_program(worker, program);
    return code;
}

/* ---- frames ---- */

/* Tells the other process that this version of the source has finished a frame. */
static int confirm(struct run_worker *worker, int fd, uint32_t *confirmed)
{
    struct run_message message = { .kind = RUN_WORKS, .number = worker->program->number };
    if (*confirmed == message.number)
        return EXIT_DONE;
    int result = sluice_stream_synchronize(worker->stream);
    if (result)
        return run_failure(worker->run, result);
    *confirmed = message.number;
    return send(fd, &message, sizeof message, MSG_NOSIGNAL) < 0 ? EXIT_FAILED : EXIT_DONE;
}

/* `period`: from frame to frame; 0: as the first input's frames come, by their own times if they have some. */
static void set_time(struct run_worker *worker, int64_t now, int64_t period)
{
    double before = worker->time;
    if (!period && worker->inputs[0].frame.capture_clock == SLUICE_CLOCK_MONOTONIC)
        now = worker->inputs[0].frame.capture_ns;
    if (!worker->start_ns)
        worker->start_ns = now;
    worker->time = (double)(now - worker->start_ns) / 1e9;
    if (period)
        worker->rate = 1e9 / (double)period;
    else if (worker->time > before)
        worker->rate += (1 / (worker->time - before) - worker->rate) / 8;
}

/* Waits for the next frame to make; *due: there is one. */
static int wait_for_frame(struct run_worker *worker, int64_t *next_ns, bool *due, bool *closed)
{
    struct run *run = worker->run;
    double rate = run->rate > 0 ? run->rate : DEFAULT_RATE;
    int64_t now = now_ns(), period = (int64_t)(1e9 / rate);
    bool clocked = run->rate > 0 || !run->from_count;
    if (clocked && *next_ns && now < *next_ns) {
        sleep_until(*next_ns - now < SLICE ? *next_ns : now + SLICE);
        now = now_ns();
        if (now < *next_ns)
            return EXIT_DONE;
    }
    *due = true;
    if (run->from_count) {
        int code = run_inputs_take(worker, clocked ? 0 : SLICE, due, closed);
        if (code != EXIT_DONE)
            return code;
        *due = *due || (clocked && worker->frames && worker->inputs[0].held);
        if (!*due)
            sleep_until(*closed || clocked ? now + SLICE : now);
    }
    if (!*due)
        return EXIT_DONE;
    bool late = !*next_ns || now - *next_ns > period;
    int64_t tick = clocked && !late ? *next_ns : now;
    *next_ns = tick + period;
    set_time(worker, tick, clocked ? period : 0);
    return EXIT_DONE;
}

static int work(struct run_worker *worker, struct compiler *compiler, int fd)
{
    const struct run *run = worker->run;
    int64_t next_ns = 0;
    uint32_t confirmed = 0;
    int code = EXIT_DONE;
    while (code == EXIT_DONE && !stop_asked() && (!run->max_frames || worker->frames < run->max_frames)) {
        bool due = false, closed = false;
        if (!take_messages(worker, compiler, fd))
            break;
        if (worker->device.id)
            take_program(worker, compiler);
        code = wait_for_frame(worker, &next_ns, &due, &closed);
        if (closed && run->once)
            break;
        if (code != EXIT_DONE || !due || (code = open_device(worker)) != EXIT_DONE || !worker->program)
            continue;
        code = run_output_prepare(worker);
        if (code == EXIT_DONE)
            code = run_output_frame(worker);
        if (code == EXIT_DONE)
            code = confirm(worker, fd, &confirmed);
        if (!run->quiet)
            progress("running %s: %" PRIu64 " frames, %" PRIu64 " dropped", run->name, worker->frames, worker->dropped);
    }
    return code;
}

int run_work(struct run *run, int fd)
{
    struct run_worker worker = { .run = run, .rate = DEFAULT_RATE };
    struct compiler compiler = { .worker = &worker };
    int code = run_inputs_open(&worker);
    if (code == EXIT_DONE)
        code = work(&worker, &compiler, fd);
    if (code == WORKER_CRASHED || code == WORKER_MOVED)
        return code; /* TO is not closed: its readers wait for the next worker */
    end_compiler(&compiler);
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
