/* SPDX-License-Identifier: MIT
 *
 * From the return of a writer's open until a reader that waits for it has its first frame: the first time, and each
 * time after the writer before was killed. The limit is the time until a process that waits for a file in a folder
 * (inotify, poll) is awake.
 */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../common/term.h"
#include "bench.h"

#define WRITERS 200
#define BYTES   4096
#define SETTLE  (2 * SLUICE_MS) /* until the reader sleeps */

struct connect_job {
    int count;
    char channel[32];
    char folder[320];            /* for the limit */
    atomic_uint turn, file_turn; /* the writer's and the file's number, from 1 */
    atomic_int pids[WRITERS];
    _Atomic int64_t opened_ns, made_ns;
    struct samples samples, limit;
};

static void write_until_killed(void *shared, int index)
{
    struct connect_job *job = shared;
    struct sluice_frame frame;
    (void)actor_stream(); /* opening a GPU takes longer than all else */
    word_await(&job->turn, (uint32_t)index + 1);
    sleep_until(clock_ns() + SETTLE);
    sluice_writer *writer = actor_writer(job->channel, BYTES, 3);
    atomic_store(&job->opened_ns, clock_ns());
    actor_check(sluice_writer_begin(writer, ACTOR_TIMEOUT, &frame), "begin");
    actor_check(sluice_writer_commit(writer, &frame, actor_stream()), "commit");
    atomic_store(&job->pids[index], getpid());
    for (;;)
        pause();
}

static void make_files(void *shared, int index)
{
    struct connect_job *job = shared;
    char path[340];
    (void)index;
    for (int i = 0; i < job->count; i++) {
        word_await(&job->file_turn, (uint32_t)i + 1);
        sleep_until(clock_ns() + SETTLE);
        snprintf(path, sizeof path, "%s/%d", job->folder, i);
        atomic_store(&job->made_ns, clock_ns());
        close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    }
}

static void wait_for_file(struct connect_job *job, int watch, int i)
{
    struct pollfd news = { .fd = watch, .events = POLLIN };
    char events[1024], path[340];
    word_set(&job->file_turn, (uint32_t)i + 1);
    while (poll(&news, 1, 5000) < 1)
        continue;
    samples_add(&job->limit, clock_ns() - atomic_load(&job->made_ns));
    if (read(watch, events, sizeof events) < 0)
        actor_fail("reading what happened in a folder");
    snprintf(path, sizeof path, "%s/%d", job->folder, i);
    unlink(path);
}

static void wait_for_writers(void *shared, int index)
{
    struct connect_job *job = shared;
    struct sluice_frame frame;
    int watch = inotify_init1(IN_CLOEXEC);
    (void)index;
    if (watch < 0 || inotify_add_watch(watch, job->folder, IN_CREATE) < 0)
        actor_fail("watching a folder");
    sluice_reader *reader = actor_waiting_reader(job->channel);
    for (int i = 0; i < job->count; i++) {
        int pid, result;
        word_set(&job->turn, (uint32_t)i + 1);
        while ((result = sluice_reader_acquire(reader, actor_stream(), SLUICE_S, &frame)) > 0)
            continue;
        samples_add(&job->samples, clock_ns() - atomic_load(&job->opened_ns));
        actor_check(result, "acquire");
        actor_check(sluice_reader_release(reader, &frame, actor_stream()), "release");
        while ((pid = atomic_load(&job->pids[i])) == 0)
            sleep_until(clock_ns() + SLUICE_MS);
        kill(pid, SIGKILL);
        while (sluice_reader_acquire(reader, actor_stream(), 10 * SLUICE_MS, &frame) != SLUICE_NO_WRITER)
            continue;
        wait_for_file(job, watch, i);
    }
    sluice_reader_close(&reader);
    close(watch);
}

static bool connect_row(struct bench *bench, const char *channel)
{
    struct stage stage;
    if (!stage_open(&stage, sizeof(struct connect_job)))
        return false;
    struct connect_job *job = stage.shared;
    job->count = bench->quick || bench->device ? 10 : WRITERS;
    snprintf(job->channel, sizeof job->channel, "%s%d", channel, (int)getpid());
    snprintf(job->folder, sizeof job->folder, "%s/files", sluice_registry_folder());
    bool well = mkdir(job->folder, 0700) == 0;
    well = well && stage_start(&stage, BENCH_ANY_CPU, wait_for_writers, 0);
    well = well && stage_start(&stage, BENCH_ANY_CPU, make_files, 0);
    for (int i = 0; well && i < job->count; i++)
        well = stage_start_victim(&stage, write_until_killed, i);
    well = well && stage_play(&stage, "connect", 120 * SLUICE_S);
    struct bench_row *row = well ? bench_row(bench, "connect", &job->samples, &job->limit) : NULL;
    row_int(row, "bytes", BYTES);
    row_text(row, "channel", channel);
    rmdir(job->folder);
    stage_close(&stage);
    return row != NULL;
}

bool bench_connect(struct bench *bench)
{
    return connect_row(bench, "sluice:") && (!bench->device || connect_row(bench, "cipd:"));
}
