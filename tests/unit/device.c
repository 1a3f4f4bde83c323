/* SPDX-License-Identifier: MIT
 *
 * Devices: names, reset, close, and what outlives them.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device_kit.h"
#include "fake_device.h"

TEST(opens_host)
{
    struct sluice_device device = open_host(), again = open_host();
    char name[SL_DEVICE_NAME];

    CHECK_NE(device.id, again.id);
    CHECK_OK(sluice_device_name(device, name, sizeof name));
    CHECK_STR(name, "host");
    CHECK_OK(sluice_device_name(device, name, 5));
    CHECK_SAYS(sluice_device_name(device, name, 4), SLUICE_E_LIMIT, "5 bytes");
    CHECK_RESULT(sluice_device_name(device, NULL, 0), SLUICE_E_INVALID);
    CHECK_OK(sluice_device_synchronize(device));
    CHECK_OK(sluice_device_close(&device));
    CHECK_EQ(device.id, 0);
    CHECK_OK(sluice_device_close(&device));
    CHECK_OK(sluice_device_name(again, name, sizeof name)); /* a second open is another device */
    CHECK_OK(sluice_device_close(&again));
    check_nothing_lives();
}

TEST(invalid_names)
{
    static const char *const names[] = {
        "",
        "Host",
        "host ",
        "host:0",
        "cuda",
        "cuda:",
        "cuda:x",
        "cuda:-1",
        "cuda:0000",
        "cuda:0 ",
        "rocm:0",
        "cuda:GPU-",
        "cuda:GPU-01234567-89ab-cdef-0123-456789abcde",
        "cuda:01234567-89ab-cdef-0123-456789abcdef0",
        "cuda:01234567_89ab-cdef-0123-456789abcdef",
    };
    struct sluice_device device = { 42 };
    char endless[5000];

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        CHECK_SAYS(sluice_device_open(&device, names[i]), SLUICE_E_INVALID, "is not the name of a device");
    memset(endless, 'x', sizeof endless - 1);
    endless[sizeof endless - 1] = '\0';
    CHECK_RESULT(sluice_device_open(&device, endless), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_device_open(&device, NULL), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_device_open(NULL, "host"), SLUICE_E_INVALID);
    CHECK_EQ(device.id, 42); /* outputs are written only on success */
}

TEST(cuda_without_a_driver)
{
    static const char *const names[] = {
        "cuda:0",
        "cuda:15",
        "cuda:01234567-89ab-cdef-0123-456789ABCDEF",
        "cuda:GPU-01234567-89ab-cdef-0123-456789abcdef",
    };
    struct sluice_device device = { 42 };

    CHECK(setenv("SLUICE_CUDA_DRIVER", "libno-such-driver.so.1", 1) == 0);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        CHECK_SAYS(sluice_device_open(&device, names[i]), SLUICE_E_UNSUPPORTED, "no CUDA driver");
        CHECK_HAS(sluice_last_error(), "\"host\", which works everywhere");
    }
    CHECK_EQ(device.id, 42);
    CHECK(sl_device_kind("host") == &sl_device_host);
    CHECK(sl_device_kind("cuda:0") == &sl_device_cuda);
    CHECK(sl_device_kind("cuda") == NULL);
    CHECK(sl_device_kind("rocm") == NULL);
}

TEST(invalid_handles)
{
    struct sluice_device zero = { 0 }, on_cpu = { 1 }, junk = { UINT64_C(0xfeedfacecafebeef) };
    struct sluice_device device = open_host();
    struct sluice_stream stream;
    char name[SL_DEVICE_NAME];

    CHECK_OK(sluice_stream_default(device, &stream));
    struct sluice_device not_a_device = { stream.id };
    CHECK_SAYS(sluice_device_name(zero, name, sizeof name), SLUICE_E_INVALID, "zero handle");
    CHECK_RESULT(sluice_device_synchronize(on_cpu), SLUICE_E_HANDLE);
    CHECK_RESULT(sluice_device_reset(junk), SLUICE_E_HANDLE);
    CHECK_SAYS(sluice_device_reset(not_a_device), SLUICE_E_HANDLE, "not the handle of a device");
    CHECK_RESULT(sluice_device_close(&junk), SLUICE_E_HANDLE);
    CHECK_RESULT(sluice_device_close(NULL), SLUICE_E_INVALID);
    CHECK_OK(sluice_device_close(&device));
}

