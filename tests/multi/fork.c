/* SPDX-License-Identifier: MIT
 *
 * Children made without exec: every call returns an error in them, and nobody else notices.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "multi/kit.h"

#define KIB 1024

struct all {
    sluice_writer *writer;
    sluice_reader *reader;
    sluice_watch *watch;
    struct sluice_device device;
    struct sluice_stream stream;
    struct sluice_event event;
    struct sluice_frame begun, held;
};

static void check_all_forked(struct all *all)
{
    struct sluice_format format = { .size = sizeof format };
    struct sluice_writer_stats ws = { .size = sizeof ws };
    struct sluice_reader_stats rs = { .size = sizeof rs };
    struct sluice_channel_info info = { .size = sizeof info };
    struct sluice_writer_params wp = kit_writer_params("cam", &format);
    struct sluice_reader_params rp = kit_reader_params("cam");
    struct sluice_registry_entry entry;
    struct sluice_frame frame;
    struct sluice_array array;
    sluice_writer *writer;
    sluice_reader *reader;
    sluice_watch *watch;
    struct sluice_device device;
    struct sluice_stream stream;
    struct sluice_event event;
    char name[64];
    double ms;
    size_t count;

#define FORKED(call) CHECK_RESULT(call, SLUICE_E_FORKED)
    FORKED(sluice_writer_begin(all->writer, 0, &frame));
    FORKED(sluice_writer_commit(all->writer, &all->begun, SLUICE_ON_CPU));
    FORKED(sluice_writer_cancel(all->writer, &all->begun, SLUICE_ON_CPU));
    FORKED(sluice_writer_send(all->writer, &array, 1, SLUICE_ON_CPU, NULL));
    FORKED(sluice_writer_reformat(all->writer, &format));
    FORKED(sluice_writer_format(all->writer, &format));
    FORKED(sluice_writer_stats(all->writer, &ws));
    FORKED(sluice_reader_acquire(all->reader, SLUICE_ON_CPU, 0, &frame));
    FORKED(sluice_reader_release(all->reader, &all->held, SLUICE_ON_CPU));
    FORKED(sluice_reader_fetch(all->reader, &all->held, &array, 1, SLUICE_ON_CPU, NULL));
    FORKED(sluice_reader_format(all->reader, &format));
    FORKED(sluice_reader_fd(all->reader));
    FORKED(sluice_reader_stats(all->reader, &rs));
    FORKED(sluice_frame_array(&all->held, NULL, &array));
    FORKED(sluice_frame_array_at(&all->begun, 0, &array));
    FORKED(sluice_frame_device(&all->begun, name, sizeof name));
    FORKED(sluice_frame_reshape(&all->begun, NULL, 1, &(int64_t){ 1 }));
    FORKED(sluice_frame_resize(&all->begun, NULL, 1, 1));
    FORKED(sluice_frame_inherit(&all->begun, &all->held));
    FORKED(sluice_writer_open(&writer, &wp));
    FORKED(sluice_reader_open(&reader, &rp));
    FORKED(sluice_channel_info("cam", 0, &info, NULL, 0));
    FORKED(sluice_registry_list(NULL, &entry, 1, &count));
    FORKED(sluice_registry_watch_open(&watch, NULL));
    FORKED(sluice_registry_watch_next(all->watch, 0));
    FORKED(sluice_registry_watch_fd(all->watch));
    FORKED(sluice_device_open(&device, "host"));
    FORKED(sluice_device_synchronize(all->device));
    FORKED(sluice_stream_create(all->device, NULL, &stream));
    FORKED(sluice_stream_query(all->stream));
    FORKED(sluice_stream_wait_stream(all->stream, all->stream));
    FORKED(sluice_event_create(all->device, 0, &event));
    FORKED(sluice_event_record(all->event, all->stream));
    FORKED(sluice_event_elapsed(all->event, all->event, &ms));
    /* Closing clears the handle, so that the child's clean-up code is done with it. */
    FORKED(sluice_writer_close(&all->writer));
    FORKED(sluice_reader_close(&all->reader));
    FORKED(sluice_registry_watch_close(&all->watch));
    CHECK(!all->writer && !all->reader && !all->watch);
    CHECK_OK(sluice_writer_close(&all->writer));
    CHECK_HAS(sluice_last_error(), "fork");
}

static struct all open_all(void)
{
    struct all all = { .writer = kit_writer("cam", 4 * KIB) };

    all.reader = kit_reader("cam", SLUICE_IN_ORDER);
    kit_commits(all.writer, 1);
    CHECK_OK(sluice_registry_watch_open(&all.watch, NULL));
    CHECK_OK(sluice_device_open(&all.device, "host"));
    CHECK_OK(sluice_stream_create(all.device, NULL, &all.stream));
    CHECK_OK(sluice_event_create(all.device, SLUICE_EVENT_TIMING, &all.event));
    CHECK_OK(sluice_event_record(all.event, all.stream));
    all.held = kit_take(all.reader);
    CHECK_OK(sluice_writer_begin(all.writer, 0, &all.begun));
    return all;
}

/* The parent goes on as before, and other processes too. */
static void check_undisturbed(struct all *all, struct child *other)
{
    struct sluice_frame frame;

    kit_fill(&all->begun, 2);
    CHECK_OK(sluice_writer_commit(all->writer, &all->begun, SLUICE_ON_CPU));
    kit_give(all->reader, &all->held);
    frame = kit_take(all->reader);
    CHECK_EQ(frame.sequence, 2);
    kit_give(all->reader, &frame);
    EXPECT_ANSWER(other, "take 20000", "took 2 ");
    kit_commits(all->writer, 30);
    CHECK_EQ(kit_writer_stats(all->writer).readers, 2);
    CHECK_OK(sluice_registry_watch_close(&all->watch));
    CHECK_OK(sluice_device_close(&all->device));
    CHECK_OK(sluice_reader_close(&all->reader));
    CHECK_OK(sluice_writer_close(&all->writer));
    EXPECT_ANSWER(other, "take 20000", "took 32 ");
    EXPECT_ANSWER(other, "take 20000", "CLOSED");
    role_stop(other);
}

static void check_child(pid_t pid)
{
    int status = -1;
    CHECK(pid > 0);
    while (waitpid(pid, &status, 0) < 0)
        ;
    CHECK_EQ(status, 0);
}

TEST(a_forked_child_gets_an_error_and_its_parent_goes_on)
{
    struct all all = open_all();
    struct child other = kit_start("reader", NULL);

    child_expect(&other, "open", 5);
    pid_t pid = fork();
    if (pid == 0) {
        check_all_forked(&all);
        _exit(0);
    }
    check_child(pid);
    check_undisturbed(&all, &other);
}

TEST(a_child_by_raw_clone_gets_an_error_too)
{
    struct all all = open_all();
    struct child other = kit_start("reader", NULL);

    child_expect(&other, "open", 5);
    pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (pid == 0) {
        check_all_forked(&all);
        _exit(0);
    }
    check_child(pid);
    check_undisturbed(&all, &other);
}

/* fork and exec, as in system() and subprocess, is not a fork without exec. */
TEST(a_child_that_execs_uses_sluice_as_anybody)
{
    sluice_writer *writer = kit_writer("cam", 4 * KIB);
    char command[8192];

    kit_commits(writer, 1);
    snprintf(command, sizeof command, "echo 'take 20000' | '%s' --role kit_roles.reader name=cam | grep -q 'took 1 '",
             test_program());
    CHECK_EQ(system(command), 0);
    CHECK_OK(sluice_writer_close(&writer));
}
