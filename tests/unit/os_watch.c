/* SPDX-License-Identifier: MIT
 *
 * What the service thread watches: descriptors, hang-ups, deaths, timers.
 */
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>

#include "service_kit.h"

/* ---- descriptors ---- */

TEST(service_says_readable)
{
    struct probe *probe = probe_new(SOCK_SEQPACKET);
    CHECK_OK(add(&probe->watch));
    for (uint32_t i = 1; i <= 100; i++) {
        CHECK_EQ(send(probe->peer, "hello", 5, 0), 5);
        CHECK_SOON(sl_load(&probe->readable, acquire) == i, 5);
    }
    CHECK_STR(probe->got, "hello");
    CHECK_EQ(sl_load(&probe->hung_up, relaxed), 0);
    CHECK_EQ(sl_load(&probe->timed, relaxed), 0);
    probe_end(probe);
}

TEST(service_finds_what_was_there_before)
{
    struct probe *probe = probe_new(SOCK_SEQPACKET);
    CHECK_EQ(send(probe->peer, "x", 1, 0), 1);
    CHECK_OK(add(&probe->watch));
    CHECK_SOON(sl_load(&probe->readable, acquire) == 1, 5);
    probe_end(probe);
}

/* Soon it is not called any more, and was not called more often than `most`. */
static void rests(struct probe *probe, uint32_t most)
{
    uint32_t calls;
    do {
        calls = sl_load(&probe->called, relaxed);
        CHECK_LE(calls, most);
        test_nap(20 * SLUICE_MS);
    } while (sl_load(&probe->called, relaxed) != calls);
}

/* The hang-up is reported once, after everything was read, and then costs nothing. */
static void hang_up(int type, bool half)
{
    struct probe *probe = probe_new(type);
    sl_service_lock();
    CHECK_OK(sl_service_add(&probe->watch));
    CHECK_EQ(send(probe->peer, "one", 3, 0), 3);
    CHECK_EQ(send(probe->peer, "two", 3, 0), 3);
    if (half) {
        shutdown(probe->peer, SHUT_WR);
    } else {
        close(probe->peer);
        probe->peer = -1;
    }
    sl_service_unlock();
    CHECK_SOON(sl_load(&probe->hung_up, acquire) >= 1, 5);
    CHECK_SOON(sl_load(&probe->readable, acquire) >= 1, 5);
    if (type != SOCK_STREAM)
        CHECK_SOON(sl_load(&probe->readable, acquire) == 2, 5);
    rests(probe, 4);
    set_deadline(&probe->watch, sl_os_now()); /* its timer goes on */
    CHECK_SOON(sl_load(&probe->timed, acquire) == 1, 5);
    probe_end(probe);
}

/* After a reset read() reports that first; real callbacks receive like this. */
static void on_ready_receive(struct sl_watch *watch, bool readable, bool hung_up)
{
    struct probe *probe = (struct probe *)watch;
    char message[16];
    size_t size;
    int fds[SL_OS_MAX_FDS], count;
    if (readable && sl_os_receive(watch->fd, message, sizeof(message), &size, fds, &count) == 0)
        sl_add(&probe->readable, 1);
    if (hung_up)
        sl_add(&probe->hung_up, 1);
    sl_add(&probe->called, 1);
}

TEST(service_hang_up_by_close)
{
    hang_up(SOCK_SEQPACKET, false);
}
TEST(service_hang_up_of_a_stream)
{
    hang_up(SOCK_STREAM, false);
}
TEST(service_hang_up_by_half)
{
    hang_up(SOCK_SEQPACKET, true);
}

TEST(service_hang_up_by_reset)
{
    struct probe *probe = probe_new(SOCK_SEQPACKET);
    probe->watch.ready = on_ready_receive;
    CHECK_EQ(send(probe->watch.fd, "unread", 6, 0), 6);
    CHECK_EQ(send(probe->peer, "one", 3, 0), 3);
    CHECK_EQ(send(probe->peer, "two", 3, 0), 3);
    close(probe->peer);
    probe->peer = -1;
    CHECK_OK(add(&probe->watch));
    CHECK_SOON(sl_load(&probe->readable, acquire) == 2, 5);
    CHECK_SOON(sl_load(&probe->hung_up, acquire) >= 1, 5);
    rests(probe, 5);
    probe_end(probe);
}