TEST(reset_makes_everything_stale)
{
    struct sluice_device device = open_host();
    struct sluice_stream stream, standard, borrowed, fresh;
    struct sluice_event event;

    CHECK_OK(sluice_stream_create(device, NULL, &stream));
    CHECK_OK(sluice_stream_wrap(device, 5, NULL, NULL, &borrowed));
    CHECK_OK(sluice_stream_default(device, &standard));
    CHECK_OK(sluice_event_create(device, 0, &event));
    CHECK_OK(sluice_event_record(event, stream));
    CHECK_OK(sluice_device_reset(device));

    CHECK_SAYS(sluice_stream_synchronize(stream), SLUICE_E_STALE, "its device was reset");
    CHECK_SAYS(sluice_stream_query(borrowed), SLUICE_E_STALE, "its device was reset");
    CHECK_SAYS(sluice_stream_destroy(&stream), SLUICE_E_STALE, "its device was reset");
    CHECK_SAYS(sluice_stream_query(standard), SLUICE_E_STALE, "its device was reset");
    CHECK_SAYS(sluice_event_query(event), SLUICE_E_STALE, "event");
    CHECK_HAS(sluice_last_error(), "its device was reset");
    CHECK_SAYS(sluice_event_destroy(&event), SLUICE_E_STALE, "its device was reset");
    CHECK_EQ(sl_device_counts().streams, 0);
    CHECK_EQ(sl_device_counts().events, 0);

    /* The device itself goes on. */
    CHECK_OK(sluice_stream_create(device, NULL, &stream));
    CHECK_OK(sluice_stream_default(device, &fresh));
    CHECK_NE(fresh.id, standard.id);
    CHECK_OK(sluice_device_close(&device));
    CHECK_SAYS(sluice_stream_query(stream), SLUICE_E_STALE, "its device was closed");
    check_nothing_lives();
}

TEST(a_device_that_was_closed_says_so)
{
    struct sluice_device device = open_host(), copy = device;
    struct sluice_stream stream = { 42 };
    struct sluice_event event = { 42 };

    CHECK_OK(sluice_device_close(&device));
    CHECK_SAYS(sluice_device_synchronize(copy), SLUICE_E_CLOSED, "was closed; open it again");
    CHECK_RESULT(sluice_device_reset(copy), SLUICE_E_CLOSED);
    CHECK_RESULT(sluice_stream_create(copy, NULL, &stream), SLUICE_E_CLOSED);
    CHECK_RESULT(sluice_stream_wrap(copy, 0, NULL, NULL, &stream), SLUICE_E_CLOSED);
    CHECK_RESULT(sluice_stream_default(copy, &stream), SLUICE_E_CLOSED);
    CHECK_RESULT(sluice_event_create(copy, 0, &event), SLUICE_E_CLOSED);
    CHECK_RESULT(sluice_device_close(&copy), SLUICE_E_CLOSED);
    CHECK_NE(copy.id, 0);
    CHECK_EQ(stream.id, 42);
    CHECK_EQ(event.id, 42);
}

TEST(ten_thousand_streams_over_a_hundred_resets)
{
    struct sluice_device device = open_host();
    static struct sluice_stream streams[100];
    static uint64_t ids[10000];

    for (int round = 0; round < 100; round++) {
        for (int i = 0; i < 100; i++) {
            CHECK_OK(sluice_stream_create(device, NULL, &streams[i]));
            ids[round * 100 + i] = streams[i].id;
        }
        for (int i = 0; i < 50; i++)
            CHECK_OK(sluice_stream_destroy(&streams[i]));
        CHECK_EQ(sl_device_counts().streams, 50);
        CHECK_OK(sluice_device_reset(device));
        CHECK_EQ(sl_device_counts().streams, 0);
    }
    for (int i = 0; i < 10000; i++) {
        int r = sluice_stream_query((struct sluice_stream){ ids[i] });
        bool destroyed = i % 100 < 50, lately = i >= 9900;
        CHECK(r == (destroyed ? SLUICE_E_CLOSED : SLUICE_E_STALE) || (r == SLUICE_E_STALE && !lately));
    }
    CHECK_OK(sluice_device_close(&device));
    check_nothing_lives();
}

