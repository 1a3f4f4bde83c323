/* SPDX-License-Identifier: MIT
 *
 * From SIGKILL of a reader until its slot is free, and of a writer until its reader knows. Victims wait
 * for their turn, and the lead kills them. The limit is the time until the pidfd of a process without
 * channels, killed in the same way, is readable.
 */
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../common/term.h"
#include "bench.h"

#define VICTIMS 200 /* of each kind */
#define BYTES   (1 << 20)

struct kill_job {
    int count;
    atomic_uint open;  /* 1: there is a channel */
    atomic_uint turn;  /* the victim's number, from 1 */
    atomic_uint ready; /* the victim that may be killed */
    atomic_int pids[VICTIMS], bare_pids[VICTIMS];
    struct samples samples, limit;
};

static _Noreturn void wait_for_death(void)
{
    for (;;)
        pause();
}

static void live(void *shared, int index)
{
    struct kill_job *job = shared;
    atomic_store(&job->bare_pids[index], getpid());
    wait_for_death();
}

static void kill_bare(struct kill_job *job, int index)
{
    int pid;
    while ((pid = atomic_load(&job->bare_pids[index])) == 0)
        sleep_until(clock_ns() + SLUICE_MS);
    struct pollfd dead = { .fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN };
    if (dead.fd < 0)
        return; /* an old kernel: the row has no limit */
    int64_t start = clock_ns();
    kill(pid, SIGKILL);
    while (poll(&dead, 1, 5000) < 1)
        continue;
    samples_add(&job->limit, clock_ns() - start);
    close(dead.fd);
}

/* ---- a reader dies ---- */

static void hold_a_frame(void *shared, int index)
{
    struct kill_job *job = shared;
    struct sluice_frame frame;
    uint32_t me = (uint32_t)index + 1;
    word_await(&job->open, 1);
    word_await(&job->turn, me);
    sluice_reader *reader = actor_reader("bench", SLUICE_NEWEST, 0, 0);
    actor_check(sluice_reader_acquire(reader, actor_stream(), ACTOR_TIMEOUT, &frame), "acquire");
    atomic_store(&job->pids[index], getpid());
    word_set(&job->ready, me);
    wait_for_death();
}

/* Of three slots one holds the newest frame and one is being written, so only the reader's can become
 * free. */
static void kill_readers(void *shared, int index)
{
    struct kill_job *job = shared;
    struct sluice_frame frame, begun, freed;
    (void)index;
    sluice_writer *writer = actor_writer("bench", BYTES, 3);
    word_set(&job->open, 1);
    for (int i = 0; i < job->count; i++) {
        actor_check(sluice_writer_begin(writer, ACTOR_TIMEOUT, &frame), "begin");
        actor_check(sluice_writer_commit(writer, &frame, actor_stream()), "commit");
        word_set(&job->turn, (uint32_t)i + 1);
        word_await(&job->ready, (uint32_t)i + 1);
        actor_check(sluice_writer_begin(writer, ACTOR_TIMEOUT, &frame), "begin");
        actor_check(sluice_writer_commit(writer, &frame, actor_stream()), "commit");
        actor_check(sluice_writer_begin(writer, ACTOR_TIMEOUT, &begun), "begin");
        int64_t start = clock_ns();
        kill(atomic_load(&job->pids[i]), SIGKILL);
        actor_check(sluice_writer_begin(writer, ACTOR_TIMEOUT, &freed), "begin after the reader's death");
        samples_add(&job->samples, clock_ns() - start);
        actor_check(sluice_writer_cancel(writer, &freed, actor_stream()), "cancel");
        actor_check(sluice_writer_cancel(writer, &begun, actor_stream()), "cancel");
        kill_bare(job, i);
    }
    sluice_writer_close(&writer);
}

/* ---- a writer dies ---- */

static void write_a_frame(void *shared, int index)
{
    struct kill_job *job = shared;
    struct sluice_frame frame;
    uint32_t me = (uint32_t)index + 1;
    word_await(&job->turn, me);
    sluice_writer *writer = actor_writer("bench", BYTES, 3);
    actor_check(sluice_writer_begin(writer, 0, &frame), "begin");
    actor_check(sluice_writer_commit(writer, &frame, actor_stream()), "commit");
    atomic_store(&job->pids[index], getpid());
    word_set(&job->ready, me);
    wait_for_death();
}

/* Polls like an event loop until acquire returns SLUICE_NO_WRITER. */
static void await_no_writer(sluice_reader *reader)
{
    struct pollfd news = { .fd = sluice_reader_fd(reader), .events = POLLIN };
    struct sluice_frame frame;
    int result;
    while ((result = sluice_reader_acquire(reader, actor_stream(), 0, &frame)) != SLUICE_NO_WRITER) {
        if (result == SLUICE_OK)
            actor_check(sluice_reader_release(reader, &frame, actor_stream()), "release");
        else if (result != SLUICE_TIMEOUT)
            actor_fail("acquire after the writer's death");
        (void)poll(&news, 1, 1000);
    }
}

static void kill_writers(void *shared, int index)
{
    struct kill_job *job = shared;
    struct sluice_frame frame;
    sluice_reader *reader = NULL;
    (void)index;
    for (int i = 0; i < job->count; i++) {
        word_set(&job->turn, (uint32_t)i + 1);
        word_await(&job->ready, (uint32_t)i + 1);
        if (!reader)
            reader = actor_reader("bench", SLUICE_NEWEST, 0, 0);
        actor_check(sluice_reader_acquire(reader, actor_stream(), ACTOR_TIMEOUT, &frame), "acquire");
        actor_check(sluice_reader_release(reader, &frame, actor_stream()), "release");
        int64_t start = clock_ns();
        kill(atomic_load(&job->pids[i]), SIGKILL);
        await_no_writer(reader);
        samples_add(&job->samples, clock_ns() - start);
        kill_bare(job, i);
    }
    sluice_reader_close(&reader);
}

static bool kill_row(struct bench *bench, const char *name, stage_act *killer, stage_act *victim)
{
    struct stage stage;
    if (!stage_open(&stage, sizeof(struct kill_job)))
        return false;
    struct kill_job *job = stage.shared;
    job->count = bench->quick || bench->device ? 10 : VICTIMS; /* opening a GPU takes long */
    bool well = stage_start(&stage, BENCH_ANY_CPU, killer, 0);
    for (int i = 0; well && i < job->count; i++)
        well = stage_start_victim(&stage, victim, i) && stage_start_victim(&stage, live, i);
    well = well && stage_play(&stage, name, 120 * SLUICE_S);
    struct bench_row *row = well ? bench_row(bench, name, &job->samples, &job->limit) : NULL;
    row_int(row, "bytes", BYTES);
    stage_close(&stage);
    return row != NULL;
}

bool bench_kill_reader(struct bench *bench)
{
    return kill_row(bench, "kill_reader", kill_readers, hold_a_frame);
}

bool bench_kill_writer(struct bench *bench)
{
    return kill_row(bench, "kill_writer", kill_writers, write_a_frame);
}
