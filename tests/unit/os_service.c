/* SPDX-License-Identifier: MIT
 *
 * The service thread: what it runs, when, under which lock, and that it comes and goes cleanly.
 */
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "os/os.h"
#include "os_kit.h"

/* The id of the service thread, 0 if there is none. */
static int service_thread(void)
{
    int found = 0;
    DIR *dir = opendir("/proc/self/task");
    CHECK(dir);
    for (struct dirent *entry; (entry = readdir(dir));) {
        char path[300], name[32] = "";
        snprintf(path, sizeof(path), "/proc/self/task/%s/comm", entry->d_name);
        FILE *file = entry->d_name[0] == '.' ? NULL : fopen(path, "re");
        if (file && fgets(name, sizeof(name), file) && !strcmp(name, "sluice\n"))
            found = atoi(entry->d_name);
        if (file)
            fclose(file);
    }
    closedir(dir);
    return found;
}

static int add(struct sl_watch *watch)
{
    sl_service_lock();
    int result = sl_service_add(watch);
    sl_service_unlock();
    return result;
}

static void take(struct sl_watch *watch) /* removes it */
{
    sl_service_lock();
    sl_service_remove(watch);
    sl_service_unlock();
}

static void set_deadline(struct sl_watch *watch, int64_t deadline)
{
    sl_service_lock();
    sl_service_set_deadline(watch, deadline);
    sl_service_unlock();
}

/* ---- its life ---- */

TEST(service_lives_from_first_to_last)
{
    struct sl_watch one = { .fd = -1 }, two = { .fd = -1 };
    CHECK(!service_thread());
    CHECK_OK(add(&one));
    CHECK_SOON(service_thread(), 5);
    int thread = service_thread();
    CHECK_OK(add(&two));
    take(&one);
    CHECK_EQ(service_thread(), thread);
    sl_service_lock();
    CHECK_OK(sl_service_hold());
    sl_service_unlock();
    take(&two);
    CHECK_EQ(service_thread(), thread);
    sl_service_lock();
    sl_service_drop();
    sl_service_unlock();
    CHECK(!service_thread()); /* gone by now, not just soon */

    CHECK_OK(add(&one));
    CHECK_SOON(service_thread(), 5);
    take(&one);
    CHECK(!service_thread());
}

TEST(service_drop_without_hold_and_remove_without_add)
{
    struct sl_watch watch = { .fd = -1 };
    sl_service_lock();
    sl_service_drop();
    sl_service_remove(&watch);
    CHECK_OK(sl_service_hold());
    sl_service_drop();
    sl_service_drop();
    CHECK_OK(sl_service_hold());
    sl_service_drop();
    sl_service_unlock();
    CHECK(!service_thread());
}

TEST(service_blocks_all_signals)
{
    struct sl_watch watch = { .fd = -1 };
    char path[64], line[128];
    unsigned long long blocked = 0;
    sigset_t before, after;
    pthread_sigmask(SIG_BLOCK, NULL, &before);
    CHECK_OK(add(&watch));
    pthread_sigmask(SIG_BLOCK, NULL, &after);
    for (int i = 1; i < 32; i++)
        CHECK_EQ(sigismember(&before, i), sigismember(&after, i));
    CHECK_SOON(service_thread(), 5);
    snprintf(path, sizeof(path), "/proc/self/task/%d/status", service_thread());
    FILE *file = fopen(path, "re");
    CHECK(file);
    while (fgets(line, sizeof(line), file))
        sscanf(line, "SigBlk: %llx", &blocked);
    fclose(file);
    for (int i = 1; i <= 31; i++)
        CHECK(i == SIGKILL || i == SIGSTOP || blocked >> (i - 1) & 1);
    take(&watch);
}

/* ---- descriptors ---- */

struct probe {
    struct sl_watch watch;
    sl_word32 called, readable, hung_up, timed;
    char got[64];
    int peer;
};

static void on_ready(struct sl_watch *watch, bool readable, bool hung_up)
{
    struct probe *probe = (struct probe *)watch;
    if (readable) {
        ssize_t size = read(watch->fd, probe->got, sizeof(probe->got) - 1);
        CHECK(size > 0);
        probe->got[size] = 0;
        sl_add(&probe->readable, 1);
    }
    if (hung_up)
        sl_add(&probe->hung_up, 1);
    sl_add(&probe->called, 1);
}