TEST(nothing_wrong_reaches_the_kind)
{
    struct sluice_device device = fake_open(), host = open_host();
    struct sluice_stream stream, gone, foreign, none = { 0 };
    struct sluice_event event, plain, gone_event, host_event;
    struct sluice_stream_params params = { .size = sizeof params, .blocking = 2 };
    double ms;

    CHECK_OK(sluice_stream_create(device, NULL, &stream));
    CHECK_OK(sluice_stream_create(host, NULL, &foreign));
    CHECK_OK(sluice_event_create(device, SLUICE_EVENT_TIMING, &event));
    CHECK_OK(sluice_event_create(device, 0, &plain));
    CHECK_OK(sluice_event_create(host, 0, &host_event));
    CHECK_OK(sluice_event_record(host_event, foreign));
    CHECK_OK(sluice_stream_create(device, NULL, &gone));
    struct sluice_stream copy = gone;
    CHECK_OK(sluice_stream_destroy(&copy));
    CHECK_OK(sluice_event_create(device, 0, &gone_event));
    struct sluice_event event_copy = gone_event;
    CHECK_OK(sluice_event_destroy(&event_copy));

    fake.calls = 0;
    CHECK_RESULT(sluice_stream_synchronize(gone), SLUICE_E_CLOSED);
    CHECK_RESULT(sluice_stream_query(gone), SLUICE_E_CLOSED);
    CHECK_RESULT(sluice_stream_wait_stream(stream, gone), SLUICE_E_CLOSED);
    CHECK_RESULT(sluice_stream_wait_stream(gone, stream), SLUICE_E_CLOSED);
    CHECK_RESULT(sluice_stream_wait_stream(stream, none), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_stream_wait_stream(stream, SLUICE_ON_CPU), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_stream_wait_stream(stream, foreign), SLUICE_E_WRONG_DEVICE);
    CHECK_RESULT(sluice_stream_wait_stream(foreign, stream), SLUICE_E_WRONG_DEVICE);
    CHECK_RESULT(sluice_stream_wait_event(stream, event), SLUICE_E_NOT_RECORDED);
    CHECK_RESULT(sluice_stream_wait_event(stream, gone_event), SLUICE_E_CLOSED);
    CHECK_RESULT(sluice_stream_wait_event(stream, host_event), SLUICE_E_WRONG_DEVICE);
    CHECK_RESULT(sluice_event_record(event, gone), SLUICE_E_CLOSED);
    CHECK_RESULT(sluice_event_record(event, none), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_event_record(event, foreign), SLUICE_E_WRONG_DEVICE);
    CHECK_RESULT(sluice_event_record(gone_event, stream), SLUICE_E_CLOSED);
    CHECK_RESULT(sluice_event_query(event), SLUICE_E_NOT_RECORDED);
    CHECK_RESULT(sluice_event_synchronize(event), SLUICE_E_NOT_RECORDED);
    CHECK_RESULT(sluice_event_elapsed(event, plain, &ms), SLUICE_E_NOT_RECORDED);
    CHECK_RESULT(sluice_event_elapsed(plain, event, &ms), SLUICE_E_NO_TIMING);
    CHECK_RESULT(sluice_event_create(device, 4, &plain), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_stream_create(device, &params, &gone), SLUICE_E_INVALID);
    fake.capturing = true;
    CHECK_RESULT(sluice_stream_query(stream), SLUICE_E_CAPTURING);
    CHECK_SAYS(sluice_stream_synchronize(stream), SLUICE_E_CAPTURING, "is capturing a graph");
    CHECK_RESULT(sluice_stream_destroy(&stream), SLUICE_E_CAPTURING);
    CHECK_RESULT(sluice_device_synchronize(device), SLUICE_E_CAPTURING);
    CHECK_RESULT(sluice_device_reset(device), SLUICE_E_CAPTURING);
    CHECK_RESULT(sluice_device_close(&device), SLUICE_E_CAPTURING);
    CHECK_EQ(fake.calls, 0);

    /* And valid calls work. A capture may wait and record: these become part of its graph. */
    CHECK_OK(sluice_event_record(event, stream));
    CHECK_OK(sluice_stream_wait_event(stream, event));
    fake.capturing = false;
    fake.busy = true;
    CHECK_RESULT(sluice_stream_query(stream), SLUICE_NOT_READY);
    CHECK_RESULT(sluice_event_query(event), SLUICE_NOT_READY);
    CHECK_RESULT(sluice_event_elapsed(event, event, &ms), SLUICE_NOT_READY);
    fake.busy = false;
    CHECK_OK(sluice_event_elapsed(event, event, &ms));
    CHECK_NEAR(ms, 7, 0);
    CHECK_EQ(fake.calls, 8);
    CHECK_OK(sluice_device_close(&device));
    CHECK_OK(sluice_device_close(&host));
    CHECK_EQ(fake.destroyed, 5);
    CHECK_EQ(fake.closed, 1);
    check_nothing_lives();
}

