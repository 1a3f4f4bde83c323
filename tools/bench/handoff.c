/* SPDX-License-Identifier: MIT
 *
 * The time of a frame from one process to others. The lead writes, the others read. Rounds alternate
 * between the bare limit and the channel: the lead stores a word for each reader (and wakes a sleeping
 * one by futex), or commits a frame. A sample is the time from before the store or commit until the
 * reader has the word or acquire has returned.
 */
#include <stdalign.h>
#include <unistd.h>

#include "../common/term.h"
#include "bench.h"

#define READERS        64
#define SPIN_GAP       (2 * SLUICE_MS / 1000)  /* after which a spinning reader is in its loop */
#define SLEEP_GAP      (60 * SLUICE_MS / 1000) /* after which a sleeping reader is asleep */
#define SLEEP_GAP_EACH (5 * SLUICE_MS / 1000)
#define FIRST_ROUNDS   6                        /* not counted */
#define LOADED_GAP     (200 * SLUICE_MS / 1000) /* asleep: a process that uses its share of a busy CPU waits long */

/* Shared by the lead and one reader. Each cache line is written by one of them. */
struct lane {
    alignas(64) atomic_uint word; /* the bare limit: the round */
    alignas(64) atomic_uint done; /* the reader's last round */
    int64_t seen;                 /* when the reader had it */
};

struct task {
    bool sleeping, loaded;
    int readers;
    uint64_t bytes;
    int64_t time;
};

struct handoff {
    struct task task;
    atomic_uint open; /* 1: there is a channel */
    struct lane lanes[READERS];
    struct samples latency, limit, commit, commit_limit;
};

static bool is_bare(uint32_t round)
{
    return round % 2 == 1;
}

static void read_frames(void *shared, int index)
{
    struct handoff *job = shared;
    struct lane *lane = &job->lanes[index];
    struct sluice_frame frame;
    word_await(&job->open, 1);
    sluice_reader *reader = actor_reader("bench", SLUICE_NEWEST, 0, job->task.sleeping ? -1 : SLUICE_FOREVER);
    word_set(&lane->done, 1);
    for (uint32_t round = 1;; round++) {
        if (is_bare(round)) {
            uint32_t seen;
            while ((seen = atomic_load_explicit(&lane->word, memory_order_acquire)) != round)
                if (job->task.sleeping)
                    futex_wait(&lane->word, seen);
            lane->seen = clock_ns();
        } else {
            actor_check(sluice_reader_acquire(reader, actor_stream(), SLUICE_FOREVER, &frame), "acquire");
            lane->seen = clock_ns();
            actor_check(sluice_reader_release(reader, &frame, actor_stream()), "release");
        }
        atomic_store_explicit(&lane->done, round + 1, memory_order_release);
    }
}

static void store_words(struct handoff *job, uint32_t round)
{
    for (int i = 0; i < job->task.readers; i++) {
        atomic_store_explicit(&job->lanes[i].word, round, memory_order_release);
        if (job->task.sleeping)
            futex_wake(&job->lanes[i].word, INT_MAX);
    }
}

static void wait_before(const struct task *task)
{
    if (task->sleeping && task->loaded)
        sleep_until(clock_ns() + LOADED_GAP);
    else if (task->sleeping)
        spin_for(SLEEP_GAP + task->readers * SLEEP_GAP_EACH);
    else
        spin_for(SPIN_GAP);
}

static void wait_for_all(struct handoff *job, uint32_t round)
{
    for (int i = 0; i < job->task.readers; i++) {
        atomic_uint *done = &job->lanes[i].done;
        while (job->task.sleeping && job->task.loaded && atomic_load(done) != round + 1)
            sleep_until(clock_ns() + LOADED_GAP / 4);
        word_await_spinning(done, round + 1);
    }
}

/* One round: returns false when there are samples enough. */
static bool hand_off(struct handoff *job, sluice_writer *writer, uint32_t round)
{
    bool bare = is_bare(round);
    struct sluice_frame frame;
    if (!bare)
        actor_check(sluice_writer_begin(writer, ACTOR_TIMEOUT, &frame), "begin");
    wait_before(&job->task);
    int64_t start = clock_ns();
    if (bare)
        store_words(job, round);
    else
        actor_check(sluice_writer_commit(writer, &frame, actor_stream()), "commit");
    int64_t end = clock_ns();
    wait_for_all(job, round);
    if (round <= FIRST_ROUNDS)
        return true;
    for (int i = 0; i < job->task.readers; i++)
        samples_add(bare ? &job->limit : &job->latency, job->lanes[i].seen - start);
    samples_add(bare ? &job->commit_limit : &job->commit, end - start);
    /* The last round is a frame: the readers then wait for a word. */
    return bare || (!samples_full(&job->latency) && !samples_full(&job->limit));
}

