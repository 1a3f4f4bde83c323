/* SPDX-License-Identifier: MIT
 *
 * What each process of a storm does, from its start to its end.
 */
#include "storm/worker.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "harness/resources.h"
#include "harness/test.h"

uint64_t worker_random(struct worker *worker, uint64_t n)
{
    worker->random ^= worker->random << 13;
    worker->random ^= worker->random >> 7;
    worker->random ^= worker->random << 17;
    return n ? (worker->random >> 11) % n : 0;
}

bool worker_chance(struct worker *worker, uint64_t n)
{
    return worker_random(worker, n) == 0;
}

static uint32_t phase(const struct worker *worker)
{
    return atomic_load(&worker->state->phase);
}

/* ---- writers ---- */

/* Between two frames. In a calm phase so long that all readers fall asleep, and must be woken. */
static void pause_between_frames(struct worker *worker, uint32_t *burst)
{
    if (phase(worker) == CALM) {
        test_nap(SLUICE_MS);
        return;
    }
    if (*burst == 0 && worker_chance(worker, 400))
        *burst = 200; /* at full speed */
    if (*burst)
        --*burst;
    else
        test_nap(20000 + (int64_t)worker_random(worker, 200000));
}

static void play_writer(struct worker *worker)
{
    struct writing writing = { .worker = worker, .channel = NEAR };
    uint32_t counted = 0, burst = 0;

    writing_open(&writing);
    while (phase(worker) != END) {
        uint32_t change = atomic_load(&worker->state->change);
        if (phase(worker) == SLOTS && counted != change) {
            writing_count_slots(&writing);
            counted = change;
            atomic_store(&worker->state->slots_done, change);
        }
        writing_frame(&writing, NULL);
        if (worker_chance(worker, 150))
            writing_reformat(&writing);
        pause_between_frames(worker, &burst);
        if (phase(worker) == STORM && worker_chance(worker, 2000)) {
            writing_close(&writing);
            writing_open(&writing);
        }
    }
    writing_close(&writing);
}

/* Reads one channel and writes the other. */
static void play_chain(struct worker *worker)
{
    struct worker reads = *worker;
    struct reading reading = { .worker = &reads, .channel = NEAR };
    struct writing writing = { .worker = worker, .channel = FAR };

    reads.seat = &(struct seat){ .beat = 0 }; /* the shared state counts what it writes */
    writing_open(&writing);
    while (phase(worker) != END) {
        if (!reading.reader) {
            reading_open(&reading, SLUICE_LATER);
            state_beat(worker->seat);
        }
        if (reading_take(&reading, 50 * SLUICE_MS)) {
            writing_frame(&writing, &reading);
            if (worker_chance(worker, 200))
                writing_reformat(&writing);
        }
        state_beat(worker->seat);
    }
    reading_close(&reading);
    writing_close(&writing);
}

/* ---- readers of all kinds ---- */

static void play_reader(struct worker *worker, struct reading reading)
{
    reading.worker = worker;
    if (!reading.channel)
        reading.channel = NEAR;
    reading_run(&reading);
}

static void *second_thread(void *context)
{
    frame_io_use_device();
    play_reader(context, (struct reading){ .mode = SLUICE_IN_ORDER, .every = 2, .depth = 2 });
    return NULL;
}

static void play_threads(struct worker *worker)
{
    struct worker second = *worker;
    struct frame_io io;
    pthread_t thread;

    frame_io_open(&io, &second.random);
    second.io = &io;
    second.seat = &worker->state->seats[SEAT_SECOND_THREAD];
    second.random ^= UINT64_C(0x5bd1e995);
    CHECK_EQ(pthread_create(&thread, NULL, second_thread, &second), 0);
    play_reader(worker, (struct reading){ .mode = SLUICE_NEWEST });
    pthread_join(thread, NULL);
    frame_io_close(&io);
}

