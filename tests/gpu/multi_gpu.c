/* SPDX-License-Identifier: MIT
 *
 * Readers on another GPU than the channel's: frames are mapped there, copied there, or refused with the reason.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpu/pair.h"

TEST(a_reader_on_another_gpu_reads_the_slots_where_they_lie)
{
    struct pair pair = pair_open(2, SLUICE_STAGED_IF_NEEDED, 0);
    struct sluice_frame frame;

    for (uint32_t i = 1; i <= 10; i++) {
        pair_commit(&pair, i == 5 ? SPIN : 0, i);
        pair_take(&pair, &frame);
        CHECK_EQ(frame.sequence, i);
        CHECK_EQ(pair_info().held, 1);
        pair_check(&pair, &frame, i);
        pair_give_back(&pair, &frame);
        CHECK_OK(sluice_stream_synchronize(pair.stream)); /* until then it counts as held */
    }
    pair_check_path("mapped by");
    CHECK_STR(pair_info().copy_reason, "");
    pair_close(&pair);
}

TEST(a_stream_of_another_gpu_waits_for_a_frame)
{
    struct pair pair = pair_open(2, SLUICE_STAGED_NEVER, 1);
    struct gpu_gate gate = gpu_gate_new();
    struct sluice_frame frame;

    pair_commit(&pair, 0, 1); /* from here on the writer knows of it */
    pair_take(&pair, &frame);
    pair_give_back(&pair, &frame);
    for (uint32_t i = 2; i <= 4; i++) {
        gpu_use(0);
        channel_commit_behind(&gate, pair.fixture.writer, pair.fixture.writing, i);
        pair_take(&pair, &frame);
        CHECK(frame.flags & SLUICE_FRAME_AHEAD);
        gpu_gate_open_later(&gate);
        pair_check(&pair, &frame, i);
        gpu_gate_join(&gate);
        pair_give_back(&pair, &frame);
    }
    gpu_use(0);
    gpu_gate_end(&gate);
    pair_close(&pair);
}

TEST(streams_of_the_channels_own_gpu_are_not_for_its_readers_elsewhere)
{
    struct pair pair = pair_open(1, SLUICE_STAGED_NEVER, 0);
    struct sluice_frame frame;

    pair_commit(&pair, 0, 1);
    CHECK_SAYS(sluice_reader_acquire(pair.reader, pair.fixture.reading, SLUICE_S, &frame), SLUICE_E_WRONG_DEVICE,
               "channel 'cam': the ");
    pair_take(&pair, &frame);
    CHECK_RESULT(sluice_reader_release(pair.reader, &frame, pair.fixture.reading), SLUICE_E_WRONG_DEVICE);
    pair_give_back(&pair, &frame);
    pair_close(&pair);
}

#define TOOK "took it"

/* ---- readers in other processes, which see other GPUs or lack features ---- */

/* Opens a reader on a device ("": the channel's), takes a frame with the value 7, then as many as commanded. Prints the
 * result and the message of a failure. */
ROLE(elsewhere)
{
    struct sluice_reader_params params = channel_reader_params(1);
    struct sluice_device device;
    struct sluice_stream stream;
    struct sluice_frame frame;
    sluice_reader *reader;
    uintptr_t native;

    CHECK(argc == 4);
    gpu_begin();
    gpu_use(atoi(argv[3])); /* the GPU of the device, in this process's order */
    params.device = argv[1][0] ? argv[1] : NULL;
    params.staged = (uint32_t)atoi(argv[2]);
    int r = sluice_reader_open(&reader, &params);
    if (r < 0) {
        role_say("%s: %s", sluice_result_name(r), sluice_last_error());
        gpu_end();
        return 0;
    }
    char name[16];
    snprintf(name, sizeof name, "cuda:%s", argv[3]);
    CHECK_OK(sluice_device_open(&device, name));
    CHECK_OK(sluice_stream_create(device, NULL, &stream));
    CHECK_OK(sluice_stream_native(stream, &native));
    int64_t began = test_now();
    r = sluice_reader_acquire(reader, stream, 20 * SLUICE_S, &frame);
    if (r == 0 && params.staged && getenv("SLUICE_FAKE_DELAY")) /* a buffer was cleared, and the frame copied */
        CHECK_GE(test_now() - began, 2 * atol(getenv("SLUICE_FAKE_DELAY")) * 1000);
    if (r < 0) {
        role_say("%s: %s", sluice_result_name(r), sluice_last_error());
    } else {
        CHECK_OK(r);
        channel_check(&frame, stream, 7);
        CHECK_OK(sluice_reader_release(reader, &frame, stream));
        role_say("%s", TOOK);
        while (role_line())
            ;
    }
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_device_close(&device));
    gpu_end();
    return 0;
}

