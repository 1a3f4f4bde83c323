/* SPDX-License-Identifier: MIT
 *
 * SLUICE_CHECK=streams, on host: what nothing orders is refused, what a wait orders is not.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <sluice/sluice.h>

#include "harness/test.h"
#include "kernel/check.h"

static const char source[] = "__global__ void blur(unsigned char *out, int value)\n"
                             "{\n"
                             "    *out = (unsigned char)value;\n"
                             "}\n"
                             "__global__ void look(const unsigned char *in) {}\n"
                             "__global__ void sum(const unsigned char *in, int *total)\n"
                             "{\n"
                             "    *total += *in;\n"
                             "}\n";

struct fixture {
    struct sluice_device device;
    struct sluice_stream a, b, c;
    struct sluice_module module;
    struct sluice_kernel blur, look, sum;
    unsigned char memory[256];
};

static struct sluice_stream make_stream(struct sluice_device device, bool blocking)
{
    struct sluice_stream_params params = { .size = sizeof params, .blocking = blocking };
    struct sluice_stream stream;

    CHECK_OK(sluice_stream_create(device, &params, &stream));
    return stream;
}

static void begin_with(struct fixture *f, const char *checks)
{
    struct sluice_module_params params = { .size = sizeof params, .name = "fx.cu" };

    CHECK_EQ(setenv("SLUICE_CHECK", checks, 1), 0);
    CHECK_OK(sluice_device_open(&f->device, "host"));
    f->a = make_stream(f->device, false);
    f->b = make_stream(f->device, false);
    f->c = make_stream(f->device, false);
    CHECK_OK(sluice_module_load(f->device, source, strlen(source), &params, &f->module));
    CHECK_OK(sluice_kernel_get(f->module, "blur", &f->blur));
    CHECK_OK(sluice_kernel_get(f->module, "look", &f->look));
    CHECK_OK(sluice_kernel_get(f->module, "sum", &f->sum));
}

static void begin(struct fixture *f)
{
    begin_with(f, "streams");
}

static void end(struct fixture *f)
{
    CHECK_OK(sluice_module_unload(&f->module));
    CHECK_OK(sluice_device_close(&f->device));
}

static int launch(struct sluice_kernel kernel, struct sluice_stream stream, struct sluice_argument first,
                  struct sluice_argument second, uint32_t count)
{
    struct sluice_launch one = { .size = sizeof one, .grid = { 1 }, .block = { 1 } };
    struct sluice_argument arguments[] = { first, second };

    return sluice_launch(kernel, stream, &one, arguments, count);
}

static struct sluice_argument bytes_at(const void *memory, uint64_t bytes)
{
    struct sluice_argument argument = SLUICE_MEMORY(memory);

    argument.bytes = bytes;
    return argument;
}

static int write_to(const struct fixture *f, struct sluice_stream stream, struct sluice_argument memory)
{
    return launch(f->blur, stream, memory, SLUICE_INTEGER(7), 2);
}

static int read_from(const struct fixture *f, struct sluice_stream stream, struct sluice_argument memory)
{
    return launch(f->look, stream, memory, memory, 1);
}

static int write_on(struct fixture *f, struct sluice_stream stream)
{
    return write_to(f, stream, bytes_at(f->memory, sizeof f->memory));
}

static int read_on(struct fixture *f, struct sluice_stream stream)
{
    return read_from(f, stream, bytes_at(f->memory, sizeof f->memory));
}

static struct sluice_event record_on(const struct fixture *f, struct sluice_stream stream)
{
    struct sluice_event event;

    CHECK_OK(sluice_event_create(f->device, 0, &event));
    CHECK_OK(sluice_event_record(event, stream));
    return event;
}

/* ---- the sentence ---- */

TEST(a_read_that_nothing_orders_names_both_kernels)
{
    struct fixture f;
    char expected[512];

    begin(&f);
    f.memory[0] = 1;
    CHECK_OK(write_on(&f, f.a));
    CHECK_RESULT(read_on(&f, f.b), SLUICE_E_ORDER);
    snprintf(expected, sizeof expected,
             "kernel 'look' reads the memory at %p on stream 0x%" PRIx64
             ", while kernel 'blur' may still write it on stream 0x%" PRIx64
             ": nothing orders them. Record an event on 0x%" PRIx64 " and let 0x%" PRIx64 " wait for it",
             (void *)f.memory, f.b.id, f.a.id, f.a.id, f.b.id);
    CHECK_STR(sluice_last_error(), expected);
    end(&f);
}

