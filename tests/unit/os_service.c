/* SPDX-License-Identifier: MIT
 *
 * The life of the service thread: it starts and ends cleanly, whoever ends it, under any load.
 */
#include <pthread.h>
#include <signal.h>

#include "service_kit.h"

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
    CHECK(!service_thread()); /* ended by now, not just soon */

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
        CHECK_EQ(setresuid(54322, 54322, 54322), 0); /* root may always have another one */
        int before = open_count();
        CHECK_SAYS(add(&watch), SLUICE_E_SYSTEM, "service thread");
        sl_service_lock();
        CHECK_SAYS(sl_service_hold(), SLUICE_E_SYSTEM, "service thread");
        sl_service_unlock();
        CHECK(!watch.added);
        CHECK_EQ(open_count(), before);
    });
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

/* All are ready at once; the first callback frees all others, which must not be called then. */
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
    remove_and_free(watch, readable, hung_up);    /* the thread would end here ... */
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

/* Watches are added and removed while their descriptors are in use. */
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
