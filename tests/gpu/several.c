/* SPDX-License-Identifier: MIT
 *
 * Readers on another GPU than the channel's: frames mapped over there, or copied, or refused with the reason.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device/device.h"
#include "fake/fake.h"
#include "gpu/channel.h"
#include "mem/mem.h"

extern const struct sl_mem_ops sl_mem_cuda;

/* "GPU-...", as CUDA_VISIBLE_DEVICES takes it. */
static const char *uuid_of(int device, char text[48])
{
    unsigned char uuid[SL_DEVICE_UUID];
    char name[SL_DEVICE_NAME];

    CU(DeviceGetUuid, uuid, device);
    sl_device_cuda.name_of(uuid, name);
    snprintf(text, 48, "%.47s", name + strlen("cuda:"));
    return text;
}

static void need_peers(void)
{
    int can = 0;

    CU(DeviceCanAccessPeer, &can, 1, 0);
    if (!can)
        SKIP("GPU 1 cannot reach GPU 0's memory here");
}

static void need_fake(void)
{
    gpu_begin_with(2);
    if (!gpu_is_fake())
        SKIP("what a driver lacks, or does not come to, is shown on the fake one");
}

/* ---- a reader of this process on "cuda:1" ---- */

struct pair {
    struct scene scene; /* of "cuda:0" */
    struct sluice_device device;
    struct sluice_stream stream;
    sluice_reader *reader;
};

static struct pair open_pair(uint32_t hold, uint32_t staged, uint32_t ahead)
{
    struct sluice_reader_params params;
    struct pair pair;

    gpu_begin_with(2);
    need_peers();
    pair.scene = channel_scene();
    params = channel_reader_params(hold);
    params.device = "cuda:1";
    params.staged = staged;
    params.ahead = ahead;
    CHECK_OK(sluice_reader_open(&pair.reader, &params));
    CHECK_OK(sluice_device_open(&pair.device, "cuda:1"));
    CHECK_OK(sluice_stream_create(pair.device, NULL, &pair.stream));
    return pair;
}

static void close_pair(struct pair *pair)
{
    CHECK_OK(sluice_reader_close(&pair->reader));
    CHECK_OK(sluice_device_close(&pair->device));
    channel_end(&pair->scene);
}

static void commit(struct pair *pair, int64_t ns, uint32_t value)
{
    gpu_use(0);
    channel_commit(pair->scene.writer, pair->scene.writing, ns, value);
}

static void check(struct pair *pair, const struct sluice_frame *frame, uint32_t value)
{
    gpu_use(1);
    channel_check(frame, pair->stream, value);
}

static void take(struct pair *pair, struct sluice_frame *frame)
{
    CHECK_OK(sluice_reader_acquire(pair->reader, pair->stream, 5 * SLUICE_S, frame));
}

static void give_back(struct pair *pair, struct sluice_frame *frame)
{
    CHECK_OK(sluice_reader_release(pair->reader, frame, pair->stream));
}

static struct sluice_reader_info info_of_reader(void)
{
    struct sluice_channel_info info = { .size = sizeof info };
    struct sluice_reader_info reader;

    CHECK_OK(sluice_channel_info("cam", SLUICE_DEFAULT, &info, &reader, 1));
    CHECK_EQ(info.readers, 1);
    return reader;
}

/* "how GPU-" and the beginning of GPU 1's UUID. */
static void check_path(const char *how)
{
    char text[48], expected[80];

    snprintf(expected, sizeof expected, "%s %.12s", how, uuid_of(1, text));
    CHECK_STR(info_of_reader().path, expected);
}

TEST(a_reader_on_another_gpu_reads_the_slots_where_they_lie)
{
    struct pair pair = open_pair(2, SLUICE_STAGED_IF_NEEDED, 0);
    struct sluice_frame frame;

    for (uint32_t i = 1; i <= 10; i++) {
        commit(&pair, i == 5 ? SPIN : 0, i);
        take(&pair, &frame);
        CHECK_EQ(frame.sequence, i);
        CHECK_EQ(info_of_reader().held, 1);
        check(&pair, &frame, i);
        give_back(&pair, &frame);
    }
    check_path("mapped by");
    CHECK_STR(info_of_reader().copy_reason, "");
    close_pair(&pair);
}

