/* SPDX-License-Identifier: MIT
 *
 * What each process of a storm does, from its start to its end, be it of one kind or the other.
 */
#include "storm/worker.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "harness/resources.h"
#include "harness/test.h"

uint64_t part_random(struct part *part, uint64_t n)
{
    part->random ^= part->random << 13;
    part->random ^= part->random >> 7;
    part->random ^= part->random << 17;
    return n ? (part->random >> 11) % n : 0;
}

bool part_chance(struct part *part, uint64_t n)
{
    return part_random(part, n) == 0;
}

static uint32_t weather(const struct part *part)
{
    return atomic_load(&part->board->weather);
}

/* ---- writers ---- */

/* Between two frames. In fair weather so long that everybody falls asleep, and must be woken. */
static void linger(struct part *part, uint32_t *burst)
{
    if (weather(part) == CALM) {
        test_nap(SLUICE_MS);
        return;
    }
    if (*burst == 0 && part_chance(part, 400))
        *burst = 200; /* as fast as it can */
    if (*burst)
        --*burst;
    else
        test_nap(20000 + (int64_t)part_random(part, 200000));
}

static void play_writer(struct part *part)
{
    struct writing writing = { .part = part, .channel = NEAR };
    uint32_t counted = 0, burst = 0;

    writing_open(&writing);
    while (weather(part) != END) {
        uint32_t change = atomic_load(&part->board->change);
        if (weather(part) == SLOTS && counted != change) {
            writing_count_slots(&writing);
            counted = change;
            atomic_store(&part->board->slots_done, change);
        }
        writing_frame(&writing, NULL);
        if (part_chance(part, 150))
            writing_reformat(&writing);
        linger(part, &burst);
        if (weather(part) == STORM && part_chance(part, 2000)) {
            writing_close(&writing);
            writing_open(&writing);
        }
    }
    writing_close(&writing);
}

/* Reads one channel and writes the other. */
static void play_chain(struct part *part)
{
    struct part reads = *part;
    struct reading reading = { .part = &reads, .channel = NEAR };
    struct writing writing = { .part = part, .channel = FAR };

    reads.seat = &(struct seat){ .beat = 0 }; /* the board counts what it writes */
    writing_open(&writing);
    while (weather(part) != END) {
        if (!reading.reader) {
            reading_open(&reading, SLUICE_LATER);
            board_beat(part->seat);
        }
        if (reading_take(&reading, 50 * SLUICE_MS)) {
            writing_frame(&writing, &reading);
            if (part_chance(part, 200))
                writing_reformat(&writing);
        }
        board_beat(part->seat);
    }
    reading_close(&reading);
    writing_close(&writing);
}

/* ---- readers of all kinds ---- */

static void play_reader(struct part *part, struct reading reading)
{
    reading.part = part;
    if (!reading.channel)
        reading.channel = NEAR;
    reading_run(&reading);
}

static void *second_thread(void *context)
{
    desk_use_device();
    play_reader(context, (struct reading){ .mode = SLUICE_IN_ORDER, .every = 2, .depth = 2 });
    return NULL;
}

static void play_threads(struct part *part)
{
    struct part second = *part;
    struct desk desk;
    pthread_t thread;

    desk_open(&desk, &second.random);
    second.desk = &desk;
    second.seat = &part->board->seats[SEAT_SECOND_THREAD];
    second.random ^= UINT64_C(0x5bd1e995);
    CHECK_EQ(pthread_create(&thread, NULL, second_thread, &second), 0);
    play_reader(part, (struct reading){ .mode = SLUICE_NEWEST });
    pthread_join(thread, NULL);
    desk_close(&desk);
}

