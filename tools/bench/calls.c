/* SPDX-License-Identifier: MIT
 *
 * The CPU time of calls that do not wait. A sample is the mean of a batch of calls between two reads of
 * the clock, because reading it costs about as much as one call.
 */
#include <time.h>
#include <unistd.h>

#include "../common/term.h"
#include "bench.h"

#define BATCH   64
#define READERS 64

#define NAME_SIZE 24 /* of a channel's name with any int in it */

/* ---- the clock ---- */

struct clock_job {
    int64_t time;
    struct samples samples;
};

static void read_clock(void *shared, int index)
{
    struct clock_job *job = shared;
    int64_t until = clock_ns() + job->time, start, end = 0;
    (void)index;
    while (end < until && !samples_full(&job->samples)) {
        start = clock_ns();
        for (int i = 0; i < BATCH; i++)
            end = clock_ns();
        samples_add(&job->samples, (end - start) / BATCH);
    }
}

bool bench_clock_read(struct bench *bench)
{
    struct stage stage;
    if (!stage_open(&stage, sizeof(struct clock_job)))
        return false;
    struct clock_job *job = stage.shared;
    job->time = bench_time(bench, 1);
    bool well =
        stage_start(&stage, bench_cpu(bench, 0), read_clock, 0) && stage_play(&stage, "clock_read", 30 * SLUICE_S);
    struct bench_row *row = well ? bench_row(bench, "clock_read", &job->samples, NULL) : NULL;
    row_int(row, "batch", BATCH);
    row_cpus(row, bench, "cpu", NULL);
    stage_close(&stage);
    return row != NULL;
}

/* ---- begin and commit ---- */

/* One process has all readers; they never wait. */
struct commit_job {
    int readers;
    int64_t time;
    atomic_uint open, joined;
    struct samples samples;
};

static void only_join(void *shared, int index)
{
    struct commit_job *job = shared;
    (void)index;
    word_await(&job->open, 1);
    for (int i = 0; i < job->readers; i++)
        (void)actor_reader("bench", SLUICE_NEWEST, 0, 0);
    word_set(&job->joined, 1);
    for (;;)
        pause();
}

static void commit_batches(void *shared, int index)
{
    struct commit_job *job = shared;
    struct sluice_frame frame;
    (void)index;
    sluice_writer *writer = actor_writer("bench", 64, 4);
    word_set(&job->open, 1);
    if (job->readers > 0)
        word_await(&job->joined, 1);
    int64_t until = clock_ns() + job->time, start, end = 0;
    while (end < until && !samples_full(&job->samples)) {
        start = clock_ns();
        for (int i = 0; i < BATCH; i++) {
            actor_check(sluice_writer_begin(writer, 0, &frame), "begin");
            actor_check(sluice_writer_commit(writer, &frame, SLUICE_ON_CPU), "commit");
        }
        end = clock_ns();
        samples_add(&job->samples, (end - start) / BATCH);
    }
    sluice_writer_close(&writer);
}

static bool commit_row(struct bench *bench, const char *name, int readers, double seconds)
{
    struct stage stage;
    if (!stage_open(&stage, sizeof(struct commit_job)))
        return false;
    struct commit_job *job = stage.shared;
    job->readers = readers;
    job->time = bench_time(bench, seconds);
    bool well = stage_start(&stage, bench_cpu(bench, 0), commit_batches, 0) &&
                (readers == 0 || stage_start(&stage, bench_cpu(bench, 1), only_join, 1)) &&
                stage_play(&stage, name, 60 * SLUICE_S);
    struct bench_row *row = well ? bench_row(bench, name, &job->samples, NULL) : NULL;
    row_int(row, "readers", readers);
    row_int(row, "batch", BATCH);
    row_cpus(row, bench, "writer_cpu", readers ? "reader_cpu" : NULL);
    stage_close(&stage);
    return row != NULL;
}

bool bench_begin_commit(struct bench *bench)
{
    return commit_row(bench, "begin_commit", 0, 4);
}

bool bench_readers_idle(struct bench *bench)
{
    for (int readers = 1; readers <= READERS; readers *= 2)
        if (!commit_row(bench, "readers_idle_begin_commit", readers, 2))
            return false;
    return true;
}

/* ---- acquire and release ---- */

/* A batch acquires one frame of each of many channels (newest), or many of one channel (in order). */
#define FRAMES 32

struct acquire_job {
    bool in_order, other_core;
    int64_t time;
    atomic_uint open, joined, turn; /* the writer's at even numbers */
    struct samples samples;
};

