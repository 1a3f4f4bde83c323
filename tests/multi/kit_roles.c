/* SPDX-License-Identifier: MIT
 *
 * Two roles that other test files use: a writer and a reader that do what each line says.
 *
 * writer: name= bytes= slots= max_slots= wait_ms= (policy) lease_ms= readers= writable=
 *   commit N       N frames, as the policy has it     "committed SEQUENCE" or a result's name
 *   run US         a frame every US microseconds until the next line, which is answered by
 *                                                     "ran N dropped D worst NS" (longest begin and commit)
 *   burst N US     N frames, a nap of US between      "committed SEQUENCE"
 *   begin          begins one frame and keeps it      "begun" or a result's name
 *   reformat N     of N bytes                         "generation G" or a result's name
 *   stats          "committed C dropped D stolen S readers R died X evicted E slots N generation G refused F"
 *   session, descriptors, mappings
 *   fork, clone    a child that only sleeps           "forked PID"
 *   close
 *
 * reader: name= mode= (1 in order) depth= hold= every= open_ms= (20000; -1 later) spin_ns=
 *   take MS        acquire, verify, release           "took SEQUENCE missed M flags F" or a result's name
 *   hold MS        acquire, verify and keep           the same with "holds"
 *   check          are all frames that it keeps whole? "whole N"
 *   give           the oldest of them                 "gave SEQUENCE", or the result's name
 *   run            takes all that comes until the next line, which is answered by
 *                  "ran N first F last L missed M back B torn T p99 NS worst NS sessions S lost X"
 *   count N MS     takes N frames, each within MS     "counted N first F last L missed M"
 *   stats, session, descriptors, mappings, last (the sentence)
 *   fork, clone
 *   close
 */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "multi/kit.h"

static bool line_waits(int timeout_ms)
{
    struct pollfd in = { .fd = 0, .events = POLLIN };
    return poll(&in, 1, timeout_ms) > 0;
}

/* stdin unbuffered, so that poll works. */
static char *next_line(void)
{
    setvbuf(stdin, NULL, _IONBF, 0);
    return role_line();
}

static void say_result(int r)
{
    role_say("%s", sluice_result_name(r));
}

/* By fork, or by the system call alone, which the library does not see. */
static void fork_and_sleep(bool raw)
{
    pid_t pid = raw ? (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) : fork();
    if (pid == 0) {
        close(1);
        sleep(60);
        _exit(0);
    }
    role_say("forked %d", (int)pid);
}

static bool common_words(const char *line)
{
    if (strcmp(line, "descriptors") == 0)
        role_say("descriptors %d", process_fds(getpid()));
    else if (strncmp(line, "mappings ", 9) == 0)
        role_say("mappings %d", process_mappings(getpid(), line + 9));
    else if (strcmp(line, "fork") == 0)
        fork_and_sleep(false);
    else if (strcmp(line, "clone") == 0)
        fork_and_sleep(true);
    else if (strcmp(line, "last") == 0)
        role_say("%s", sluice_last_error());
    else
        return false;
    return true;
}

/* ---- writer ---- */

static sluice_writer *open_writer(int argc, char **argv)
{
    struct sluice_format format = kit_format(option_number(argc, argv, "bytes", 65536));
    struct sluice_writer_params params = kit_writer_params(option(argc, argv, "name", "cam"), &format);
    sluice_writer *writer = NULL;

    params.slots = (uint32_t)option_number(argc, argv, "slots", 0);
    params.max_slots = (uint32_t)option_number(argc, argv, "max_slots", 0);
    params.readers = (uint32_t)option_number(argc, argv, "readers", 0);
    params.writable = (uint32_t)option_number(argc, argv, "writable", 0);
    params.lease_timeout_ns = option_number(argc, argv, "lease_ms", 0) * SLUICE_MS;
    params.wait_ns = option_number(argc, argv, "wait_ms", 0) * SLUICE_MS;
    if (params.wait_ns)
        params.policy = SLUICE_WAIT;
    int r = sluice_writer_open(&writer, &params);
    if (r != 0)
        role_say("%s %s", sluice_result_name(r), sluice_last_error());
    else
        role_say("open");
    return writer;
}

