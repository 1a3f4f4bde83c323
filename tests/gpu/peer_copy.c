/* SPDX-License-Identifier: MIT
 *
 * Readers on another GPU than the channel's that get copies of frames there.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/cuda.h"
#include "fake/fake.h"
#include "gpu/pair.h"
#include "mem/mem.h"

extern const struct sl_mem_ops sl_mem_cuda;

static void commit_with_meta(struct pair *pair, uint32_t value, const char *meta)
{
    struct sluice_frame frame;

    gpu_use(0);
    CHECK_OK(sluice_writer_begin(pair->fixture.writer, 20 * SLUICE_S, &frame));
    gpu_fill(gpu_native(pair->fixture.writing), channel_words(&frame), CHANNEL_WORDS, value);
    frame.meta_size = (uint32_t)strlen(meta) + 1;
    memcpy(frame.meta, meta, frame.meta_size);
    CHECK_OK(sluice_writer_commit(pair->fixture.writer, &frame, pair->fixture.writing));
}

TEST(a_copy_outlives_its_slot)
{
    struct pair pair = pair_open(2, SLUICE_STAGED_ALWAYS, 0);
    struct sluice_frame frame, second;
    struct sluice_array array;

    commit_with_meta(&pair, 1, "one");
    pair_take(&pair, &frame);
    pair_check_path("copied to");
    CHECK_HAS(pair_info().copy_reason, "asked");
    CHECK_EQ(pair_info().held, 0);
    for (uint32_t i = 2; i <= 20; i++) /* every slot is written again */
        commit_with_meta(&pair, i, "more");
    CHECK_OK(sluice_stream_synchronize(pair.fixture.writing));
    pair_take(&pair, &second);
    CHECK_EQ(second.sequence, 20);
    CHECK_STR((const char *)frame.meta, "one");
    CHECK_STR((const char *)second.meta, "more");
    CHECK_OK(sluice_frame_array(&frame, NULL, &array));
    CHECK_EQ(array.shape[0], CHANNEL_WORDS);
    CHECK_EQ(array.read_only, 1);
    pair_check(&pair, &frame, 1);
    pair_check(&pair, &second, 20);
    pair_give_back(&pair, &frame);
    pair_check(&pair, &second, 20);
    pair_give_back(&pair, &second);
    pair_close(&pair);
}

/* There is one for each frame that may be held, numbered by `slot`; the next writer's frames use them, too. */
TEST(a_copys_memory_stays_where_it_is)
{
    struct pair pair = pair_open(2, SLUICE_STAGED_ALWAYS, 0);
    uint64_t words[2] = { 0 };
    struct sluice_frame frames[2];
    int r;

    for (uint32_t i = 1; i <= 12; i++) {
        struct sluice_frame *frame = &frames[i % 2];
        if (i == 9) {
            CHECK_OK(sluice_writer_close(&pair.fixture.writer));
            pair.fixture.writer = channel_writer();
        }
        if (i > 2) /* of two, the older one */
            pair_give_back(&pair, frame);
        pair_commit(&pair, 0, i);
        while ((r = sluice_reader_acquire(pair.reader, pair.stream, 20 * SLUICE_S, frame)) == SLUICE_CLOSED)
            ; /* the next writer was not found yet */
        CHECK_OK(r);
        CHECK_LE(frame->slot, 1);
        if (!words[frame->slot])
            words[frame->slot] = channel_words(frame);
        CHECK_EQ(words[frame->slot], channel_words(frame));
        pair_check(&pair, frame, i);
    }
    CHECK_NE(words[0], words[1]);
    pair_give_back(&pair, &frames[0]);
    pair_give_back(&pair, &frames[1]);
    pair_close(&pair);
}

TEST(a_copy_that_is_pinned_stays_mapped)
{
    struct pair pair = pair_open(1, SLUICE_STAGED_ALWAYS, 0);
    struct sluice_format format = channel_format(4 * CHANNEL_WORDS);
    struct sluice_frame frame;
    sluice_pin *pin;

    pair_commit(&pair, 0, 5);
    pair_take(&pair, &frame);
    uint64_t words = channel_words(&frame);
    CHECK_OK(sluice_reader_pin(pair.reader, &frame, &pin));
    pair_give_back(&pair, &frame);
    CHECK_OK(sluice_writer_reformat(pair.fixture.writer, &format));
    pair_commit(&pair, 0, 6);
    pair_take(&pair, &frame); /* larger, so in other memory */
    CHECK_NE(channel_words(&frame), words);
    pair_give_back(&pair, &frame);
    gpu_use(1);
    CHECK_EQ(gpu_differ(gpu_native(pair.stream), words, CHANNEL_WORDS, 5), 0);
    CHECK_OK(sluice_reader_close(&pair.reader));
    CHECK_EQ(gpu_differ(gpu_native(pair.stream), words, CHANNEL_WORDS, 5), 0);
    CHECK_OK(sluice_pin_drop(&pin));
    CHECK_OK(sluice_device_close(&pair.device));
    channel_end(&pair.fixture);
}

