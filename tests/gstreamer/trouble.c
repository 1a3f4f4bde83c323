/* SPDX-License-Identifier: MIT
 *
 * What happens around a pipeline: readers that hold everything, processes that fork, folders of others.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gstreamer/kit.h"

/* ---- a reader that holds everything ---- */

#define FRAMES 40
#define SLOTS  32 /* that a sink adds up to */

static struct child start_waiting_sink(const char *timeout)
{
    struct child pipeline =
        pipeline_start("videotestsrc num-buffers=%d ! video/x-raw,format=GRAY8,width=64,height=48 ! "
                       "identity name=gate ! sluicesink name=sink channel=out sync=false policy=wait timeout=%s",
                       FRAMES, timeout);

    CHECK_SOON(reader_count("out") == 2, 30); /* the test's and the sink's own */
    for (int i = 0; i < FRAMES; i++)
        child_send(&pipeline, "next");
    return pipeline;
}

/* Takes frames until the channel lets it hold no more. */
static uint32_t hold_all(sluice_reader *reader, struct sluice_frame frames[SLOTS])
{
    uint32_t held = 0;
    int r;

    while ((r = sluice_reader_acquire(reader, SLUICE_ON_CPU, 30 * SLUICE_S, &frames[held])) != SLUICE_E_LIMIT) {
        CHECK(r == 0 || r == SLUICE_NO_WRITER || r == SLUICE_AGAIN);
        held += r == 0;
    }
    return held;
}

static uint64_t published(struct child *pipeline)
{
    return pipeline_stat(pipeline, "sink", "in-place") + pipeline_stat(pipeline, "sink", "copied");
}

static sluice_reader *greedy_reader(void)
{
    struct sluice_reader_params params = SLUICE_READER_PARAMS_INIT;
    sluice_reader *reader;

    test_dir();
    params.name = "out";
    params.mode = SLUICE_IN_ORDER;
    params.hold = SLUICE_MOST;
    params.open_timeout_ns = SLUICE_LATER;
    CHECK_OK(sluice_reader_open(&reader, &params));
    return reader;
}