/* Fills and commits without reading statistics. */
static int commit_one(sluice_writer *writer, uint64_t *sequence)
{
    struct sluice_frame frame;
    int r = sluice_writer_begin(writer, SLUICE_DEFAULT, &frame);
    if (r != 0)
        return r;
    kit_fill(&frame, *sequence + 1);
    CHECK_OK(sluice_writer_commit(writer, &frame, SLUICE_ON_CPU));
    CHECK_EQ(frame.sequence, *sequence + 1);
    *sequence = frame.sequence;
    return 0;
}

static void write_many(sluice_writer *writer, long n, long period_us, uint64_t *sequence)
{
    int r = 0;
    for (long i = 0; i < n && r == 0; i++) {
        r = commit_one(writer, sequence);
        if (period_us)
            test_nap(period_us * 1000);
    }
    if (r != 0)
        say_result(r);
    else
        role_say("committed %llu", (unsigned long long)*sequence);
}

static void write_on(sluice_writer *writer, long period_us, uint64_t *sequence)
{
    long n = 0, dropped = 0;
    int64_t worst = 0;
    while (!line_waits(0)) {
        int64_t began = test_now();
        int r = commit_one(writer, sequence);
        int64_t took = test_now() - began;
        worst = took > worst ? took : worst;
        if (r == SLUICE_NO_SLOT)
            dropped++;
        else
            CHECK_OK(r);
        n++;
        if (period_us)
            test_nap(period_us * 1000);
    }
    (void)next_line();
    role_say("ran %ld dropped %ld worst %lld", n, dropped, (long long)worst);
}

static void reformat(sluice_writer *writer, const char *bytes)
{
    struct sluice_format format = kit_format(strtoll(bytes, NULL, 10));
    int r = sluice_writer_reformat(writer, &format);
    if (r != 0)
        say_result(r);
    else
        role_say("generation %u", kit_writer_stats(writer).generation);
}

static void say_writer_stats(sluice_writer *writer)
{
    struct sluice_writer_stats s = kit_writer_stats(writer);
    role_say("committed %llu dropped %llu stolen %llu readers %u died %llu evicted %llu slots %u generation %u "
             "refused %llu total %llu",
             (unsigned long long)s.committed, (unsigned long long)s.dropped, (unsigned long long)s.stolen, s.readers,
             (unsigned long long)s.readers_died, (unsigned long long)s.evicted, s.slots, s.generation,
             (unsigned long long)s.refused, (unsigned long long)s.readers_total);
}

ROLE(writer)
{
    sluice_writer *writer = open_writer(argc, argv);
    struct sluice_frame frame;
    uint64_t sequence = 0;
    char *line;

    while (writer && (line = next_line())) {
        long a = 0, b = 0;
        if (sscanf(line, "commit %ld", &a) == 1) {
            write_many(writer, a, 0, &sequence);
        } else if (sscanf(line, "burst %ld %ld", &a, &b) == 2) {
            write_many(writer, a, b, &sequence);
        } else if (sscanf(line, "run %ld", &a) == 1) {
            role_say("running");
            write_on(writer, a, &sequence);
        } else if (strcmp(line, "begin") == 0) {
            int r = sluice_writer_begin(writer, kit_device() ? 20 * SLUICE_S : SLUICE_DEFAULT,
                                        &frame); /* a GPU adds a slot when it can */
            role_say("%s", r ? sluice_result_name(r) : "begun");
        } else if (strncmp(line, "reformat ", 9) == 0) {
            reformat(writer, line + 9);
        } else if (strcmp(line, "stats") == 0) {
            say_writer_stats(writer);
        } else if (strcmp(line, "session") == 0) {
            role_say("%llu", (unsigned long long)kit_writer_stats(writer).session);
        } else if (strcmp(line, "close") == 0) {
            CHECK_OK(sluice_writer_close(&writer));
            role_say("closed");
        } else if (!common_words(line)) {
            FAIL("a writer does not know \"%s\"", line);
        }
    }
    CHECK_OK(sluice_writer_close(&writer));
    return 0;
}