static void write_frames(void *shared, int index)
{
    struct handoff *job = shared;
    (void)index;
    sluice_writer *writer = actor_writer("bench", job->task.bytes, 3);
    word_set(&job->open, 1);
    for (int i = 0; i < job->task.readers; i++)
        word_await(&job->lanes[i].done, 1);
    int64_t until = clock_ns() + job->task.time;
    for (uint32_t round = 1; hand_off(job, writer, round); round++)
        if (clock_ns() >= until && !is_bare(round) && job->commit.count >= BENCH_MIN_SAMPLES)
            break;
    sluice_writer_close(&writer);
}

/* Does the task. NULL after reporting a failure. The caller closes the stage. */
static struct handoff *play(struct bench *bench, struct stage *stage, const char *name, const struct task *task)
{
    if (!stage_open(stage, sizeof(struct handoff)))
        return NULL;
    struct handoff *job = stage->shared;
    job->task = *task;
    bool well = stage_start(stage, bench_cpu(bench, 0), write_frames, 0) != 0;
    for (int i = 0; well && i < job->task.readers; i++)
        well = stage_start(stage, bench_cpu(bench, i + 1), read_frames, i) != 0;
    if (well && job->task.loaded)
        well = stage_start_burners(stage, bench);
    well = well && stage_play(stage, name, job->task.time + 60 * SLUICE_S);
    return well ? job : NULL;
}

static bool add_row(struct bench *bench, const char *name, const struct handoff *job, struct samples *samples,
                    struct samples *limit)
{
    /* A cache line and a futex are no limits of a GPU. */
    struct bench_row *row = bench_row(bench, name, samples, bench->device ? NULL : limit);
    row_int(row, "readers", job->task.readers);
    row_int(row, "bytes", (int64_t)job->task.bytes);
    row_text(row, "reader", job->task.sleeping ? "sleeping" : "spinning");
    if (job->task.loaded)
        row_int(row, "burners", bench->cpu_count);
    row_cpus(row, bench, "writer_cpu", "reader_cpu");
    return row != NULL;
}

/* One reader, one row. */
static bool one_reader(struct bench *bench, const char *name, struct task task)
{
    struct stage stage;
    task.readers = 1;
    struct handoff *job = play(bench, &stage, name, &task);
    bool well = job && add_row(bench, name, job, &job->latency, &job->limit);
    stage_close(&stage);
    return well;
}

bool bench_handoff_spinning(struct bench *bench)
{
    return one_reader(bench, "handoff_spinning", (struct task){ .bytes = 64, .time = bench_time(bench, 10) });
}

bool bench_handoff_sleeping(struct bench *bench)
{
    return one_reader(bench, "handoff_sleeping",
                      (struct task){ .sleeping = true, .bytes = 64, .time = bench_time(bench, 10) });
}

bool bench_loaded_spinning(struct bench *bench)
{
    return one_reader(bench, "loaded_spinning",
                      (struct task){ .loaded = true, .bytes = 64, .time = bench_time(bench, 12) });
}

bool bench_loaded_sleeping(struct bench *bench)
{
    return one_reader(bench, "loaded_sleeping",
                      (struct task){ .loaded = true, .sleeping = true, .bytes = 64, .time = bench_time(bench, 12) });
}

bool bench_handoff_size(struct bench *bench)
{
    const uint64_t most = bench->quick ? 64 << 20 : 1 << 30;
    uint64_t room = (uint64_t)sysconf(_SC_AVPHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    bool well = true;
    for (uint64_t bytes = 64; well && bytes <= most; bytes *= 16) {
        if (bytes < most && bytes * 16 > most)
            bytes = most; /* the last one */
        if (!bench->device && bytes * 3 > room / 2) {
            char text[TERM_TEXT];
            say_error("bench", "skipping frames of %s: three of them need more than half of the free memory.",
                      text_bytes(text, bytes));
            break;
        }
        well = one_reader(bench, "handoff_size", (struct task){ .bytes = bytes, .time = bench_time(bench, 3) });
    }
    return well;
}

bool bench_readers(struct bench *bench)
{
    bool well = true;
    for (int readers = 1; well && readers <= READERS; readers *= 2) {
        struct task task = { .sleeping = true, .readers = readers, .bytes = 64, .time = bench_time(bench, 5) };
        struct stage stage;
        struct handoff *job = play(bench, &stage, "readers_waiting", &task);
        well = job && add_row(bench, "readers_waiting_latency", job, &job->latency, &job->limit) &&
               add_row(bench, "readers_waiting_commit", job, &job->commit, &job->commit_limit);
        stage_close(&stage);
    }
    return well;
}
