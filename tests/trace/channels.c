/* SPDX-License-Identifier: MIT
 *
 * Ranges and timers of programs that write and read.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sluice/sluice.h>

#include "trace/kit.h"

#define BYTES 4096

static sluice_writer *open_writer(uint32_t slots, uint32_t policy)
{
    struct sluice_writer_params params = SLUICE_WRITER_PARAMS_INIT;
    struct sluice_format format = SLUICE_FORMAT_INIT;
    struct sluice_dtype u8 = { SLUICE_UINT, 8, 1 };
    int64_t shape = BYTES;
    sluice_writer *writer;

    CHECK_OK(sluice_format_add_tensor(&format, "data", u8, 1, &shape));
    params.name = "cam";
    params.format = &format;
    params.slots = params.max_slots = slots;
    params.policy = policy;
    CHECK_OK(sluice_writer_open(&writer, &params));
    return writer;
}

static sluice_reader *open_reader(uint32_t mode)
{
    struct sluice_reader_params params = SLUICE_READER_PARAMS_INIT;
    sluice_reader *reader;

    params.name = "cam";
    params.mode = mode;
    params.hold = 2;
    params.open_timeout_ns = 5 * SLUICE_S;
    CHECK_OK(sluice_reader_open(&reader, &params));
    return reader;
}

static void write_frame(sluice_writer *writer)
{
    struct sluice_frame frame;

    CHECK_OK(sluice_writer_begin(writer, SLUICE_DEFAULT, &frame));
    CHECK_OK(sluice_writer_commit(writer, &frame, SLUICE_ON_CPU));
}

/* ---- ranges of two processes ---- */

/* Lines: "frame", "send", "cancel"; what was done is answered. */
ROLE(writes)
{
    sluice_writer *writer = open_writer(4, SLUICE_DROP);
    struct sluice_dtype u8 = { SLUICE_UINT, 8, 1 };
    static char data[BYTES];
    int64_t shape = BYTES;
    struct sluice_array array;
    struct sluice_frame frame;

    CHECK_OK(sluice_array_wrap(&array, NULL, data, u8, 1, &shape, NULL));
    role_say("open");
    for (char *line; (line = role_line());) {
        if (strcmp(line, "frame") == 0)
            write_frame(writer);
        else if (strcmp(line, "send") == 0)
            CHECK_OK(sluice_writer_send(writer, &array, 1, SLUICE_ON_CPU, NULL));
        else {
            CHECK_OK(sluice_writer_begin(writer, SLUICE_DEFAULT, &frame));
            CHECK_OK(sluice_writer_cancel(writer, &frame, SLUICE_ON_CPU));
        }
        role_say("done");
    }
    CHECK_OK(sluice_writer_close(&writer));
    return 0;
}

