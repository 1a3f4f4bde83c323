/* SPDX-License-Identifier: MIT
 *
 * The command: bridge from and to channels of cuda-link's protocol, with --close, --every and --timeout; and while an
 * activation barrier is up. On the fake driver's GPU.
 */
#include "kit.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <sluice/sluice.h>

#define WIDTH  16
#define HEIGHT 8

static struct program bridge;
static char first[64], second[64]; /* names of segments, unique on the machine */

static void begin(void)
{
    use_fake_gpu();
    test_dir();
    snprintf(first, sizeof first, "cipd:tools told>>%ld", (long)getpid());
    snprintf(second, sizeof second, "cipd:tools tell>>%ld", (long)getpid());
}

static bool is_cipd(const char *name)
{
    return strncmp(name, "cipd:", 5) == 0;
}

/* ---- the two ends ---- */

static sluice_writer *open_writer(const char *name)
{
    struct sluice_format format = SLUICE_FORMAT_INIT;
    struct sluice_writer_params params = SLUICE_WRITER_PARAMS_INIT;
    struct sluice_cipd_writer_params cipd = SLUICE_CIPD_WRITER_PARAMS_INIT;
    sluice_writer *writer;
    CHECK_OK(sluice_format_add_image(&format, "picture", SLUICE_PIXEL_GRAY8, WIDTH, HEIGHT));
    cipd.barrier = SLUICE_CIPD_OFF; /* other tests on this machine may set it */
    params.name = name;
    params.device = is_cipd(name) ? "cuda:0" : "host";
    params.format = &format;
    params.cipd = is_cipd(name) ? &cipd : NULL;
    CHECK_OK(sluice_writer_open(&writer, &params));
    return writer;
}

static sluice_reader *open_reader_of(const char *name)
{
    struct sluice_reader_params params = SLUICE_READER_PARAMS_INIT;
    sluice_reader *reader;
    params.name = name;
    params.device = is_cipd(name) ? "cuda:0" : NULL;
    params.mode = is_cipd(name) ? SLUICE_NEWEST : SLUICE_IN_ORDER;
    params.open_timeout_ns = SLUICE_LATER;
    CHECK_OK(sluice_reader_open(&reader, &params));
    return reader;
}

/* A frame whose bytes are all its number. */
static void send_frame(sluice_writer *writer, unsigned number)
{
    static unsigned char bytes[WIDTH * HEIGHT];
    struct sluice_format format = SLUICE_FORMAT_INIT;
    CHECK_OK(sluice_writer_format(writer, &format));
    memset(bytes, (int)number, sizeof bytes);
    format.arrays[0].data = bytes;
    CHECK_OK(sluice_writer_send(writer, format.arrays, 1, SLUICE_ON_CPU, NULL));
}

/* Acquires a frame and returns its number; 0 if it was overwritten meanwhile on a busy machine; negative: the negated
 * result of acquire. */
static int take_number(sluice_reader *reader)
{
    struct sluice_frame frame;
    struct sluice_array array;
    unsigned char bytes[WIDTH * HEIGHT];
    int result = sluice_reader_acquire(reader, SLUICE_ON_CPU, 100 * SLUICE_MS, &frame);
    if (result == SLUICE_E_LOST)
        return 0;
    CHECK_GE(result, 0);
    if (result)
        return -result;
    CHECK_OK(sluice_frame_array_at(&frame, 0, &array));
    CHECK_EQ(array.nbytes, sizeof bytes);
    array.data = bytes;
    array.read_only = 0;
    int fetched = sluice_reader_fetch(reader, &frame, &array, 1, SLUICE_ON_CPU, NULL);
    CHECK(fetched == SLUICE_OK || fetched == SLUICE_E_LOST);
    result = sluice_reader_release(reader, &frame, SLUICE_ON_CPU);
    CHECK(result == SLUICE_OK || result == SLUICE_E_LOST);
    if (fetched || result)
        return 0;
    CHECK_EQ(bytes[0], bytes[sizeof bytes - 1]);
    return bytes[0];
}

/* Sends it until it arrives at the other end: the first ones may be sent before the bridge is connected. */
static void pass_frame(sluice_writer *writer, sluice_reader *reader, unsigned number)
{
    CHECK_SOON((send_frame(writer, number), take_number(reader) == (int)number), 30);
}

static struct sluice_cipd_info look(const char *name)
{
    struct sluice_cipd_info info = { .size = sizeof info };
    CHECK_OK(sluice_cipd_look(name, &info));
    return info;
}