TEST(what_is_refused_does_not_run_and_is_not_remembered)
{
    struct fixture f;

    begin(&f);
    CHECK_OK(read_on(&f, f.a));
    f.memory[0] = 1;
    CHECK_SAYS(write_on(&f, f.b), SLUICE_E_ORDER, "kernel 'blur' writes");
    CHECK_EQ(f.memory[0], 1);
    CHECK_OK(write_on(&f, f.a));
    end(&f);
}

TEST(a_write_after_a_read_needs_a_wait_too)
{
    struct fixture f;

    begin(&f);
    CHECK_OK(read_on(&f, f.a));
    CHECK_SAYS(write_on(&f, f.b), SLUICE_E_ORDER, "while kernel 'look' may still read it");
    CHECK_OK(sluice_stream_wait_stream(f.b, f.a));
    CHECK_OK(write_on(&f, f.b));
    end(&f);
}

TEST(a_write_is_remembered_when_its_own_stream_has_read)
{
    struct fixture f;

    begin(&f);
    CHECK_OK(write_on(&f, f.a));
    CHECK_OK(read_on(&f, f.a));
    CHECK_RESULT(read_on(&f, f.b), SLUICE_E_ORDER);
    end(&f);
}

TEST(a_write_waits_for_each_reader)
{
    struct fixture f;

    begin(&f);
    CHECK_OK(read_on(&f, f.a));
    CHECK_OK(read_on(&f, f.b));
    CHECK_OK(sluice_stream_wait_stream(f.c, f.b));
    CHECK_RESULT(write_on(&f, f.c), SLUICE_E_ORDER);
    CHECK_OK(sluice_stream_wait_stream(f.c, f.a));
    CHECK_OK(write_on(&f, f.c));
    end(&f);
}

TEST(without_the_variable_nothing_is_checked)
{
    struct fixture f;

    begin_with(&f, "");
    CHECK_OK(write_on(&f, f.a));
    CHECK_OK(read_on(&f, f.b));
    end(&f);
}

static void remember(void *user, enum sluice_log_level level, const char *text)
{
    (void)level;
    snprintf(user, 256, "%s", text);
}

TEST(an_unknown_check_is_a_warning)
{
    struct fixture f;
    char logged[256] = "";

    sluice_log_set(remember, logged, SLUICE_LOG_WARN);
    begin_with(&f, "races,,streams");
    CHECK_HAS(logged, "'races', which is not a check");
    CHECK_OK(write_on(&f, f.a));
    CHECK_RESULT(read_on(&f, f.b), SLUICE_E_ORDER);
    end(&f);
}

/* ---- waits ---- */

TEST(an_event_orders_200_of_200)
{
    struct fixture f;
    struct sluice_event written, seen;
    int total = 0;

    begin(&f);
    CHECK_OK(sluice_event_create(f.device, 0, &written));
    seen = record_on(&f, f.b);
    for (int i = 0; i < 200; i++) {
        CHECK_OK(sluice_stream_wait_event(f.a, seen));
        CHECK_OK(launch(f.blur, f.a, bytes_at(f.memory, 256), SLUICE_INTEGER(i), 2));
        CHECK_OK(sluice_event_record(written, f.a));
        CHECK_OK(sluice_stream_wait_event(f.b, written));
        CHECK_OK(launch(f.sum, f.b, bytes_at(f.memory, 256), bytes_at(&total, sizeof total), 2));
        CHECK_OK(sluice_event_record(seen, f.b));
    }
    CHECK_EQ(total, 199 * 200 / 2);
    end(&f);
}

TEST(an_event_recorded_before_the_work_orders_nothing)
{
    struct fixture f;

    begin(&f);
    struct sluice_event event = record_on(&f, f.a);
    CHECK_OK(write_on(&f, f.a));
    CHECK_OK(sluice_stream_wait_event(f.b, event));
    CHECK_RESULT(read_on(&f, f.b), SLUICE_E_ORDER);
    CHECK_OK(sluice_event_record(event, f.a));
    CHECK_RESULT(read_on(&f, f.b), SLUICE_E_ORDER);
    CHECK_OK(sluice_stream_wait_event(f.b, event));
    CHECK_OK(read_on(&f, f.b));
    end(&f);
}