TEST(a_copy_is_not_overwritten_while_work_uses_it)
{
    struct pair pair = pair_open(1, SLUICE_STAGED_ALWAYS, 0);
    struct sluice_frame frame;
    uint32_t found = 77;

    gpu_use(1);
    struct sl_cu_stream *stream = gpu_native(pair.stream);
    uint64_t bad = gpu_memory(8);
    CU(MemsetD8Async, bad, 0, 8, stream);
    for (uint32_t i = 1; i <= 6; i++) {
        pair_commit(&pair, 0, i);
        gpu_use(1);
        int r = i == 1 ? 0 : sluice_reader_acquire(pair.reader, pair.stream, 0, &frame);
        if (i > 1 && cu.StreamQuery(stream) == SL_CU_NOT_READY) /* it may hold one, on which work is queued */
            CHECK_RESULT(r, SLUICE_TIMEOUT);
        if (i == 1 || r == SLUICE_TIMEOUT)
            pair_take(&pair, &frame);
        CHECK_EQ(frame.sequence, i);
        gpu_spin(stream, SPIN);
        gpu_compare(stream, channel_words(&frame), CHANNEL_WORDS, i, bad);
        pair_give_back(&pair, &frame);
    }
    CU(MemcpyDtoHAsync, &found, bad, 4, stream);
    CU(StreamSynchronize, stream);
    CHECK_EQ(found, 0);
    pair_close(&pair);
}

TEST(copies_on_the_cpus_account)
{
    struct pair pair = pair_open(1, SLUICE_STAGED_ALWAYS, 0);
    struct sluice_frame frame;

    pair_commit(&pair, SPIN, 3);
    CHECK_OK(sluice_reader_acquire(pair.reader, SLUICE_ON_CPU, 20 * SLUICE_S, &frame));
    pair_check(&pair, &frame, 3); /* whole, whatever checks it */
    CHECK_OK(sluice_reader_release(pair.reader, &frame, SLUICE_ON_CPU));
    CHECK_RESULT(sluice_reader_release(pair.reader, &frame, SLUICE_ON_CPU), SLUICE_E_STALE);
    pair_close(&pair);
}

TEST(copies_of_larger_frames)
{
    struct pair pair = pair_open(1, SLUICE_STAGED_ALWAYS, 0);
    struct sluice_format format = channel_format(4 * CHANNEL_WORDS);
    struct sluice_frame frame;

    pair_commit(&pair, 0, 1);
    pair_take(&pair, &frame);
    pair_check(&pair, &frame, 1);
    pair_give_back(&pair, &frame);
    CHECK_OK(sluice_writer_reformat(pair.fixture.writer, &format));
    gpu_use(0);
    CHECK_OK(sluice_writer_begin(pair.fixture.writer, 20 * SLUICE_S, &frame));
    gpu_fill(gpu_native(pair.fixture.writing), channel_words(&frame), 4 * CHANNEL_WORDS, 8);
    CHECK_OK(sluice_writer_commit(pair.fixture.writer, &frame, pair.fixture.writing));
    pair_take(&pair, &frame);
    CHECK(frame.flags & SLUICE_FRAME_NEW_FORMAT);
    gpu_use(1);
    CHECK_EQ(gpu_differ(gpu_native(pair.stream), channel_words(&frame), 4 * CHANNEL_WORDS, 8), 0);
    pair_give_back(&pair, &frame);
    pair_close(&pair);
}

/* A symbol of the fake driver. */
static void *fake_string(const char *name)
{
    void *library = dlopen(sl_cuda_library(), RTLD_NOW | RTLD_NOLOAD);

    CHECK(library);
    void *found = dlsym(library, name);
    CHECK(found && dlclose(library) == 0);
    return found;
}

/* Its machine, to make it slow between two frames. */
static struct fake_machine *machine(void)
{
    return fake_string("fake_machine");
}

static void release_work(void)
{
    void (*release)(void);

    *(void **)&release = fake_string("fake_release");
    release();
}

