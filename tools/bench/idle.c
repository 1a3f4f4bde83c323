/* SPDX-License-Identifier: MIT
 *
 * The CPU time of sleeping threads in a second: a reader in acquire, and the service threads of reader
 * and writer. The limit is a process asleep on a bare futex. The kernel accounts for it in
 * /proc/PID/task/TID/schedstat.
 */
#include <dirent.h>
#include <stdlib.h>
#include <unistd.h>

#include "../common/term.h"
#include "bench.h"

#define SETTLE (SLUICE_S / 10) /* until all threads are asleep */

struct idle_job {
    int count;
    int64_t interval;
    atomic_uint open, joined;
    atomic_int reader_pid, bare_pid;
    struct samples reader, reader_service, writer_service, bare;
};

/* The CPU time of a thread so far, ns. */
static int64_t cpu_time(int pid, int tid)
{
    char path[96];
    long long spent = -1;
    snprintf(path, sizeof path, "/proc/%d/task/%d/schedstat", pid, tid);
    FILE *file = fopen(path, "r");
    if (file && fscanf(file, "%lld", &spent) != 1)
        spent = -1;
    if (file)
        fclose(file);
    if (spent < 0)
        actor_fail("the CPU time of a thread is unknown (no /proc/PID/task/TID/schedstat)");
    return spent;
}

static int service_thread(int pid)
{
    char path[64];
    struct dirent *entry;
    int tid = 0;
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *dir = opendir(path);
    while (dir && (entry = readdir(dir)))
        if (atoi(entry->d_name) > 0 && atoi(entry->d_name) != pid)
            tid = atoi(entry->d_name);
    if (dir)
        closedir(dir);
    if (tid == 0)
        actor_fail("/proc has no service thread");
    return tid;
}

static void sleep_in_acquire(void *shared, int index)
{
    struct idle_job *job = shared;
    struct sluice_frame frame;
    (void)index;
    word_await(&job->open, 1);
    sluice_reader *reader = actor_reader("bench", SLUICE_NEWEST, 0, 0);
    atomic_store(&job->reader_pid, getpid());
    word_set(&job->joined, 1);
    if (sluice_reader_acquire(reader, SLUICE_ON_CPU, SLUICE_FOREVER, &frame) != SLUICE_CLOSED)
        actor_fail("acquire returned without a frame");
}

static void sleep_on_futex(void *shared, int index)
{
    struct idle_job *job = shared;
    static atomic_uint word;
    (void)index;
    atomic_store(&job->bare_pid, getpid());
    for (;;)
        futex_wait(&word, 0);
}

static void measure_idle(void *shared, int index)
{
    struct idle_job *job = shared;
    (void)index;
    sluice_writer *writer = actor_writer("bench", 64, 3);
    word_set(&job->open, 1);
    word_await(&job->joined, 1);
    while (atomic_load(&job->bare_pid) == 0)
        sleep_until(clock_ns() + SLUICE_MS);
    sleep_until(clock_ns() + SETTLE);
    int reader = atomic_load(&job->reader_pid), bare = atomic_load(&job->bare_pid);
    const struct {
        int pid, tid;
        struct samples *samples;
    } threads[] = {
        { reader, reader, &job->reader },
        { reader, service_thread(reader), &job->reader_service },
        { getpid(), service_thread(getpid()), &job->writer_service },
        { bare, bare, &job->bare },
    };
    int64_t before[4];
    for (int i = 0; i < job->count; i++) {
        int64_t start = clock_ns();
        for (int k = 0; k < 4; k++)
            before[k] = cpu_time(threads[k].pid, threads[k].tid);
        sleep_until(start + job->interval);
        double seconds = (double)(clock_ns() - start) / 1e9;
        for (int k = 0; k < 4; k++) {
            int64_t spent = cpu_time(threads[k].pid, threads[k].tid) - before[k];
            samples_add(threads[k].samples, (int64_t)((double)spent / seconds));
        }
    }
    sluice_writer_close(&writer);
}

static bool add_row(struct bench *bench, const char *process, const char *thread, const struct idle_job *job,
                    struct samples *samples, struct samples *limit)
{
    struct bench_row *row = bench_row(bench, "idle_cpu", samples, limit);
    row_text(row, "process", process);
    row_text(row, "thread", thread);
    row_int(row, "interval_ms", job->interval / SLUICE_MS);
    row_text(row, "unit", "ns a second");
    return row != NULL;
}

bool bench_idle_cpu(struct bench *bench)
{
    struct stage stage;
    if (!stage_open(&stage, sizeof(struct idle_job)))
        return false;
    struct idle_job *job = stage.shared;
    job->count = bench->quick ? 2 : 10;
    job->interval = bench->quick ? SLUICE_S / 4 : SLUICE_S;
    bool well = stage_start(&stage, BENCH_ANY_CPU, measure_idle, 0) &&
                stage_start(&stage, BENCH_ANY_CPU, sleep_in_acquire, 1) &&
                stage_start(&stage, BENCH_ANY_CPU, sleep_on_futex, 2) &&
                stage_play(&stage, "idle_cpu", 60 * SLUICE_S) &&
                add_row(bench, "reader", "in acquire", job, &job->reader, &job->bare) &&
                add_row(bench, "reader", "service", job, &job->reader_service, &job->bare) &&
                add_row(bench, "writer", "service", job, &job->writer_service, &job->bare);
    stage_close(&stage);
    return well;
}