TEST(an_event_recorded_anew_forgets_its_old_stream)
{
    struct fixture f;

    begin(&f);
    CHECK_OK(write_on(&f, f.a));
    struct sluice_event event = record_on(&f, f.a);
    CHECK_OK(sluice_event_record(event, f.c));
    CHECK_OK(sluice_stream_wait_event(f.b, event));
    CHECK_RESULT(read_on(&f, f.b), SLUICE_E_ORDER);
    end(&f);
}

TEST(work_after_the_wait_is_not_waited_for)
{
    struct fixture f;

    begin(&f);
    CHECK_OK(sluice_stream_wait_stream(f.b, f.a));
    CHECK_OK(write_on(&f, f.a));
    CHECK_RESULT(read_on(&f, f.b), SLUICE_E_ORDER);
    end(&f);
}

TEST(order_is_handed_on_by_a_third_stream_one_way)
{
    struct fixture f;

    begin(&f);
    CHECK_OK(write_on(&f, f.a));
    CHECK_OK(sluice_stream_wait_stream(f.c, f.a));
    CHECK_OK(sluice_stream_wait_stream(f.b, f.c));
    CHECK_OK(write_on(&f, f.b));
    CHECK_RESULT(read_on(&f, f.a), SLUICE_E_ORDER);
    end(&f);
}

/* Each way in which the CPU learns that the work on f.a is done. */
static void wait_for_stream(struct fixture *f)
{
    CHECK_OK(sluice_stream_synchronize(f->a));
}
static void query_stream(struct fixture *f)
{
    CHECK_OK(sluice_stream_query(f->a));
}
static void wait_for_event(struct fixture *f)
{
    CHECK_OK(sluice_event_synchronize(record_on(f, f->a)));
}
static void query_event(struct fixture *f)
{
    CHECK_OK(sluice_event_query(record_on(f, f->a)));
}
static void wait_for_device(struct fixture *f)
{
    CHECK_OK(sluice_device_synchronize(f->device));
}
static void wait_for_copy(struct fixture *f)
{
    int total = 0;
    CHECK_OK(launch(f->sum, f->a, bytes_at(f->memory, 1), SLUICE_HOST(&total, sizeof total), 2));
}
static void *wait_elsewhere(void *argument)
{
    wait_for_stream(argument);
    return NULL;
}
static void wait_on_a_thread(struct fixture *f)
{
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, wait_elsewhere, f), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
}

TEST(what_the_cpu_has_waited_for_is_done)
{
    static void (*const waits[])(struct fixture *) = { wait_for_stream, query_stream,  wait_for_event,  query_event,
                                                       wait_for_device, wait_for_copy, wait_on_a_thread };
    struct fixture f;

    begin(&f);
    for (size_t i = 0; i < sizeof waits / sizeof *waits; i++) {
        CHECK_OK(write_on(&f, f.a));
        CHECK_RESULT(read_on(&f, f.b), SLUICE_E_ORDER);
        CHECK_OK(sluice_stream_synchronize(f.c)); /* another one */
        CHECK_RESULT(read_on(&f, f.b), SLUICE_E_ORDER);
        waits[i](&f);
        CHECK_OK(read_on(&f, f.b));
        CHECK_OK(sluice_stream_synchronize(f.b));
    }
    end(&f);
}

/* ---- parallel sections, graphs ---- */

TEST(fork_and_join_order_the_branches_with_their_parent_alone)
{
    struct sluice_stream branches[2];
    struct fixture f;
    unsigned char other[16];

    begin(&f);
    CHECK_OK(write_on(&f, f.a));
    CHECK_OK(sluice_fork(f.a, 2, branches));
    CHECK_OK(read_on(&f, branches[0]));
    CHECK_OK(read_on(&f, branches[1]));
    CHECK_OK(write_to(&f, branches[0], bytes_at(other, 16)));
    CHECK_RESULT(read_from(&f, branches[1], bytes_at(other, 16)), SLUICE_E_ORDER);
    CHECK_RESULT(read_from(&f, f.a, bytes_at(other, 16)), SLUICE_E_ORDER);
    CHECK_OK(sluice_join(f.a, 2, branches));
    CHECK_OK(write_to(&f, f.a, bytes_at(other, 16)));
    CHECK_OK(write_on(&f, f.a));
    end(&f);
}

