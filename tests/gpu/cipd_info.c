/* SPDX-License-Identifier: MIT
 *
 * What "cipd:" channels report of themselves, and of the environment's settings.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpu/cipd_kit.h"

static int count_own(void *user, const char *name)
{
    int *found = user;

    *found += strcmp(name, cipd_name() + 5) == 0;
    return 0;
}

TEST(cipd_a_channel_can_be_inspected)
{
    struct cipd_side side = cipd_begin();
    struct sluice_channel_info channel = { .size = sizeof channel };
    struct sluice_cipd_info info = { .size = sizeof info };
    struct sluice_cipd_writer_params cipd;
    struct sluice_format format = cipd_format(cipd_uint8, 32, 16);
    struct sluice_writer_params params = cipd_writer_params(&cipd, &format);
    int found = 0;

    CHECK_RESULT(sluice_cipd_look(cipd_name(), &info), SLUICE_E_NOT_FOUND);
    CHECK_RESULT(sluice_channel_info(cipd_name(), 20 * SLUICE_S, &channel, NULL, 0), SLUICE_E_NOT_FOUND);
    cipd.order = SLUICE_CIPD_BGRA;
    CHECK_OK(sluice_writer_open(&side.writer, &params));
    struct sluice_array array = cipd_array((uintptr_t)side.array.data, &format);
    CHECK_OK(cipd_send(side.writer, &array, side.stream, 1, NULL));
    CHECK_OK(sluice_cipd_look(cipd_name(), &info));
    CHECK_EQ(info.state, SLUICE_CIPD_RUNNING);
    CHECK_EQ(info.width, 32);
    CHECK_EQ(info.height, 16);
    CHECK_EQ(info.components, 4);
    CHECK_EQ(info.frame_bytes, 32 * 16 * 4);
    CHECK_EQ(info.flags, 4);
    CHECK_EQ(info.order, SLUICE_CIPD_BGRA);
    CHECK_EQ(info.order_declared, 1);
    CHECK_EQ(info.index, 1);
    CHECK_EQ(info.by_sluice, 1);
    CHECK_STR(info.name, cipd_name() + 5);
    CHECK_OK(sluice_channel_info(cipd_name(), 20 * SLUICE_S, &channel, NULL, 0));
    CHECK_EQ(channel.slots, 3);
    CHECK_EQ(channel.memory, SLUICE_MEMORY_CUDA_IPC);
    CHECK_EQ(channel.writable, 1);
    CHECK_EQ(channel.committed, 1);
    CHECK_EQ(channel.format.arrays[0].shape[1], 32);
    CHECK_OK(sluice_cipd_list(count_own, &found));
    CHECK_EQ(found, 1);
    cipd_end(&side);
}

static uint32_t order_seen(uint32_t writers, uint32_t undeclared, uint32_t *pixel_format)
{
    struct sluice_format format = cipd_format(cipd_uint8, 8, 8), seen = SLUICE_FORMAT_INIT;
    struct sluice_cipd_writer_params cipd;
    struct sluice_cipd_reader_params other;
    struct sluice_writer_params params = cipd_writer_params(&cipd, &format);
    struct sluice_reader_params reading = cipd_reader_params(&other);
    sluice_writer *writer;
    sluice_reader *reader;

    cipd.order = writers;
    other.undeclared = undeclared;
    CHECK_OK(sluice_writer_open(&writer, &params));
    CHECK_OK(sluice_reader_open(&reader, &reading));
    CHECK_OK(sluice_reader_format(reader, &seen));
    *pixel_format = seen.arrays[0].image.pixel_format;
    uint32_t order = cipd_info_of_reader(reader).order;
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&writer));
    return order;
}

TEST(cipd_readers_say_what_four_bytes_are_that_no_flag_tells_of)
{
    struct cipd_side side = cipd_begin();
    uint32_t pixels;

    CHECK_EQ(order_seen(SLUICE_CIPD_BGRA, SLUICE_CIPD_RGBA, &pixels), SLUICE_CIPD_BGRA); /* the flag wins */
    CHECK_EQ(pixels, SLUICE_PIXEL_BGRA);
    CHECK_EQ(order_seen(SLUICE_CIPD_RGBA, SLUICE_CIPD_UNKNOWN, &pixels),
             SLUICE_CIPD_UNKNOWN); /* there is no flag for that */
    CHECK_EQ(pixels, SLUICE_PIXEL_NONE);
    CHECK_EQ(order_seen(SLUICE_CIPD_UNKNOWN, SLUICE_CIPD_RGBA, &pixels), SLUICE_CIPD_RGBA);
    CHECK_EQ(pixels, SLUICE_PIXEL_RGBA);
    CHECK_EQ(order_seen(SLUICE_CIPD_UNKNOWN, SLUICE_CIPD_BGRA, &pixels), SLUICE_CIPD_BGRA);
    CHECK_EQ(pixels, SLUICE_PIXEL_BGRA);
    cipd_end(&side);
}

