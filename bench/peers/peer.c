/* SPDX-License-Identifier: MIT */
#include "peer.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bytes.h"

#define SAMPLES  (1 << 19)
#define WARM_UP  (2 * SLOTS)           /* frames that are not counted */
#define ENOUGH   16                    /* frames that are, however long they take */
#define GAP      (100 * INT64_C(1000)) /* until the reader is asleep */
#define PATIENCE 60                    /* seconds beyond the time given */

static struct {
    size_t bytes;
    bool in_place, rate;
    int64_t time;
} job;

/* What the two processes share beside the peer's own. */
static struct stage {
    alignas(64) atomic_uint open;    /* 1: the writer is; 2: the reader too */
    alignas(64) atomic_uint done;    /* the last frame that was read */
    alignas(64) atomic_uint last;    /* the frame to stop after, or 0 */
    alignas(64) int64_t taken, read; /* when the last frame could be, and was read */
    size_t count;
    struct sample {
        int64_t taken, read; /* since the hand-over began; a rate: both since the frame before */
    } samples[SAMPLES];
} * stage;

void die(const char *what)
{
    fprintf(stderr, "%s%s%s\n", what, errno ? ": " : "", errno ? strerror(errno) : "");
    _exit(1);
}

void die_missing(const char *what)
{
    fprintf(stderr, "%s\n", what);
    _exit(EXIT_MISSING);
}

void *kit_memory(size_t bytes)
{
    void *memory = NULL;
    if (posix_memalign(&memory, 4096, bytes) != 0)
        die("no memory");
    memset(memory, 1, bytes);
    return memory;
}

void *kit_shared_memory(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        die("no shared memory");
    memset(memory, 0, bytes);
    return memory;
}

static int64_t now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * INT64_C(1000000000) + at.tv_nsec;
}

/* ---- how the two tell each other where they are, outside what is measured ---- */

static void say(atomic_uint *word, uint32_t value)
{
    atomic_store(word, value);
    syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

static void await(atomic_uint *word, uint32_t value)
{
    for (uint32_t seen; (seen = atomic_load(word)) != value;)
        syscall(SYS_futex, word, FUTEX_WAIT, seen, NULL, NULL, 0);
}

static void add(int64_t taken, int64_t read)
{
    if (stage->count < SAMPLES)
        stage->samples[stage->count++] = (struct sample){ taken, read };
}

/* ---- the two ---- */

static void pause_until(int64_t time)
{
    while (now() < time)
        continue;
}

static void write_frames(void)
{
    void *own = job.in_place ? NULL : kit_memory(job.bytes);
    int64_t until = INT64_MAX;
    peer.writer_open(job.bytes);
    say(&stage->open, 1);
    await(&stage->open, 2);
    for (uint32_t sequence = 1, last = 0; last == 0; sequence++) {
        if (sequence == WARM_UP)
            until = now() + job.time;
        if (sequence >= WARM_UP + ENOUGH && now() >= until)
            atomic_store(&stage->last, last = sequence);
        bytes_fill(job.in_place ? peer.lend() : own, job.bytes, sequence);
        if (!job.rate)
            pause_until(stage->read + GAP);
        int64_t start = now();
        peer.hand(own);
        if (job.rate)
            continue;
        await(&stage->done, sequence); /* asleep: the peer may have threads that need the CPU */
        if (sequence > WARM_UP)
            add(stage->taken - start, stage->read - start);
    }
    await(&stage->done, atomic_load(&stage->last));
    if (peer.writer_close)
        peer.writer_close();
}

static void read_frames(void)
{
    int64_t before = 0; /* when the frame before was read */
    await(&stage->open, 1);
    peer.reader_open(job.bytes);
    say(&stage->open, 2);
    for (uint32_t sequence = 1;; sequence++) {
        const void *frame = peer.take();
        int64_t taken = now();
        if (!bytes_check(frame, job.bytes, sequence)) {
            errno = 0;
            die("a frame is not what was written");
        }
        stage->taken = taken;
        stage->read = now();
        if (job.rate && sequence > WARM_UP)
            add(stage->read - before, stage->read - before);
        before = stage->read;
        if (peer.give)
            peer.give();
        bool last = sequence == atomic_load(&stage->last); /* set before it was handed over */
        if (!job.rate || last)
            say(&stage->done, sequence);
        if (last)
            break;
    }
    if (peer.reader_close)
        peer.reader_close();
}

/* ---- and who starts them ---- */

/* The writer gets one half of the CPUs that we may use, the reader the other. */
static void keep_to_half(bool second)
{
    cpu_set_t all, half;
    if (sched_getaffinity(0, sizeof all, &all) != 0 || CPU_COUNT(&all) < 2)
        return;
    CPU_ZERO(&half);
    for (int cpu = 0, seen = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &all) && (seen++ >= CPU_COUNT(&all) / 2) == second)
            CPU_SET(cpu, &half);
    sched_setaffinity(0, sizeof half, &half);
}

static pid_t start(void (*act)(void), bool second)
{
    pid_t parent = getpid(), pid = fork();
    if (pid < 0)
        die("a process cannot be started");
    if (pid > 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    keep_to_half(second);
    act();
    _exit(0);
}

/* Waits for both; the first that fails, or the time, ends the other. */
static int play(void)
{
    pid_t pids[2] = { start(write_frames, false), start(read_frames, true) };
    int64_t until = now() + job.time + PATIENCE * INT64_C(1000000000);
    int code = 0, status, left = 2;
    while (left > 0 && code == 0) {
        pid_t pid = waitpid(-1, &status, WNOHANG);
        if (pid > 0) {
            left--;
            code = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
            pids[pid == pids[1]] = 0;
        } else if (now() > until) {
            fprintf(stderr, "it did not end in time\n");
            code = 1;
        } else {
            nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
        }
    }
    for (int i = 0; i < 2; i++)
        if (pids[i] > 0)
            kill(pids[i], SIGKILL);
    while (waitpid(-1, NULL, 0) > 0)
        continue;
    return code;
}

int main(int argc, char **argv)
{
    if (argc != 5 || (strcmp(argv[2], "copy") != 0 && strcmp(argv[2], "in-place") != 0) ||
        (strcmp(argv[3], "handoff") != 0 && strcmp(argv[3], "rate") != 0)) {
        fprintf(stderr, "usage: %s BYTES copy|in-place handoff|rate SECONDS\n", argv[0]);
        return 2;
    }
    job.bytes = strtoull(argv[1], NULL, 10);
    job.in_place = strcmp(argv[2], "in-place") == 0;
    job.rate = strcmp(argv[3], "rate") == 0;
    job.time = (int64_t)(strtod(argv[4], NULL) * 1e9);
    if (job.bytes == 0 || job.bytes % 8 != 0 || (job.in_place && !peer.in_place)) {
        fprintf(stderr, "%s: BYTES are a multiple of 8, and some cannot do it in place\n", argv[0]);
        return 2;
    }
    stage = kit_shared_memory(sizeof *stage);
    if (peer.prepare)
        peer.prepare(job.bytes);
    int code = play();
    for (size_t i = 0; code == 0 && i < stage->count; i++)
        printf("%lld %lld\n", (long long)stage->samples[i].taken,
               (long long)stage->samples[i].read);
    return code;
}
