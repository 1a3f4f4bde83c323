/* SPDX-License-Identifier: MIT
 *
 * The honest side of a hostile writer: a program that reads its channel "cam", and an honest channel "good" in the same
 * process, and queries both.
 */
#include <poll.h>
#include <signal.h>
#include <string.h>

#include "harness/resources.h"
#include "hostile/attack.h"

#define NAP (150 * SLUICE_MS)
#define MOST_FDS \
    820 /* of a reader: 256 memories that it has not mapped; as many of the session that came while it stood \
           still, and of the one that it was giving back; and what passes by */
#define MOST_MEMORY 16384           /* KiB */
#define WORST       (10 * SLUICE_S) /* an open may wait 1 s for an answer, on a busy machine */

struct program {
    sluice_reader *good, *bad;
    uint64_t session, last;
    long frames, back, torn, strange;
    int64_t worst;
};

static bool command_waits(void)
{
    struct pollfd in = { .fd = 0, .events = POLLIN };
    return poll(&in, 1, 0) > 0;
}

static void read_good(struct program *program)
{
    struct sluice_frame frame;
    int r = sluice_reader_acquire(program->good, SLUICE_ON_CPU, 5 * SLUICE_MS, &frame);

    if (r == SLUICE_TIMEOUT)
        return;
    CHECK_OK(r);
    program->frames++;
    program->back += frame.session == program->session && frame.sequence <= program->last;
    program->session = frame.session;
    program->last = frame.sequence;
    program->torn += !kit_whole(&frame, frame.sequence);
    CHECK_OK(sluice_reader_release(program->good, &frame, SLUICE_ON_CPU));
}

/* Reads one byte of each page that the arrays claim to have. */
static void touch(const struct sluice_frame *frame)
{
    struct sluice_array array;

    for (uint32_t i = 0; i < frame->array_count; i++)
        if (sluice_frame_array_at(frame, i, &array) == 0)
            for (uint64_t at = 0; at < array.nbytes; at += 4096)
                (void)((const volatile char *)array.data)[at];
    for (uint32_t i = 0; i < frame->meta_size; i++)
        (void)((const volatile char *)frame->meta)[i];
}

static void read_bad(struct program *program)
{
    struct sluice_reader_params params = kit_reader_params("cam");
    struct sluice_reader_stats stats = { .size = sizeof stats };
    struct sluice_frame frame;

    params.open_timeout_ns = SLUICE_LATER;
    params.mode = program->frames % 2 ? SLUICE_IN_ORDER : SLUICE_NEWEST;
    if (!program->bad && sluice_reader_open(&program->bad, &params) != 0)
        return;
    struct pollfd fd = { .fd = sluice_reader_fd(program->bad), .events = POLLIN };
    CHECK_GE(fd.fd, 0);
    (void)poll(&fd, 1, 0);
    CHECK_OK(sluice_reader_stats(program->bad, &stats));
    if (sluice_reader_acquire(program->bad, SLUICE_ON_CPU, 2 * SLUICE_MS, &frame) == 0) {
        program->strange++;
        touch(&frame);
        (void)sluice_reader_release(program->bad, &frame, SLUICE_ON_CPU);
    }
    if (program->frames % 32 == 31)
        CHECK_OK(sluice_reader_close(&program->bad));
}

static void look_around(void)
{
    struct sluice_channel_info info = { .size = sizeof info };
    struct sluice_reader_info readers[4];
    struct sluice_registry_entry entries[8];
    size_t count;

    (void)sluice_channel_info("cam", 20 * SLUICE_MS, &info, readers, 4);
    CHECK_OK(sluice_registry_list(NULL, entries, 8, &count));
    CHECK_OK(sluice_channel_info("good", 20 * SLUICE_S, &info, NULL, 0));
}

ROLE(program)
{
    struct program program = { .good = kit_reader("good", SLUICE_NEWEST) };

    role_say("open");
    for (long round = 0; !command_waits(); round++) {
        read_good(&program);
        int64_t began = test_now();
        read_bad(&program);
        if (round % 16 == 0)
            look_around();
        int64_t took = test_now() - began;
        program.worst = took > program.worst ? took : program.worst;
    }
    (void)role_line();
    role_say("good %ld back %ld torn %ld strange %ld worst %lld", program.frames, program.back, program.torn,
             program.strange, (long long)program.worst);
    (void)role_line();
    CHECK_OK(sluice_reader_close(&program.bad));
    CHECK_OK(sluice_reader_close(&program.good));
    return 0;
}

static bool all_read_on(uint64_t frames)
{
    struct sluice_channel_info info = { .size = sizeof info };
    struct sluice_reader_info readers[2];

    CHECK_OK(sluice_channel_info("good", 20 * SLUICE_S, &info, readers, 2));
    return info.readers == 2 && readers[0].taken > frames && readers[1].taken > frames;
}

/* The most over a while. */
static int most_fds(pid_t pid)
{
    int most = 0;

    for (int64_t until = test_now() + NAP; test_now() < until; test_nap(2 * SLUICE_MS)) {
        int fds = process_fds(pid);
        most = fds > most ? fds : most;
    }
    return most;
}

void attack_against_program(const char *label, const struct bounds *bounds)
{
    test_dir();
    struct child writer = kit_start("writer", "name=good", NULL), reader = kit_start("reader", "name=good", NULL);
    child_expect(&writer, "open", 10);
    child_expect(&reader, "open", 10);
    EXPECT_ANSWER(&reader, "run", "running");
    EXPECT_ANSWER(&writer, "run 1000", "running");
    struct child program = role_start("program", NULL);
    child_expect(&program, "open", 10);
    int fds = process_fds(program.pid);
    long memory = process_memory(program.pid).own;

    struct child hostile = attack_start(label, bounds->seconds);
    CHECK_LE(most_fds(program.pid), fds + MOST_FDS);
    CHECK_SOON(all_read_on(20), 20);
    child_kill(&hostile, SIGKILL);
    CHECK_LE(most_fds(program.pid), fds + MOST_FDS);
    if (test_slowness() <= 1)
        CHECK_LE(process_memory(program.pid).own, memory + MOST_MEMORY);

    const char *answer = ask(&program, "stop");
    CHECK(NUMBER(answer, "good") > 20);
    CHECK_EQ(NUMBER(answer, "back"), 0);
    CHECK_EQ(NUMBER(answer, "torn"), 0);
    CHECK_LE(NUMBER(answer, "worst"), (long long)((double)WORST * test_slowness()));
    role_stop(&program);
    answer = ask(&reader, "stop");
    CHECK(NUMBER(answer, "ran") > 20);
    CHECK_EQ(NUMBER(answer, "torn"), 0);
    CHECK_EQ(NUMBER(answer, "back"), 0);
    CHECK_EQ(NUMBER(answer, "sessions"), 1);
    CHECK_EQ(NUMBER(ask(&writer, "stop"), "dropped"), 0);
    role_stop(&reader);
    role_stop(&writer);
}