static void play_opener(struct part *part)
{
    struct reading reading = { .part = part, .channel = NEAR };
    struct belongings before = belongings_now();

    for (uint32_t round = 1; weather(part) != END; round++) {
        reading.mode = (uint32_t)part_random(part, 2);
        reading_open(&reading, (int64_t)part_random(part, 50) * SLUICE_MS);
        if (!reading.reader) {
            test_nap(SLUICE_MS);
            continue;
        }
        for (uint64_t i = part_random(part, 4); i > 0; i--)
            reading_take(&reading, 20 * SLUICE_MS);
        reading_close(&reading);
        if (round % 8 == 0 && !desk_is_slow()) /* a real driver's own come and go */
            belongings_check(&before, "a reader was closed");
        while (weather(part) == SLOTS) {
            board_beat(part->seat);
            test_nap(SLUICE_MS);
        }
    }
}

static void play_observer(struct part *part)
{
    struct sluice_registry_entry entries[8];
    struct sluice_reader_info readers[SLUICE_MAX_READERS];
    size_t count;

    while (weather(part) != END) {
        struct sluice_channel_info info = { .size = sizeof info };
        board_doing(part->seat, "info");
        int r = sluice_channel_info(part_chance(part, 3) ? FAR : NEAR, 300 * SLUICE_MS, &info,
                                    readers, SLUICE_MAX_READERS);
        board_beat(part->seat);
        if (r == 0) {
            CHECK_LE(info.readers, SLUICE_MAX_READERS);
            CHECK_NE(info.session, 0);
            CHECK_EQ(info.format.array_count, 2);
            atomic_fetch_add(&part->seat->frames, 1);
        } else if (r != SLUICE_E_NOT_FOUND && r != SLUICE_TIMEOUT) {
            CHECK_OK(r);
        }
        board_doing(part->seat, "list");
        CHECK_OK(sluice_registry_list(NULL, entries, 8, &count));
        board_beat(part->seat);
        CHECK_LE(count, 2);
        test_nap((int64_t)part_random(part, 20) * SLUICE_MS);
    }
}

/* ---- the role ---- */

static void play(struct part *part, unsigned number)
{
    switch (number) {
    case SEAT_WRITER: play_writer(part); break;
    case SEAT_NEWEST: play_reader(part, (struct reading){ .mode = SLUICE_NEWEST }); break;
    case SEAT_IN_ORDER:
        play_reader(part, (struct reading){ .mode = SLUICE_IN_ORDER, .depth = 3 });
        break;
    case SEAT_HOLDING:
        play_reader(part, (struct reading){ .mode = SLUICE_IN_ORDER, .hold = 2 });
        break;
    case SEAT_POLLING:
        play_reader(part, (struct reading){ .mode = SLUICE_NEWEST, .poll = true });
        break;
    case SEAT_OBSERVER: play_observer(part); break;
    case SEAT_OPENER: play_opener(part); break;
    case SEAT_THREADS: play_threads(part); break;
    case SEAT_CHAIN: play_chain(part); break;
    case SEAT_FAR_POLLING:
        play_reader(part, (struct reading){
                              .channel = FAR, .far = true, .poll = true, .mode = SLUICE_IN_ORDER });
        break;
    case SEAT_FAR_IN_ORDER:
        play_reader(part, (struct reading){
                              .channel = FAR, .far = true, .mode = SLUICE_IN_ORDER, .depth = 1 });
        break;
    default: FAIL("there is no seat %u", number);
    }
}

ROLE(part)
{
    CHECK_EQ(argc, 4);
    unsigned number = (unsigned)strtoul(argv[1], NULL, 10);
    struct part part = { .board = test_board(sizeof(struct board)), .random = strtoull(argv[3], NULL, 16) | 1 };

    CHECK(number < PROCESSES);
    part.seat = &part.board->seats[number];
    struct desk desk;
    if (number != SEAT_OBSERVER) {
        desk_open_device();
        desk_open(&desk, &part.random);
        part.desk = &desk;
    }
    board_arm(part.board, part.seat, argv[2]);
    struct belongings before = belongings_now();
    play(&part, number);
    if (!desk_is_slow())
        belongings_check(&before, "everything was closed");
    if (number != SEAT_OBSERVER) {
        desk_close(&desk);
        desk_close_device();
    }
    return 0;
}