TEST(a_stream_of_another_gpu_waits_for_a_frame)
{
    struct pair pair = open_pair(2, SLUICE_STAGED_NEVER, 1);
    struct sluice_frame frame;

    commit(&pair, 0, 1); /* from here on the writer knows of it */
    take(&pair, &frame);
    give_back(&pair, &frame);
    for (uint32_t i = 2; i <= 4; i++) {
        commit(&pair, SPIN, i);
        take(&pair, &frame);
        CHECK(frame.flags & SLUICE_FRAME_AHEAD);
        check(&pair, &frame, i);
        give_back(&pair, &frame);
    }
    close_pair(&pair);
}

TEST(streams_of_the_channels_own_gpu_are_not_for_its_readers_elsewhere)
{
    struct pair pair = open_pair(1, SLUICE_STAGED_NEVER, 0);
    struct sluice_frame frame;

    commit(&pair, 0, 1);
    CHECK_RESULT(sluice_reader_acquire(pair.reader, pair.scene.reading, SLUICE_S, &frame), SLUICE_E_WRONG_DEVICE);
    take(&pair, &frame);
    CHECK_RESULT(sluice_reader_release(pair.reader, &frame, pair.scene.reading), SLUICE_E_WRONG_DEVICE);
    give_back(&pair, &frame);
    close_pair(&pair);
}

/* ---- copies ---- */

static void commit_with_meta(struct pair *pair, uint32_t value, const char *meta)
{
    struct sluice_frame frame;

    gpu_use(0);
    CHECK_OK(sluice_writer_begin(pair->scene.writer, 5 * SLUICE_S, &frame));
    gpu_fill(gpu_native(pair->scene.writing), channel_words(&frame), CHANNEL_WORDS, value);
    frame.meta_size = (uint32_t)strlen(meta) + 1;
    memcpy(frame.meta, meta, frame.meta_size);
    CHECK_OK(sluice_writer_commit(pair->scene.writer, &frame, pair->scene.writing));
}

TEST(a_copy_outlives_its_slot)
{
    struct pair pair = open_pair(2, SLUICE_STAGED_ALWAYS, 0);
    struct sluice_frame frame, second;
    struct sluice_array array;

    commit_with_meta(&pair, 1, "one");
    take(&pair, &frame);
    check_path("copied to");
    CHECK_HAS(info_of_reader().copy_reason, "asked");
    CHECK_EQ(info_of_reader().held, 0);
    for (uint32_t i = 2; i <= 20; i++) /* every slot is written again */
        commit_with_meta(&pair, i, "more");
    CHECK_OK(sluice_stream_synchronize(pair.scene.writing));
    take(&pair, &second);
    CHECK_EQ(second.sequence, 20);
    CHECK_STR((const char *)frame.meta, "one");
    CHECK_STR((const char *)second.meta, "more");
    CHECK_OK(sluice_frame_array(&frame, NULL, &array));
    CHECK_EQ(array.shape[0], CHANNEL_WORDS);
    CHECK_EQ(array.read_only, 1);
    check(&pair, &frame, 1);
    check(&pair, &second, 20);
    give_back(&pair, &frame);
    check(&pair, &second, 20);
    give_back(&pair, &second);
    close_pair(&pair);
}

