/* SPDX-License-Identifier: MIT
 *
 * The calls that copy, alternating with memcpy of the same memory. `send` copies into one slot and
 * memcpy into the next; `fetch` and memcpy copy from one frame that is held.
 */
#include <string.h>

#include "../common/term.h"
#include "bench.h"

struct copy_job {
    bool fetch;
    uint64_t bytes;
    int64_t time;
    struct samples samples, limit;
};

static struct sluice_array wrapped(void *data, uint64_t bytes)
{
    struct sluice_array array;
    const int64_t shape[1] = { (int64_t)bytes };
    actor_check(sluice_array_wrap(&array, "bytes", data, (struct sluice_dtype){ SLUICE_UINT, 8, 1 }, 1, shape, NULL),
                "an array");
    return array;
}

static bool has_time(const struct copy_job *job, int64_t until)
{
    return (clock_ns() < until || job->samples.count < BENCH_MIN_SAMPLES) && !samples_full(&job->samples);
}

/* Sends once, until the array may be used again. */
static void send_once(struct copy_job *job, sluice_writer *writer, struct sluice_array *own)
{
    struct sluice_ticket ticket;
    actor_check(sluice_writer_wait(writer, ACTOR_TIMEOUT), "a slot");
    int64_t start = clock_ns();
    actor_check(sluice_writer_send(writer, own, 1, SLUICE_ON_CPU, &ticket), "send");
    if (actor_on_gpu())
        actor_check(sluice_ticket_wait(ticket, ACTOR_TIMEOUT), "the copy");
    samples_add(&job->samples, clock_ns() - start);
}

/* Copies into the slot as a program would; begin and commit are not counted. */
static void copy_into_slot(struct copy_job *job, sluice_writer *writer, const struct sluice_array *own)
{
    struct sluice_frame frame;
    struct sluice_array slot;
    actor_check(sluice_writer_begin(writer, 0, &frame), "begin");
    actor_check(sluice_frame_array(&frame, NULL, &slot), "the frame's array");
    int64_t start = clock_ns();
    memcpy(slot.data, own->data, job->bytes);
    samples_add(&job->limit, clock_ns() - start);
    actor_check(sluice_writer_commit(writer, &frame, SLUICE_ON_CPU), "commit");
}

static void send_frames(struct copy_job *job, sluice_writer *writer, struct sluice_array *own)
{
    int64_t until = clock_ns() + job->time;
    for (int i = 0; i < 6 && !actor_on_gpu(); i++) /* each slot once for each of the two */
        copy_into_slot(job, writer, own);
    job->limit.count = 0;
    do {
        send_once(job, writer, own);
        if (!actor_on_gpu()) /* the CPU cannot copy into the GPU's memory */
            copy_into_slot(job, writer, own);
    } while (has_time(job, until));
}

static void fetch_frames(struct copy_job *job, sluice_writer *writer, struct sluice_array *own)
{
    struct sluice_frame frame;
    struct sluice_array slot;
    sluice_reader *reader = actor_reader("bench", SLUICE_NEWEST, 0, 0);
    actor_check(sluice_writer_send(writer, own, 1, SLUICE_ON_CPU, NULL), "send");
    actor_check(sluice_reader_acquire(reader, SLUICE_ON_CPU, ACTOR_TIMEOUT, &frame), "acquire");
    actor_check(sluice_frame_array(&frame, NULL, &slot), "the frame's array");
    int64_t until = clock_ns() + job->time;
    if (!actor_on_gpu())
        memcpy(own->data, slot.data, job->bytes);
    do {
        int64_t start = clock_ns();
        actor_check(sluice_reader_fetch(reader, &frame, own, 1, SLUICE_ON_CPU, NULL), "fetch");
        int64_t middle = clock_ns();
        if (!actor_on_gpu()) {
            memcpy(own->data, slot.data, job->bytes);
            samples_add(&job->limit, clock_ns() - middle);
        }
        samples_add(&job->samples, middle - start);
    } while (has_time(job, until));
    actor_check(sluice_reader_release(reader, &frame, SLUICE_ON_CPU), "release");
    sluice_reader_close(&reader);
}

static void copy(void *shared, int index)
{
    struct copy_job *job = shared;
    (void)index;
    struct sluice_array own = wrapped(actor_memory(job->bytes), job->bytes);
    sluice_writer *writer = actor_writer("bench", job->bytes, 3);
    if (job->fetch)
        fetch_frames(job, writer, &own);
    else
        send_frames(job, writer, &own);
    sluice_writer_close(&writer);
}

static bool copy_rows(struct bench *bench, const char *name, bool fetch)
{
    static const uint64_t sizes[] = { 1 << 20, 8 << 20, 32 << 20 };
    bool well = true;
    for (size_t i = 0; well && i < sizeof sizes / sizeof sizes[0]; i++) {
        struct stage stage;
        if (!stage_open(&stage, sizeof(struct copy_job)))
            return false;
        struct copy_job *job = stage.shared;
        job->fetch = fetch;
        job->bytes = sizes[i];
        job->time = bench_time(bench, 4);
        well = stage_start(&stage, bench_cpu(bench, 0), copy, 0) && stage_play(&stage, name, 60 * SLUICE_S);
        struct bench_row *row = well ? bench_row(bench, name, &job->samples, &job->limit) : NULL;
        row_int(row, "bytes", (int64_t)sizes[i]);
        row_cpus(row, bench, "cpu", NULL);
        well = row != NULL;
        stage_close(&stage);
    }
    return well;
}

bool bench_send(struct bench *bench)
{
    return copy_rows(bench, "send", false);
}

bool bench_fetch(struct bench *bench)
{
    return copy_rows(bench, "fetch", true);
}
