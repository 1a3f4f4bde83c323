/* SPDX-License-Identifier: MIT
 *
 * "cipd:" channels whose slots have no events, as of programs that cannot make any: their frames are finished when they
 * are published.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cuda_link/wire/layout.h"
#include "gpu/cipd_kit.h"

/* The segment says that slots have no events, as programs do that cannot make any: they wait for each frame. */
static void take_events_away(uint32_t slots)
{
    static const char none[64];
    char path[80];

    snprintf(path, sizeof path, "/%s", cipd_name() + strlen("cipd:"));
    int fd = shm_open(path, O_RDWR, 0);
    CHECK_GE(fd, 0);
    for (uint32_t i = 0; i < slots; i++)
        CHECK_EQ(pwrite(fd, none, sizeof none, 84 + 128 * i), sizeof none);
    CHECK_EQ(close(fd), 0);
}

TEST(cipd_slots_without_events_have_finished_frames)
{
    struct cipd_side side = cipd_begin();
    struct sluice_cipd_writer_params cipd;
    struct sluice_writer_params params = cipd_writer_params(&cipd, &side.format);
    struct sluice_frame frame;

    cipd.block = 1;
    CHECK_OK(sluice_writer_open(&side.writer, &params));
    take_events_away(3);
    cipd_disguise();
    sluice_reader *reader = cipd_reader();
    for (uint32_t i = 1; i <= 7; i++) {
        CHECK_OK(cipd_send(side.writer, &side.array, side.stream, i, NULL));
        struct sluice_stream on = i % 2 ? side.stream : SLUICE_ON_CPU;
        CHECK_OK(sluice_reader_acquire(reader, on, 20 * SLUICE_S, &frame));
        CHECK_EQ(cipd_value(&frame, gpu_native(side.stream)), i);
        CHECK_OK(sluice_reader_release(reader, &frame, on));
    }
    struct sluice_cipd_info info = cipd_info_of_reader(reader);
    for (uint32_t i = 0; i < 3; i++)
        CHECK(info.slots[i].memory_open && !info.slots[i].event_open);
    CHECK_OK(sluice_reader_close(&reader));
    cipd_end(&side);
}

static atomic_bool pulsing;

/* A hostile program: the index is there when a reader polls, and gone when it checks whether the frame is whole. */
static void *pulse(void *index)
{
    atomic_uint *word = index;

    for (unsigned i = 100; atomic_load(&pulsing); i++) {
        atomic_store(word, i);
        for (unsigned k = 0; k < i % 16 * 50; k++)
            atomic_load(&pulsing);
        atomic_store(word, 0);
        test_nap(50000);
    }
    return NULL;
}

/* There is nothing to wait for. */
TEST(cipd_a_stream_does_not_wait_for_a_slot_without_an_event)
{
    struct cipd_side side = cipd_begin();
    struct sluice_cipd_writer_params cipd;
    struct sluice_cipd_reader_params reading;
    struct sluice_writer_params params = cipd_writer_params(&cipd, &side.format);
    struct sluice_reader_params wanted = cipd_reader_params(&reading);
    struct sluice_frame frame;
    sluice_reader *reader;
    pthread_t thread;
    char path[80];

    CHECK_OK(sluice_writer_open(&side.writer, &params));
    take_events_away(3);
    cipd_disguise();
    CHECK_OK(cipd_send(side.writer, &side.array, side.stream, 1, NULL));
    wanted.ahead = 1;
    wanted.spin_ns = SLUICE_S;
    CHECK_OK(sluice_reader_open(&reader, &wanted));
    snprintf(path, sizeof path, "/%s", cipd_name() + strlen("cipd:"));
    int fd = shm_open(path, O_RDWR, 0);
    char *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(fd >= 0 && at != MAP_FAILED);
    atomic_store(&pulsing, true);
    CHECK(pthread_create(&thread, NULL, pulse, at + SL_CIPD_INDEX_AT) == 0);
    for (int i = 0; i < 1500; i++) {
        int r = sluice_reader_acquire(reader, side.stream, SLUICE_MS, &frame);
        CHECK(r == 0 || r == SLUICE_TIMEOUT || r == SLUICE_E_LOST || r == SLUICE_NO_WRITER);
        if (r == 0)
            CHECK_EQ(frame.flags & SLUICE_FRAME_AHEAD, 0);
        if (r == 0) /* E_LOST: the index is ahead by then */
            CHECK((r = sluice_reader_release(reader, &frame, side.stream)) == 0 || r == SLUICE_E_LOST);
    }
    atomic_store(&pulsing, false);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK_EQ(munmap(at, 4096), 0);
    CHECK_EQ(close(fd), 0);
    CHECK_OK(sluice_reader_close(&reader));
    cipd_end(&side);
}