static void play_opener(struct worker *worker)
{
    struct reading reading = { .worker = worker, .channel = NEAR };
    struct resources before = resources_now();

    for (uint32_t round = 1; phase(worker) != END; round++) {
        reading.mode = (uint32_t)worker_random(worker, 2);
        reading_open(&reading, (int64_t)worker_random(worker, 50) * SLUICE_MS);
        if (!reading.reader) {
            test_nap(SLUICE_MS);
            continue;
        }
        for (uint64_t i = worker_random(worker, 4); i > 0; i--)
            reading_take(&reading, 20 * SLUICE_MS);
        reading_close(&reading);
        if (round % 8 == 0 && !frame_io_is_slow()) /* a real driver's own come and go */
            resources_check(&before, "a reader was closed");
        while (phase(worker) == SLOTS) {
            state_beat(worker->seat);
            test_nap(SLUICE_MS);
        }
    }
}

static void play_observer(struct worker *worker)
{
    struct sluice_registry_entry entries[8];
    struct sluice_reader_info readers[SLUICE_MAX_READERS];
    size_t count;

    while (phase(worker) != END) {
        struct sluice_channel_info info = { .size = sizeof info };
        state_doing(worker->seat, "info");
        int r = sluice_channel_info(worker_chance(worker, 3) ? FAR : NEAR, 300 * SLUICE_MS, &info, readers,
                                    SLUICE_MAX_READERS);
        state_beat(worker->seat);
        if (r == 0) {
            CHECK_LE(info.readers, SLUICE_MAX_READERS);
            CHECK_NE(info.session, 0);
            CHECK_EQ(info.format.array_count, 2);
            atomic_fetch_add(&worker->seat->frames, 1);
        } else if (r != SLUICE_E_NOT_FOUND && r != SLUICE_TIMEOUT) {
            CHECK_OK(r);
        }
        state_doing(worker->seat, "list");
        CHECK_OK(sluice_registry_list(NULL, entries, 8, &count));
        state_beat(worker->seat);
        CHECK_LE(count, 2);
        test_nap((int64_t)worker_random(worker, 20) * SLUICE_MS);
    }
}

/* ---- the role ---- */

static void play(struct worker *worker, unsigned number)
{
    switch (number) {
    case SEAT_WRITER: play_writer(worker); break;
    case SEAT_NEWEST: play_reader(worker, (struct reading){ .mode = SLUICE_NEWEST }); break;
    case SEAT_IN_ORDER: play_reader(worker, (struct reading){ .mode = SLUICE_IN_ORDER, .depth = 3 }); break;
    case SEAT_HOLDING: play_reader(worker, (struct reading){ .mode = SLUICE_IN_ORDER, .hold = 2 }); break;
    case SEAT_POLLING: play_reader(worker, (struct reading){ .mode = SLUICE_NEWEST, .poll = true }); break;
    case SEAT_OBSERVER: play_observer(worker); break;
    case SEAT_OPENER: play_opener(worker); break;
    case SEAT_THREADS: play_threads(worker); break;
    case SEAT_CHAIN: play_chain(worker); break;
    case SEAT_FAR_POLLING:
        play_reader(worker, (struct reading){ .channel = FAR, .far = true, .poll = true, .mode = SLUICE_IN_ORDER });
        break;
    case SEAT_FAR_IN_ORDER:
        play_reader(worker, (struct reading){ .channel = FAR, .far = true, .mode = SLUICE_IN_ORDER, .depth = 1 });
        break;
    default: FAIL("there is no seat %u", number);
    }
}

ROLE(worker)
{
    CHECK_EQ(argc, 4);
    unsigned number = (unsigned)strtoul(argv[1], NULL, 10);
    struct worker worker = { .state = test_shared_memory(sizeof(struct shared_state)),
                             .random = strtoull(argv[3], NULL, 16) | 1 };

    CHECK(number < PROCESSES);
    worker.seat = &worker.state->seats[number];
    struct frame_io io;
    if (number != SEAT_OBSERVER) {
        frame_io_open_device();
        frame_io_open(&io, &worker.random);
        worker.io = &io;
    }
    state_arm(worker.state, worker.seat, argv[2]);
    struct resources before = resources_now();
    play(&worker, number);
    if (!frame_io_is_slow())
        resources_check(&before, "everything was closed");
    if (number != SEAT_OBSERVER) {
        frame_io_close(&io);
        frame_io_close_device();
    }
    return 0;
}
