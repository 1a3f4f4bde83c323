/* SPDX-License-Identifier: MIT
 *
 * The whole life of a channel, of Sluice's own and of cuda-link's protocol, while another thread keeps capturing
 * graphs: no capture breaks, no node of the library's gets into a graph, and the frames are right.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/cipd_kit.h"
#include "gpu/frames.h"

#define WORDS        4096 /* cipd: 32 x 32 pixels of four */
#define FRAMES       1000
#define CAPTURE_TIME (100 * 1000)
#define CAPTURES     5 /* at least: their thread may be suspended */

/* The streams that order the frames. */
enum where { OWN, WRAPPED, PER_THREAD, LEGACY, WHERES };
enum kind { NATIVE, CIPD };

/* ---- the thread that captures ---- */

struct captures {
    int mode;
    unsigned flags; /* of its stream */
    uint64_t memory;
    /* A capture on a blocking stream makes the default stream unusable for the program itself, which must guard its own
     * launches there. The library does not know. */
    pthread_mutex_t door;
    atomic_bool wanted; /* by the program, which would rarely get the lock otherwise */
    pthread_t thread;
    atomic_bool stop;
    atomic_long whole, broken, strays; /* captures; nodes that are not the thread's own */
};

/* Ends the capture. NULL if it was broken. */
static struct sl_cu_graph *end_capture(struct captures *captures, struct sl_cu_stream *stream)
{
    struct sl_cu_graph *graph = NULL;
    size_t nodes = 0;

    if (cu.StreamEndCapture(stream, &graph) != 0 || !graph) {
        atomic_fetch_add(&captures->broken, 1);
        return NULL;
    }
    CU(GraphGetNodes, graph, NULL, &nodes);
    atomic_fetch_add(&captures->whole, 1);
    atomic_fetch_add(&captures->strays, (long)nodes - 2);
    return graph;
}

static void replay(struct sl_cu_graph *graph, struct sl_cu_stream *stream)
{
    struct sl_cu_exec *exec;

    CU(GraphInstantiateWithFlags, &exec, graph, 0);
    CU(GraphLaunch, exec, stream);
    CU(StreamSynchronize, stream);
    CU(GraphExecDestroy, exec);
    CU(GraphDestroy, graph);
}

static void *capture(void *shared)
{
    struct captures *captures = shared;

    gpu_use(0);
    struct sl_cu_stream *stream = gpu_stream(captures->flags);
    for (uint32_t round = 0; !atomic_load(&captures->stop); round++) {
        while (atomic_load(&captures->wanted))
            test_nap(1000);
        pthread_mutex_lock(&captures->door);
        CU(StreamBeginCapture, stream, captures->mode);
        /* Reports a broken capture at once. */
        (void)cu.MemsetD8Async(captures->memory, 1, WORDS, stream);
        test_nap(round % 4 * CAPTURE_TIME / 2);
        (void)cu.MemsetD8Async(captures->memory, (unsigned char)round, WORDS, stream);
        struct sl_cu_graph *graph = end_capture(captures, stream);
        pthread_mutex_unlock(&captures->door);
        if (graph)
            replay(graph, stream);
    }
    CU(StreamDestroy, stream);
    cu.CtxSetCurrent(NULL);
    return NULL;
}

static void begin(struct captures *captures, int mode, unsigned flags)
{
    *captures = (struct captures){ .mode = mode, .flags = flags, .memory = gpu_memory(WORDS) };
    CHECK(pthread_mutex_init(&captures->door, NULL) == 0);
    CHECK(pthread_create(&captures->thread, NULL, capture, captures) == 0);
    CHECK_SOON(atomic_load(&captures->whole) + atomic_load(&captures->broken) > 0, 10);
}

static void end(struct captures *captures)
{
    atomic_store(&captures->stop, true);
    CHECK(pthread_join(captures->thread, NULL) == 0);
    pthread_mutex_destroy(&captures->door);
}

/* ---- the channel ---- */

struct life {
    enum kind kind;
    struct sluice_device device;
    struct sluice_stream stream;
    struct sl_cu_stream *native, *theirs;
    sluice_writer *writer;
    sluice_reader *reader;
    struct captures *captures; /* its lock is held around launches on the default stream; NULL on other streams */
    uint64_t words, bad;
    uint64_t source; /* the program's memory, as large as any frame */
    uint32_t fetched[2 * WORDS];
};

