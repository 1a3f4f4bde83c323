/* SPDX-License-Identifier: MIT
 *
 * Writers whose GPU has no memory left for a moment, or is slow to allocate it.
 */
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <sluice/sluice.h>

#include "fake/fake.h"
#include "gpu/kit.h"
#include "harness/test.h"
#include "os/os.h"

static struct sluice_format format_of(int64_t bytes)
{
    struct sluice_format format = SLUICE_FORMAT_INIT;

    CHECK_OK(sluice_format_add_tensor(&format, "data", (struct sluice_dtype){ SLUICE_UINT, 8, 1 }, 1, &bytes));
    return format;
}

static int open_on(const char *device, sluice_writer **writer)
{
    struct sluice_writer_params params = SLUICE_WRITER_PARAMS_INIT;
    struct sluice_format format = format_of(64);

    test_dir();
    params.name = "cam";
    params.device = device;
    params.format = &format;
    return sluice_writer_open(writer, &params);
}

ROLE(writes_on_the_host)
{
    sluice_writer *writer;

    CHECK_OK(open_on("host", &writer));
    role_say("open");
    role_line();
    CHECK_OK(sluice_writer_close(&writer));
    return 0;
}

/* Leaves the name as a killed writer does, or as one that closed. */
static void write_before(bool killed)
{
    struct child child = role_start("writes_on_the_host", NULL);

    child_expect(&child, "open", 10);
    if (killed)
        child_kill(&child, SIGKILL);
    else
        role_stop(&child);
}

TEST(the_successor_of_a_killed_writer_waits_for_memory)
{
    sluice_writer *writer;

    fake_use();
    write_before(true);
    fake_fail(FAKE_MemCreate, 1, SL_CU_OUT_OF_MEMORY);
    CHECK_OK(open_on("cuda:0", &writer));
    CHECK(fake_failed());
    CHECK_OK(sluice_writer_close(&writer));
}

TEST(other_writers_do_not_wait_for_memory)
{
    sluice_writer *writer;

    fake_use();
    write_before(false);
    fake_fail(FAKE_MemCreate, 1, SL_CU_OUT_OF_MEMORY);
    CHECK_RESULT(open_on("cuda:0", &writer), SLUICE_E_NO_MEMORY); /* another try would find some */
    CHECK(fake_failed());
}

ROLE(opens_on_a_busy_gpu)
{
    struct sluice_device device;
    sluice_writer *writer;

    fake_use();
    CHECK_OK(sluice_device_open(&device, "cuda:0")); /* the rest of the program, whose work it is */
    fake_machine.delay = FAKE_ENDLESS;
    int64_t began = test_now();
    CHECK_SAYS(open_on("cuda:0", &writer), SLUICE_TIMEOUT, "does not end");
    CHECK_LE(test_now() - began, 35 * SLUICE_S);
    fake_release();
    CHECK_OK(sluice_device_close(&device));
    return 0;
}

/* Endless work blocks the stream that clears the slots. What cannot be unmapped stays, so this is a process of its own.
 * */
TEST(slots_that_are_never_cleared_time_out)
{
    struct child child = role_start("opens_on_a_busy_gpu", NULL);

    CHECK_EQ(child_wait(&child, 60), 0);
}

static void say_waiting(void *nothing)
{
    role_say("waiting");
    (void)nothing;
}

static void clearing(void *nothing)
{
    fake_behind(FAKE_StreamQuery, say_waiting, nothing);
}

static void *release_when_told(void *nothing)
{
    CHECK(role_line());
    fake_release();
    return nothing;
}

ROLE(opens_and_is_stopped)
{
    struct sluice_device device;
    sluice_writer *writer;
    pthread_t thread;

    fake_use();
    CHECK_OK(sluice_device_open(&device, "cuda:0"));
    CHECK(pthread_create(&thread, NULL, release_when_told, NULL) == 0);
    fake_machine.delay = FAKE_ENDLESS;
    fake_behind(FAKE_MemsetD8Async, clearing, NULL);
    CHECK_OK(open_on("cuda:0", &writer));
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK_OK(sluice_writer_close(&writer));
    CHECK_OK(sluice_device_close(&device));
    return 0;
}

/* The writer waits for at most 20 s, which do not include the time for which it was stopped. */
TEST_TIMEOUT(a_writer_that_is_stopped_meanwhile_is_not_held_up, 60)
{
    struct child child = role_start("opens_and_is_stopped", NULL);

    child_expect(&child, "waiting", 10);
    child_kill(&child, SIGSTOP);
    test_nap(21 * SLUICE_S);
    child_kill(&child, SIGCONT);
    test_nap(SLUICE_S / 2); /* it polls meanwhile, and must not give up */
    child_send(&child, "release");
    CHECK_EQ(child_wait(&child, 30), 0);
}

/* ---- memory that is being freed on other threads ---- */

#define PATIENCE (2 * SLUICE_S)
#define MOST     16

/* A thread that frees until `gone`; from then on the process may have descriptors, too. */
struct freeing {
    sl_word32 gone;
    struct rlimit descriptors;
    pthread_t thread;
};