/* ---- reader ---- */

#define MOST_HELD      64
#define MOST_LATENCIES 100000

struct reading {
    sluice_reader *reader;
    struct sluice_frame held[MOST_HELD];
    int held_count;
};

static sluice_reader *open_reader(int argc, char **argv)
{
    struct sluice_reader_params params = kit_reader_params(option(argc, argv, "name", "cam"));
    long long open_ms = option_number(argc, argv, "open_ms", 20000);
    sluice_reader *reader = NULL;

    params.mode = (uint32_t)option_number(argc, argv, "mode", SLUICE_NEWEST);
    params.depth = (uint32_t)option_number(argc, argv, "depth", 0);
    params.hold = (uint32_t)option_number(argc, argv, "hold", 0);
    params.every = (uint32_t)option_number(argc, argv, "every", 0);
    params.spin_ns = option_number(argc, argv, "spin_ns", 0);
    params.open_timeout_ns = open_ms < 0 ? SLUICE_LATER : open_ms * SLUICE_MS;
    int r = sluice_reader_open(&reader, &params);
    if (r != 0)
        role_say("%s %s", sluice_result_name(r), sluice_last_error());
    else
        role_say("open");
    return reader;
}

static void take(struct reading *reading, long ms, bool keep)
{
    struct sluice_frame *frame = &reading->held[reading->held_count];
    int r = reading->held_count < MOST_HELD
                ? sluice_reader_acquire(reading->reader, SLUICE_ON_CPU, ms * SLUICE_MS, frame)
                : SLUICE_E_LIMIT;
    if (r != 0) {
        say_result(r);
        return;
    }
    CHECK(kit_whole(frame, frame->sequence));
    char answer[128];
    snprintf(answer, sizeof answer, "%s %llu missed %llu flags %u generation %u", keep ? "holds" : "took",
             (unsigned long long)frame->sequence, (unsigned long long)frame->missed, frame->flags, frame->generation);
    if (keep)
        reading->held_count++;
    else
        kit_give(reading->reader, frame);
    role_say("%s", answer);
}

static void check_held(const struct reading *reading)
{
    for (int i = 0; i < reading->held_count; i++)
        CHECK(kit_whole(&reading->held[i], reading->held[i].sequence));
    role_say("whole %d", reading->held_count);
}

static void give(struct reading *reading)
{
    CHECK(reading->held_count > 0);
    uint64_t sequence = reading->held[0].sequence;
    int r = sluice_reader_release(reading->reader, &reading->held[0], SLUICE_ON_CPU);
    reading->held_count--;
    memmove(&reading->held[0], &reading->held[1], (size_t)reading->held_count * sizeof reading->held[0]);
    if (r != 0)
        say_result(r);
    else
        role_say("gave %llu", (unsigned long long)sequence);
}

