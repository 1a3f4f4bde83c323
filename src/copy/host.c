/* SPDX-License-Identifier: MIT
 *
 * Copies by the CPU, which are done when the call returns.
 */
#include <inttypes.h>
#include <string.h>

#include "copy/copy.h"
#include "device/device.h"
#include "format/format.h"
#include "util/result.h"

/* With a size known at compile time, a copy is a load and a store. */
#define COPY_STEPS(bytes) \
    for (int64_t i = 0; i < step->count; i++) { \
        memcpy(to + i * step->to, from + i * step->from, (bytes)); \
    }

static void run_step(char *to, const char *from, size_t run, const struct sl_copy_step *step)
{
    switch (run) {
    case 1: COPY_STEPS(1) break;
    case 2: COPY_STEPS(2) break;
    case 3: COPY_STEPS(3) break;
    case 4: COPY_STEPS(4) break;
    case 8: COPY_STEPS(8) break;
    case 16: COPY_STEPS(16) break;
    default: COPY_STEPS(run) break;
    }
}

static void run_steps(char *to, const char *from, const struct sl_copy_part *part, int depth)
{
    if (depth == 0) {
        memcpy(to, from, (size_t)part->run);
        return;
    }
    const struct sl_copy_step *step = &part->steps[depth - 1];
    if (depth == 1) {
        run_step(to, from, (size_t)part->run, step);
        return;
    }
    for (int64_t i = 0; i < step->count; i++)
        run_steps(to + i * step->to, from + i * step->from, part, depth - 1);
}

void sl_part_run(const struct sl_copy_part *part)
{
    run_steps(part->to, part->from, part, part->depth);
}

/* ---- the kind ---- */

static int host_open(struct sl_copier *copier)
{
    (void)copier;
    return 0;
}

static bool host_close(struct sl_copier *copier, bool working)
{
    (void)copier;
    (void)working;
    return true;
}

static int host_begin(struct sl_copy_job *job, struct sluice_stream stream)
{
    int r = sl_stream_check(stream, &sl_device_host);

    job->stream = stream;
    if (r == 0)
        r = sl_stream_check_apart(stream, "frames cannot be copied on it");
    return r == 0 ? sl_copy_check_sides(job) : sl_stream_refused(job->copier->channel, r);
}

static int host_queue(struct sl_copy_job *job, uint32_t side, const struct sl_copy *copy)
{
    (void)job;
    (void)side;
    for (int i = 0; i < copy->count; i++)
        sl_part_run(&copy->parts[i]);
    return 0;
}

static void host_ticket(struct sl_copy_job *job, const struct sl_fence *existing, struct sluice_ticket *ticket)
{
    (void)job;
    (void)existing;
    ticket->id = SL_TICKET_DONE;
}

static int host_finish(struct sl_copy_job *job)
{
    (void)job;
    return 0;
}

static void host_end(struct sl_copy_job *job)
{
    (void)job;
}

const struct sl_copy_ops sl_copy_host = {
    .kind = "host",
    .needs_sides = true,
    .open = host_open,
    .close = host_close,
    .begin = host_begin,
    .queue = host_queue,
    .ticket = host_ticket,
    .finish = host_finish,
    .end = host_end,
};

/* ---- between arrays of the program's own ---- */

static int check_host_access(const struct sluice_array *array, const char *role)
{
    const void *first;
    uint64_t bytes;
    int r = sl_array_span(array, &first, &bytes);

    if (r != SLUICE_OK || sl_copy_host_accessible(first, bytes))
        return r;
    return sl_fail(
        SLUICE_E_INVALID,
        "array '%.31s', to copy %s: the CPU cannot access the %" PRIu64
        " bytes at %p: they are a GPU's, or were freed; copy in host memory (a frame: sluice_reader_fetch), or by the "
        "GPU's library",
        array->name, role, bytes, first);
}

int sl_array_copy(const struct sluice_array *to, const struct sluice_array *from)
{
    struct sl_copy copy;
    int r = sl_array_plan(to, from, &copy);

    if (r == SLUICE_OK && copy.count > 0 && (r = check_host_access(to, "into")) == SLUICE_OK)
        r = check_host_access(from, "from");
    for (int i = 0; i < copy.count && r == SLUICE_OK; i++)
        sl_part_run(&copy.parts[i]);
    return r;
}