struct channels {
    int count, frames;
    sluice_writer *writers[FRAMES];
    sluice_reader *readers[FRAMES];
};

static struct channels channels_of(const struct acquire_job *job)
{
    return job->in_order ? (struct channels){ .count = 1, .frames = FRAMES }
                         : (struct channels){ .count = FRAMES, .frames = 1 };
}

static const char *channel_name(char name[NAME_SIZE], int index)
{
    snprintf(name, NAME_SIZE, "bench-%d", index);
    return name;
}

static void open_writers(const struct acquire_job *job, struct channels *channels)
{
    char name[NAME_SIZE];
    for (int i = 0; i < channels->count; i++)
        channels->writers[i] = actor_writer(channel_name(name, i), 64, job->in_order ? FRAMES + 8 : 3);
}

static void open_readers(const struct acquire_job *job, struct channels *channels)
{
    char name[NAME_SIZE];
    for (int i = 0; i < channels->count; i++)
        channels->readers[i] = actor_reader(channel_name(name, i), job->in_order ? SLUICE_IN_ORDER : SLUICE_NEWEST,
                                            job->in_order ? FRAMES : 0, 0);
}

static void commit_all(struct channels *channels)
{
    struct sluice_frame frame;
    for (int i = 0; i < channels->count; i++)
        for (int k = 0; k < channels->frames; k++) {
            actor_check(sluice_writer_begin(channels->writers[i], 0, &frame), "begin");
            actor_check(sluice_writer_commit(channels->writers[i], &frame, SLUICE_ON_CPU), "commit");
        }
}

/* On the other core: commits when it is its turn. */
static void commit_in_turn(void *shared, int index)
{
    struct acquire_job *job = shared;
    struct channels channels = channels_of(job);
    (void)index;
    open_writers(job, &channels);
    word_set(&job->open, 1);
    word_await(&job->joined, 1);
    for (uint32_t turn = 0;; turn += 2) {
        word_await_spinning(&job->turn, turn);
        commit_all(&channels);
        atomic_store(&job->turn, turn + 1);
    }
}

static void acquire_batches(void *shared, int index)
{
    struct acquire_job *job = shared;
    struct channels channels = channels_of(job);
    struct sluice_frame frame;
    (void)index;
    if (job->other_core)
        word_await(&job->open, 1);
    else
        open_writers(job, &channels);
    open_readers(job, &channels);
    word_set(&job->joined, 1);
    int64_t until = clock_ns() + job->time, start, end = 0;
    for (uint32_t turn = 1; end < until && !samples_full(&job->samples); turn += 2) {
        if (job->other_core)
            word_await_spinning(&job->turn, turn);
        else
            commit_all(&channels);
        start = clock_ns();
        for (int i = 0; i < channels.count; i++)
            for (int k = 0; k < channels.frames; k++) {
                actor_check(sluice_reader_acquire(channels.readers[i], SLUICE_ON_CPU, 0, &frame), "acquire");
                actor_check(sluice_reader_release(channels.readers[i], &frame, SLUICE_ON_CPU), "release");
            }
        end = clock_ns();
        samples_add(&job->samples, (end - start) / FRAMES);
        atomic_store(&job->turn, turn + 1);
    }
}

static bool acquire_row(struct bench *bench, bool in_order, bool other_core)
{
    static const char name[] = "acquire_release";
    struct stage stage;
    if (!stage_open(&stage, sizeof(struct acquire_job)))
        return false;
    struct acquire_job *job = stage.shared;
    job->in_order = in_order;
    job->other_core = other_core;
    job->time = bench_time(bench, 3);
    bool well = stage_start(&stage, bench_cpu(bench, 0), acquire_batches, 0) &&
                (!other_core || stage_start(&stage, bench_cpu(bench, 1), commit_in_turn, 1)) &&
                stage_play(&stage, name, 60 * SLUICE_S);
    struct bench_row *row = well ? bench_row(bench, name, &job->samples, NULL) : NULL;
    row_text(row, "mode", in_order ? "in order" : "newest");
    row_text(row, "writer", other_core ? "another core" : "same core");
    row_int(row, "batch", FRAMES);
    row_cpus(row, bench, "reader_cpu", other_core ? "writer_cpu" : NULL);
    stage_close(&stage);
    return row != NULL;
}

bool bench_acquire_release(struct bench *bench)
{
    return acquire_row(bench, false, false) && acquire_row(bench, true, false) && acquire_row(bench, false, true) &&
           acquire_row(bench, true, true);
}