TEST(a_copy_that_takes_too_long_is_given_up)
{
    struct sluice_reader_stats stats = { .size = sizeof stats };
    struct sluice_frame frame;

    pair_need_fake();
    struct pair pair = pair_open(2, SLUICE_STAGED_ALWAYS, 0);
    for (uint32_t i = 1; i <= 2; i++) { /* allocates both buffers */
        pair_commit(&pair, 0, i);
        pair_take(&pair, &frame);
        if (i == 2)
            pair_give_back(&pair, &frame);
    }
    pair_commit(&pair, 0, 3);
    CHECK_OK(sluice_stream_synchronize(pair.fixture.writing));
    CHECK_OK(sluice_stream_synchronize(pair.stream));
    machine()->delay = FAKE_ENDLESS;
    CHECK_SAYS(sluice_reader_acquire(pair.reader, pair.stream, 0, &frame), SLUICE_E_LOST, "was not copied");
    CHECK_EQ(pair_info().held, 0); /* the writer is not held up */
    machine()->delay = 0;
    pair_commit(&pair, 0, 4);
    CHECK_OK(sluice_stream_synchronize(pair.fixture.writing));
    /* Its buffer takes no other copy until this one has ended. */
    CHECK_SAYS(sluice_reader_acquire(pair.reader, pair.stream, 0, &frame), SLUICE_TIMEOUT, "still being worked on");
    release_work();
    pair_take(&pair, &frame);
    CHECK_EQ(frame.sequence, 4);
    pair_check(&pair, &frame, 4);
    pair_give_back(&pair, &frame);
    CHECK_OK(sluice_reader_stats(pair.reader, &stats));
    CHECK_EQ(stats.lost, 1);
    pair_close(&pair);
}

/* Calls `what` after the library's next call of a driver function. */
static void behind(enum fake_function function, void (*what)(void *data))
{
    void (*pull)(enum fake_function function, void (*what)(void *data), void *data);

    *(void **)&pull = fake_string("fake_behind");
    pull(function, what, NULL);
}

static void delay(void *unused)
{
    (void)unused;
    test_nap(5 * SLUICE_S / 2);
}

static void delay_next_query(void *unused)
{
    (void)unused;
    behind(FAKE_StreamQuery, delay);
}

/* Its reader's thread is suspended after polling it. */
TEST(a_copy_that_ends_meanwhile_is_not_given_up)
{
    struct sluice_frame frame;

    pair_need_fake();
    struct pair pair = pair_open(1, SLUICE_STAGED_ALWAYS, 0);
    pair_commit(&pair, 0, 1); /* allocates its buffer */
    pair_take(&pair, &frame);
    pair_give_back(&pair, &frame);
    CHECK_OK(sluice_stream_synchronize(pair.stream));
    pair_commit(&pair, 0, 2);
    CHECK_OK(sluice_stream_synchronize(pair.fixture.writing));
    machine()->delay = SLUICE_S / 2; /* so that it is not over at the first poll */
    behind(FAKE_MemcpyDtoDAsync, delay_next_query);
    pair_take(&pair, &frame);
    machine()->delay = 0;
    pair_check(&pair, &frame, 2);
    pair_give_back(&pair, &frame);
    pair_close(&pair);
}

static int by_number(const void *a, const void *b)
{
    long left = *(const long *)a, right = *(const long *)b;

    return (left > right) - (left < right);
}

/* A reader that does not spin sleeps during a copy, for as long as recent copies took. Polling every 20 us would be
 * 1,000 polls, at each wake-up of the kernel 270. */
TEST(a_reader_that_does_not_spin_polls_a_copy_when_it_is_due)
{
    struct sluice_reader_params params = channel_reader_params(1);
    struct sluice_frame frame;
    long (*calls)(enum fake_function function);
    long looks[21];

    pair_need_fake();
    struct pair pair = pair_open(1, SLUICE_STAGED_ALWAYS, 0);
    *(void **)&calls = fake_string("fake_calls");
    CHECK_OK(sluice_reader_close(&pair.reader));
    params.device = "cuda:1";
    params.staged = SLUICE_STAGED_ALWAYS;
    params.spin_ns = -1;
    CHECK_OK(sluice_reader_open(&pair.reader, &params));
    for (uint32_t i = 0; i < 21; i++) {
        pair_commit(&pair, 0, i + 1);
        CHECK_OK(sluice_stream_synchronize(pair.fixture.writing));
        machine()->delay = 20 * SLUICE_MS;
        long before = calls(FAKE_StreamQuery);
        pair_take(&pair, &frame);
        looks[i] = calls(FAKE_StreamQuery) - before;
        machine()->delay = 0;
        pair_check(&pair, &frame, i + 1);
        pair_give_back(&pair, &frame);
        CHECK_OK(sluice_stream_synchronize(pair.stream));
    }
    qsort(looks, 21, sizeof looks[0], by_number);
    CHECK_LE(looks[10], 120);
    pair_close(&pair);
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

/* Also where the destination GPU has no access to the source's memory. */
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