TEST(a_copy_is_not_overwritten_while_work_uses_it)
{
    struct pair pair = open_pair(1, SLUICE_STAGED_ALWAYS, 0);
    struct sluice_frame frame;
    uint32_t found = 77;

    gpu_use(1);
    struct sl_cu_stream *stream = gpu_native(pair.stream);
    uint64_t bad = gpu_memory(8);
    CU(MemsetD8Async, bad, 0, 8, stream);
    for (uint32_t i = 1; i <= 6; i++) {
        commit(&pair, 0, i);
        gpu_use(1);
        int r = i == 1 ? 0 : sluice_reader_acquire(pair.reader, pair.stream, 0, &frame);
        if (i > 1 && cu.StreamQuery(stream) == SL_CU_NOT_READY) /* it may hold one, on which is worked */
            CHECK_RESULT(r, SLUICE_TIMEOUT);
        if (i == 1 || r == SLUICE_TIMEOUT)
            take(&pair, &frame);
        CHECK_EQ(frame.sequence, i);
        gpu_spin(stream, SPIN);
        gpu_compare(stream, channel_words(&frame), CHANNEL_WORDS, i, bad);
        give_back(&pair, &frame);
    }
    CU(MemcpyDtoHAsync, &found, bad, 4, stream);
    CU(StreamSynchronize, stream);
    CHECK_EQ(found, 0);
    close_pair(&pair);
}

TEST(copies_on_the_cpus_account)
{
    struct pair pair = open_pair(1, SLUICE_STAGED_ALWAYS, 0);
    struct sluice_frame frame;

    commit(&pair, SPIN, 3);
    CHECK_OK(sluice_reader_acquire(pair.reader, SLUICE_ON_CPU, 5 * SLUICE_S, &frame));
    check(&pair, &frame, 3); /* whole, whatever looks at it */
    CHECK_OK(sluice_reader_release(pair.reader, &frame, SLUICE_ON_CPU));
    CHECK_RESULT(sluice_reader_release(pair.reader, &frame, SLUICE_ON_CPU), SLUICE_E_STALE);
    close_pair(&pair);
}

TEST(copies_of_larger_frames)
{
    struct pair pair = open_pair(1, SLUICE_STAGED_ALWAYS, 0);
    struct sluice_format format = channel_format(4 * CHANNEL_WORDS);
    struct sluice_frame frame;

    commit(&pair, 0, 1);
    take(&pair, &frame);
    check(&pair, &frame, 1);
    give_back(&pair, &frame);
    CHECK_OK(sluice_writer_reformat(pair.scene.writer, &format));
    gpu_use(0);
    CHECK_OK(sluice_writer_begin(pair.scene.writer, 5 * SLUICE_S, &frame));
    gpu_fill(gpu_native(pair.scene.writing), channel_words(&frame), 4 * CHANNEL_WORDS, 8);
    CHECK_OK(sluice_writer_commit(pair.scene.writer, &frame, pair.scene.writing));
    take(&pair, &frame);
    CHECK(frame.flags & SLUICE_FRAME_NEW_FORMAT);
    gpu_use(1);
    CHECK_EQ(gpu_differ(gpu_native(pair.stream), channel_words(&frame), 4 * CHANNEL_WORDS, 8), 0);
    give_back(&pair, &frame);
    close_pair(&pair);
}

/* The fake driver's machine, to make it slow between two frames. */
static struct fake_machine *machine(void)
{
    void *library = dlopen(sl_cuda_library(), RTLD_NOW | RTLD_NOLOAD);
    struct fake_machine *found;

    CHECK(library);
    found = dlsym(library, "fake_machine");
    CHECK(found && dlclose(library) == 0);
    return found;
}

TEST(a_copy_that_takes_too_long_is_given_up)
{
    struct sluice_reader_stats stats = { .size = sizeof stats };
    struct sluice_frame frame;

    need_fake();
    struct pair pair = open_pair(2, SLUICE_STAGED_ALWAYS, 0);
    for (uint32_t i = 1; i <= 2; i++) { /* each of the two places is made */
        commit(&pair, 0, i);
        take(&pair, &frame);
        if (i == 2)
            give_back(&pair, &frame);
    }
    commit(&pair, 0, 3);
    CHECK_OK(sluice_stream_synchronize(pair.scene.writing));
    CHECK_OK(sluice_stream_synchronize(pair.stream));
    machine()->delay = 3 * SLUICE_S;
    int64_t began = test_now();
    CHECK_SAYS(sluice_reader_acquire(pair.reader, pair.stream, 0, &frame), SLUICE_E_LOST, "was not copied");
    CHECK_LE(test_now() - began, 5 * SLUICE_S / 2);
    CHECK_EQ(info_of_reader().held, 0); /* the writer is not held up */
    machine()->delay = 0;
    commit(&pair, 0, 4);
    CHECK_OK(sluice_stream_synchronize(pair.scene.writing));
    CHECK_SAYS(sluice_reader_acquire(pair.reader, pair.stream, 0, &frame), SLUICE_TIMEOUT, "still being worked on");
    take(&pair, &frame); /* where that copy goes no other does before it has ended */
    CHECK_GE(test_now() - began, 3 * SLUICE_S);
    CHECK_EQ(frame.sequence, 4);
    check(&pair, &frame, 4);
    give_back(&pair, &frame);
    CHECK_OK(sluice_reader_stats(pair.reader, &stats));
    CHECK_EQ(stats.lost, 1);
    close_pair(&pair);
}