static int released;

static void count_release(void *user)
{
    CHECK(user == &released);
    released++;
}

TEST(a_kind_that_fails_leaves_nothing)
{
    struct sluice_device device = fake_open(), other = { 42 };
    struct sluice_stream stream = { 42 }, borrowed;
    struct sluice_event event = { 42 };

    CHECK_OK(sluice_stream_wrap(device, 1, count_release, &released, &borrowed));
    fake.fails = SLUICE_E_DRIVER;
    CHECK_SAYS(sl_device_open_as(&fake_ops, "fake:1", &other), SLUICE_E_DRIVER, "set to fail");
    CHECK_RESULT(sluice_stream_create(device, NULL, &stream), SLUICE_E_DRIVER);
    CHECK_RESULT(sluice_stream_wrap(device, 3, count_release, &released, &stream), SLUICE_E_DRIVER);
    CHECK_RESULT(sluice_stream_default(device, &stream), SLUICE_E_DRIVER);
    CHECK_RESULT(sluice_event_create(device, 0, &event), SLUICE_E_DRIVER);
    CHECK_EQ(other.id, 42);
    CHECK_EQ(stream.id, 42);
    CHECK_EQ(event.id, 42);
    CHECK_EQ(fake.destroyed, 0);
    CHECK_EQ(released, 0); /* the owner keeps what could not be wrapped */

    /* A driver that cannot even wait any more: close reports it, and still ends everything. */
    CHECK_RESULT(sluice_device_close(&device), SLUICE_E_DRIVER);
    CHECK_EQ(device.id, 0);
    CHECK_EQ(fake.closed, 1);
    CHECK_EQ(released, 1);
    check_nothing_lives();
}

TEST(a_device_that_is_closed_while_a_stream_is_made)
{
    struct sluice_device device = fake_open();
    struct sluice_stream stream = { 42 };

    fake.shut = device;
    CHECK_SAYS(sluice_stream_create(device, NULL, &stream), SLUICE_E_CLOSED, "was closed");
    CHECK_EQ(fake.destroyed, 1);
    CHECK_EQ(fake.closed, 1);
    check_nothing_lives();

    device = fake_open();
    fake.shut = device;
    released = 0;
    CHECK_RESULT(sluice_stream_wrap(device, 1, count_release, &released, &stream), SLUICE_E_CLOSED);
    CHECK_EQ(fake.destroyed, 1);
    CHECK_EQ(released, 0);
    CHECK_EQ(stream.id, 42);
    check_nothing_lives();
}

static void *synchronize(void *stream)
{
    CHECK_OK(sluice_stream_synchronize(*(struct sluice_stream *)stream));
    return NULL;
}