static void lock(const struct life *life)
{
    if (!life->captures)
        return;
    atomic_store(&life->captures->wanted, true);
    pthread_mutex_lock(&life->captures->door);
    atomic_store(&life->captures->wanted, false);
}

static void unlock(const struct life *life)
{
    if (life->captures)
        pthread_mutex_unlock(&life->captures->door);
}

static struct sluice_format format_of(const struct life *life)
{
    return life->kind == CIPD ? cipd_format(cipd_float32, (uint32_t)(life->words / 4 / 32), 32)
                              : channel_format((int64_t)life->words);
}

static struct sluice_array array_at(const struct life *life, uintptr_t at)
{
    struct sluice_format format = format_of(life);

    return life->kind == CIPD ? cipd_array(at, &format) : frames_array(at, (int64_t)life->words);
}

/* The program's memory is overwritten after the copy that was queued before. */
static void send_frame(struct life *life, uint32_t sequence)
{
    struct sluice_array array = array_at(life, life->source);

    lock(life);
    gpu_fill(life->native, life->source, life->words, sequence);
    unlock(life);
    CHECK_OK(sluice_writer_send(life->writer, &array, 1, life->stream, NULL));
}

static void write_frame(struct life *life, uint32_t sequence)
{
    struct sluice_frame frame;

    if (sequence % 3 == 0) {
        send_frame(life, sequence);
        return;
    }
    CHECK_OK(sluice_writer_begin(life->writer, 20 * SLUICE_S, &frame));
    lock(life);
    gpu_fill(life->native, channel_words(&frame), life->words, sequence);
    unlock(life);
    CHECK_OK(sluice_writer_commit(life->writer, &frame, life->stream));
    CHECK_EQ(frame.sequence, sequence);
}

static void fetch_frame(struct life *life, const struct sluice_frame *frame, uint32_t sequence)
{
    struct sluice_array array = array_at(life, (uintptr_t)life->fetched);

    CHECK_OK(sluice_reader_fetch(life->reader, frame, &array, 1, life->stream, NULL));
    for (uint64_t i = 0; i < life->words; i++)
        CHECK_EQ(life->fetched[i], sequence);
}

static void read_frame(struct life *life, uint32_t sequence)
{
    struct sluice_frame frame;

    CHECK_OK(sluice_reader_acquire(life->reader, life->stream, 20 * SLUICE_S, &frame));
    CHECK_EQ(frame.sequence, sequence);
    if (sequence % 10 == 0)
        fetch_frame(life, &frame, sequence);
    lock(life);
    gpu_compare(life->native, channel_words(&frame), life->words, sequence, life->bad);
    unlock(life);
    CHECK_OK(sluice_reader_release(life->reader, &frame, life->stream));
}

static void open_stream(struct life *life, enum where where)
{
    life->device = gpu_open();
    switch (where) {
    case OWN: CHECK_OK(sluice_stream_create(life->device, NULL, &life->stream)); break;
    case WRAPPED: CHECK_OK(sluice_stream_wrap(life->device, (uintptr_t)life->theirs, NULL, NULL, &life->stream)); break;
    case PER_THREAD:
        CHECK_OK(sluice_stream_wrap(life->device, (uintptr_t)SL_CU_PER_THREAD, NULL, NULL, &life->stream));
        break;
    default: CHECK_OK(sluice_stream_default(life->device, &life->stream)); break;
    }
    life->native = gpu_native(life->stream);
}

static void open_channel(struct life *life)
{
    struct sluice_format format = format_of(life);

    life->writer = life->kind == CIPD ? cipd_writer(&format) : frames_writer("cam", WORDS, 4);
    life->reader = life->kind == CIPD ? cipd_reader() : frames_reader("cam", 2);
}

/* From open to close, with a change of format in the middle, all of it beside captures. Goes on until there were some.
 * */
static void live(struct life *life, enum where where, long frames, const struct captures *captures)
{
    struct sluice_format format;

    open_stream(life, where);
    life->words = WORDS;
    open_channel(life);
    for (uint32_t sequence = 1; sequence <= frames || captures->whole + captures->broken < CAPTURES; sequence++) {
        if (sequence == frames / 2) {
            life->words *= 2;
            format = format_of(life);
            CHECK_OK(sluice_writer_reformat(life->writer, &format));
        }
        write_frame(life, sequence);
        read_frame(life, sequence);
    }
    CHECK_OK(sluice_reader_close(&life->reader));
    CHECK_OK(sluice_writer_close(&life->writer));
    if (where != LEGACY) /* the default stream is unusable now and then, and nothing of ours is on it */
        CHECK_OK(sluice_stream_destroy(&life->stream));
}