TEST(what_is_captured_orders_no_work)
{
    struct sluice_graph graph = { 0 };
    struct fixture f;

    begin(&f);
    CHECK_OK(write_on(&f, f.a));
    struct sluice_event event = record_on(&f, f.a);
    CHECK_OK(sluice_capture_begin(f.c));
    CHECK_OK(sluice_event_record(event, f.c));
    CHECK_OK(sluice_stream_wait_event(f.b, event));
    CHECK_OK(read_on(&f, f.b)); /* a graph's work is not checked */
    CHECK_OK(sluice_stream_wait_stream(f.c, f.b));
    CHECK_OK(write_on(&f, f.c));
    CHECK_OK(sluice_capture_end(f.c, &graph));
    CHECK_RESULT(read_on(&f, f.b), SLUICE_E_ORDER);
    CHECK_RESULT(read_on(&f, f.c), SLUICE_E_ORDER);
    CHECK_OK(read_on(&f, f.a));
    CHECK_OK(sluice_graph_launch(graph, f.c));
    CHECK_OK(sluice_graph_destroy(&graph));
    end(&f);
}

/* ---- the default stream ---- */

TEST(the_default_stream_and_blocking_streams_wait_for_each_other)
{
    struct fixture f;
    struct sluice_stream normal;

    begin(&f);
    struct sluice_stream blocking = make_stream(f.device, true), other = make_stream(f.device, true);
    CHECK_OK(sluice_stream_default(f.device, &normal));
    CHECK_OK(write_on(&f, blocking));
    CHECK_OK(write_on(&f, normal));
    CHECK_OK(write_on(&f, blocking));
    CHECK_RESULT(read_on(&f, other), SLUICE_E_ORDER); /* blocking streams do not wait for each other */
    CHECK_OK(read_on(&f, normal));
    CHECK_OK(read_on(&f, other)); /* but for what is on the default stream now */
    end(&f);
}

TEST(the_default_stream_and_others_do_not)
{
    struct fixture f;
    struct sluice_stream normal;

    begin(&f);
    CHECK_OK(sluice_stream_default(f.device, &normal));
    CHECK_OK(write_on(&f, normal));
    CHECK_RESULT(read_on(&f, f.a), SLUICE_E_ORDER);
    CHECK_OK(sluice_stream_wait_stream(f.a, normal));
    CHECK_OK(write_on(&f, f.a));
    CHECK_RESULT(read_on(&f, normal), SLUICE_E_ORDER);
    end(&f);
}

/* ---- which memory ---- */

TEST(only_bytes_that_both_use_need_an_order)
{
    struct fixture f;

    begin(&f);
    CHECK_OK(write_to(&f, f.a, bytes_at(f.memory, 128)));
    CHECK_OK(write_to(&f, f.b, bytes_at(f.memory + 128, 128)));
    CHECK_RESULT(write_to(&f, f.b, bytes_at(f.memory + 127, 129)), SLUICE_E_ORDER);
    CHECK_RESULT(read_from(&f, f.c, SLUICE_MEMORY(f.memory)), SLUICE_E_ORDER); /* of unknown size: its first byte */
    CHECK_OK(read_from(&f, f.a, SLUICE_MEMORY(f.memory + 127)));
    end(&f);
}

TEST(two_reads_need_no_order)
{
    struct fixture f;

    begin(&f);
    CHECK_OK(read_on(&f, f.a));
    CHECK_OK(read_on(&f, f.b));
    CHECK_OK(read_on(&f, f.a));
    end(&f);
}

static struct sluice_array picture(unsigned char *memory, int64_t rows, int64_t columns, int64_t pitch)
{
    struct sluice_array array = { .name = "image", .data = memory, .ndim = 2, .dtype = { SLUICE_UINT, 8, 1 } };

    array.shape[0] = rows;
    array.shape[1] = columns;
    array.strides[0] = pitch;
    array.strides[1] = 1;
    return array;
}