TEST(close_does_not_pull_a_stream_from_under_a_thread)
{
    struct sluice_device device = fake_open();
    struct sluice_stream stream, copy;
    pthread_t thread;

    CHECK_OK(sluice_stream_create(device, NULL, &stream));
    copy = stream;
    fake.stuck = true;
    CHECK(pthread_create(&thread, NULL, synchronize, &copy) == 0);
    CHECK_SOON(fake.waiting == 1, 5);

    /* No call waits for the thread that is stuck, and the handle is stale at once. */
    CHECK_OK(sluice_stream_destroy(&stream));
    CHECK_RESULT(sluice_stream_query(copy), SLUICE_E_CLOSED);
    CHECK_OK(sluice_device_close(&device));
    CHECK_EQ(fake.destroyed, 0);
    CHECK_EQ(fake.closed, 0);
    fake.stuck = false;
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK_EQ(fake.destroyed, 1);
    CHECK_EQ(fake.closed, 1);
    check_nothing_lives();
}

/* ---- fork ---- */

static int all_refused(struct sluice_device device, struct sluice_stream stream, struct sluice_event event)
{
    struct sluice_device another;
    struct sluice_stream top;

    return sluice_device_open(&another, "host") == SLUICE_E_FORKED &&
           sluice_device_synchronize(device) == SLUICE_E_FORKED &&
           sluice_stream_default(device, &top) == SLUICE_E_FORKED && sluice_stream_query(stream) == SLUICE_E_FORKED &&
           sluice_event_query(event) == SLUICE_E_FORKED && sluice_stream_current(&top) == SLUICE_E_FORKED &&
           sluice_stream_pop_current(stream) == SLUICE_E_FORKED && sluice_stream_destroy(&stream) == SLUICE_E_FORKED &&
           sluice_device_close(&device) == SLUICE_E_FORKED && sl_stream_check(stream, NULL) == SLUICE_E_FORKED &&
           strstr(sluice_last_error(), "fork()");
}

TEST(a_forked_child_is_refused)
{
    struct sluice_device device = open_host();
    struct sluice_stream stream;
    struct sluice_event event;
    int status;

    CHECK_OK(sluice_stream_create(device, NULL, &stream));
    CHECK_OK(sluice_event_create(device, 0, &event));
    CHECK_OK(sluice_event_record(event, stream));
    CHECK_OK(sluice_stream_push_current(stream));
    pid_t pid = fork();
    if (pid == 0)
        _exit(all_refused(device, stream, event) ? 0 : 1);
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK_EQ(status, 0);
    CHECK_OK(sluice_stream_pop_current(stream)); /* the parent noticed nothing */
    CHECK_OK(sluice_device_close(&device));
}

TEST(host_memory_for_copies)
{
    struct sluice_device device;
    void *memory = NULL, *none = NULL, *other = &device;

    CHECK_OK(sluice_device_open(&device, "host"));
    CHECK_OK(sluice_device_host_alloc(device, 10000, &memory));
    CHECK_EQ((uintptr_t)memory % sl_os_page_size(), 0);
    memset(memory, 1, 10000);
    CHECK_RESULT(sluice_device_host_alloc(device, 0, &none), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_device_host_alloc(device, 1, NULL), SLUICE_E_INVALID);
    CHECK_SAYS(sluice_device_host_alloc(device, SIZE_MAX, &none), SLUICE_E_NO_MEMORY, "18446744073709551615");
    CHECK(!none);
    CHECK_OK(sluice_device_close(&device));
    memset(memory, 2, 10000); /* it stays */
    void *twice = memory;
    CHECK_OK(sluice_device_host_free(&memory));
    CHECK(!memory);
    CHECK_OK(sluice_device_host_free(&memory));
    CHECK_OK(sluice_device_host_free(NULL));
    CHECK_SAYS(sluice_device_host_free(&twice), SLUICE_E_INVALID, "freed already");
    CHECK_SAYS(sluice_device_host_free(&other), SLUICE_E_INVALID, "not of sluice_device_host_alloc");
    struct sluice_device gone = { 0 };
    CHECK_RESULT(sluice_device_host_alloc(gone, 1, &none), SLUICE_E_INVALID);
}
