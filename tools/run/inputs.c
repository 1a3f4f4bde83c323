/* SPDX-License-Identifier: MIT
 *
 * The channels that a kernel reads. Of each the newest frame is held until there is a newer one.
 */
#include <string.h>

#include "../common/args.h"
#include "../common/term.h"
#include "worker.h"

int run_inputs_open(struct run_worker *worker)
{
    struct run *run = worker->run;
    for (uint32_t i = 0; i < run->from_count; i++) {
        struct sluice_reader_params params = SLUICE_READER_PARAMS_INIT;
        struct run_input *input = &worker->inputs[i];
        input->name = run->from[i];
        input->state = SLUICE_TIMEOUT;
        params.name = input->name;
        params.device = run->device;
        params.mode = i == 0 && run->in_order ? SLUICE_IN_ORDER : SLUICE_NEWEST;
        params.hold = 2; /* the next one is taken before the last one is released */
        params.open_timeout_ns = SLUICE_LATER;
        int result = sluice_reader_open(&input->reader, &params);
        if (result)
            return say_result(run->command, result, NULL);
    }
    return EXIT_DONE;
}

/* Prints a change of a channel's state once. */
static void report(const struct run *run, struct run_input *input, int result)
{
    if (run->quiet || result == input->state || result == SLUICE_TIMEOUT || result == SLUICE_AGAIN)
        return;
    if (result == SLUICE_CLOSED)
        say_error(run->command, "'%s' has closed%s", input->name, run->once ? "." : "; waiting for it to open again.");
    else if (result == SLUICE_NO_WRITER)
        say_error(run->command, "waiting for '%s'.", input->name);
    else if (result == SLUICE_OK && input->state == SLUICE_CLOSED)
        say_error(run->command, "'%s' is back.", input->name);
    input->state = result;
}

static void release(struct run_worker *worker, struct run_input *input)
{
    if (input->held)
        (void)sluice_reader_release(input->reader, &input->frame, worker->stream.id ? worker->stream : SLUICE_ON_CPU);
    input->held = false;
}

/* Returns a result of the library. */
static int take(struct run_worker *worker, struct run_input *input, int64_t timeout_ns)
{
    struct sluice_frame frame;
    struct sluice_array array = { .name = "" };
    int result = sluice_reader_acquire(input->reader, SLUICE_ON_CPU, timeout_ns, &frame);
    if (result == SLUICE_OK) {
        release(worker, input);
        input->frame = frame;
        input->held = true;
        for (uint32_t i = 0; i < frame.array_count && !array.image.pixel_format; i++)
            (void)sluice_frame_array_at(&frame, i, &array);
        memcpy(input->array, array.name, sizeof input->array); /* without an image, the launch will say so */
    }
    report(worker->run, input, result);
    return result;
}

int run_inputs_take(struct run_worker *worker, int64_t timeout_ns, bool *fresh, bool *closed)
{
    bool all = true;
    for (uint32_t i = 0; i < worker->run->from_count; i++) {
        struct run_input *input = &worker->inputs[i];
        int result = take(worker, input, i == 0 ? timeout_ns : 0);
        if (result < 0 && result != SLUICE_E_LOST)
            return run_failure(worker->run, result);
        if (i == 0) {
            *fresh = result == SLUICE_OK;
            *closed = result == SLUICE_CLOSED;
        }
        all = all && input->held;
    }
    *fresh = *fresh && all;
    return EXIT_DONE;
}

void run_inputs_close(struct run_worker *worker)
{
    for (uint32_t i = 0; i < worker->run->from_count; i++) {
        release(worker, &worker->inputs[i]);
        sluice_reader_close(&worker->inputs[i].reader);
    }
}