static struct life prepare(enum kind kind)
{
    struct life life = { .kind = kind };

    gpu_begin();
    gpu_use(0);
    life.theirs = gpu_stream(SL_CU_STREAM_NON_BLOCKING);
    frames_warm_up(life.theirs);
    life.bad = gpu_memory(4);
    life.source = gpu_memory(2 * WORDS * 4);
    CU(MemsetD8Async, life.bad, 0, 4, life.theirs);
    CU(StreamSynchronize, life.theirs);
    return life;
}

static void finish(struct life *life)
{
    CU(StreamDestroy, life->theirs);
    if (life->kind == CIPD)
        cipd_clean();
    gpu_end();
}

static void live_beside(enum kind kind, enum where where, int mode, unsigned flags)
{
    struct life life = prepare(kind);
    struct captures captures;

    begin(&captures, mode, flags);
    if (where == LEGACY)
        life.captures = &captures;
    live(&life, where, test_scale(FRAMES), &captures);
    end(&captures);
    if (captures.broken || captures.strays)
        FAIL("mode %d, flags %u: of %ld captures %ld were broken, %ld strange nodes", mode, flags,
             captures.whole + captures.broken, captures.broken, captures.strays);
    CHECK_GE(captures.whole, CAPTURES);
    CHECK_EQ(frames_read(life.theirs, life.bad), 0);
    CHECK_OK(sluice_device_close(&life.device));
    finish(&life);
}

static void matrix(enum kind kind, enum where where)
{
    for (int mode = CAPTURE_GLOBAL; mode <= CAPTURE_RELAXED; mode++) {
        live_beside(kind, where, mode, SL_CU_STREAM_NON_BLOCKING);
        live_beside(kind, where, mode, 0);
    }
}

/* For capture_guards.c. */
ROLE(life_beside)
{
    if (strcmp(argv[3], "quiet") == 0)
        CHECK(freopen("/dev/null", "w", stderr));
    live_beside(NATIVE, strcmp(argv[1], "own") == 0 ? OWN : LEGACY, CAPTURE_GLOBAL,
                strcmp(argv[2], "blocking") == 0 ? 0 : SL_CU_STREAM_NON_BLOCKING);
    return 0;
}

TEST_TIMEOUT(a_channel_on_a_stream_of_ours_beside_captures, 120)
{
    matrix(NATIVE, OWN);
}

TEST_TIMEOUT(a_channel_on_a_wrapped_stream_beside_captures, 120)
{
    matrix(NATIVE, WRAPPED);
}

TEST_TIMEOUT(a_channel_on_the_per_thread_stream_beside_captures, 120)
{
    matrix(NATIVE, PER_THREAD);
}

TEST_TIMEOUT(a_channel_on_the_default_stream_beside_captures, 120)
{
    matrix(NATIVE, LEGACY);
}

/* As on WSL2: each signal is followed by a query of its stream, which would break captures in the caller's mode. */
static void batching(enum where where)
{
    CHECK(setenv("SLUICE_WITHOUT", "prompt", 1) == 0);
    matrix(NATIVE, where);
}

TEST_TIMEOUT(a_channel_of_a_driver_that_batches_work_beside_captures, 120)
{
    batching(WRAPPED);
}

TEST_TIMEOUT(a_channel_of_a_driver_that_batches_work_on_the_default_stream_beside_captures, 120)
{
    batching(LEGACY);
}

TEST_TIMEOUT(cipd_on_a_stream_of_ours_beside_captures, 120)
{
    matrix(CIPD, OWN);
}

TEST_TIMEOUT(cipd_on_a_wrapped_stream_beside_captures, 120)
{
    matrix(CIPD, WRAPPED);
}

TEST_TIMEOUT(cipd_on_the_per_thread_stream_beside_captures, 120)
{
    matrix(CIPD, PER_THREAD);
}

TEST_TIMEOUT(cipd_on_the_default_stream_beside_captures, 120)
{
    matrix(CIPD, LEGACY);
}