static unsigned char *map_segment(const char *name, int flags)
{
    char path[80];
    snprintf(path, sizeof path, "/%s", name);
    int fd = shm_open(path, O_RDWR | flags, 0600);
    CHECK_GE(fd, 0);
    if (flags)
        CHECK_EQ(ftruncate(fd, 64), 0);
    unsigned char *at = mmap(NULL, flags ? 64 : 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(at != MAP_FAILED);
    close(fd);
    return at;
}

static uint32_t word_at(const unsigned char *at)
{
    uint32_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

/* ---- --every ---- */

/* Waits until the bridge has read this frame, by the counter in docs/cuda-link-wire.md. */
static void feed(sluice_writer *writer, const unsigned char *segment, unsigned from, unsigned to)
{
    for (unsigned number = from; number <= to; number++) {
        send_frame(writer, number);
        CHECK_SOON(word_at(segment + 2072) == number, 20);
    }
}

/* The protocol has no --every: the bridge counts the frames that it acquires, starting with the first. */
static void every_third(const char *to)
{
    begin();
    sluice_writer *writer = open_writer(first);
    const unsigned char *segment = map_segment(first + strlen("cipd:"), 0);
    sluice_start(&bridge, "bridge", first, to, "--every", "3");
    sluice_reader *reader = open_reader_of(to);
    for (unsigned number = 1; number < 10; number += 3) {
        int found = 0;
        feed(writer, segment, number, number);
        CHECK_SOON((found = take_number(reader)) > 0, 20);
        CHECK_EQ(found, number);
        feed(writer, segment, number + 1, number + 2);
    }
    CHECK_LE(take_number(reader), 0);
    CHECK_EQ(program_end(&bridge, SIGINT), 0);
    CHECK_HAS(bridge.out, "bridged 3 frames, missed 0, dropped 0\n");
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&writer));
}

TEST_TIMEOUT(bridge_hands_on_every_third_frame_of_cuda_links, 90)
{
    every_third("to");
}
TEST_TIMEOUT(bridge_hands_on_every_third_frame_between_two_of_cuda_links, 90)
{
    every_third(second);
}

TEST_TIMEOUT(bridge_hands_on_every_third_frame_to_cuda_links, 90)
{
    begin();
    sluice_writer *writer = open_writer("from");
    sluice_start(&bridge, "bridge", "from", second, "--every", "3");
    CHECK_SOON(has_taken("from", 0), 20);
    sluice_reader *reader = open_reader_of(second);
    for (unsigned number = 1; number < 10; number++) {
        send_frame(writer, number);
        if (number % 3 != 1)
            continue;
        int found = 0;
        CHECK_SOON((found = take_number(reader)) > 0, 20);
        CHECK_EQ(found, number);
    }
    CHECK_EQ(look(second).index, 3);
    CHECK_EQ(program_end(&bridge, SIGINT), 0);
    CHECK_HAS(bridge.out, "bridged 3 frames, missed 0, dropped 0\n");
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&writer));
}

/* ---- --close ---- */

/* Without --close TO's readers notice nothing. */
static void close_with_its_source(const char *from, const char *to)
{
    for (int closes = 0; closes < 2; closes++) {
        sluice_writer *writer = open_writer(from);
        sluice_start(&bridge, "bridge", from, to, closes ? "--close" : NULL);
        sluice_reader *reader = open_reader_of(to);
        pass_frame(writer, reader, 1);
        CHECK_OK(sluice_writer_close(&writer));
        CHECK_SOON(strstr(program_so_far(&bridge, "err"), "has closed; waiting"), 20);
        int found = 0;
        if (closes)
            CHECK_SOON((found = take_number(reader)) == -SLUICE_CLOSED, 20);
        for (int i = 0; i < 5 && !closes; i++)
            CHECK_NE(take_number(reader), -SLUICE_CLOSED);
        writer = open_writer(from);
        pass_frame(writer, reader, 2);
        CHECK_EQ(program_end(&bridge, SIGINT), 0);
        CHECK_HAS(bridge.out, ", over 2 sessions of the writer\n");
        const char *open = strstr(bridge.err, "' is open: ");
        CHECK(open);
        CHECK_EQ(strstr(open + 1, "' is open: ") != NULL, closes);
        CHECK_OK(sluice_reader_close(&reader));
        CHECK_OK(sluice_writer_close(&writer));
    }
}

TEST_TIMEOUT(bridge_closes_with_one_of_cuda_links, 120)
{
    begin();
    close_with_its_source(first, "to");
}

TEST_TIMEOUT(bridge_closes_one_of_cuda_links, 120)
{
    begin();
    close_with_its_source("from", second);
}

TEST_TIMEOUT(bridge_closes_one_of_cuda_links_with_another, 120)
{
    begin();
    close_with_its_source(first, second);
}