TEST(cipd_calls_know_channels_of_another_kind)
{
    struct cipd_side side = cipd_begin();
    struct sluice_cipd_info info = { .size = sizeof info };
    struct sluice_cipd_variable variables[4];
    struct sluice_frame frame;
    size_t count = 0;
    sluice_writer *writer = channel_writer();
    sluice_reader *reader = channel_reader(1);

    CHECK_RESULT(sluice_cipd_writer_info(writer, &info), SLUICE_E_UNSUPPORTED);
    CHECK_RESULT(sluice_cipd_reader_info(reader, &info), SLUICE_E_UNSUPPORTED);
    CHECK_RESULT(sluice_cipd_set_slots(writer, 3), SLUICE_E_UNSUPPORTED);
    CHECK_RESULT(sluice_cipd_retry(reader), SLUICE_E_UNSUPPORTED);
    channel_commit(writer, side.stream, 0, 1);
    CHECK_OK(sluice_reader_acquire(reader, SLUICE_ON_CPU, 20 * SLUICE_S, &frame));
    CHECK_RESULT(sluice_cipd_mark(reader, &frame, side.stream), SLUICE_E_UNSUPPORTED);
    CHECK_RESULT(sluice_cipd_check_mark(reader, &frame), SLUICE_E_UNSUPPORTED);
    CHECK_OK(sluice_reader_check(reader, &frame)); /* its lease holds one of those */
    CHECK_OK(sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
    CHECK_RESULT(sluice_reader_check(reader, &frame), SLUICE_E_STALE);
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&writer));
    CHECK_OK(sluice_cipd_variables(variables, 4, &count));
    CHECK_GE(count, 20);
    CHECK_HAS(variables[0].name, "CUDALINK_");
    struct sluice_cipd_writer_params writing = SLUICE_CIPD_WRITER_PARAMS_INIT;
    struct sluice_cipd_reader_params reading = SLUICE_CIPD_READER_PARAMS_INIT;
    CHECK_OK(sluice_cipd_environment(&writing, &reading));
    CHECK_EQ(writing.graph, SLUICE_CIPD_ON);
    CHECK_EQ(writing.block, 0);
    CHECK_EQ(writing.settle_frames, 30);
    CHECK_EQ(reading.reconnect, SLUICE_CIPD_ON);
    CHECK_EQ(reading.wait_spin_ns, 200000);
    CHECK_OK(sluice_cipd_environment(NULL, NULL));
    cipd_end(&side);
}