static void on_timer(struct sl_watch *watch)
{
    struct probe *probe = (struct probe *)watch;
    CHECK_EQ(watch->deadline, 0);
    sl_add(&probe->timed, 1);
}

static struct probe *probe_new(int type)
{
    int pair[2] = { -1, -1 };
    struct probe *probe = calloc(1, sizeof(*probe));
    CHECK(probe);
    if (type)
        CHECK_EQ(socketpair(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
    probe->watch = (struct sl_watch){ .ready = on_ready, .timer = on_timer, .fd = pair[0] };
    probe->peer = pair[1];
    return probe;
}

static void probe_end(struct probe *probe)
{
    take(&probe->watch);
    sl_os_close(probe->watch.fd);
    sl_os_close(probe->peer);
    free(probe);
}

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

/* The hang-up is said once, after everything was read, and then costs nothing. */
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
    test_nap(20 * SLUICE_MS);
    uint32_t calls = sl_load(&probe->called, relaxed);
    CHECK_LE(calls, 4);
    test_nap(20 * SLUICE_MS);
    CHECK_EQ(sl_load(&probe->called, relaxed), calls);
    set_deadline(&probe->watch, sl_os_now()); /* its timer goes on */
    CHECK_SOON(sl_load(&probe->timed, acquire) == 1, 5);
    probe_end(probe);
}

/* Where there was a reset read() says so first; real callbacks receive like this. */
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

TEST(service_hang_up_by_close) { hang_up(SOCK_SEQPACKET, false); }
TEST(service_hang_up_of_a_stream) { hang_up(SOCK_STREAM, false); }
TEST(service_hang_up_by_half) { hang_up(SOCK_SEQPACKET, true); }

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
    test_nap(20 * SLUICE_MS);
    uint32_t calls = sl_load(&probe->called, relaxed);
    CHECK_LE(calls, 5);
    test_nap(20 * SLUICE_MS);
    CHECK_EQ(sl_load(&probe->called, relaxed), calls);
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
    sl_service_pause(&probe->watch, true); /* not added: nothing */
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
    if (sl_load(&probe->hung_up, relaxed)) { /* newer kernels: then it is over */
        uint32_t calls = sl_load(&probe->called, relaxed);
        test_nap(20 * SLUICE_MS);
        CHECK_EQ(sl_load(&probe->called, relaxed), calls);
    }
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

TEST(service_needs_descriptors)
{
    struct sl_watch watch = { .fd = -1 };
    for (int count = 0; count < 2; count++) {
        limit_fds(count);
        int result = add(&watch);
        limit_fds(-1);
        CHECK_SAYS(result, SLUICE_E_NO_DESCRIPTORS, "RLIMIT_NOFILE");
        CHECK(!service_thread());
    }
    CHECK_OK(add(&watch));
    take(&watch);
}

TEST(service_needs_a_thread)
{
    if (geteuid() != 0)
        SKIP("needs root");
    IN_CHILD({
        struct sl_watch watch = { .fd = -1 };
        struct rlimit limit = { 0, 0 };
        CHECK_EQ(setrlimit(RLIMIT_NPROC, &limit), 0);
        CHECK_EQ(setresuid(54322, 54322, 54322), 0); /* root may always have another */
        int before = open_count();
        CHECK_SAYS(add(&watch), SLUICE_E_SYSTEM, "service thread");
        sl_service_lock();
        CHECK_SAYS(sl_service_hold(), SLUICE_E_SYSTEM, "service thread");
        sl_service_unlock();
        CHECK(!watch.added);
        CHECK_EQ(open_count(), before);
    });
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

TEST(service_deadline_moves)
{
    struct probe *probe = probe_new(0);
    probe->watch.deadline = sl_os_deadline(SLUICE_FOREVER);
    CHECK_OK(add(&probe->watch));
    test_nap(10 * SLUICE_MS); /* it sleeps for ever now */
    set_deadline(&probe->watch, sl_os_deadline(10 * SLUICE_MS));
    CHECK_SOON(sl_load(&probe->timed, acquire) == 1, 5);
    set_deadline(&probe->watch, sl_os_deadline(20 * SLUICE_MS));
    set_deadline(&probe->watch, sl_os_deadline(3600 * SLUICE_S)); /* later */
    test_nap(50 * SLUICE_MS);
    CHECK_EQ(sl_load(&probe->timed, relaxed), 1);
    set_deadline(&probe->watch, sl_os_deadline(20 * SLUICE_MS));
    set_deadline(&probe->watch, 0); /* never */
    test_nap(50 * SLUICE_MS);
    CHECK_EQ(sl_load(&probe->timed, relaxed), 1);
    set_deadline(&probe->watch, 1); /* long over */
    CHECK_SOON(sl_load(&probe->timed, acquire) == 2, 5);
    probe_end(probe);
}

static void again_at_once(struct sl_watch *watch)
{
    struct probe *probe = (struct probe *)watch;
    sl_add(&probe->timed, 1);
    sl_service_set_deadline(watch, 1);
}

/* A timer that never rests keeps neither other threads nor other watches out. */
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

/* ---- what callbacks may do ---- */

static sl_word32 freed;

static void remove_and_free(struct sl_watch *watch, bool readable, bool hung_up)
{
    (void)readable;
    (void)hung_up;
    struct probe *probe = (struct probe *)watch;
    sl_service_remove(watch);
    sl_os_close(watch->fd);
    sl_os_close(probe->peer);
    free(probe);
    sl_add(&freed, 1);
}

static void remove_and_free_by_timer(struct sl_watch *watch)
{
    remove_and_free(watch, false, false);
}

TEST(service_callback_may_free_its_own_watch)
{
    for (uint32_t i = 1; i <= 20; i++) { /* the last watch, so the thread ends by itself */
        struct probe *probe = probe_new(SOCK_SEQPACKET);
        probe->watch.ready = remove_and_free;
        probe->watch.timer = remove_and_free_by_timer;
        if (i % 2)
            CHECK_EQ(send(probe->peer, "x", 1, 0), 1);
        else
            probe->watch.deadline = 1;
        CHECK_OK(add(&probe->watch));
        CHECK_SOON(sl_load(&freed, acquire) == i, 5);
    }
    CHECK_SOON(!service_thread(), 5);
}

enum { CROWD = 40 };
static struct probe *crowd[CROWD];

static void free_the_crowd(struct sl_watch *watch, bool readable, bool hung_up)
{
    (void)watch;
    for (int i = 0; i < CROWD; i++)
        remove_and_free(&crowd[i]->watch, readable, hung_up);
}

/* All are ready at once; the first that is told frees all others, which must not be told then. */
TEST(service_callback_may_free_the_others)
{
    sl_service_lock();
    for (int i = 0; i < CROWD; i++) {
        crowd[i] = probe_new(SOCK_SEQPACKET);
        crowd[i]->watch.ready = free_the_crowd;
        CHECK_EQ(send(crowd[i]->peer, "x", 1, 0), 1);
        CHECK_OK(sl_service_add(&crowd[i]->watch));
    }
    sl_service_unlock();
    CHECK_SOON(sl_load(&freed, acquire) == CROWD, 5);
    CHECK_SOON(!service_thread(), 5);
}

static struct probe *next_probe;

static void add_another(struct sl_watch *watch, bool readable, bool hung_up)
{
    remove_and_free(watch, readable, hung_up); /* the thread would end here ... */
    CHECK_OK(sl_service_add(&next_probe->watch)); /* ... and starts again */
}

TEST(service_callback_may_add)
{
    struct probe *probe = probe_new(SOCK_SEQPACKET);
    next_probe = probe_new(SOCK_SEQPACKET);
    probe->watch.ready = add_another;
    CHECK_EQ(send(probe->peer, "x", 1, 0), 1);
    CHECK_EQ(send(next_probe->peer, "y", 1, 0), 1);
    CHECK_OK(add(&probe->watch));
    CHECK_SOON(sl_load(&next_probe->readable, acquire) == 1, 5);
    probe_end(next_probe);
    CHECK_SOON(!service_thread(), 5);
}

static void add_and_remove(struct sl_watch *watch, bool readable, bool hung_up)
{
    struct sl_watch brief = { .fd = -1 };
    remove_and_free(watch, readable, hung_up);
    for (int i = 0; i < 3; i++) {
        CHECK_OK(sl_service_add(&brief));
        sl_service_remove(&brief);
    }
}

TEST(service_callback_may_start_and_stop_it)
{
    struct probe *probe = probe_new(SOCK_SEQPACKET);
    probe->watch.ready = add_and_remove;
    CHECK_EQ(send(probe->peer, "x", 1, 0), 1);
    CHECK_OK(add(&probe->watch));
    CHECK_SOON(sl_load(&freed, acquire) == 1, 5);
    CHECK_SOON(!service_thread(), 5);
}

/* ---- threads ---- */

static int guarded; /* only under the service lock: a race here is one in the lock */

static void touch(struct sl_watch *watch)
{
    guarded++;
    sl_service_set_deadline(watch, sl_os_deadline(20000));
}

static void *start_and_stop(void *argument)
{
    for (long i = test_scale(10000) / 4; i > 0; i--) {
        struct sl_watch watch = { .fd = -1, .timer = touch, .deadline = i % 3 ? 1 : 0 };
        sl_service_lock();
        guarded++;
        CHECK_OK(sl_service_add(&watch));
        if (i % 5 == 0)
            CHECK_OK(sl_service_hold());
        sl_service_unlock();
        sl_service_lock();
        sl_service_remove(&watch);
        if (i % 5 == 0)
            sl_service_drop();
        sl_service_unlock();
        watch.timer = NULL; /* would crash if it were still called */
    }
    return argument;
}

TEST_TIMEOUT(service_starts_and_stops_under_load, 60)
{
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, start_and_stop, NULL), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    CHECK(!service_thread());
}

TEST_TIMEOUT(service_starts_and_stops_often, 60)
{
    for (long i = 0; i < test_scale(10000); i++) {
        struct sl_watch watch = { .fd = -1 };
        CHECK_OK(add(&watch));
        take(&watch);
    }
    CHECK(!service_thread());
}

static struct probe *busy[64];

static void *poke(void *argument)
{
    unsigned seed = (unsigned)(intptr_t)argument;
    for (long i = test_scale(20000); i > 0; i--)
        (void)!send(busy[rand_r(&seed) % 64]->peer, "x", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    return NULL;
}

/* Watches come and go while their descriptors are in use. */
TEST(service_watches_come_and_go_under_load)
{
    pthread_t threads[2];
    unsigned seed = 7;
    for (int i = 0; i < 64; i++)
        busy[i] = probe_new(SOCK_SEQPACKET);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, poke, (void *)(intptr_t)(i + 1)), 0);
    for (long i = test_scale(20000); i > 0; i--) {
        struct probe *probe = busy[rand_r(&seed) % 64];
        sl_service_lock();
        if (probe->watch.added)
            sl_service_remove(&probe->watch);
        else
            CHECK_OK(sl_service_add(&probe->watch));
        sl_service_unlock();
    }
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 64; i++)
        probe_end(busy[i]);
    CHECK(!service_thread());
}

TEST(service_many_watches)
{
    enum { MANY = 10000 };
    struct probe *many = calloc(MANY, sizeof(*many));
    CHECK(many);
    sl_service_lock();
    int64_t start = sl_os_now();
    for (int i = 0; i < MANY; i++) {
        many[i].watch = (struct sl_watch){ .fd = -1, .timer = on_timer };
        many[i].watch.deadline = start + i * 1000 + 1;
        CHECK_OK(sl_service_add(&many[i].watch));
    }
    sl_service_unlock();
    CHECK_SOON(sl_load(&many[MANY - 1].timed, acquire) == 1, 10);
    for (int i = 0; i < MANY; i++) {
        CHECK_EQ(sl_load(&many[i].timed, relaxed), 1);
        take(&many[i].watch);
    }
    free(many);
}
