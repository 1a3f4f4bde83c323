/* SPDX-License-Identifier: MIT
 *
 * Forks: with and without exec, by fork and by the bare system call, at bad moments; and a copy of the file for a
 * kernel that cannot wipe pages.
 */
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "os/os.h"
#include "os/posix/posix.h"
#include "os_kit.h"

/* A child without the C library's fork handlers. */
static pid_t raw_fork(void)
{
    return (pid_t)syscall(SYS_clone, (long)SIGCHLD, 0L, 0L, 0L, 0L);
}

TEST(fork_is_no_matter_before_first_use)
{
    CHECK(!sl_os_forked());
    IN_CHILD({
        CHECK(!sl_os_forked());
        CHECK_OK(sl_os_close_in_child(dup(0))); /* the child is the first to use it */
        CHECK(!sl_os_forked());
    });
    CHECK(!sl_os_forked());
}

TEST(fork_is_noticed)
{
    CHECK_OK(sl_fork_install());
    CHECK_OK(sl_fork_install());
    CHECK(!sl_os_forked());
    IN_CHILD({
        CHECK(sl_os_forked());
        CHECK_SAYS(sl_fork_install(), SLUICE_E_FORKED, "exec");
        CHECK_RESULT(sl_os_close_in_child(0), SLUICE_E_FORKED);
        struct sl_watch watch = { .fd = -1 };
        sl_service_lock();
        CHECK_RESULT(sl_service_hold(), SLUICE_E_FORKED);
        CHECK_RESULT(sl_service_add(&watch), SLUICE_E_FORKED);
        sl_service_unlock();
        IN_CHILD(CHECK(sl_os_forked())); /* and its children */
    });
    CHECK(!sl_os_forked());
}

TEST(fork_by_the_bare_call_is_noticed)
{
    CHECK_OK(sl_fork_install());
    pid_t child = raw_fork();
    if (child == 0)
        _exit(sl_os_forked() ? 0 : 1);
    check_child(child);
#ifdef SYS_fork
    child = (pid_t)syscall(SYS_fork);
    if (child == 0)
        _exit(sl_os_forked() ? 0 : 1);
    check_child(child);
#endif
    CHECK(!sl_os_forked());
}

ROLE(after_exec)
{
    if (sl_os_forked() || sl_fork_install() != 0 || fd_open(atoi(argv[1])))
        return 1;
    return 0;
}

TEST(fork_with_exec_is_no_fork)
{
    int pair[2];
    char number[16];
    CHECK_OK(sl_os_socket_pair(pair));
    CHECK_OK(sl_os_close_in_child(pair[0]));
    snprintf(number, sizeof(number), "%d", pair[1]);
    struct child role = role_start("after_exec", number, NULL);
    CHECK_EQ(child_wait(&role, 10), 0);
    CHECK(fd_open(pair[0]) && fd_open(pair[1]));
    sl_os_close(pair[0]);
    sl_os_close(pair[1]);
}

TEST(fork_child_closes_what_it_must_not_keep)
{
    int fds[200];
    for (int i = 0; i < 200; i++) {
        CHECK((fds[i] = dup(0)) >= 0);
        if (i % 2)
            CHECK_OK(sl_os_close_in_child(fds[i]));
    }
    IN_CHILD({
        for (int i = 0; i < 200; i++)
            CHECK_EQ(fd_open(fds[i]), !(i % 2));
        int low = dup(0); /* a number that is free again is not closed again */
        CHECK_EQ(low, fds[1]);
        IN_CHILD(CHECK(fd_open(low)));
    });
    for (int i = 0; i < 200; i++) {
        CHECK(fd_open(fds[i]));
        sl_os_close(fds[i]);
    }
}

TEST(fork_close_forgets_the_entry)
{
    int fd = dup(0);
    CHECK_OK(sl_os_close_in_child(fd));
    sl_os_close(fd);
    CHECK(!fd_open(fd));
    CHECK_EQ(dup(0), fd); /* another file's now */
    IN_CHILD(CHECK(fd_open(fd)));
    sl_os_close(fd);
}

TEST(fork_child_keeps_what_it_shall)
{
    int fd = dup(0);
    CHECK_OK(sl_os_close_in_child(fd));
    sl_os_keep_in_child(fd);
    sl_os_keep_in_child(-1);
    sl_os_keep_in_child(INT32_MAX);
    IN_CHILD(CHECK(fd_open(fd)));
    sl_os_close(fd);
}

