/* SPDX-License-Identifier: MIT
 *
 * Messages with descriptors: whole or not at all, and the effects of a bad, full or dead peer.
 */
#include <errno.h>
#include <signal.h>
#include <sys/socket.h>

#include "os/os.h"
#include "os_kit.h"

struct got {
    char message[64];
    size_t size;
    int fds[SL_OS_MAX_FDS], count;
};

static int receive(int fd, struct got *got)
{
    *got = (struct got){ .size = 999, .count = 99, .fds = { -7, -7, -7, -7 } };
    return sl_os_receive(fd, got->message, sizeof(got->message), &got->size, got->fds, &got->count);
}

static void untouched(const struct got *got)
{
    CHECK_EQ(got->size, 999);
    CHECK_EQ(got->count, 99);
    CHECK_EQ(got->fds[0], -7);
}

static void pair_of(int pair[2])
{
    CHECK_OK(sl_os_socket_pair(pair));
}

static void close_pair(int pair[2])
{
    sl_os_close(pair[0]);
    sl_os_close(pair[1]);
}

TEST(pass_pair)
{
    int pair[2];
    pair_of(pair);
    check_flags(pair[0], true);
    check_flags(pair[1], true);
    close_pair(pair);
    sl_os_close(-1);
}

TEST(pass_messages_keep_their_boundaries)
{
    int pair[2];
    struct got got;
    pair_of(pair);
    CHECK_EQ(receive(pair[1], &got), SLUICE_AGAIN);
    untouched(&got);
    CHECK_OK(sl_os_send(pair[0], "one", 3, NULL, 0));
    CHECK_OK(sl_os_send(pair[0], "second", 6, NULL, 0));
    CHECK_OK(receive(pair[1], &got));
    CHECK_EQ(got.size, 3);
    CHECK_EQ(got.count, 0);
    CHECK_MEM(got.message, "one", 3);
    CHECK_OK(receive(pair[1], &got));
    CHECK_EQ(got.size, 6);
    CHECK_EQ(receive(pair[1], &got), SLUICE_AGAIN);
    CHECK_STR(sluice_last_error(), "");
    close_pair(pair);
}

TEST(pass_descriptors)
{
    int pair[2], memory[SL_OS_MAX_FDS];
    struct got got;
    pair_of(pair);
    for (int i = 0; i < SL_OS_MAX_FDS; i++)
        CHECK_OK(sl_os_memory_create("x", (uint64_t)(i + 1) * sl_os_page_size(), &memory[i]));
    for (int count = 0; count <= SL_OS_MAX_FDS; count++) {
        CHECK_OK(sl_os_send(pair[0], "fds", 3, memory, count));
        CHECK_OK(receive(pair[1], &got));
        CHECK_EQ(got.count, count);
        for (int i = 0; i < count; i++) {
            check_flags(got.fds[i], false);
            CHECK_OK(sl_os_memory_check(got.fds[i], (uint64_t)(i + 1) * sl_os_page_size(), false));
            sl_os_close(got.fds[i]);
        }
    }
    for (int i = 0; i < SL_OS_MAX_FDS; i++)
        sl_os_close(memory[i]);
    close_pair(pair);
}

TEST(pass_invalid_messages)
{
    int pair[2], many[SL_OS_MAX_FDS + 1] = { 0 };
    pair_of(pair);
    CHECK_RESULT(sl_os_send(pair[0], "", 0, NULL, 0), SLUICE_E_INVALID);
    CHECK_RESULT(sl_os_send(pair[0], "x", 1, many, SL_OS_MAX_FDS + 1), SLUICE_E_INVALID);
    CHECK_RESULT(sl_os_send(pair[0], "x", 1, many, -1), SLUICE_E_INVALID);
    many[0] = 900;
    CHECK_RESULT(sl_os_send(pair[0], "x", 1, many, 1), SLUICE_E_SYSTEM);
    CHECK_RESULT(sl_os_send(900, "x", 1, NULL, 0), SLUICE_E_SYSTEM);
    struct got got;
    CHECK_RESULT(receive(900, &got), SLUICE_E_SYSTEM);
    CHECK_EQ(receive(pair[1], &got), SLUICE_AGAIN);
    close_pair(pair);
}

