/* SPDX-License-Identifier: MIT
 *
 * Sleeping on a word, in one process and between two.
 */
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/time.h>

#include "os/os.h"
#include "os_kit.h"

TEST(wake_not_needed_when_the_word_differs)
{
    sl_word32 word = 5;
    CHECK_EQ(sl_os_futex_wait(&word, 4, SLUICE_FOREVER), 0);
    CHECK_EQ(sl_os_futex_wait(&word, 4, 0), 0);
}

TEST(wake_deadline)
{
    sl_word32 word = 5;
    int64_t start = sl_os_now();
    CHECK_EQ(sl_os_futex_wait(&word, 5, start + 20 * SLUICE_MS), SLUICE_TIMEOUT);
    int64_t slept = sl_os_now() - start;
    CHECK_GE(slept, 20 * SLUICE_MS);
    CHECK_LE(slept, 20 * SLUICE_S);
}

TEST(wake_deadlines_that_are_over)
{
    sl_word32 word = 5;
    const int64_t over[] = { INT64_MIN, -1, 0, 1, sl_os_now() };
    for (size_t i = 0; i < sizeof(over) / sizeof(over[0]); i++)
        CHECK_EQ(sl_os_futex_wait(&word, 5, over[i]), SLUICE_TIMEOUT);
    CHECK_STR(sluice_last_error(), "");
}

struct sleeper {
    sl_word32 *word;
    int64_t deadline;
    int result;
};

static void *sleep_on(void *context)
{
    struct sleeper *sleeper = context;
    while (sl_load(sleeper->word, acquire) == 0 && sleeper->result == 0)
        sleeper->result = sl_os_futex_wait(sleeper->word, 0, sleeper->deadline);
    return NULL;
}

static void wake_after_a_while(int64_t deadline)
{
    sl_word32 word = 0;
    struct sleeper sleeper = { &word, deadline, 0 };
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, sleep_on, &sleeper), 0);
    test_nap(20 * SLUICE_MS);
    sl_store(&word, 1, release);
    sl_os_futex_wake(&word, 1);
    pthread_join(thread, NULL);
    CHECK_EQ(sleeper.result, 0);
}

TEST(wake_wakes)
{
    wake_after_a_while(SLUICE_FOREVER);
    wake_after_a_while(sl_os_deadline(60 * SLUICE_S));
    wake_after_a_while(SLUICE_FOREVER - 1);
}

TEST(wake_wakes_as_many_as_asked)
{
    enum { SLEEPERS = 4 };
    static sl_word32 word, awake;
    struct sleeper sleeper[SLEEPERS];
    pthread_t threads[SLEEPERS];
    (void)awake;
    for (int i = 0; i < SLEEPERS; i++) {
        sleeper[i] = (struct sleeper){ &word, SLUICE_FOREVER, 0 };
        CHECK_EQ(pthread_create(&threads[i], NULL, sleep_on, &sleeper[i]), 0);
    }
    test_nap(20 * SLUICE_MS);
    sl_store(&word, 1, release);
    sl_os_futex_wake(&word, SLEEPERS);
    for (int i = 0; i < SLEEPERS; i++)
        pthread_join(threads[i], NULL);
    sl_os_futex_wake(&word, 1); /* nobody sleeps: no error */
}

static void on_alarm(int signal_number)
{
    (void)signal_number;
}

TEST(wake_signals_only_make_it_check_again)
{
    sl_word32 word = 5;
    struct sigaction action = { .sa_handler = on_alarm };
    struct itimerval often = { { 0, 10000 }, { 0, 10000 } }; /* the first may come before it sleeps */
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    CHECK_EQ(sl_os_futex_wait(&word, 5, SLUICE_FOREVER), 0);
}

/* A program's timer slack is neither changed nor used: with a slack of milliseconds a short sleep would not be one. */
TEST(wake_nap_lasts_about_as_long_as_asked)
{
    static const unsigned long slacks[] = { 50 * 1000, 1, 1000, 4 * SLUICE_MS };
    sl_word32 word = 5;

    CHECK_EQ(sl_os_futex_wait_precise(&word, 4, SLUICE_FOREVER), 0);
    for (size_t i = 0; i < sizeof slacks / sizeof slacks[0]; i++) {
        CHECK_EQ(prctl(PR_SET_TIMERSLACK, slacks[i]), 0);
        int before = prctl(PR_GET_TIMERSLACK);
        for (int64_t length = -SLUICE_MS; length <= 5 * SLUICE_MS; length += SLUICE_MS) {
            int64_t start = sl_os_now();
            CHECK_EQ(sl_os_futex_wait_precise(&word, 5, start + length), SLUICE_TIMEOUT);
            CHECK_GE(sl_os_now() - start, length - SLUICE_MS / 10);
        }
        CHECK_EQ(prctl(PR_GET_TIMERSLACK), before);
    }
    CHECK_EQ(sl_os_futex_wait_precise(&word, 5, 1), SLUICE_TIMEOUT);
    CHECK_EQ(sl_os_futex_wait_precise(&word, 5, INT64_MIN), SLUICE_TIMEOUT);
}

/* The sleeper has the word on a page that it may only read. */
TEST(wake_between_processes_on_a_read_only_mapping)
{
    int fd;
    void *ours, *theirs;
    size_t size = sl_os_page_size();
    CHECK_OK(sl_os_memory_create("words", size, &fd));
    CHECK_OK(sl_os_map(fd, size, true, &ours));
    CHECK_OK(sl_os_memory_seal(fd, true));
    sl_word32 *word = ours;
    pid_t child = fork();
    if (child == 0) {
        CHECK_OK(sl_os_map(fd, size, false, &theirs));
        munmap(ours, size);
        const sl_word32 *seen = theirs;
        int64_t deadline = sl_os_deadline(50 * SLUICE_S);
        for (uint32_t i = 0; i < 100; i++)
            while (sl_load(seen, acquire) <= i)
                CHECK_EQ(sl_os_futex_wait(seen, i, deadline), 0);
        _exit(0);
    }
    for (uint32_t i = 1; i <= 100; i++) {
        test_nap(100000);
        sl_store(word, i, release);
        sl_os_futex_wake(word, INT32_MAX);
    }
    check_child(child);
    sl_os_unmap(ours, size);
    sl_os_close(fd);
}