static void on_ready_pause(struct sl_watch *watch, bool readable, bool hung_up)
{
    struct probe *probe = (struct probe *)watch;
    sl_add(&probe->called, 1);
    if (hung_up)
        sl_add(&probe->hung_up, 1);
    if (readable)
        sl_service_pause(watch, true); /* without reading */
}

static void pause_until(struct probe *probe, bool paused)
{
    sl_service_lock();
    sl_service_pause(&probe->watch, paused);
    sl_service_unlock();
}

TEST(service_pauses)
{
    struct probe *probe = probe_new(SOCK_SEQPACKET);
    probe->watch.ready = on_ready_pause;
    CHECK_EQ(send(probe->peer, "x", 1, 0), 1);
    sl_service_pause(&probe->watch, true); /* not added: no effect */
    CHECK_OK(add(&probe->watch));
    CHECK_SOON(sl_load(&probe->called, acquire) == 1, 5);
    test_nap(20 * SLUICE_MS);
    CHECK_EQ(sl_load(&probe->called, relaxed), 1);
    pause_until(probe, false);
    CHECK_SOON(sl_load(&probe->called, acquire) == 2, 5);
    pause_until(probe, false);
    CHECK_SOON(sl_load(&probe->called, acquire) == 3, 5);
    close(probe->peer);
    probe->peer = -1;
    CHECK_SOON(sl_load(&probe->hung_up, acquire) >= 1, 5);
    probe_end(probe);
}

static void on_ready_ignore(struct sl_watch *watch, bool readable, bool hung_up)
{
    struct probe *probe = (struct probe *)watch;
    (void)readable;
    if (hung_up)
        sl_add(&probe->hung_up, 1);
    sl_add(&probe->called, 1);
}

TEST(service_hears_of_a_death_and_rests)
{
    struct probe *probe = probe_new(0);
    pid_t child = fork();
    if (child == 0) {
        pause();
        _exit(0);
    }
    probe->watch.fd = (int)syscall(SYS_pidfd_open, child, 0);
    if (probe->watch.fd < 0)
        SKIP("this kernel has no pidfds");
    probe->watch.ready = on_ready_ignore;
    CHECK_OK(add(&probe->watch));
    test_nap(10 * SLUICE_MS);
    CHECK_EQ(sl_load(&probe->called, relaxed), 0);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    CHECK_SOON(sl_load(&probe->called, acquire) >= 1, 5);
    test_nap(20 * SLUICE_MS);
    if (sl_load(&probe->hung_up, relaxed)) /* newer kernels: then it has ended */
        rests(probe, UINT32_MAX);
    probe_end(probe);
}

TEST(service_refuses_what_cannot_be_watched)
{
    char path[600];
    snprintf(path, sizeof(path), "%s/file", test_dir());
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600), note = eventfd(0, EFD_CLOEXEC);
    struct sl_watch bad = { .fd = file }, closed = { .fd = 900 }, one = { .fd = note }, again = one;
    CHECK_SAYS(add(&bad), SLUICE_E_INVALID, "cannot be watched");
    CHECK_SAYS(add(&closed), SLUICE_E_INVALID, "cannot be watched");
    CHECK(!service_thread());
    CHECK_OK(add(&one));
    CHECK_SAYS(add(&again), SLUICE_E_INVALID, "already");
    CHECK_SAYS(add(&one), SLUICE_E_INVALID, "already");
    take(&again);
    take(&one);
    take(&one);
    close(note);
    close(file);
}

/* ---- timers ---- */

static int order[16], ordered;
static sl_word32 order_done;

struct numbered {
    struct sl_watch watch;
    int number;
    int64_t due;
};

static void note_order(struct sl_watch *watch)
{
    struct numbered *numbered = (struct numbered *)watch;
    CHECK(sl_os_now() >= numbered->due);
    order[ordered++] = numbered->number;
    sl_add(&order_done, 1);
}

