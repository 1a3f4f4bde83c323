/* SPDX-License-Identifier: MIT
 *
 * Which channels there are, the state of each, and other files in the folder.
 */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "multi/kit.h"

#define KIB 1024

static int make_socket(const char *name, int type, bool listening)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);

    CHECK(snprintf(address.sun_path, sizeof address.sun_path, "%s/%s", test_dir(), name) < 108);
    CHECK_EQ(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    if (listening)
        CHECK_EQ(listen(fd, 1), 0);
    return fd;
}

TEST(other_files_are_not_channels)
{
    char path[600];

    int stream = make_socket("stream", SOCK_STREAM, true), datagram = make_socket("datagram", SOCK_DGRAM, false);
    close(make_socket("dead", SOCK_SEQPACKET, true));
    snprintf(path, sizeof path, "%s/file", test_dir());
    int file = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    CHECK_EQ(write(file, "precious", 8), 8);
    close(file);
    snprintf(path, sizeof path, "%s/folder", test_dir());
    CHECK_EQ(mkdir(path, 0700), 0);

    CHECK_SAYS(kit_try_read("stream"), SLUICE_E_PROTOCOL, "socket of some other program");
    CHECK_SAYS(kit_try_read("datagram"), SLUICE_E_PROTOCOL, "socket of some other program");
    CHECK_SAYS(kit_try_read("dead"), SLUICE_E_NOT_FOUND, "start it again");
    CHECK_RESULT(kit_try_read("file"), SLUICE_E_NOT_FOUND);
    CHECK_RESULT(kit_try_read("folder"), SLUICE_E_NOT_FOUND);

    /* Other programs' sockets are not replaced; dead ones are. */
    CHECK_SAYS(kit_try_write("stream"), SLUICE_E_PROTOCOL, "socket of some other program");
    CHECK_SAYS(kit_try_write("datagram"), SLUICE_E_PROTOCOL, "socket of some other program");
    CHECK_SAYS(kit_try_write("file"), SLUICE_E_EXISTS, "is no socket");
    CHECK_SAYS(kit_try_write("folder"), SLUICE_E_EXISTS, "is no socket");
    CHECK_OK(kit_try_write("dead"));
    struct stat status;
    snprintf(path, sizeof path, "%s/file", test_dir());
    CHECK(stat(path, &status) == 0 && S_ISREG(status.st_mode) && status.st_size == 8);
    close(stream);
    close(datagram);
}

TEST(the_list_shows_channels_and_which_are_live)
{
    struct child writer = { 0 };
    struct sluice_registry_entry entries[8];
    sluice_writer *mine = kit_writer("b-mine", 4 * KIB);
    size_t count;

    int stream = make_socket("stream", SOCK_STREAM, true), hidden = make_socket(".hidden", SOCK_SEQPACKET, true);
    close(make_socket("c-dead", SOCK_SEQPACKET, true));
    writer = kit_start("writer", "name=a-live", NULL);
    child_expect(&writer, "open", 5);
    struct child killed = kit_start("writer", "name=d-killed", NULL);
    child_expect(&killed, "open", 5);
    child_kill(&killed, SIGKILL);

    CHECK_OK(sluice_registry_list(NULL, entries, 8, &count));
    CHECK_EQ(count, 4);
    static const char *const names[] = { "a-live", "b-mine", "c-dead", "d-killed" };
    for (size_t i = 0; i < 4; i++) {
        CHECK_STR(entries[i].name, names[i]);
        CHECK_EQ(entries[i].live, i < 2);
        CHECK_EQ(entries[i].uid, getuid());
    }
    CHECK_EQ(entries[0].pid, writer.pid);
    CHECK_EQ(entries[1].pid, getpid());
    CHECK_OK(sluice_registry_list(NULL, entries, 2, &count)); /* how many there are, not how many fit */
    CHECK_EQ(count, 4);
    CHECK_OK(sluice_registry_list(NULL, NULL, 0, &count));
    CHECK_EQ(count, 4);
    CHECK_OK(sluice_registry_list("/nowhere/at/all", entries, 8, &count));
    CHECK_EQ(count, 0);
    CHECK_RESULT(sluice_registry_list(NULL, NULL, 1, &count), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_registry_list(NULL, entries, 8, NULL), SLUICE_E_INVALID);
    role_stop(&writer);
    CHECK_OK(sluice_writer_close(&mine));
    CHECK_OK(sluice_registry_list(NULL, entries, 8, &count));
    CHECK_EQ(count, 2); /* a writer that closes removes its socket */
    close(stream);
    close(hidden);
}