TEST(pass_full_queue)
{
    int pair[2], sent = 0, got_back = 0, result;
    struct got got;
    pair_of(pair);
    while ((result = sl_os_send(pair[0], "message", 7, NULL, 0)) == 0)
        CHECK(++sent < 1000000);
    CHECK_EQ(result, SLUICE_AGAIN);
    while (receive(pair[1], &got) == 0)
        got_back++;
    CHECK_EQ(got_back, sent);
    CHECK_OK(sl_os_send(pair[0], "message", 7, NULL, 0));
    CHECK_STR(sluice_last_error(), "");
    close_pair(pair);
}

/* Descriptors that nobody receives count for the whole user: the result is "not now" rather than an error. Root may
 * send more, so this test drops root. */
TEST(pass_too_many_descriptors_in_flight)
{
    int result = 0, pairs[40][2], memory, sent = 0;
    for (int i = 0; i < 40; i++)
        pair_of(pairs[i]);
    CHECK_OK(sl_os_memory_create("x", sl_os_page_size(), &memory));
    if (geteuid() == 0) /* a uid that nobody else uses */
        CHECK_EQ(setuid(54321), 0);
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = 100; /* descriptors above it stay open */
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    int fds[SL_OS_MAX_FDS] = { memory, memory, memory, memory };
    for (int i = 0; i < 40 && result == 0; i++)
        for (int k = 0; k < 8 && (result = sl_os_send(pairs[i][0], "x", 1, fds, 4)) == 0; k++)
            sent += 4;
    CHECK_EQ(result, SLUICE_AGAIN);
    CHECK_GE(sent, 96);
    CHECK_LE(sent, 200);
    for (int i = 0; i < 40; i++)
        close_pair(pairs[i]);
    sl_os_close(memory);
}

TEST(pass_message_too_large)
{
    int pair[2], fd;
    char large[100] = { 0 };
    struct got got;
    pair_of(pair);
    CHECK_OK(sl_os_memory_create("x", sl_os_page_size(), &fd));
    int before = open_count();
    CHECK_OK(sl_os_send(pair[0], large, sizeof(large), &fd, 1));
    CHECK_SAYS(receive(pair[1], &got), SLUICE_E_PROTOCOL, "64");
    untouched(&got);
    CHECK_EQ(open_count(), before); /* what came with it is closed */
    CHECK_OK(sl_os_send(pair[0], large, 64, NULL, 0));
    CHECK_OK(receive(pair[1], &got)); /* exactly full is valid */
    CHECK_EQ(got.size, 64);
    sl_os_close(fd);
    close_pair(pair);
}

/* A message that sl_os_send never sends. */
static void send_raw(int socket, size_t size, int fd, int count)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(253 * sizeof(int))] = { 0 };
    char text[128] = { 0 };
    struct iovec part = { text, size };
    struct msghdr header = { .msg_iov = &part, .msg_iovlen = 1 };
    if (count) {
        header.msg_control = control;
        header.msg_controllen = CMSG_SPACE((size_t)count * sizeof(int));
        struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
        *rights = (struct cmsghdr){ CMSG_LEN((size_t)count * sizeof(int)), SOL_SOCKET, SCM_RIGHTS };
        for (int i = 0; i < count; i++)
            memcpy(CMSG_DATA(rights) + (size_t)i * sizeof(int), &fd, sizeof(int));
    }
    CHECK_EQ(sendmsg(socket, &header, 0), size);
}

TEST(pass_too_many_descriptors_in_a_message)
{
    int pair[2];
    struct got got;
    pair_of(pair);
    int before = open_count();
    send_raw(pair[0], 5, 0, SL_OS_MAX_FDS + 1);
    CHECK_SAYS(receive(pair[1], &got), SLUICE_E_PROTOCOL, "5 descriptors");
    send_raw(pair[0], 5, 0, 253);
    CHECK_SAYS(receive(pair[1], &got), SLUICE_E_PROTOCOL, "253 descriptors");
    untouched(&got);
    CHECK_EQ(open_count(), before);
    close_pair(pair);
}