TEST_TIMEOUT(a_waiting_sink_loses_nothing, 60)
{
    struct sluice_frame frames[SLOTS], frame;
    sluice_reader *reader = greedy_reader();
    struct child pipeline = start_waiting_sink("0");
    uint32_t held = hold_all(reader, frames);

    CHECK_GE(held, 2);
    CHECK_SOON(published(&pipeline) == SLOTS, 30); /* there is no slot any more, and the next frame waits */
    CHECK_EQ(pipeline_stat(&pipeline, "sink", "dropped"), 0);
    child_send(&pipeline, "pause"); /* and goes on waiting */
    pipeline_says(&pipeline, "paused");
    child_send(&pipeline, "play");
    pipeline_says(&pipeline, "plays");
    for (uint32_t i = 0; i < held; i++) {
        CHECK_EQ(frames[i].sequence, i + 1);
        CHECK_OK(sluice_reader_release(reader, &frames[i], SLUICE_ON_CPU));
    }
    for (uint32_t i = held; i < FRAMES; i++) {
        CHECK_OK(sluice_reader_acquire(reader, SLUICE_ON_CPU, 30 * SLUICE_S, &frame));
        CHECK_EQ(frame.sequence, i + 1);
        CHECK_EQ(frame.missed, 0);
        CHECK_OK(sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
    }
    pipeline_says(&pipeline, "eos");
    CHECK_EQ(published(&pipeline), FRAMES);
    CHECK_EQ(pipeline_stat(&pipeline, "sink", "dropped"), 0);
    CHECK_EQ(pipeline_stat(&pipeline, "sink", "missed"), 0);
    pipeline_stop(&pipeline);
    CHECK_OK(sluice_reader_close(&reader));
}

TEST_TIMEOUT(a_frame_that_has_waited_too_long_is_dropped, 60)
{
    struct sluice_frame frames[SLOTS];
    sluice_reader *reader = greedy_reader();
    struct child pipeline = start_waiting_sink("1");

    hold_all(reader, frames);
    for (int i = SLOTS; i < FRAMES; i++)
        pipeline_says(&pipeline, "dropped");
    pipeline_says(&pipeline, "eos");
    CHECK_EQ(published(&pipeline), SLOTS);
    CHECK_EQ(pipeline_stat(&pipeline, "sink", "dropped"), FRAMES - SLOTS);
    CHECK_EQ(pipeline_stat(&pipeline, "sink", "missed"), 0); /* what was published stays */
    CHECK_OK(sluice_reader_close(&reader));
    pipeline_stop(&pipeline);
}

TEST_TIMEOUT(a_sink_that_waits_can_be_stopped, 60)
{
    struct sluice_frame frames[SLOTS];
    sluice_reader *reader = greedy_reader();
    struct child pipeline = start_waiting_sink("0");

    hold_all(reader, frames);
    CHECK_SOON(published(&pipeline) == SLOTS, 30);
    pipeline_stop(&pipeline);
    CHECK_OK(sluice_reader_close(&reader));
}

/* ---- fork ---- */

TEST_TIMEOUT(a_forked_child_changes_nothing, 60)
{
    sluice_writer *writer = image_writer("in", SLUICE_PIXEL_GRAY8, 64, 48, 0);
    sluice_reader *reader = image_reader("out");
    struct sluice_frame frame;
    struct sluice_array array;
    char hash[32];

    struct child pipeline = pipeline_start("sluicesrc channel=in framerate=30/1 ! identity name=look ! "
                                           "identity name=gate ! sluicesink name=sink channel=out sync=false");
    CHECK_SOON(reader_count("in") == 1, 30);
    child_send(&pipeline, "keep 1");
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)image_commit(writer, 1));
    CHECK_HAS(pipeline_says(&pipeline, "buffer"), hash); /* which waits at the gate, and so does its thread */

    child_send(&pipeline, "fork");
    CHECK_STR(pipeline_says(&pipeline, "forked"), "3");
    for (uint32_t i = 2; i < 40; i++) /* the child has released nothing: the slot is not used again */
        image_commit(writer, i);
    child_send(&pipeline, "kept");
    CHECK_STR(pipeline_says(&pipeline, "kept"), hash);
    child_send(&pipeline, "next");
    int r;
    do
        r = sluice_reader_acquire(reader, SLUICE_ON_CPU, 30 * SLUICE_S, &frame);
    while (r == SLUICE_NO_WRITER || r == SLUICE_AGAIN);
    CHECK_EQ(r, 0);
    CHECK_OK(sluice_frame_array(&frame, NULL, &array));
    CHECK_EQ(image_hash(&array), strtoull(hash, NULL, 16));
    CHECK_OK(sluice_reader_release(reader, &frame, SLUICE_ON_CPU));

    pipeline_says(&pipeline, "buffer");
    child_send(&pipeline, "fork stay");
    pid_t child = (pid_t)atoi(pipeline_says(&pipeline, "forked"));
    child_kill(&pipeline, SIGKILL);
    CHECK_SOON(reader_count("in") == 0, 30); /* the child keeps neither its parent's place, */
    sluice_writer *next = image_writer("out", SLUICE_PIXEL_GRAY8, 64, 48, 0); /* nor the name of its channel */
    CHECK_EQ(kill(child, SIGKILL), 0);
    CHECK_OK(sluice_writer_close(&next));
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&writer));
}

/* ---- folders ---- */

static void refuses(const char *text, const char *sentence)
{
    struct child pipeline = role_start_at("pipeline.c", "pipeline", text, NULL);

    CHECK_HAS(pipeline_says(&pipeline, "error"), sentence);
    pipeline_stop(&pipeline);
}

/* In the folder `dir`; NULL: in the standard one. */
static void both_refuse(const char *dir, const char *sentence)
{
    gstreamer_environment();
    if (dir)
        setenv("SLUICE_DIR", dir, 1);
    else
        unsetenv("SLUICE_DIR");
    refuses("videotestsrc ! sluicesink channel=cam", sentence);
    if (dir)
        setenv("SLUICE_DIR", dir, 1);
    else
        unsetenv("SLUICE_DIR");
    refuses("sluicesrc channel=cam ! fakesink", sentence);
}

TEST_TIMEOUT(folders_that_are_not_ours_are_refused, 60)
{
    char path[4096];

    snprintf(path, sizeof path, "%s/open", test_dir());
    CHECK(mkdir(path, 0700) == 0 && chmod(path, 0777) == 0);
    both_refuse(path, "can be written by everybody");
    snprintf(path, sizeof path, "%s/sluice", getenv("XDG_RUNTIME_DIR"));
    CHECK(mkdir(path, 0700) == 0 && chmod(path, 0755) == 0);
    both_refuse(NULL, "mode 0755 where 0700 is needed");
    CHECK_EQ(chmod(path, 0700), 0);
    if (geteuid() == 0) {
        CHECK_EQ(chown(path, 65533, 65533), 0);
        both_refuse(NULL, "belongs to user 65533");
    }
}

TEST_TIMEOUT(a_folder_that_cannot_be_written_is_named, 60)
{
    if (geteuid() == 0)
        SKIP("root can write everywhere");
    test_dir();
    gstreamer_environment();
    setenv("SLUICE_DIR", "/", 1);
    refuses("videotestsrc ! sluicesink channel=cam", "may not write the lock file");
}
