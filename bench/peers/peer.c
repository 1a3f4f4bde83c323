/* SPDX-License-Identifier: MIT */
#include "peer.h"

#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bytes.h"
#include "kit/memory.h"
#include "kit/processes.h"
#include "kit/words.h"

#define SAMPLES    (1 << 19)
#define WARM_UP    (2 * SLOTS)    /* frames that are not counted */
#define MIN_FRAMES 16             /* that are counted, however long they take */
#define SLEEP_GAP  (100 * KIT_US) /* after which the reader is asleep */
#define TIMEOUT    (60 * KIT_S)   /* beyond the time given */

static struct {
    size_t bytes;
    bool in_place, rate;
    int64_t time;
} job;

/* What the two processes share beside the peer's own memory. */
static struct stage {
    alignas(64) atomic_uint open;    /* 1: the writer is; 2: the reader too */
    alignas(64) atomic_uint done;    /* the last frame that was read */
    alignas(64) atomic_uint last;    /* the frame to stop after, or 0 */
    alignas(64) int64_t taken, read; /* when the last frame could be, and was read */
    size_t count;
    struct sample {
        int64_t taken, read; /* since send() began; of a rate, both since the frame before */
    } samples[SAMPLES];
} * stage;

void *own_memory(size_t bytes)
{
    void *memory = memory_own(bytes);
    if (!memory)
        die("no memory");
    return memory;
}

void *shared_memory(size_t bytes)
{
    void *memory = memory_shared(bytes);
    if (!memory)
        die("no shared memory");
    memset(memory, 0, bytes);
    return memory;
}

static void add(int64_t taken, int64_t read)
{
    if (stage->count < SAMPLES)
        stage->samples[stage->count++] = (struct sample){ taken, read };
}

/* ---- the writer and the reader ---- */

static void write_frames(void)
{
    void *own = job.in_place ? NULL : own_memory(job.bytes);
    int64_t until = INT64_MAX;
    peer.writer_open(job.bytes);
    word_set(&stage->open, 1);
    word_await(&stage->open, 2);
    for (uint32_t sequence = 1, last = 0; last == 0; sequence++) {
        if (sequence == WARM_UP)
            until = clock_ns() + job.time;
        if (sequence >= WARM_UP + MIN_FRAMES && clock_ns() >= until)
            atomic_store(&stage->last, last = sequence);
        bytes_fill(job.in_place ? peer.loan() : own, job.bytes, sequence);
        if (!job.rate)
            spin_until(stage->read + SLEEP_GAP);
        int64_t start = clock_ns();
        peer.send(own);
        if (job.rate)
            continue;
        word_await(&stage->done, sequence); /* asleep, because the peer's threads may need the CPU */
        if (sequence > WARM_UP)
            add(stage->taken - start, stage->read - start);
    }
    word_await(&stage->done, atomic_load(&stage->last));
    if (peer.writer_close)
        peer.writer_close();
}

static void read_frames(void)
{
    int64_t before = 0; /* when the frame before was read */
    word_await(&stage->open, 1);
    peer.reader_open(job.bytes);
    word_set(&stage->open, 2);
    for (uint32_t sequence = 1;; sequence++) {
        const void *frame = peer.receive();
        int64_t taken = clock_ns();
        if (!bytes_check(frame, job.bytes, sequence))
            die("a frame is not what was written");
        stage->taken = taken;
        stage->read = clock_ns();
        if (job.rate && sequence > WARM_UP)
            add(stage->read - before, stage->read - before);
        before = stage->read;
        if (peer.release)
            peer.release();
        bool last = sequence == atomic_load(&stage->last); /* set before the frame was sent */
        if (!job.rate || last)
            word_set(&stage->done, sequence);
        if (last)
            break;
    }
    if (peer.reader_close)
        peer.reader_close();
}

/* ---- the process that starts them ---- */

static void act(void *argument, int index)
{
    (void)argument;
    cpus_keep_half(index == 1, 2);
    if (index == 0)
        write_frames();
    else
        read_frames();
}

/* The exit status of the first that fails, or of both. */
static int wait_for_both(struct processes *both)
{
    int64_t until = clock_ns() + job.time + TIMEOUT;
    struct process_end end;
    for (int left = 2; left > 0;) {
        if (processes_reap(both, &end)) {
            left--;
            if (end.failed)
                return failure_is_missing() ? EXIT_MISSING : 1;
        } else if (clock_ns() < until) {
            processes_wait(clock_ns() + KIT_MS); /* as often as when the kept figures were taken */
        } else {
            failure_set("it did not end in time");
            return 1;
        }
    }
    return 0;
}

static int play(void)
{
    struct processes both = { 0 };
    if (!failure_open())
        die("no shared memory");
    for (int i = 0; i < 2; i++)
        if (!process_start(&both, act, NULL, i))
            die_errno("a process cannot be started");
    int code = wait_for_both(&both);
    processes_close(&both);
    if (code != 0)
        fprintf(stderr, "%s\n", failure_text()[0] ? failure_text() : "a process died");
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
    stage = shared_memory(sizeof *stage);
    if (peer.prepare)
        peer.prepare(job.bytes);
    int code = play();
    for (size_t i = 0; code == 0 && i < stage->count; i++)
        printf("%lld %lld\n", (long long)stage->samples[i].taken, (long long)stage->samples[i].read);
    return code;
}