TEST(halves_of_a_picture_need_no_order)
{
    struct fixture f;

    begin(&f);
    struct sluice_array left = picture(f.memory, 16, 8, 16), right = picture(f.memory + 8, 16, 8, 16),
                        middle = picture(f.memory + 7, 16, 8, 16), bottom = picture(f.memory + 128, 8, 16, 16);
    CHECK_OK(write_to(&f, f.a, SLUICE_ARRAY(&left)));
    CHECK_OK(write_to(&f, f.b, SLUICE_ARRAY(&right)));
    CHECK_SAYS(read_from(&f, f.b, SLUICE_ARRAY(&middle)), SLUICE_E_ORDER, "reads 'image' on stream");
    CHECK_RESULT(read_from(&f, f.c, SLUICE_ARRAY(&left)), SLUICE_E_ORDER);
    CHECK_RESULT(read_from(&f, f.c, SLUICE_ARRAY(&bottom)), SLUICE_E_ORDER);
    end(&f);
}

TEST(rows_may_lie_bottom_up)
{
    struct fixture f;

    begin(&f);
    struct sluice_array flipped = picture(f.memory + 240, 8, 16, -16);
    CHECK_OK(write_to(&f, f.a, SLUICE_ARRAY(&flipped)));
    CHECK_OK(write_to(&f, f.b, bytes_at(f.memory, 128)));
    CHECK_RESULT(write_to(&f, f.b, bytes_at(f.memory + 128, 1)), SLUICE_E_ORDER);
    end(&f);
}

TEST(host_arrays_are_their_launch_s_own)
{
    struct fixture f;

    begin(&f);
    CHECK_OK(write_to(&f, f.a, SLUICE_HOST(f.memory, 256)));
    CHECK_OK(write_to(&f, f.b, SLUICE_HOST(f.memory, 256)));
    end(&f);
}

TEST(scratch_memory_counts_as_a_whole_until_it_is_freed)
{
    struct fixture f;
    void *memory;

    begin(&f);
    CHECK_OK(sluice_memory_alloc(f.device, f.a, 64, &memory));
    CHECK_SAYS(write_to(&f, f.b, SLUICE_MEMORY(memory)), SLUICE_E_ORDER, "while it is allocated only on stream");
    CHECK_OK(sluice_stream_wait_stream(f.b, f.a));
    CHECK_OK(write_to(&f, f.a, SLUICE_MEMORY(memory)));
    CHECK_SAYS(read_from(&f, f.b, SLUICE_MEMORY((char *)memory + 63)), SLUICE_E_ORDER, "while kernel 'blur' may");
    struct sluice_argument again = bytes_at(memory, 64);
    CHECK_OK(sluice_memory_free(f.a, &memory));
    CHECK_OK(write_to(&f, f.b, again));
    end(&f);
}

/* ---- frames ---- */

struct channel {
    sluice_writer *writer;
    sluice_reader *reader;
};

static struct channel open_channel(const char *name)
{
    struct sluice_writer_params wp = SLUICE_WRITER_PARAMS_INIT;
    struct sluice_reader_params rp = SLUICE_READER_PARAMS_INIT;
    struct sluice_format format = SLUICE_FORMAT_INIT;
    struct channel channel;

    test_dir();
    CHECK_OK(sluice_format_add_image(&format, "image", SLUICE_PIXEL_GRAY8, 16, 16));
    wp.name = rp.name = name;
    wp.format = &format;
    CHECK_OK(sluice_writer_open(&channel.writer, &wp));
    CHECK_OK(sluice_reader_open(&channel.reader, &rp));
    return channel;
}

static void close_channel(struct channel *channel)
{
    CHECK_OK(sluice_reader_close(&channel->reader));
    CHECK_OK(sluice_writer_close(&channel->writer));
}

static struct sluice_frame pass_frame(struct channel *channel, struct sluice_frame *begun, struct sluice_stream stream)
{
    struct sluice_frame frame;

    CHECK_OK(sluice_writer_commit(channel->writer, begun, SLUICE_ON_CPU));
    CHECK_OK(sluice_reader_acquire(channel->reader, stream, SLUICE_S, &frame));
    return frame;
}