TEST(fork_invalid_descriptors)
{
    CHECK_RESULT(sl_os_close_in_child(-1), SLUICE_E_INVALID);
    CHECK_SAYS(sl_os_close_in_child(1 << 20), SLUICE_E_LIMIT, "1048576");
    CHECK_RESULT(sl_os_close_in_child(INT32_MAX), SLUICE_E_LIMIT);
    CHECK_OK(sl_os_close_in_child((1 << 20) - 1)); /* not open: the child does not mind */
    IN_CHILD(CHECK(sl_os_forked()));
    sl_os_close((1 << 20) - 1);
    sl_os_close(1 << 20);
    sl_os_close(INT32_MAX);
}

/* The peer of a parent that dies must notice, though the child lives. */
TEST(fork_child_does_not_keep_connections_up)
{
    int pair[2], up[2];
    char byte;
    pid_t child;
    CHECK_OK(sl_os_socket_pair(pair));
    CHECK_EQ(pipe(up), 0);
    pid_t parent = fork();
    if (parent == 0) {
        sl_os_close(pair[0]);
        CHECK_OK(sl_os_close_in_child(pair[1]));
        if (fork() == 0) {
            child = getpid();
            CHECK_EQ(write(up[1], &child, sizeof(child)), sizeof(child));
        }
        for (;;)
            pause();
    }
    sl_os_close(pair[1]);
    CHECK_EQ(read(up[0], &child, sizeof(child)), sizeof(child));
    kill(parent, SIGKILL);
    waitpid(parent, NULL, 0);
    CHECK_SOON(recv(pair[0], &byte, 1, MSG_DONTWAIT) == 0, 5);
    CHECK_EQ(kill(child, 0), 0); /* it lives on */
    kill(child, SIGKILL);
    sl_os_close(pair[0]);
    close(up[0]);
    close(up[1]);
}

/* ---- the service thread ---- */

static void quiet(struct sl_watch *watch)
{
    sl_service_set_deadline(watch, sl_os_deadline(50000));
}

TEST(fork_child_forgets_the_service_thread)
{
    int pair[2];
    CHECK_OK(sl_os_socket_pair(pair));
    struct sl_watch watch = { .fd = pair[0], .timer = quiet, .deadline = 1 };
    sl_service_lock();
    CHECK_OK(sl_service_add(&watch));
    CHECK_OK(sl_service_hold());
    sl_service_unlock();
    int open_here = open_count();
    IN_CHILD({
        CHECK_EQ(open_count(), open_here - 2); /* epoll and eventfd are gone */
        sl_service_lock();
        sl_service_set_deadline(&watch, 1);
        sl_service_remove(&watch);
        sl_service_drop(); /* the last one: nothing to stop, nothing to wait for */
        sl_service_unlock();
    });
    sl_service_lock();
    sl_service_remove(&watch);
    sl_service_drop();
    sl_service_unlock();
    sl_os_close(pair[0]);
    sl_os_close(pair[1]);
}

static sl_word32 rang;

static void ring(struct sl_watch *watch, bool readable, bool hung_up)
{
    (void)hung_up;
    if (readable && sl_os_drain(watch->fd))
        sl_add(&rang, 1);
}

/* A child of the bare call has all descriptors, and must leave the parent's epoll as it is. */
TEST(fork_bare_child_leaves_the_parents_watches)
{
    int pair[2];
    CHECK_OK(sl_os_socket_pair(pair));
    struct sl_watch watch = { .fd = pair[0], .ready = ring };
    sl_service_lock();
    CHECK_OK(sl_service_add(&watch));
    sl_service_unlock();
    sl_service_lock(); /* so no other thread has the lock */
    pid_t child = raw_fork();
    if (child == 0) {
        sl_service_remove(&watch);
        sl_service_unlock();
        _exit(0);
    }
    sl_service_unlock();
    check_child(child);
    CHECK_OK(sl_os_send(pair[1], "x", 1, NULL, 0));
    CHECK_SOON(sl_load(&rang, acquire) == 1, 5);
    sl_service_lock();
    sl_service_remove(&watch);
    sl_service_unlock();
    sl_os_close(pair[0]);
    sl_os_close(pair[1]);
}

static int guarded; /* under the service lock */

static void fork_inside(struct sl_watch *watch)
{
    (void)watch;
    pid_t child = fork(); /* with the lock held, in a callback */
    if (child == 0) {
        guarded++;
        sl_service_unlock();
        sl_service_lock();
        sl_service_unlock();
        _exit(0);
    }
    check_child(child);
    sl_add(&rang, 1);
}

TEST(fork_inside_a_callback)
{
    struct sl_watch watch = { .fd = -1, .timer = fork_inside, .deadline = 1 };
    sl_service_lock();
    CHECK_OK(sl_service_add(&watch));
    sl_service_unlock();
    CHECK_SOON(sl_load(&rang, acquire) == 1, 10);
    sl_service_lock();
    sl_service_remove(&watch);
    sl_service_unlock();
}