/* Lines: "take", "fetch", "wait" (for a frame that does not come). */
ROLE(reads)
{
    sluice_reader *reader = open_reader(SLUICE_NEWEST);
    struct sluice_dtype u8 = { SLUICE_UINT, 8, 1 };
    static char data[BYTES];
    int64_t shape = BYTES;
    struct sluice_array array;
    struct sluice_frame frame;

    CHECK_OK(sluice_array_wrap(&array, NULL, data, u8, 1, &shape, NULL));
    role_say("open");
    for (char *line; (line = role_line());) {
        if (strcmp(line, "wait") == 0) {
            CHECK_RESULT(sluice_reader_acquire(reader, SLUICE_ON_CPU, SLUICE_MS, &frame), SLUICE_TIMEOUT);
        } else {
            CHECK_OK(sluice_reader_acquire(reader, SLUICE_ON_CPU, 5 * SLUICE_S, &frame));
            if (strcmp(line, "fetch") == 0)
                CHECK_OK(sluice_reader_fetch(reader, &frame, &array, 1, SLUICE_ON_CPU, NULL));
            CHECK_OK(sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
        }
        role_say("done");
    }
    CHECK_OK(sluice_reader_close(&reader));
    return 0;
}

static void tell(struct child *child, const char *line)
{
    child_send(child, line);
    child_expect(child, "done", 10);
}

static void play(void)
{
    struct child writer = role_start("writes", NULL);
    child_expect(&writer, "open", 10);
    struct child reader = role_start("reads", NULL);
    child_expect(&reader, "open", 10);
    tell(&writer, "frame");
    tell(&reader, "take");
    tell(&reader, "wait");
    tell(&writer, "cancel");
    tell(&writer, "send");
    tell(&reader, "fetch");
    role_stop(&reader);
    role_stop(&writer);
}

static void check_line(const char *text, const char *line)
{
    char whole[512];

    snprintf(whole, sizeof whole, "%s\n", line);
    CHECK_HAS(text, whole);
}

TEST(inner_ranges_nest_in_the_calls)
{
    tool_use("2", "");
    play();
    const char *tree = tool_tree();
    check_line(tree, "open(make_slots())begin()commit(signal()publish()wake())begin()"
                     "send(send_copy()signal()publish()wake())");
    /* open sends the hello on the caller's thread; how often the reader checks depends on time. */
    CHECK_HAS(tree, "open(connect())acquire(map())release()acquire(wait_frame()");
    CHECK_HAS(tree, ")acquire()fetch(fetch_copy())release()\n");
    CHECK_HAS(tool_record(), "sluice/write cam 0\n");
    CHECK_HAS(tool_record(), "sluice/read cam 1\n");
    CHECK_HAS(tool_record(), "sluice/read cam 2\n");
}

TEST(frames_alone)
{
    const char *record;
    int frames = 0;

    tool_use("1", "");
    play();
    CHECK_STR(tool_tree(), "send()\nfetch()\n");
    record = tool_record();
    for (const char *at = record; (at = strstr(at, "sluice/write cam")); at++)
        frames++;
    CHECK_EQ(frames, 3); /* the cancelled one too */
}

TEST(off_tells_nothing)
{
    tool_use("0", "");
    play();
    CHECK_STR(tool_record(), "");
}

TEST(a_missing_tool_has_no_effect)
{
    tool_use("2", "");
    setenv("NVTX_INJECTION64_PATH", "/proc/none/such.so", 1);
    play();
    CHECK_STR(tool_record(), "");
}

/* ---- timers ---- */

static struct sluice_timer timer(const char *name)
{
    struct sluice_timer timers[64];
    size_t count;

    CHECK_OK(sluice_timers(timers, 64, &count));
    for (size_t i = 0; i < count; i++)
        if (strcmp(timers[i].name, name) == 0)
            return timers[i];
    FAIL("there is no timer '%s'", name);
}

TEST(stages_are_counted)
{
    struct sluice_frame frame, other;

    test_dir();
    CHECK_OK(sluice_timers_set(1));
    sluice_writer *writer = open_writer(4, SLUICE_WAIT);
    sluice_reader *reader = open_reader(SLUICE_IN_ORDER);
    for (int i = 0; i < 2; i++)
        write_frame(writer);
    CHECK_OK(sluice_reader_acquire(reader, SLUICE_ON_CPU, SLUICE_S, &frame));
    CHECK_OK(sluice_reader_acquire(reader, SLUICE_ON_CPU, SLUICE_S, &other));
    for (int i = 0; i < 2; i++)
        CHECK_OK(sluice_writer_begin(writer, SLUICE_DEFAULT, &(struct sluice_frame){ 0 }));
    CHECK_RESULT(sluice_writer_begin(writer, 20 * SLUICE_MS, &(struct sluice_frame){ 0 }), SLUICE_NO_SLOT);
    test_nap(5 * SLUICE_MS);
    CHECK_OK(sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
    CHECK_OK(sluice_reader_release(reader, &other, SLUICE_ON_CPU));
    CHECK_EQ(timer("begin").count, 5);
    CHECK_EQ(timer("commit").count, 2);
    CHECK_EQ(timer("signal").count, 2);
    CHECK_EQ(timer("publish").count, 2);
    CHECK_EQ(timer("wake").count, 2);
    CHECK_EQ(timer("write").count, 2);
    CHECK_EQ(timer("wait_slot").count, 1);
    CHECK_GE(timer("wait_slot").total_ns, 20 * SLUICE_MS);
    CHECK_GE(timer("begin").longest_ns, timer("wait_slot").total_ns);
    CHECK_EQ(timer("acquire").count, 2);
    CHECK_EQ(timer("map").count, 1);
    CHECK_EQ(timer("read").count, 2);
    CHECK_GE(timer("read").total_ns, 50 * SLUICE_MS);
    CHECK_EQ(timer("release").count, 2);
    CHECK_EQ(timer("open").count, 2);
    CHECK_EQ(timer("make_slots").count, 1);
    CHECK_GE(timer("connect").count, 1);
    CHECK_RESULT(sluice_reader_acquire(reader, SLUICE_ON_CPU, 10 * SLUICE_MS, &frame), SLUICE_TIMEOUT);
    CHECK_GE(timer("acquire").longest_ns, 10 * SLUICE_MS);
    /* The time counts from a moment before the wait, in which the machine may be suspended. */
    for (int i = 0; i < 20 && timer("wait_frame").longest_ns < 10 * SLUICE_MS; i++)
        CHECK_RESULT(sluice_reader_acquire(reader, SLUICE_ON_CPU, 10 * SLUICE_MS, &frame), SLUICE_TIMEOUT);
    CHECK_GE(timer("wait_frame").longest_ns, 10 * SLUICE_MS);
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&writer));
}

/* Two channels; prints what is on stderr after each is closed. Timers run in any case, whether the variable asks for
 * them or not. */
ROLE(closes)
{
    char text[8192];

    CHECK(freopen(argv[1], "w+", stderr) != NULL);
    sluice_writer *writer = open_writer(4, SLUICE_DROP);
    sluice_reader *reader = open_reader(SLUICE_NEWEST);
    CHECK_OK(sluice_timers_set(1));
    write_frame(writer);
    CHECK_OK(sluice_reader_close(&reader));
    fflush(stderr);
    CHECK_EQ(ftell(stderr), 0);
    CHECK_OK(sluice_writer_close(&writer));
    rewind(stderr);
    text[fread(text, 1, sizeof text - 1, stderr)] = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
        role_say("%s", line);
    role_say("end");
    return 0;
}

static int lines_of(const char *variable, char *text, size_t size)
{
    char path[512];
    int count = 0;

    snprintf(path, sizeof path, "%s/stderr.txt", test_dir());
    setenv("SLUICE_TIMERS", variable, 1);
    struct child child = role_start("closes", path, NULL);
    text[0] = 0;
    for (const char *line; (line = child_line(&child, 10)) && strcmp(line, "end") != 0; count++)
        snprintf(text + strlen(text), size - strlen(text), "%s\n", line);
    role_stop(&child);
    return count;
}

TEST(the_variable_prints_when_the_last_channel_closes)
{
    static char text[8192];

    CHECK_EQ(lines_of("", text, sizeof text), 0);
    CHECK_EQ(lines_of("0", text, sizeof text), 0);
    CHECK_GE(lines_of("1", text, sizeof text), 8);
    CHECK_HAS(text, "sluice: timers of ");
    CHECK_HAS(text, "p99 under");
    CHECK_HAS(text, "\ncommit               1");
    CHECK(!strstr(text, "fetch"));
}
