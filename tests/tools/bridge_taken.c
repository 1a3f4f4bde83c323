/* SPDX-License-Identifier: MIT
 *
 * The command: bridge to existing segments of cuda-link's protocol: those of live writers are refused, abandoned ones
 * are taken over.
 */
#include "kit.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <sluice/sluice.h>

#define VERSION 5
#define SLOTS   3
#define SIZE    (49 + 128 * SLOTS)

static struct program bridge;
static char to[64]; /* the name of a segment, unique on the machine */

static void begin(void)
{
    setenv("SLUICE_CUDA_DRIVER", FAKE_CUDA, 1);
    setenv("SLUICE_FAKE_FATAL", "1", 1);
    setenv("CUDALINK_ACTIVATION_BARRIER", "0", 1); /* other tests on this machine may set it */
    test_dir();
    snprintf(to, sizeof to, "cipd:tools taken>>%ld", (long)getpid());
}

static struct sluice_cipd_info look(void)
{
    struct sluice_cipd_info info = { .size = sizeof info };
    CHECK_OK(sluice_cipd_look(to, &info));
    return info;
}

static sluice_writer *open_writer(const char *name)
{
    struct sluice_format format = SLUICE_FORMAT_INIT;
    struct sluice_writer_params params = SLUICE_WRITER_PARAMS_INIT;
    struct sluice_cipd_writer_params cipd = SLUICE_CIPD_WRITER_PARAMS_INIT;
    sluice_writer *writer;
    bool is_cipd = strncmp(name, "cipd:", 5) == 0;
    CHECK_OK(sluice_format_add_image(&format, "picture", SLUICE_PIXEL_BGRA, 16, 8));
    cipd.barrier = SLUICE_CIPD_OFF;
    params.name = name;
    params.device = is_cipd ? "cuda:0" : "host";
    params.format = &format;
    params.cipd = is_cipd ? &cipd : NULL;
    CHECK_OK(sluice_writer_open(&writer, &params));
    return writer;
}

static void send_frame(sluice_writer *writer)
{
    struct sluice_frame frame;
    CHECK_OK(sluice_writer_begin(writer, SLUICE_S, &frame));
    CHECK_OK(sluice_writer_commit(writer, &frame, SLUICE_ON_CPU));
}

/* ---- another program's segment: docs/cuda-link-wire.md ---- */

static void put(unsigned char *at, uint64_t value, size_t size)
{
    memcpy(at, &value, size);
}

/* Writes a complete session with this many frames. */
static unsigned char *make_segment(uint32_t index)
{
    char path[80];
    snprintf(path, sizeof path, "/%s", to + strlen("cipd:"));
    int fd = shm_open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
    CHECK_GE(fd, 0);
    CHECK_EQ(ftruncate(fd, SIZE), 0);
    unsigned char *at = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(at != MAP_FAILED);
    close(fd);
    put(at, 0x43495044, 4);
    put(at + 4, VERSION, 8);
    put(at + 12, SLOTS, 4);
    put(at + 16, index, 4);
    memset(at + 20, 7, 128 * SLOTS);
    unsigned char *metadata = at + 21 + 128 * SLOTS;
    put(metadata, 16, 4);
    put(metadata + 4, 8, 4);
    put(metadata + 8, 4, 4);
    put(metadata + 12, 1 | 8 << 8, 4);
    put(metadata + 16, 16 * 8 * 4, 4);
    return at;
}

static void put_time(unsigned char *at, double seconds)
{
    memcpy(at + 41 + 128 * SLOTS, &seconds, sizeof seconds);
}

/* The segment is not written any more, and taken over. */
static void check_taken_over(void)
{
    sluice_writer *writer = open_writer("from");
    sluice_start(&bridge, "bridge", "from", to);
    CHECK_SOON((send_frame(writer), look().version == VERSION + 1 && look().index), 20);
    CHECK_EQ(program_end(&bridge, SIGINT), 0);
    CHECK_HAS(bridge.out, "bridged ");
    CHECK_OK(sluice_writer_close(&writer));
}

TEST(bridge_takes_over_a_session_that_never_had_a_frame)
{
    begin();
    make_segment(0);
    CHECK_EQ(look().state, SLUICE_CIPD_RUNNING);
    check_taken_over();
}

TEST(bridge_takes_over_frames_that_are_old)
{
    begin();
    put_time(make_segment(7), (double)test_now() / 1e9 - 5);
    CHECK_EQ(look().state, SLUICE_CIPD_STALLED);
    check_taken_over();
}

/* Frames with implausible times: whether the writer lives is known only when TO opens. */
TEST(bridge_takes_over_frames_of_no_time)
{
    begin();
    put_time(make_segment(7), -1);
    CHECK_EQ(look().state, SLUICE_CIPD_RUNNING);
    check_taken_over();
}

/* ---- live writers ---- */

static atomic_bool ended;

static void *publish(void *segment)
{
    unsigned char *at = segment;
    for (uint32_t index = 8; !ended; index++) {
        struct timespec pause = { .tv_nsec = 5000000 };
        put_time(at, (double)test_now() / 1e9);
        put(at + 16, index, 4);
        nanosleep(&pause, NULL);
    }
    return NULL;
}

TEST(bridge_refuses_a_segment_that_another_program_writes)
{
    pthread_t thread;
    char path[80];
    begin();
    unsigned char *at = make_segment(7);
    put_time(at, (double)test_now() / 1e9);
    CHECK_EQ(pthread_create(&thread, NULL, publish, at), 0);
    CHECK_EQ(sluice_run(&bridge, "bridge", "from", to, "--seconds", "1"), 1);
    CHECK_HAS(bridge.err, "already has a writer");
    ended = true;
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(look().version, VERSION);
    snprintf(path, sizeof path, "/%s", to + strlen("cipd:"));
    CHECK_EQ(shm_unlink(path), 0);
}

TEST(bridge_refuses_a_sluice_writer_whatever_it_does)
{
    begin();
    sluice_writer *writer = open_writer(to);
    CHECK_EQ(sluice_run(&bridge, "bridge", "from", to, "--seconds", "1"), 1); /* no frame yet */
    CHECK_HAS(bridge.err, "already has a writer");
    send_frame(writer);
    CHECK_SOON(look().state == SLUICE_CIPD_STALLED, 20); /* and no other frame */
    CHECK_EQ(sluice_run(&bridge, "bridge", "from", to, "--seconds", "1"), 1);
    CHECK_HAS(bridge.err, "already has a writer");
    CHECK_OK(sluice_writer_close(&writer));
}