TEST(pass_descriptors_cut_off)
{
    int pair[2], fds[SL_OS_MAX_FDS] = { 0, 0, 0, 0 };
    struct got got;
    pair_of(pair);
    int before = open_count();
    for (int room = 0; room < SL_OS_MAX_FDS; room++) {
        CHECK_OK(sl_os_send(pair[0], "x", 1, fds, SL_OS_MAX_FDS));
        limit_fds(room);
        int result = receive(pair[1], &got);
        limit_fds(-1);
        CHECK_SAYS(result, SLUICE_E_NO_DESCRIPTORS, "RLIMIT_NOFILE is ");
        untouched(&got);
        CHECK_EQ(open_count(), before);
    }
    CHECK_OK(sl_os_send(pair[0], "x", 1, fds, SL_OS_MAX_FDS));
    limit_fds(SL_OS_MAX_FDS);
    CHECK_OK(receive(pair[1], &got));
    limit_fds(-1);
    for (int i = 0; i < SL_OS_MAX_FDS; i++)
        sl_os_close(got.fds[i]);
    close_pair(pair);
}

/* ---- the end ---- */

TEST(pass_peer_is_gone)
{
    int pair[2];
    struct got got;
    pair_of(pair);
    sl_os_close(pair[0]);
    signal(SIGPIPE, SIG_DFL);
    CHECK_EQ(receive(pair[1], &got), SLUICE_CLOSED);
    CHECK_EQ(receive(pair[1], &got), SLUICE_CLOSED);
    untouched(&got);
    CHECK_EQ(sl_os_send(pair[1], "x", 1, NULL, 0), SLUICE_CLOSED); /* and no SIGPIPE */
    CHECK_EQ(sl_os_send(pair[1], "x", 1, NULL, 0), SLUICE_CLOSED);
    CHECK_STR(sluice_last_error(), "");
    sl_os_close(pair[1]);
}

TEST(pass_never_connected)
{
    struct got got;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    CHECK_EQ(receive(fd, &got), SLUICE_CLOSED);
    CHECK_EQ(sl_os_send(fd, "x", 1, NULL, 0), SLUICE_CLOSED);
    sl_os_close(fd);
}

TEST(pass_empty_message_is_the_end)
{
    int pair[2];
    struct got got;
    pair_of(pair);
    send_raw(pair[0], 0, 0, 0);
    CHECK_EQ(receive(pair[1], &got), SLUICE_CLOSED);
    int before = open_count();
    send_raw(pair[0], 0, 0, 2);
    CHECK_EQ(receive(pair[1], &got), SLUICE_CLOSED);
    CHECK_EQ(open_count(), before);
    close_pair(pair);
}

/* The kernel reports the reset before what was sent ahead of it; the messages still come first. */
TEST(pass_killed_peer_is_read_to_the_end)
{
    int pair[2];
    struct got got;
    pair_of(pair);
    CHECK_OK(sl_os_send(pair[1], "never read", 10, NULL, 0));
    pid_t child = fork();
    if (child == 0) {
        sl_os_close(pair[1]);
        CHECK_OK(sl_os_send(pair[0], "first", 5, NULL, 0));
        CHECK_OK(sl_os_send(pair[0], "last", 4, NULL, 0));
        raise(SIGKILL);
    }
    sl_os_close(pair[0]);
    waitpid(child, NULL, 0);

    int error;
    socklen_t size = sizeof(error);
    CHECK_OK(receive(pair[1], &got));
    CHECK_MEM(got.message, "first", 5);
    CHECK_OK(receive(pair[1], &got));
    CHECK_MEM(got.message, "last", 4);
    CHECK_EQ(receive(pair[1], &got), SLUICE_CLOSED);
    CHECK_EQ(receive(pair[1], &got), SLUICE_CLOSED);
    CHECK_EQ(getsockopt(pair[1], SOL_SOCKET, SO_ERROR, &error, &size), 0);
    CHECK_EQ(sl_os_send(pair[1], "x", 1, NULL, 0), SLUICE_CLOSED);
    sl_os_close(pair[1]);
}