static int ascending(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void read_on(sluice_reader *reader)
{
    int64_t *latencies = calloc(MOST_LATENCIES, sizeof *latencies);
    uint64_t n = 0, first = 0, last = 0, session = 0, missed = 0, back = 0, torn = 0, sessions = 0, lost = 0;
    struct sluice_frame frame;

    CHECK(latencies != NULL);
    while (!line_waits(0)) {
        int r = sluice_reader_acquire(reader, SLUICE_ON_CPU, 20 * SLUICE_MS, &frame);
        if (r != 0) {
            if (r < 0 && r != SLUICE_E_LOST)
                CHECK_OK(r);
            if (r == SLUICE_CLOSED)
                test_nap(SLUICE_MS);
            lost += r == SLUICE_E_LOST;
            continue;
        }
        latencies[n % MOST_LATENCIES] = test_now() - frame.commit_ns;
        if (frame.session != session)
            sessions++;
        else if (frame.sequence <= last)
            back++;
        if (n++ == 0)
            first = frame.sequence;
        session = frame.session;
        last = frame.sequence;
        missed += frame.missed;
        torn += !kit_whole(&frame, last);
        torn += !kit_whole(&frame, last); /* and again just before its release */
        r = sluice_reader_release(reader, &frame, SLUICE_ON_CPU);
        if (r == SLUICE_E_LOST)
            lost++;
        else
            CHECK_OK(r);
    }
    (void)next_line();
    size_t count = n < MOST_LATENCIES ? n : MOST_LATENCIES;
    qsort(latencies, count, sizeof *latencies, ascending);
    role_say(
        "ran %llu first %llu last %llu missed %llu back %llu torn %llu p99 %lld worst %lld sessions %llu lost %llu",
        (unsigned long long)n, (unsigned long long)first, (unsigned long long)last, (unsigned long long)missed,
        (unsigned long long)back, (unsigned long long)torn, (long long)(count ? latencies[count * 99 / 100] : 0),
        (long long)(count ? latencies[count - 1] : 0), (unsigned long long)sessions, (unsigned long long)lost);
    free(latencies);
}

static void count_frames(sluice_reader *reader, long n, long ms)
{
    uint64_t first = 0, last = 0, missed = 0;
    struct sluice_frame frame;
    for (long i = 0; i < n; i++) {
        int r = sluice_reader_acquire(reader, SLUICE_ON_CPU, ms * SLUICE_MS, &frame);
        if (r != 0) {
            role_say("%s after %ld", sluice_result_name(r), i);
            return;
        }
        CHECK(kit_whole(&frame, frame.sequence));
        CHECK(i == 0 || frame.sequence > last);
        first = first ? first : frame.sequence;
        last = frame.sequence;
        missed += frame.missed;
        kit_give(reader, &frame);
    }
    role_say("counted %ld first %llu last %llu missed %llu", n, (unsigned long long)first, (unsigned long long)last,
             (unsigned long long)missed);
}

static void say_reader_stats(sluice_reader *reader)
{
    struct sluice_reader_stats s = kit_reader_stats(reader);
    role_say("connected %u taken %llu missed %llu sessions %llu held %u depth %u lag %llu offset %lld", s.connected,
             (unsigned long long)s.taken, (unsigned long long)s.missed, (unsigned long long)s.sessions, s.held, s.depth,
             (unsigned long long)s.lag, (long long)s.clock_offset_ns);
}

ROLE(reader)
{
    struct reading reading = { .reader = open_reader(argc, argv) };
    char *line;

    while (reading.reader && (line = next_line())) {
        long a = 0, b = 0;
        if (sscanf(line, "take %ld", &a) == 1) {
            take(&reading, a, false);
        } else if (sscanf(line, "hold %ld", &a) == 1) {
            take(&reading, a, true);
        } else if (sscanf(line, "count %ld %ld", &a, &b) == 2) {
            count_frames(reading.reader, a, b);
        } else if (strcmp(line, "check") == 0) {
            check_held(&reading);
        } else if (strcmp(line, "give") == 0) {
            give(&reading);
        } else if (strcmp(line, "run") == 0) {
            role_say("running");
            read_on(reading.reader);
        } else if (strcmp(line, "stats") == 0) {
            say_reader_stats(reading.reader);
        } else if (strcmp(line, "session") == 0) {
            role_say("%llu", (unsigned long long)kit_reader_stats(reading.reader).session);
        } else if (strcmp(line, "close") == 0) {
            CHECK_OK(sluice_reader_close(&reading.reader));
            role_say("closed");
        } else if (!common_words(line)) {
            FAIL("a reader does not know \"%s\"", line);
        }
    }
    CHECK_OK(sluice_reader_close(&reading.reader));
    return 0;
}