TEST(what_may_not_be_asked_of_copies)
{
    struct sluice_reader_params params = channel_reader_params(1);
    sluice_reader *reader;

    params.staged = 3;
    CHECK_SAYS(sluice_reader_open(&reader, &params), SLUICE_E_INVALID, "staged");
    params.staged = SLUICE_STAGED_IF_NEEDED;
    params.writable = 1;
    CHECK_SAYS(sluice_reader_open(&reader, &params), SLUICE_E_INVALID, "changes no frame");
}

/* Also where the GPU that gets the copy may not look at the memory it comes from. */
TEST(a_copy_between_gpus_that_do_not_see_each_others_memory)
{
    struct sl_memory from = { .ops = &sl_mem_cuda, .device = "cuda:0", .fd = -1 };
    struct sl_memory to = { .ops = &sl_mem_cuda, .device = "cuda:1", .fd = -1 };
    uint64_t bytes = UINT64_C(4) << 20;
    int r;

    gpu_begin_with(2);
    gpu_use(0);
    struct sl_cu_stream *stream = gpu_stream(SL_CU_STREAM_NON_BLOCKING);
    CHECK_OK(sl_mem_cuda.create(&from, "from", bytes, false));
    CHECK_OK(sl_mem_cuda.create(&to, "to", bytes, false));
    gpu_fill(stream, (uintptr_t)from.address, bytes / 4, 5);
    CU(StreamSynchronize, stream);
    CHECK_OK(sl_mem_cuda.copy_begin(&to, &from, bytes / 2, bytes / 2));
    while ((r = sl_mem_cuda.copy_look(&to)) == SLUICE_NOT_READY)
        ;
    CHECK_OK(r);
    CU(StreamDestroy, stream);
    gpu_use(1);
    stream = gpu_stream(SL_CU_STREAM_NON_BLOCKING);
    CHECK_EQ(gpu_differ(stream, (uintptr_t)to.address, bytes / 8, 5), 0);
    CHECK_EQ(gpu_differ(stream, (uintptr_t)to.address + bytes / 2, bytes / 8, 0), 0);
    CU(StreamDestroy, stream);
    sl_mem_cuda.destroy(&from);
    sl_mem_cuda.destroy(&to);
    gpu_end();
}

#define TOOK "took it"

/* ---- readers in other processes, which see other GPUs or other abilities ---- */

/* Opens a reader on a device ("": the channel's) and takes a frame with the value 7 on its first look, then as many as it
 * is told. Says the result and sentence of what fails. */
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
    gpu_use(atoi(argv[3])); /* on which the device is, in this process's order */
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
    r = sluice_reader_acquire(reader, stream, 5 * SLUICE_S, &frame);
    if (r == 0 && params.staged && getenv("SLUICE_FAKE_DELAY")) /* room was cleared, and the frame copied */
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

/* What becomes of memory whose GPU CUDA_VISIBLE_DEVICES hides is the driver's affair. */
static void note_hidden(const char *line)
{
    FILE *facts = gpu_facts();

    fprintf(facts, "{\"fact\": \"memory of a hidden GPU\", \"mapped\": %s}\n", line[0] == 't' ? "true" : "false");
    CHECK(fclose(facts) == 0);
}