/* A writer that lives makes the folder again, and its socket. */
TEST(a_watch_follows_its_folder)
{
    char path[512], away[600], lock[600];
    sluice_watch *watch;

    snprintf(path, sizeof path, "%s", test_dir());
    snprintf(away, sizeof away, "%s-away", path);
    CHECK_OK(sluice_registry_watch_open(&watch, NULL));
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(rename(path, away), 0);
        CHECK_OK(sluice_registry_watch_next(watch, 20 * SLUICE_S)); /* the folder is another one */
        while (sluice_registry_watch_next(watch, 20 * SLUICE_MS) == 0)
            continue;
        CHECK_OK(kit_try_write("cam"));
        CHECK_OK(sluice_registry_watch_next(watch, 20 * SLUICE_S));
        CHECK_EQ(unlinkat(AT_FDCWD, away, AT_REMOVEDIR), 0);
        snprintf(lock, sizeof lock, "%s/cam.lock", path);
        CHECK_EQ(unlink(lock), 0);
    }
    CHECK_OK(sluice_registry_watch_close(&watch));
}

TEST(a_watch_tells_when_channels_come_and_go)
{
    sluice_watch *watch;
    char path[600];

    snprintf(path, sizeof path, "%s/later", test_dir());
    setenv("SLUICE_DIR", path, 1); /* made by the watch */
    CHECK_OK(sluice_registry_watch_open(&watch, NULL));
    struct pollfd fd = { .fd = sluice_registry_watch_fd(watch), .events = POLLIN };
    CHECK_EQ(poll(&fd, 1, 0), 0);
    int64_t began = test_now();
    CHECK_RESULT(sluice_registry_watch_next(watch, 50 * SLUICE_MS), SLUICE_TIMEOUT);
    CHECK_GE(test_now() - began, 50 * SLUICE_MS);
    CHECK_RESULT(sluice_registry_watch_next(watch, 0), SLUICE_TIMEOUT);

    struct child writer = kit_start("writer", NULL);
    child_expect(&writer, "open", 5);
    CHECK_EQ(poll(&fd, 1, 20000), 1);
    CHECK_OK(sluice_registry_watch_next(watch, 0));
    CHECK_RESULT(sluice_registry_watch_next(watch, 20 * SLUICE_MS), SLUICE_TIMEOUT);
    EXPECT_ANSWER(&writer, "commit 5", "committed"); /* frames do not concern it */
    CHECK_RESULT(sluice_registry_watch_next(watch, 20 * SLUICE_MS), SLUICE_TIMEOUT);
    role_stop(&writer);
    CHECK_OK(sluice_registry_watch_next(watch, 20 * SLUICE_S));
    CHECK_OK(sluice_registry_watch_close(&watch));
    CHECK(watch == NULL);
    CHECK_OK(sluice_registry_watch_close(&watch));
}