TEST(pass_reset_with_nothing_queued_is_the_end)
{
    int pair[2];
    struct got got;
    pair_of(pair);
    CHECK_OK(sl_os_send(pair[1], "never read", 10, NULL, 0));
    sl_os_close(pair[0]);
    CHECK_EQ(receive(pair[1], &got), SLUICE_CLOSED);
    sl_os_close(pair[1]);
    pair_of(pair);
    CHECK_OK(sl_os_send(pair[1], "never read", 10, NULL, 0));
    sl_os_close(pair[0]);
    CHECK_EQ(sl_os_send(pair[1], "x", 1, NULL, 0), SLUICE_CLOSED);
    sl_os_close(pair[1]);
}

/* ---- wakes, accepting, closing ---- */

TEST(pass_drain)
{
    int pair[2], sent = 0;
    struct got got;
    pair_of(pair);
    CHECK(!sl_os_drain(pair[1]));
    while (sl_os_send(pair[0], "", 1, NULL, 0) == 0)
        sent++;
    CHECK(sent > 1);
    CHECK(sl_os_drain(pair[1]));
    CHECK_EQ(receive(pair[1], &got), SLUICE_AGAIN); /* all of it */
    CHECK(!sl_os_drain(pair[1]));
    int before = open_count();
    send_raw(pair[0], 100, 0, 3); /* from a peer that sends what it should not */
    CHECK(sl_os_drain(pair[1]));
    CHECK_EQ(open_count(), before);
    CHECK_OK(sl_os_send(pair[0], "", 1, NULL, 0));
    CHECK_OK(sl_os_send(pair[1], "", 1, NULL, 0));
    sl_os_close(pair[0]); /* a reset, but something was sent before */
    CHECK(sl_os_drain(pair[1]));
    CHECK(!sl_os_drain(pair[1]));
    sl_os_close(pair[1]);
    CHECK(!sl_os_drain(900));
}

TEST(pass_tells_who_hung_up)
{
    int pair[2];
    pair_of(pair);
    CHECK(!sl_os_hung_up(pair[1]));
    CHECK_OK(sl_os_send(pair[0], "", 1, NULL, 0));
    CHECK_EQ(shutdown(pair[0], SHUT_WR), 0); /* half: it can still receive something */
    CHECK(!sl_os_hung_up(pair[1]));
    sl_os_close(pair[0]);
    CHECK(sl_os_hung_up(pair[1])); /* though what it sent is still there */
    CHECK(sl_os_drain(pair[1]));
    CHECK(sl_os_hung_up(pair[1]));
    sl_os_close(pair[1]);
}

TEST(pass_close_keeps_errno)
{
    errno = EXDEV;
    sl_os_close(900);
    CHECK_EQ(errno, EXDEV);
    sl_os_close(-1);
    CHECK_EQ(errno, EXDEV);
}

TEST(pass_accept_fails_clearly)
{
    int pair[2], fd = -7;
    pair_of(pair);
    CHECK_RESULT(sl_os_accept(pair[0], &fd), SLUICE_E_SYSTEM);
    CHECK_RESULT(sl_os_accept(900, &fd), SLUICE_E_SYSTEM);
    CHECK_EQ(fd, -7);
    close_pair(pair);
}

TEST(pass_pair_needs_descriptors)
{
    int pair[2] = { -7, -7 };
    for (int room = 0; room < 2; room++) {
        limit_fds(room);
        int result = sl_os_socket_pair(pair);
        limit_fds(-1);
        CHECK_SAYS(result, SLUICE_E_NO_DESCRIPTORS, "RLIMIT_NOFILE");
        CHECK_EQ(pair[0], -7);
    }
}