/* What becomes of memory whose GPU CUDA_VISIBLE_DEVICES hides depends on the driver. */
static void note_hidden(const char *line)
{
    FILE *facts = gpu_facts();

    fprintf(facts, "{\"fact\": \"memory of a hidden GPU\", \"mapped\": %s}\n", line[0] == 't' ? "true" : "false");
    CHECK(fclose(facts) == 0);
}

/* A writer on `writers` with one frame, and a reader process in an environment of its own. `answer` is part of its
 * line; NULL: it takes the frame, or fails with UNSUPPORTED, which is recorded as a fact. `path`: of a reader that
 * takes it. */
static void look_from_elsewhere(const char *writers, const char *visible, const char *without, const char *device,
                                const char *staged, const char *ordinal, const char *answer, const char *path)
{
    struct sluice_writer_params params = channel_writer_params();
    struct sluice_format format = channel_format(CHANNEL_WORDS);
    struct sluice_stream stream;
    struct sluice_device own;
    sluice_writer *writer;

    gpu_use(0);
    own = gpu_open();
    params.device = writers;
    params.format = &format;
    CHECK_OK(sluice_writer_open(&writer, &params));
    CHECK_OK(sluice_stream_create(own, NULL, &stream));
    channel_commit(writer, stream, 0, 7);
    if (visible)
        CHECK(setenv("CUDA_VISIBLE_DEVICES", visible, 1) == 0);
    if (without)
        CHECK(setenv("SLUICE_FAKE_WITHOUT", without, 1) == 0);
    struct child child = role_start("elsewhere", device, staged, ordinal, NULL);
    const char *line = child_line(&child, 20);
    CHECK_HAS(line, answer ? answer : strcmp(line, TOOK) == 0 ? TOOK : "SLUICE_E_UNSUPPORTED");
    if (!answer)
        note_hidden(line);
    if (strcmp(line, TOOK) == 0) {
        CHECK_HAS(pair_info().path, path);
        role_stop(&child);
    }
    CHECK_EQ(child_wait(&child, 20), 0);
    CHECK_OK(sluice_writer_close(&writer));
    CHECK_OK(sluice_device_close(&own));
    gpu_end();
}

TEST(gpus_are_matched_by_uuid_whatever_they_are_called)
{
    char first[48], second[48], visible[100], name[64];

    gpu_begin_with(2);
    snprintf(visible, sizeof visible, "%s,%s", gpu_uuid(1, second), gpu_uuid(0, first));
    snprintf(name, sizeof name, "cuda:%s", first);
    look_from_elsewhere(name, visible, NULL, "cuda:1", "0", "1", TOOK, "mapped");
    CHECK_STR(getenv("CUDA_VISIBLE_DEVICES"), visible);
}

TEST(the_channels_own_gpu_is_found_in_another_order)
{
    char first[48], second[48], visible[100];

    gpu_begin_with(2);
    snprintf(visible, sizeof visible, "%s,%s", gpu_uuid(1, second), gpu_uuid(0, first));
    look_from_elsewhere("cuda:0", visible, NULL, "", "0", "1", TOOK, "mapped");
}