/* ---- --timeout ---- */

TEST_TIMEOUT(bridge_waits_for_one_of_cuda_links_as_long_as_it_is_told, 90)
{
    struct sluice_cipd_info info = { .size = sizeof info };
    char says[96];
    begin();
    snprintf(says, sizeof says, "there is no cuda-link channel %s", first + strlen("cipd:"));
    CHECK_EQ(sluice_run(&bridge, "bridge", first, second, "--timeout", "0.05"), 3);
    CHECK_HAS(bridge.err, says);
    CHECK_EQ(sluice_cipd_look(second, &info), SLUICE_E_NOT_FOUND); /* the bridge never knew a format */

    /* A writer that starts in time; after that there is no limit. */
    sluice_start(&bridge, "bridge", first, "to", "--timeout", "60");
    sluice_reader *reader = open_reader_of("to");
    test_nap(100 * SLUICE_MS); /* so that it is probably waiting */
    sluice_writer *writer = open_writer(first);
    pass_frame(writer, reader, 1);
    CHECK_EQ(program_end(&bridge, SIGINT), 0);
    sluice_start(&bridge, "bridge", first, "to", "--timeout", "0.2");
    pass_frame(writer, reader, 2);
    CHECK_OK(sluice_writer_close(&writer));
    CHECK_SOON(strstr(program_so_far(&bridge, "err"), "has closed; waiting"), 20);
    test_nap(500 * SLUICE_MS);
    writer = open_writer(first);
    pass_frame(writer, reader, 3);
    CHECK_EQ(program_end(&bridge, SIGINT), 0);
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&writer));
}

/* ---- the activation barrier ---- */

/* The barrier as a sender in Python writes it. */
static void set_barrier(unsigned char *at, uint32_t count, int64_t age_ns)
{
    uint32_t head[] = { 0xCDA1BAAA, 1, count };
    int64_t stamp = test_now() - age_ns;
    memcpy(at, head, sizeof head);
    memcpy(at + 16, &stamp, sizeof stamp);
}

static void skip_frame(sluice_writer *writer, unsigned char *barrier)
{
    uint32_t skips = word_at(barrier + 24);
    CHECK_SOON((set_barrier(barrier, 1, 0), send_frame(writer, 99), word_at(barrier + 24) > skips), 20);
}

/* While it is up nothing is published. After the first skipped frame no other is in flight. */
static void hold_back(sluice_writer *writer, unsigned char *barrier)
{
    skip_frame(writer, barrier);
    uint32_t index = look(second).index;
    for (int i = 0; i < 3; i++)
        skip_frame(writer, barrier);
    CHECK_EQ(look(second).index, index);
}

TEST_TIMEOUT(bridge_publishes_nothing_while_an_activation_barrier_is_up, 120)
{
    struct sluice_cipd_info info = { .size = sizeof info };
    unsigned bridged, missed, dropped;
    begin();
    test_small_disk("/dev/shm", "size=1m"); /* with a private barrier */
    unsigned char *barrier = map_segment("cudalink_activation_barrier", O_CREAT | O_EXCL);
    set_barrier(barrier, 1, 0);
    sluice_writer *writer = open_writer("from");
    sluice_start(&bridge, "bridge", "from", second);
    CHECK_SOON((set_barrier(barrier, 1, 0), send_frame(writer, 99), sluice_cipd_look(second, &info) == SLUICE_OK), 20);
    sluice_reader *reader = open_reader_of(second);
    hold_back(writer, barrier); /* from the beginning */
    CHECK_EQ(look(second).index, 0);
    set_barrier(barrier, 0, 0);
    pass_frame(writer, reader, 1);
    hold_back(writer, barrier);            /* and later */
    set_barrier(barrier, 1, 6 * SLUICE_S); /* its sender has died */
    pass_frame(writer, reader, 2);
    hold_back(writer, barrier);
    CHECK_EQ(program_end(&bridge, SIGINT), 0);
    uint32_t skips = word_at(barrier + 24);
    CHECK_EQ(sscanf(bridge.out, "bridged %u frames, missed %u, dropped %u", &bridged, &missed, &dropped), 3);
    CHECK_GE(bridged, 2);
    CHECK_EQ(dropped, skips);

    setenv("CUDALINK_ACTIVATION_BARRIER", "0", 1);
    sluice_start(&bridge, "bridge", "from", second, "--quiet");
    CHECK_SOON((set_barrier(barrier, 1, 0), send_frame(writer, 3), take_number(reader) == 3), 30);
    CHECK_EQ(word_at(barrier + 24), skips);
    CHECK_EQ(program_end(&bridge, SIGINT), 0);
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&writer));
}