static void stay(void *gone)
{
    while (!sl_load((sl_word32 *)gone, acquire))
        test_nap(SLUICE_MS);
}

static void *go_later(void *shared)
{
    struct freeing *freeing = shared;

    test_nap(200 * SLUICE_MS);
    CHECK(setrlimit(RLIMIT_NOFILE, &freeing->descriptors) == 0);
    sl_store(&freeing->gone, 1, release);
    return NULL;
}

static void begin(struct freeing *freeing, int threads)
{
    sl_store(&freeing->gone, 0, relaxed);
    CHECK(getrlimit(RLIMIT_NOFILE, &freeing->descriptors) == 0);
    while (threads-- > 0)
        CHECK(sl_background_start(stay, &freeing->gone));
    CHECK(pthread_create(&freeing->thread, NULL, go_later, freeing) == 0);
}

static void end(struct freeing *freeing)
{
    CHECK(pthread_join(freeing->thread, NULL) == 0);
    gpu_settle();
}

/* The call waited for it; or the machine was suspended for so long that it gave up. */
#define CHECK_WAITED(freeing, began) CHECK(sl_load(&(freeing)->gone, acquire) || test_now() - (began) >= PATIENCE)

TEST(memory_that_is_being_freed_is_waited_for)
{
    struct sluice_format format = format_of(100000);
    struct freeing freeing;
    sluice_writer *writer;

    fake_use();
    CHECK_OK(open_on("cuda:0", &writer));
    begin(&freeing, 1);
    fake_fail(FAKE_MemCreate, 1, SL_CU_OUT_OF_MEMORY);
    int64_t began = test_now();
    int r = sluice_writer_reformat(writer, &format);
    CHECK_WAITED(&freeing, began);
    CHECK(r == 0 || test_now() - began >= PATIENCE);
    CHECK(fake_failed());
    end(&freeing);
    CHECK_OK(sluice_writer_close(&writer));
}

/* Leaves `some` more descriptors than are open. */
static void leave_descriptors(int some)
{
    struct rlimit limit;
    int next = dup(STDERR_FILENO);

    CHECK(next >= 0 && getrlimit(RLIMIT_NOFILE, &limit) == 0);
    close(next);
    limit.rlim_cur = (rlim_t)(next + some);
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
}

TEST(descriptors_that_are_being_freed_are_waited_for)
{
    struct freeing freeing;
    sluice_writer *writer;

    fake_use();
    for (int some = 0; some < 2; some++) { /* the driver makes memory with one, and exports it with another */
        struct sluice_format format = format_of(100000);
        struct rlimit limit;
        CHECK_OK(open_on("cuda:0", &writer));
        CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
        leave_descriptors(some);
        CHECK_SAYS(sluice_writer_reformat(writer, &format), SLUICE_E_NO_DESCRIPTORS, "RLIMIT_NOFILE");
        CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
        begin(&freeing, 1);
        leave_descriptors(some);
        int64_t began = test_now();
        int r = sluice_writer_reformat(writer, &format);
        CHECK_WAITED(&freeing, began);
        CHECK(r == 0 || test_now() - began >= PATIENCE);
        end(&freeing);
        CHECK_OK(sluice_writer_close(&writer));
        gpu_settle();
    }
}

static void pass(sluice_writer *writer, sluice_reader *reader)
{
    struct sluice_frame frame;

    CHECK_OK(sluice_writer_begin(writer, 0, &frame));
    CHECK_OK(sluice_writer_commit(writer, &frame, SLUICE_ON_CPU));
    CHECK_OK(sluice_reader_acquire(reader, SLUICE_ON_CPU, 20 * SLUICE_S, &frame));
    CHECK_OK(sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
}

/* A caller that is about to add to it waits, for a limited time; others do not. */
TEST(memory_that_is_being_freed_does_not_pile_up)
{
    struct sluice_reader_params params = SLUICE_READER_PARAMS_INIT;
    struct sluice_format format = format_of(100000);
    struct freeing freeing;
    struct sluice_frame frame;
    sluice_writer *writer;
    sluice_reader *reader;

    fake_use();
    CHECK_OK(open_on("cuda:0", &writer));
    params.name = "cam";
    CHECK_OK(sluice_reader_open(&reader, &params));
    pass(writer, reader);

    begin(&freeing, MOST);
    int64_t began = test_now();
    CHECK_OK(sluice_writer_reformat(writer, &format));
    CHECK_WAITED(&freeing, began);
    end(&freeing);

    CHECK_OK(sluice_writer_begin(writer, 0, &frame));
    CHECK_OK(sluice_writer_commit(writer, &frame, SLUICE_ON_CPU));
    begin(&freeing, MOST);
    began = test_now();
    CHECK_OK(sluice_reader_acquire(reader, SLUICE_ON_CPU, 20 * SLUICE_S, &frame));
    CHECK_WAITED(&freeing, began);
    CHECK_OK(sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
    end(&freeing);
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&writer));
}