TEST(another_gpu_in_another_process)
{
    gpu_begin_with(2);
    pair_need_peers();
    look_from_elsewhere("cuda:0", NULL, NULL, "cuda:1", "0", "1", TOOK, "mapped by GPU-");
}

TEST(copies_in_another_process)
{
    gpu_begin_with(2);
    pair_need_peers();
    look_from_elsewhere("cuda:0", NULL, NULL, "cuda:1", "2", "1", TOOK, "copied to GPU-");
}

TEST(a_reader_that_does_not_see_the_channels_gpu_learns_what_to_do)
{
    char second[48];

    gpu_begin_with(2);
    look_from_elsewhere("cuda:0", gpu_uuid(1, second), NULL, "", "0", "0", "name one as the reader's device", NULL);
}

TEST(the_channels_gpu_may_be_hidden_from_a_reader_on_another_one)
{
    char second[48];

    gpu_begin_with(2);
    pair_need_peers();
    look_from_elsewhere("cuda:0", gpu_uuid(1, second), NULL, "cuda:0", "0", "0", gpu_is_fake() ? TOOK : NULL,
                        "mapped by GPU-");
}

TEST(gpus_that_are_no_peers_are_named_with_the_reason)
{
    pair_need_fake();
    look_from_elsewhere("cuda:0", NULL, "peers", "cuda:1", "0", "1",
                        "GPU-f0f1f2f3-f4f5-f6f7-f8f9-fafbfcfdfe01 (Fake GPU 1) cannot reach the memory of "
                        "GPU-f0f1f2f3-f4f5-f6f7-f8f9-fafbfcfdfe00 (Fake GPU 0)",
                        NULL);
}

TEST(instances_of_a_divided_gpu_are_no_peers)
{
    pair_need_fake();
    CHECK(setenv("SLUICE_FAKE_IS", "mig", 1) == 0);
    look_from_elsewhere("cuda:0", NULL, "peers", "cuda:1", "0", "1", "MIG", NULL);
}

TEST(gpus_that_are_no_peers_have_copies_if_they_may)
{
    pair_need_fake();
    look_from_elsewhere("cuda:0", NULL, "peers", "cuda:1", "1", "1", TOOK, "copied to GPU-f0f1f2f3");
}

/* As if the GPUs were not peers; or could not export memory, which is then opened by handles. */
static void do_without(const char *words, const char *staged, const char *answer, const char *path)
{
    gpu_begin_with(2);
    CHECK(setenv("SLUICE_WITHOUT", words, 1) == 0);
    look_from_elsewhere("cuda:0", NULL, NULL, "cuda:1", staged, "1", answer, path);
}

TEST(gpus_that_shall_not_be_peers)
{
    do_without("peers", "0", "SLUICE_WITHOUT has \"peers\"", NULL);
}

TEST(copies_by_way_of_the_host)
{
    do_without("peers", "1", TOOK, "copied to GPU-");
}

TEST(another_gpu_by_a_handle)
{
    gpu_begin_with(2);
    pair_need_peers();
    do_without("vmm", "0", TOOK, "mapped by GPU-");
}

TEST(copies_of_what_comes_by_a_handle)
{
    do_without("vmm,peers", "1", TOOK, "copied to GPU-");
}

TEST(acquire_waits_for_the_copy)
{
    pair_need_fake();
    CHECK(setenv("SLUICE_FAKE_DELAY", "20000", 1) == 0);
    look_from_elsewhere("cuda:0", NULL, NULL, "cuda:1", "2", "1", TOOK, "copied to GPU-f0f1f2f3");
}

TEST(a_gpu_that_is_hidden_and_out_of_reach)
{
    pair_need_fake();
    look_from_elsewhere("cuda:0", "1", "unseen", "cuda:0", "1", "0", "which this process does not see", NULL);
}