TEST(an_observer_sees_all_and_holds_nothing)
{
    struct sluice_format format = kit_format(30000);
    struct sluice_writer_params params = kit_writer_params("cam", &format);
    struct sluice_channel_info info = { .size = sizeof info };
    struct sluice_reader_info readers[4];
    sluice_writer *writer;

    test_dir();
    params.slots = params.max_slots = 4;
    params.readers = 5;
    CHECK_OK(sluice_writer_open(&writer, &params));
    struct child newest = kit_start("reader", "hold=2", "every=1", NULL);
    child_expect(&newest, "open", 5);
    struct child recorder = kit_start("reader", "mode=1", "depth=2", "every=2", NULL);
    child_expect(&recorder, "open", 5);
    kit_commits(writer, 2);
    EXPECT_ANSWER(&newest, "hold 20000", "holds 2 ");
    EXPECT_ANSWER(&recorder, "take 20000", "took 1 ");
    kit_commits(writer, 3);
    test_nap(50 * SLUICE_MS);
    int64_t asked = test_now();
    CHECK_OK(sluice_channel_info("sluice:cam", 20 * SLUICE_S, &info, readers, 4));
    CHECK_STR(info.name, "cam");
    CHECK_STR(info.folder, test_dir());
    CHECK_STR(info.device, kit_device() ? kit_device() : "host");
    CHECK_EQ(info.pid, getpid());
    CHECK_EQ(info.uid, getuid());
    CHECK_EQ(info.wire_version, 1);
    CHECK_EQ(info.session, kit_writer_stats(writer).session);
    CHECK_EQ(info.generation, 1);
    CHECK_EQ(info.slots, 4);
    CHECK_EQ(info.max_slots, 4);
    CHECK_EQ(info.policy, SLUICE_DROP);
    CHECK_EQ(info.readers, 2);
    CHECK_EQ(info.max_readers, 5);
    CHECK_EQ(info.writable, 0);
    CHECK_EQ(info.committed, 5);
    CHECK_EQ(info.dropped, 0);
    CHECK_EQ(info.bytes, 5 * 30000);
    CHECK_EQ(info.format.array_count, 1);
    CHECK_EQ(info.format.arrays[0].nbytes, 30000);
    CHECK_GE(info.now_ns, asked);
    CHECK_LE(info.last_commit_ns, asked);
    CHECK_LE(info.opened_ns, info.last_commit_ns);

    const struct sluice_reader_info *a = &readers[readers[0].pid == (uint32_t)newest.pid ? 0 : 1];
    const struct sluice_reader_info *b = &readers[readers[0].pid == (uint32_t)newest.pid ? 1 : 0];
    CHECK_EQ(a->pid, newest.pid);
    CHECK_EQ(a->uid, getuid());
    CHECK_EQ(a->mode, SLUICE_NEWEST);
    CHECK_EQ(a->hold, 2);
    CHECK_EQ(a->held, 1);
    CHECK_EQ(__builtin_popcountll(a->held_slots), 1);
    CHECK_GE(a->held_ns, 50 * SLUICE_MS);
    CHECK_LE(a->held_ns, test_now() - a->joined_ns);
    CHECK_EQ(a->taken, 1);
    CHECK_EQ(a->lag, 3);
    CHECK_STR(a->path, "mapped");
    CHECK_STR(a->copy_reason, "");
    CHECK_EQ(b->pid, recorder.pid);
    CHECK_EQ(b->mode, SLUICE_IN_ORDER);
    CHECK_EQ(b->depth, 2);
    CHECK_EQ(b->every, 2);
    CHECK_EQ(b->held, 0);
    CHECK_EQ(b->held_slots, 0);
    CHECK_EQ(b->taken, 1);
    CHECK_GE(b->lag, 3);

    /* Room for fewer readers than there are, or none; asking any number of times costs no frame. */
    CHECK_OK(sluice_channel_info("cam", 20 * SLUICE_S, &info, readers, 1));
    CHECK_EQ(info.readers, 2);
    for (int i = 0; i < 200; i++) {
        CHECK_OK(sluice_channel_info("cam", 20 * SLUICE_S, &info, NULL, 0));
        kit_commits(writer, 1);
    }
    CHECK_EQ(kit_writer_stats(writer).dropped, 0);
    CHECK_EQ(kit_writer_stats(writer).readers_total, 2);
    CHECK_EQ(kit_writer_stats(writer).refused, 0);
    CHECK_RESULT(sluice_channel_info("cam", 0, &info, NULL, 3), SLUICE_E_INVALID);
    CHECK_SAYS(sluice_channel_info("other", SLUICE_DEFAULT, &info, NULL, 0), SLUICE_E_NOT_FOUND, "no channel 'other'");
    role_stop(&newest);
    role_stop(&recorder);
    CHECK_OK(sluice_writer_close(&writer));
    CHECK_RESULT(sluice_channel_info("cam", SLUICE_DEFAULT, &info, NULL, 0), SLUICE_E_NOT_FOUND);
}