TEST(cipd_a_channel_without_frames_counts_as_stalled)
{
    struct cipd_side side = cipd_begin();
    struct sluice_cipd_reader_params cipd;
    struct sluice_reader_params params = cipd_reader_params(&cipd);
    struct sluice_format format = SLUICE_FORMAT_INIT;
    struct sluice_cipd_writer_params writing;
    int64_t shape[3] = { 8, 8, 2 };
    struct sluice_frame frame;
    sluice_reader *reader;

    CHECK_OK(sluice_format_add_tensor(&format, "x", cipd_uint8, 3, shape));
    struct sluice_writer_params opening = cipd_writer_params(&writing, &format);
    writing.mono_alpha = 1;
    CHECK_OK(sluice_writer_open(&side.writer, &opening));
    cipd.stall_ns = 20 * SLUICE_MS;
    CHECK_OK(sluice_reader_open(&reader, &params));
    CHECK_EQ(cipd_info_of_reader(reader).mono_alpha, 1);
    test_nap(30 * SLUICE_MS);
    CHECK_SAYS(sluice_reader_acquire(reader, SLUICE_ON_CPU, SLUICE_MS, &frame), SLUICE_TIMEOUT,
               "pauses, hangs, or was killed");
    struct sluice_cipd_info info = cipd_info_of_reader(reader);
    CHECK_EQ(info.state, SLUICE_CIPD_STALLED);
    CHECK_HAS(info.why, "no frame for");
    CHECK_OK(sluice_reader_close(&reader));
    cipd.pair = SLUICE_CIPD_RED_GREEN;
    CHECK_OK(sluice_reader_open(&reader, &params));
    CHECK_EQ(cipd_info_of_reader(reader).mono_alpha, 0);
    CHECK_OK(sluice_reader_close(&reader));
    cipd_end(&side);
}

TEST(cipd_readers_say_all_that_is_known_of_what_makes_no_sense)
{
    struct cipd_side side = cipd_begin();
    struct sluice_cipd_reader_params cipd;
    struct sluice_reader_params params = cipd_reader_params(&cipd);
    struct sluice_format format = SLUICE_FORMAT_INIT;
    struct sluice_frame frame;
    sluice_reader *reader;
    char path[128];

    snprintf(path, sizeof path, "/dev/shm/%s", cipd_name() + strlen("cipd:"));
    FILE *file = fopen(path, "w");
    CHECK(file && fputs("nineteen bytes long", file) >= 0 && fclose(file) == 0);
    params.open_timeout_ns = SLUICE_LATER;
    CHECK_OK(sluice_reader_open(&reader, &params));
    for (int i = 0; i < 2; i++) { /* also without another inspection */
        CHECK_SAYS(sluice_reader_acquire(reader, SLUICE_ON_CPU, 0, &frame), SLUICE_NO_WRITER, "has 19 bytes");
        CHECK_HAS(sluice_last_error(), "its writer has not filled it yet");
    }
    CHECK_SAYS(sluice_reader_format(reader, &format), SLUICE_NO_WRITER, "has 19 bytes");
    struct sluice_cipd_info info = cipd_info_of_reader(reader);
    CHECK_EQ(info.state, SLUICE_CIPD_UNFINISHED);
    CHECK_HAS(info.why, "has 19 bytes, its writer has not filled it yet");
    cipd_end_reader(&side, reader);
}

/* As when a writer of cuda-link's was killed, and Python's resource tracker has removed its segment. */
TEST(cipd_readers_say_that_a_segment_has_lost_its_name)
{
    struct cipd_side side = cipd_begin();
    struct sluice_cipd_reader_params cipd;
    struct sluice_reader_params params = cipd_reader_params(&cipd);
    struct sluice_frame frame;
    sluice_reader *reader;

    struct child child = cipd_start_writer("3");
    cipd_command(&child, "1");
    cipd_disguise();
    cipd.stall_ns = -1;
    CHECK_OK(sluice_reader_open(&reader, &params));
    cipd_take_and_release(reader, &side, 1);
    child_kill(&child, SIGKILL);
    CHECK_EQ(cipd_info_of_reader(reader).state, SLUICE_CIPD_RUNNING);
    cipd_clean();
    struct sluice_cipd_info info = { .size = sizeof info };
    if (sluice_cipd_look(cipd_name(), &info) == 0)
        SKIP("on Windows a segment has its name for as long as a reader has it");
    CHECK_SOON(sluice_reader_acquire(reader, SLUICE_ON_CPU, SLUICE_MS, &frame) == SLUICE_TIMEOUT &&
                   strstr(sluice_last_error(), "its segment has lost its name: most likely its writer has died"),
               10);
    info = cipd_info_of_reader(reader);
    CHECK_EQ(info.state, SLUICE_CIPD_STALLED);
    CHECK_HAS(info.why, "its segment has lost its name: most likely its writer has died; the next one is waited for");
    side.writer = cipd_writer(&side.format); /* and it is */
    CHECK_OK(cipd_send(side.writer, &side.array, side.stream, 2, NULL));
    cipd_take_and_release(reader, &side, 2);
    info = cipd_info_of_reader(reader);
    CHECK_EQ(info.state, SLUICE_CIPD_RUNNING);
    CHECK_STR(info.why, "");
    cipd_end_reader(&side, reader);
}