TEST(a_frame_is_named_by_its_number_and_channel)
{
    struct channel channel = open_channel("check_names");
    struct sluice_frame begun, frame;
    struct fixture f;

    begin(&f);
    CHECK_OK(sluice_writer_begin(channel.writer, 0, &begun));
    CHECK_OK(write_to(&f, f.a, SLUICE_FRAME(&begun, "image")));
    CHECK_SAYS(write_to(&f, f.b, SLUICE_FRAME(&begun, NULL)), SLUICE_E_ORDER,
               "kernel 'blur' writes 'image' of the next frame of 'check_names' on stream 0x");
    frame = pass_frame(&channel, &begun, SLUICE_ON_CPU);
    struct sluice_array image;
    CHECK_OK(sluice_frame_array(&frame, "image", &image));
    sl_check_slot(image.data, 256, f.a); /* as if it had been acquired ahead */
    CHECK_SAYS(read_from(&f, f.b, SLUICE_FRAME(&frame, "image")), SLUICE_E_ORDER,
               "kernel 'look' reads 'image' of frame 1 of 'check_names' on stream 0x");
    CHECK_HAS(sluice_last_error(), "while it is ready only on stream 0x");
    CHECK_OK(read_from(&f, f.a, SLUICE_FRAME(&frame, "image")));
    CHECK_OK(sluice_reader_release(channel.reader, &frame, SLUICE_ON_CPU));
    end(&f);
    close_channel(&channel);
}

/* A pointer into a frame in hand counts as its slot; of a frame that was given back, and of other memory, as a byte. */
TEST(memory_in_a_slot_counts_as_the_slot)
{
    struct channel channel = open_channel("check_pointer");
    struct sluice_frame begun, frame;
    struct sluice_array image;
    struct fixture f;

    begin(&f);
    CHECK_OK(sluice_writer_begin(channel.writer, 0, &begun));
    CHECK_OK(sluice_frame_array(&begun, NULL, &image));
    CHECK_OK(write_to(&f, f.a, SLUICE_MEMORY(image.data)));
    CHECK_SAYS(write_to(&f, f.b, SLUICE_MEMORY((char *)image.data + 100)), SLUICE_E_ORDER, "kernel 'blur' may still");
    CHECK_OK(sluice_writer_commit(channel.writer, &begun, f.a));
    CHECK_OK(sluice_stream_wait_stream(f.b, f.a));
    CHECK_OK(write_to(&f, f.a, SLUICE_MEMORY(image.data)));
    CHECK_OK(write_to(&f, f.b, SLUICE_MEMORY((char *)image.data + 100)));
    CHECK_OK(sluice_reader_acquire(channel.reader, f.a, SLUICE_S, &frame));
    CHECK_OK(sluice_frame_array(&frame, NULL, &image));
    CHECK_OK(read_from(&f, f.a, SLUICE_MEMORY(image.data)));
    struct sluice_argument end_of_it = bytes_at((char *)image.data + 255, 1);
    CHECK_SAYS(write_to(&f, f.b, end_of_it), SLUICE_E_ORDER, "kernel 'look' may still read it");
    CHECK_OK(sluice_reader_release(channel.reader, &frame, f.a));
    CHECK_OK(write_to(&f, f.a, SLUICE_MEMORY(f.memory)));
    CHECK_OK(write_to(&f, f.b, SLUICE_MEMORY(f.memory + 100)));
    end(&f);
    close_channel(&channel);
}

TEST(commit_orders_the_reader_s_work_and_release_the_writer_s)
{
    struct channel channel = open_channel("check_frames");
    struct sluice_frame begun, frame;
    unsigned char shared[16] = { 0 };
    struct fixture f;

    begin(&f);
    for (int i = 0; i < 20; i++) { /* each slot again and again, on other streams than before */
        struct sluice_stream writes = i % 2 ? f.a : f.b, reads = i % 2 ? f.b : f.c;
        CHECK_OK(sluice_writer_begin(channel.writer, 0, &begun));
        CHECK_OK(write_to(&f, writes, SLUICE_FRAME(&begun, NULL)));
        CHECK_OK(write_to(&f, writes, bytes_at(shared, 16))); /* other memory is handed over with the frame */
        CHECK_OK(sluice_writer_commit(channel.writer, &begun, writes));
        CHECK_OK(sluice_reader_acquire(channel.reader, reads, SLUICE_S, &frame));
        CHECK_OK(read_from(&f, reads, SLUICE_FRAME(&frame, NULL)));
        CHECK_OK(read_from(&f, reads, bytes_at(shared, 16)));
        CHECK_OK(sluice_reader_release(channel.reader, &frame, reads));
    }
    end(&f);
    close_channel(&channel);
}