/* A writer on `writers` with one frame, and a reader process in an environment of its own. `answer` is part of its line;
 * NULL: it takes the frame or says that it is UNSUPPORTED, which becomes a fact. `path`: of who takes it. */
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
        CHECK_HAS(info_of_reader().path, path);
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
    snprintf(visible, sizeof visible, "%s,%s", uuid_of(1, second), uuid_of(0, first));
    snprintf(name, sizeof name, "cuda:%s", first);
    look_from_elsewhere(name, visible, NULL, "cuda:1", "0", "1", TOOK, "mapped");
    CHECK_STR(getenv("CUDA_VISIBLE_DEVICES"), visible);
}

TEST(the_channels_own_gpu_is_found_in_another_order)
{
    char first[48], second[48], visible[100];

    gpu_begin_with(2);
    snprintf(visible, sizeof visible, "%s,%s", uuid_of(1, second), uuid_of(0, first));
    look_from_elsewhere("cuda:0", visible, NULL, "", "0", "1", TOOK, "mapped");
}

TEST(another_gpu_in_another_process)
{
    gpu_begin_with(2);
    need_peers();
    look_from_elsewhere("cuda:0", NULL, NULL, "cuda:1", "0", "1", TOOK, "mapped by GPU-");
}

TEST(copies_in_another_process)
{
    gpu_begin_with(2);
    need_peers();
    look_from_elsewhere("cuda:0", NULL, NULL, "cuda:1", "2", "1", TOOK, "copied to GPU-");
}

TEST(a_reader_that_does_not_see_the_channels_gpu_is_told_what_to_do)
{
    char second[48];

    gpu_begin_with(2);
    look_from_elsewhere("cuda:0", uuid_of(1, second), NULL, "", "0", "0", "name one as the reader's device", NULL);
}

TEST(the_channels_gpu_may_be_hidden_from_a_reader_on_another_one)
{
    char second[48];

    gpu_begin_with(2);
    need_peers();
    look_from_elsewhere("cuda:0", uuid_of(1, second), NULL, "cuda:0", "0", "0", gpu_is_fake() ? TOOK : NULL,
                        "mapped by GPU-");
}

TEST(gpus_that_are_no_peers_are_named_with_the_reason)
{
    need_fake();
    look_from_elsewhere("cuda:0", NULL, "peers", "cuda:1", "0", "1",
                        "GPU-f0f1f2f3-f4f5-f6f7-f8f9-fafbfcfdfe01 (Fake GPU 1) cannot reach the memory of "
                        "GPU-f0f1f2f3-f4f5-f6f7-f8f9-fafbfcfdfe00 (Fake GPU 0)", NULL);
}

TEST(instances_of_a_divided_gpu_are_no_peers)
{
    need_fake();
    CHECK(setenv("SLUICE_FAKE_IS", "mig", 1) == 0);
    look_from_elsewhere("cuda:0", NULL, "peers", "cuda:1", "0", "1", "MIG", NULL);
}

TEST(gpus_that_are_no_peers_have_copies_if_they_may)
{
    need_fake();
    look_from_elsewhere("cuda:0", NULL, "peers", "cuda:1", "1", "1", TOOK, "copied to GPU-f0f1f2f3");
}

/* As if the GPUs were no peers; or could not export memory, which is opened by handles then. */
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
    need_peers();
    do_without("vmm", "0", TOOK, "mapped by GPU-");
}

TEST(copies_of_what_comes_by_a_handle)
{
    do_without("vmm,peers", "1", TOOK, "copied to GPU-");
}

TEST(acquire_waits_for_the_copy)
{
    need_fake();
    CHECK(setenv("SLUICE_FAKE_DELAY", "20000", 1) == 0);
    look_from_elsewhere("cuda:0", NULL, NULL, "cuda:1", "2", "1", TOOK, "copied to GPU-f0f1f2f3");
}

TEST(a_gpu_that_is_hidden_and_out_of_reach)
{
    need_fake();
    look_from_elsewhere("cuda:0", "1", "unseen", "cuda:0", "1", "0", "which this process does not see", NULL);
}