/* ---- settings ---- */

struct settings {
    struct sluice_cipd_writer_params writing;
    struct sluice_cipd_reader_params reading;
};

/* The settings as a process of its own reports them: they are read once. */
static struct settings settings_with(const char *variable, const char *value)
{
    struct settings *said = mmap(NULL, sizeof *said, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0), found;
    int status;

    CHECK(said != MAP_FAILED);
    pid_t child = fork();
    if (child == 0) {
        said->writing = (struct sluice_cipd_writer_params)SLUICE_CIPD_WRITER_PARAMS_INIT;
        said->reading = (struct sluice_cipd_reader_params)SLUICE_CIPD_READER_PARAMS_INIT;
        said->writing.holds_barrier = 1;
        bool set = !variable || setenv(variable, value, 1) == 0;
        _exit(!set || sluice_cipd_environment(&said->writing, &said->reading) != 0);
    }
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
    found = *said;
    munmap(said, sizeof *said);
    return found;
}

static const char *another(const char *value)
{
    return strcmp(value, "0") == 0 ? "1" : strcmp(value, "1") == 0 ? "0" : strcmp(value, "high") == 0 ? "normal" : "7";
}

/* Each setting that is reported as honoured changes something. */
TEST(cipd_honoured_settings_have_an_effect)
{
    struct sluice_cipd_variable variables[64];
    struct settings usual = settings_with(NULL, NULL);
    size_t count, honoured = 0;

    CHECK_OK(sluice_cipd_variables(variables, 64, &count));
    CHECK_LE(count, 64);
    for (size_t i = 0; i < count; i++) {
        struct settings other = settings_with(variables[i].name, another(variables[i].usual));
        bool changed = memcmp(&usual, &other, sizeof usual) != 0;
        honoured += changed;
        if (changed != (variables[i].used == SLUICE_CIPD_USED))
            CHECK_STR(variables[i].name, "what it is said to be");
    }
    CHECK_GE(honoured, 10);
}

/* A process reads them once. */
TEST(cipd_settings_of_the_barrier_may_be_zero)
{
    struct sluice_cipd_writer_params writing = SLUICE_CIPD_WRITER_PARAMS_INIT;

    CHECK_EQ(setenv("CUDALINK_BARRIER_STALE_NS", "0", 1), 0);
    CHECK_EQ(setenv("CUDALINK_TD_BARRIER_SETTLE_FRAMES", "0", 1), 0);
    CHECK_EQ(setenv("CUDALINK_TD_ACTIVATION_BARRIER", "0", 1), 0);
    writing.holds_barrier = 1;
    CHECK_OK(sluice_cipd_environment(&writing, NULL));
    CHECK_EQ(writing.barrier, SLUICE_CIPD_OFF);  /* always stale */
    CHECK_EQ(writing.settle_frames, UINT32_MAX); /* as with cuda-link: until it closes */
    CHECK_EQ(writing.holds_barrier, 0);
}

TEST(cipd_a_writer_that_holds_the_barrier_does_unless_the_environment_forbids_it)
{
    struct sluice_cipd_writer_params writing = SLUICE_CIPD_WRITER_PARAMS_INIT;

    CHECK_OK(sluice_cipd_environment(&writing, NULL));
    CHECK_EQ(writing.holds_barrier, 0);
    writing.holds_barrier = 1;
    CHECK_OK(sluice_cipd_environment(&writing, NULL));
    CHECK_EQ(writing.holds_barrier, 1);
    CHECK_EQ(writing.barrier, SLUICE_CIPD_ON);
}