TEST(a_begin_waits_for_no_work_but_the_slot_s)
{
    struct channel channel = open_channel("check_begin");
    struct sluice_frame begun;
    struct fixture f;

    begin(&f);
    CHECK_OK(sluice_writer_begin(channel.writer, 0, &begun));
    CHECK_OK(write_on(&f, f.a));
    CHECK_OK(sluice_writer_commit(channel.writer, &begun, f.a));
    CHECK_OK(sluice_writer_begin(channel.writer, 0, &begun));
    CHECK_RESULT(write_on(&f, f.b), SLUICE_E_ORDER);
    CHECK_OK(sluice_writer_cancel(channel.writer, &begun, f.a));
    end(&f);
    close_channel(&channel);
}

TEST(a_slot_that_begins_anew_has_no_history)
{
    struct channel channel = open_channel("check_slot");
    struct sluice_stream streams[2];
    struct sluice_frame begun;
    struct sluice_array image;
    struct fixture f;

    begin(&f);
    streams[0] = f.a;
    streams[1] = f.b;
    for (int i = 0; i < 20; i++) {
        CHECK_OK(sluice_writer_begin(channel.writer, 0, &begun));
        CHECK_OK(sluice_frame_array(&begun, NULL, &image));
        struct sluice_stream stream = streams[i / 7 % 2]; /* so each slot is used on both */
        CHECK_OK(write_to(&f, stream, SLUICE_ARRAY(&image)));
        CHECK_RESULT(write_to(&f, f.c, SLUICE_ARRAY(&image)), SLUICE_E_ORDER);
        CHECK_OK(sluice_writer_commit(channel.writer, &begun, stream));
    }
    end(&f);
    close_channel(&channel);
}

TEST(a_ticket_is_waited_for_like_an_event)
{
    struct channel channel = open_channel("check_ticket");
    unsigned char pixels[256] = { 0 };
    struct sluice_ticket ticket;
    struct fixture f;

    begin(&f);
    struct sluice_array image = picture(pixels, 16, 16, 16);
    image.nbytes = sizeof pixels;
    CHECK_OK(write_to(&f, f.a, bytes_at(pixels, sizeof pixels)));
    CHECK_OK(sluice_writer_send(channel.writer, &image, 1, f.a, &ticket));
    CHECK_RESULT(write_to(&f, f.b, bytes_at(pixels, sizeof pixels)), SLUICE_E_ORDER);
    CHECK_OK(sluice_ticket_wait(ticket, SLUICE_S));
    CHECK_OK(write_to(&f, f.b, bytes_at(pixels, sizeof pixels)));
    end(&f);
    close_channel(&channel);
}

/* ---- bounds ---- */

TEST(more_streams_than_are_kept_give_no_false_report)
{
    unsigned char own[SL_ORDER_STREAMS * 2];
    struct fixture f;

    begin(&f);
    CHECK_OK(write_on(&f, f.a));
    CHECK_OK(sluice_stream_wait_stream(f.b, f.a));
    for (int i = 0; i < SL_ORDER_STREAMS * 2; i++)
        CHECK_OK(write_to(&f, make_stream(f.device, false), bytes_at(&own[i], 1)));
    CHECK_OK(read_on(&f, f.b)); /* whose wait was forgotten */
    end(&f);
}

TEST(a_stream_that_ended_makes_room_and_its_work_is_remembered)
{
    struct fixture f;

    begin(&f);
    CHECK_OK(write_on(&f, f.a));
    for (int i = 0; i < SL_ORDER_STREAMS * 2; i++) {
        unsigned char own = 0;
        struct sluice_stream stream = make_stream(f.device, false);
        CHECK_OK(write_to(&f, stream, bytes_at(&own, 1)));
        CHECK_OK(sluice_stream_synchronize(stream));
        CHECK_OK(sluice_stream_destroy(&stream));
    }
    CHECK_RESULT(read_on(&f, f.b), SLUICE_E_ORDER);
    end(&f);
}

