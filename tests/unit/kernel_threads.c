/* SPDX-License-Identifier: MIT
 *
 * The threads of kernels on "host".
 */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/resources.h"
#include "harness/test.h"
#include "kernel/kernel.h"
#include "os/os.h"

enum { COUNT = 100003 };

struct tally {
    _Atomic unsigned char times[COUNT];
    sl_word32 ranges, inside, most; /* at once */
    bool meet;                      /* a range waits until another one runs beside it */
};

static void count_range(void *argument, uint64_t first, uint64_t last)
{
    struct tally *tally = argument;
    uint32_t now = (uint32_t)sl_add(&tally->inside, 1) + 1;

    sl_add(&tally->ranges, 1);
    for (uint32_t most = sl_load(&tally->most, relaxed); now > most;)
        if (atomic_compare_exchange_weak(&tally->most, &most, now))
            break;
    if (tally->meet)
        CHECK_SOON(sl_load(&tally->most, relaxed) > 1, 5);
    for (uint64_t i = first; i < last; i++)
        sl_add(&tally->times[i], 1);
    sl_add(&tally->inside, -1);
}

static void check_run(struct tally *tally, uint64_t count, uint64_t unit)
{
    memset(tally->times, 0, sizeof tally->times);
    sl_store(&tally->ranges, 0, relaxed);
    sl_host_run(count, unit, count_range, tally);
    CHECK_EQ(sl_load(&tally->inside, relaxed), 0);
    for (uint64_t i = 0; i < COUNT; i++)
        CHECK_EQ(tally->times[i], i < count);
}

static struct tally tally;

TEST(run_covers_each_number_once)
{
    setenv("SLUICE_HOST_THREADS", "5", 1);
    for (uint64_t count = 1; count < COUNT; count = count * 3 + 1)
        for (uint64_t unit = 0; unit <= count; unit = unit * 7 + 1)
            check_run(&tally, count, unit);
    check_run(&tally, 0, 1);
    CHECK_EQ(sl_load(&tally.ranges, relaxed), 0);
    check_run(&tally, 100, 100);
    CHECK_EQ(sl_load(&tally.ranges, relaxed), 1); /* not worth another thread */
}

TEST(run_uses_other_threads)
{
    setenv("SLUICE_HOST_THREADS", "2", 1);
    tally.meet = true;
    check_run(&tally, COUNT, 1);
    CHECK_EQ(sl_load(&tally.most, relaxed), 2);
}

TEST(run_stays_on_one_thread_if_told_so)
{
    setenv("SLUICE_HOST_THREADS", "1", 1);
    int before = process_threads(getpid());
    check_run(&tally, COUNT, 1);
    CHECK_EQ(sl_load(&tally.ranges, relaxed), 1);
    CHECK_EQ(process_threads(getpid()), before);
}

TEST(run_uses_as_many_threads_as_the_process_may)
{
    cpu_set_t one;

    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    CHECK_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    CHECK_EQ(sl_os_cpu_count(), 1);
    int before = process_threads(getpid());
    check_run(&tally, COUNT, 1);
    CHECK_EQ(process_threads(getpid()), before);
}

static void *run_often(void *argument)
{
    struct tally *mine = calloc(1, sizeof *mine);

    (void)argument;
    CHECK(mine);
    for (long i = test_scale(50); i > 0; i--)
        check_run(mine, 1 + (uint64_t)(i * 7919) % COUNT, 1);
    free(mine);
    return NULL;
}

TEST_TIMEOUT(run_serves_several_threads_at_once, 60)
{
    pthread_t threads[6];

    setenv("SLUICE_HOST_THREADS", "3", 1);
    for (int i = 0; i < 6; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, run_often, NULL), 0);
    for (int i = 0; i < 6; i++)
        pthread_join(threads[i], NULL);
}

TEST(run_works_in_a_forked_child)
{
    int status;

    setenv("SLUICE_HOST_THREADS", "4", 1);
    check_run(&tally, COUNT, 1);
    pid_t child = fork();
    if (child == 0) {
        sl_host_run(COUNT, 1, count_range, &tally);
        _exit(tally.times[0] == 2 && tally.times[COUNT - 1] == 2 ? 7 : 1);
    }
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status));
    CHECK_EQ(WEXITSTATUS(status), 7);
    check_run(&tally, COUNT, 1);
}

TEST(threads_end_when_idle)
{
    setenv("SLUICE_HOST_THREADS", "4", 1);
    int before = process_threads(getpid());
    check_run(&tally, COUNT, 1);
    CHECK_SOON(process_threads(getpid()) == before, 10);
    check_run(&tally, COUNT, 1);
}