/* ---- bad moments ---- */

static sl_word32 stop;

static void *hold_locks(void *argument)
{
    while (!sl_load(&stop, relaxed)) {
        struct sl_watch watch = { .fd = -1 };
        int fd = dup(0);
        CHECK(fd >= 0);
        CHECK_OK(sl_os_close_in_child(fd));
        sl_service_lock();
        guarded++;
        CHECK_OK(sl_service_add(&watch));
        sl_service_unlock();
        sl_service_lock();
        sl_service_remove(&watch);
        sl_service_unlock();
        sl_os_close(fd);
    }
    return argument;
}

/* Whatever the other threads hold at the fork, the child can take the locks, and has none of the descriptors that were
 * entered by then. */
TEST_TIMEOUT(fork_while_others_hold_the_locks, 60)
{
    pthread_t threads[2];
    CHECK_OK(sl_fork_install());
    for (int i = 0; i < 2; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, hold_locks, NULL), 0);
    for (long i = test_scale(200); i > 0; i--)
        IN_CHILD({
            alarm(10);
            CHECK(sl_os_forked());
            sl_service_lock();
            guarded++;
            sl_service_unlock();
            sl_os_close(dup(0));
        });
    sl_store(&stop, 1, relaxed);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
}

static void *churn(void *argument)
{
    while (!sl_load(&stop, relaxed)) {
        int pair[2];
        sl_service_lock(); /* made and entered in one step */
        CHECK_OK(sl_os_socket_pair(pair));
        CHECK_OK(sl_os_close_in_child(pair[0]));
        CHECK_OK(sl_os_close_in_child(pair[1]));
        sl_service_unlock();
        sl_os_close(pair[0]);
        sl_os_close(pair[1]);
    }
    return argument;
}

TEST_TIMEOUT(fork_never_leaves_a_socket_behind, 60)
{
    pthread_t thread;
    CHECK_OK(sl_fork_install());
    int before = open_count();
    CHECK_EQ(pthread_create(&thread, NULL, churn, NULL), 0);
    for (long i = test_scale(300); i > 0; i--)
        IN_CHILD(CHECK_EQ(open_count(), before));
    sl_store(&stop, 1, relaxed);
    pthread_join(thread, NULL);
}

/* ---- a kernel that cannot wipe pages ---- */

static int no_wiping(void *address, size_t size, int advice)
{
    (void)address;
    (void)size;
    (void)advice;
    return -1;
}

static bool old_forked(void);
static int old_install(void);
static int old_close_in_child(int fd);
static void old_keep_in_child(int fd);
static void old_close(int fd);
static int old_add(int fd);
__attribute__((unused)) static int old_above_standard(int fd);
__attribute__((unused)) static int old_fail_call(int error, const char *call, const char *what);
static void old_lock(void);
static void old_unlock(bool child);
static void old_before(void);
static void old_after(bool child);

#define madvise                    no_wiping
#define sl_os_forked               old_forked
#define sl_fork_install            old_install
#define sl_os_close_in_child       old_close_in_child
#define sl_os_keep_in_child        old_keep_in_child
#define sl_os_close                old_close
#define sl_descriptors_add         old_add
#define sl_above_standard          old_above_standard
#define sl_fail_call               old_fail_call
#define sl_descriptors_before_fork old_lock
#define sl_descriptors_after_fork  old_unlock
#define sl_service_before_fork     old_before
#define sl_service_after_fork      old_after
#include "os/posix/descriptors.c"
#include "os/posix/fork.c"
#undef madvise
#undef sl_os_forked
#undef sl_fork_install
#undef sl_os_close_in_child
#undef sl_os_keep_in_child
#undef sl_os_close
#undef sl_descriptors_add
#undef sl_above_standard
#undef sl_fail_call
#undef sl_descriptors_before_fork
#undef sl_descriptors_after_fork
#undef sl_service_before_fork
#undef sl_service_after_fork

static void old_before(void)
{
}

static void old_after(bool child)
{
    (void)child;
}

TEST(fork_is_noticed_without_wiping)
{
    CHECK(!old_forked());
    int fd = dup(0);
    CHECK_OK(old_close_in_child(fd));
    CHECK(!old_forked());
    old_keep_in_child(fd);
    IN_CHILD(CHECK(fd_open(fd)));
    CHECK_OK(old_close_in_child(fd));
    IN_CHILD({
        CHECK(old_forked());
        CHECK(!fd_open(fd));
        IN_CHILD(CHECK(old_forked()));
    });
    pid_t child = raw_fork();
    if (child == 0)
        _exit(old_forked() ? 0 : 1);
    check_child(child);
    CHECK(!old_forked());
    old_close(fd);
}