TEST(more_events_than_are_kept_give_no_false_report)
{
    struct sluice_event events[SL_ORDER_MARKS * 2];
    struct fixture f;

    begin(&f);
    CHECK_OK(write_on(&f, f.a));
    for (int i = 0; i < SL_ORDER_MARKS * 2; i++)
        events[i] = record_on(&f, f.a);
    CHECK_OK(sluice_stream_wait_event(f.b, events[0]));
    CHECK_OK(read_on(&f, f.b));
    end(&f);
}

TEST(more_uses_than_are_kept_give_no_false_report)
{
    static unsigned char memory[SL_HISTORY_USES * 3];
    struct fixture f;

    begin(&f);
    for (int i = 0; i < SL_HISTORY_USES * 3; i++)
        CHECK_OK(write_to(&f, f.a, bytes_at(&memory[i], 1)));
    CHECK_RESULT(read_from(&f, f.b, bytes_at(&memory[SL_HISTORY_USES * 3 - 1], 1)), SLUICE_E_ORDER);
    CHECK_OK(sluice_stream_wait_stream(f.b, f.a));
    for (int i = 0; i < SL_HISTORY_USES * 3; i++)
        CHECK_OK(read_from(&f, f.b, bytes_at(&memory[i], 1)));
    end(&f);
}

TEST(a_launch_that_fails_leaves_no_trace)
{
    unsigned char earlier[SL_HISTORY_TEXT];
    struct sl_conflict conflict = { .earlier = (char *)earlier };
    struct sl_stream *stream;
    struct sl_place place;
    struct fixture f;
    uint64_t number;

    begin(&f);
    struct sl_use use = { .range = { .begin = (uintptr_t)f.memory, .end = (uintptr_t)f.memory + 1 }, .writes = true };
    CHECK_OK(sl_stream_hold(f.a, &stream));
    sl_order_place(stream, &place);
    sl_object_drop(&stream->object);
    CHECK(sl_history_add(&place, "blur", &use, 1, &number, &conflict));
    CHECK_RESULT(read_on(&f, f.b), SLUICE_E_ORDER);
    sl_history_undo(number);
    CHECK_OK(read_on(&f, f.b));
    end(&f);
}

/* ---- conversions ---- */

static struct sluice_array gray(void *data)
{
    const int64_t shape[] = { 4, 4 };
    struct sluice_array array;

    CHECK_OK(sluice_array_wrap(&array, "gray", data, (struct sluice_dtype){ SLUICE_UINT, 8, 1 }, 2, shape, NULL));
    return array;
}

TEST(a_conversion_is_a_launch)
{
    unsigned char other[16];
    struct fixture f;

    begin(&f);
    struct sluice_array to = gray(f.memory), from = gray(other);
    CHECK_OK(sluice_convert(f.a, &to, &from, NULL, NULL));
    CHECK_EQ(read_on(&f, f.b), SLUICE_E_ORDER);
    CHECK_HAS(sluice_last_error(), "while kernel 'sluice_convert' may still write it");
    CHECK_EQ(sluice_convert(f.b, &to, &from, NULL, NULL), SLUICE_E_ORDER);
    CHECK_HAS(sluice_last_error(), "kernel 'sluice_convert' writes 'gray' on stream");
    CHECK_EQ(sluice_convert(f.b, &from, &to, NULL, NULL), SLUICE_E_ORDER);
    CHECK_HAS(sluice_last_error(), "kernel 'sluice_convert' reads 'gray' on stream");
    CHECK_OK(sluice_stream_wait_stream(f.b, f.a));
    CHECK_OK(sluice_convert(f.b, &from, &to, NULL, NULL));
    CHECK_EQ(write_on(&f, f.a), SLUICE_E_ORDER);
    CHECK_HAS(sluice_last_error(), "while kernel 'sluice_convert' may still read it");
    end(&f);
}

TEST(a_conversion_that_fails_is_no_use)
{
    struct sluice_convert how = SLUICE_CONVERT_INIT;
    unsigned char other[16];
    struct fixture f;

    begin(&f);
    struct sluice_array to = gray(f.memory), from = gray(other);
    how.crop.width = how.crop.height = 9;
    CHECK_EQ(sluice_convert(f.a, &to, &from, &how, NULL), SLUICE_E_INVALID);
    CHECK_OK(read_on(&f, f.b));
    end(&f);
}