TEST(service_timers_come_in_order_and_not_early)
{
    static const int tenths[] = { 9, 3, 7, 1, 5, 0, 8, 2, 6, 4 };
    struct numbered timers[10];
    sl_service_lock();
    int64_t start = sl_os_now() + 5 * SLUICE_MS;
    for (int i = 0; i < 10; i++) {
        int64_t due = start + tenths[i] * 2 * SLUICE_MS;
        timers[i] = (struct numbered){ .number = tenths[i], .due = due };
        timers[i].watch = (struct sl_watch){ .fd = -1, .timer = note_order, .deadline = due };
        CHECK_OK(sl_service_add(&timers[i].watch));
    }
    sl_service_unlock();
    CHECK_SOON(sl_load(&order_done, acquire) == 10, 5);
    for (int i = 0; i < 10; i++) {
        CHECK_EQ(order[i], i);
        take(&timers[i].watch);
    }
}

/* Moves its deadline away from one that expires soon, before it does. */
static void move_in_time(struct probe *probe, int64_t deadline)
{
    uint32_t timed;
    int64_t soon;
    do {
        timed = sl_load(&probe->timed, acquire);
        soon = sl_os_deadline(20 * SLUICE_MS);
        set_deadline(&probe->watch, soon);
        set_deadline(&probe->watch, deadline);
    } while (sl_os_now() >= soon);
    test_nap(50 * SLUICE_MS);
    CHECK_EQ(sl_load(&probe->timed, acquire), timed);
}

TEST(service_deadline_moves)
{
    uint32_t timed;
    struct probe *probe = probe_new(0);
    probe->watch.deadline = sl_os_deadline(SLUICE_FOREVER);
    CHECK_OK(add(&probe->watch));
    test_nap(10 * SLUICE_MS); /* it sleeps for ever now */
    set_deadline(&probe->watch, sl_os_deadline(10 * SLUICE_MS));
    CHECK_SOON(sl_load(&probe->timed, acquire) == 1, 5);
    move_in_time(probe, sl_os_deadline(3600 * SLUICE_S));
    move_in_time(probe, 0); /* never */
    timed = sl_load(&probe->timed, acquire);
    set_deadline(&probe->watch, 1); /* long past */
    CHECK_SOON(sl_load(&probe->timed, acquire) == timed + 1, 5);
    probe_end(probe);
}

static struct probe *late;

/* Blocks until the other watch's deadline has passed, for which something arrives before. */
static void block(struct sl_watch *watch, bool readable, bool hung_up)
{
    on_ready(watch, readable, hung_up);
    sl_service_set_deadline(&late->watch, sl_os_deadline(5 * SLUICE_MS));
    CHECK_EQ(send(late->peer, "in time", 7, 0), 7);
    while (sl_os_now() <= late->watch.deadline)
        test_nap(SLUICE_MS);
}

static void not_before_ready(struct sl_watch *watch)
{
    CHECK_EQ(sl_load(&((struct probe *)watch)->readable, relaxed), 1);
    on_timer(watch);
}

TEST(service_sees_what_came_in_time_before_a_timer_says_that_nothing_did)
{
    struct probe *still = probe_new(SOCK_SEQPACKET);
    late = probe_new(SOCK_SEQPACKET);
    still->watch.ready = block;
    late->watch.timer = not_before_ready;
    CHECK_OK(add(&still->watch));
    CHECK_OK(add(&late->watch));
    CHECK_EQ(send(still->peer, "x", 1, 0), 1);
    CHECK_SOON(sl_load(&late->timed, acquire) == 1, 20);
    probe_end(still);
    probe_end(late);
}

static void again_at_once(struct sl_watch *watch)
{
    struct probe *probe = (struct probe *)watch;
    sl_add(&probe->timed, 1);
    sl_service_set_deadline(watch, 1);
}

/* A timer that always expires keeps out neither other threads nor other watches. */
TEST(service_endless_timer_shares)
{
    struct probe *busy = probe_new(0), *other = probe_new(SOCK_SEQPACKET);
    busy->watch.timer = again_at_once;
    busy->watch.deadline = 1;
    CHECK_OK(add(&busy->watch));
    CHECK_OK(add(&other->watch));
    CHECK_EQ(send(other->peer, "x", 1, 0), 1);
    CHECK_SOON(sl_load(&other->readable, acquire) == 1, 5);
    CHECK_SOON(sl_load(&busy->timed, acquire) > 100, 5);
    probe_end(other);
    probe_end(busy);
}
