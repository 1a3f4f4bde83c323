/* SPDX-License-Identifier: MIT
 *
 * Hostile readers that send descriptors, which nobody asked for. From Linux 6.16 on the kernel passes none to a writer;
 * before, they are closed, which takes no time either.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "harness/resources.h"
#include "hostile/attacker.h"
#include "os/os.h"

/* Sends the message with `count` copies of the descriptor, at this step. */
static void send_with(enum attacker_step step, int fd, int count)
{
    union sl_message hello = attacker_hello(), ack = SL_MESSAGE(SL_MSG_ACK, ack);
    const union sl_message *message = step == CONNECTED ? &hello : &ack;
    int fds[RAW_FDS];
    struct attacker attacker;

    for (int i = 0; i < count; i++)
        fds[i] = fd;
    CHECK(attacker_go(&attacker, step, NULL));
    ack.ack.memory = attacker.memory;
    (void)raw_send(attacker.fd, message, message->header.size, fds, count);
    (void)raw_send(attacker.fd, "x", 1, fds, count);
    if (attacker.wake >= 0)
        (void)raw_send(attacker.wake, "x", 1, fds, count);
    attacker_close(&attacker);
}

HOSTILE_READER(descriptors_of_every_kind, .refused = 0)
{
    for (int kind = 0; kind < ATTACKER_FDS; kind++) {
        int fd = attacker_fd(kind);
        if (fd < 0)
            continue;
        for (int count = 1; count <= 4; count++)
            send_with(CONNECTED, fd, count);
        send_with(GIVEN, fd, 1);
        send_with(ARRIVED, fd, 1);
        close(fd);
    }
}

HOSTILE_READER(descriptors_by_the_hundred, .refused = 0)
{
    int fd = attacker_fd(0);
    for (int round = 0; round < 20; round++) {
        send_with(CONNECTED, fd, 253);
        send_with(GIVEN, fd, 253);
        send_with(ARRIVED, fd, 100);
    }
}

HOSTILE_READER(descriptors_that_linger, .refused = 0)
{
    for (int i = 0; i < 5; i++) {
        int fd = attacker_lingering();
        if (fd < 0)
            return;
        struct attacker attacker;
        union sl_message hello = attacker_hello();
        CHECK(attacker_go(&attacker, i % 2 ? ARRIVED : CONNECTED, NULL));
        (void)raw_send(attacker.fd, &hello, hello.header.size, &fd, 1);
        if (attacker.wake >= 0)
            (void)raw_send(attacker.wake, "x", 1, &fd, 1);
        attacker_close_lingering(fd);
    }
}

/* It is sent all that a reader is sent, and receives none of it: descriptors in flight count for the writer's user. */
HOSTILE_READER(descriptors_are_never_taken, .refused = 0)
{
    struct attacker attacker;
    for (int i = 0; i < 40; i++)
        CHECK(attacker_go(&attacker, GREETED, NULL));
}

/* ---- where the kernel passes them ---- */

static void pair_of(int pair[2])
{
    CHECK_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
}

static void send_lingering(int fd)
{
    int lingering = attacker_lingering();
    if (lingering < 0)
        SKIP("no network here");
    CHECK(raw_send(fd, "x", 1, &lingering, 1));
    close(lingering); /* ours is not the last one then */
}

TEST(a_lingering_socket_delays_no_receiver)
{
    int pair[2], fds[SL_OS_MAX_FDS], count;
    char bytes[8];
    size_t size;

    TEST_KEEPS_FDS(); /* the listener that never reads */
    pair_of(pair);
    send_lingering(pair[0]);
    int64_t began = test_now();
    CHECK_OK(sl_os_receive(pair[1], bytes, sizeof bytes, &size, fds, &count));
    CHECK_EQ(count, 1);
    sl_os_discard(fds, count);
    send_lingering(pair[0]);
    CHECK(sl_os_drain(pair[1]));
    for (int i = 0; i < 100; i++) /* not received at all, and after what looks like the end */
        CHECK(raw_send(pair[0], "", 0, NULL, 0));
    send_lingering(pair[0]);
    sl_os_hang_up(pair[1]);
    CHECK_LE(test_now() - began, 20 * SLUICE_S);
    close(pair[0]);
}

TEST(descriptors_of_empty_messages_are_closed)
{
    int pair[2], fd = attacker_fd(0);

    pair_of(pair);
    int before = process_fds(getpid());
    for (int i = 0; i < 3; i++) {
        CHECK(raw_send(pair[0], "", 0, &fd, 1));
        if (i < 2)
            (void)sl_os_drain(pair[1]);
        CHECK_EQ(process_fds(getpid()), before);
    }
    sl_os_hang_up(pair[1]);
    CHECK_EQ(process_fds(getpid()), before - 1);
    close(pair[0]);
    close(fd);
}

/* Tested without Sluice. */
static bool kernel_can_refuse(void)
{
    int pair[2], no = 0;

    pair_of(pair);
    int r = setsockopt(pair[0], SOL_SOCKET, 83 /* SO_PASSRIGHTS */, &no, sizeof no);
    close(pair[0]);
    close(pair[1]);
    return r == 0;
}

TEST(a_socket_may_take_no_descriptors)
{
    int pair[2], fd = attacker_fd(0);
    union sl_message message;

    if (!kernel_can_refuse())
        SKIP("this kernel is older than Linux 6.16");
    pair_of(pair);
    sl_os_take_no_descriptors(pair[1]);
    CHECK(!raw_send(pair[0], "x", 1, &fd, 1));
    CHECK_EQ(errno, EPERM);
    CHECK(raw_send(pair[0], "x", 1, NULL, 0));
    CHECK_EQ(raw_receive(pair[1], &message, NULL, NULL), 1);
    CHECK(raw_send(pair[1], "x", 1, &fd, 1)); /* the other way */
    close(pair[0]);
    close(pair[1]);
    close(fd);
}

TEST(a_writer_takes_no_descriptors)
{
    int fd = attacker_fd(0);
    struct attacker attacker;

    if (!kernel_can_refuse())
        SKIP("this kernel is older than Linux 6.16");
    sluice_writer *writer = kit_writer("cam", 4096);
    CHECK(attacker_go(&attacker, CONNECTED, NULL));
    CHECK(!raw_send(attacker.fd, "x", 1, &fd, 1));
    CHECK_EQ(errno, EPERM);
    attacker_close(&attacker);
    CHECK(attacker_go(&attacker, ARRIVED, NULL));
    CHECK(!raw_send(attacker.fd, "x", 1, &fd, 1));
    CHECK(!raw_send(attacker.wake, "x", 1, &fd, 1));
    attacker_close(&attacker);
    close(fd);
    CHECK_SOON(kit_writer_stats(writer).readers == 0, 5);
    CHECK_OK(sluice_writer_close(&writer));
}
