/* SPDX-License-Identifier: MIT
 *
 * Words in shared memory on which one process waits for another, asleep on a futex or spinning.
 */
#ifndef BENCH_KIT_WORDS_H
#define BENCH_KIT_WORDS_H

#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "clock.h"

/* Sleeps while the word is `seen`; may return early. */
static inline void futex_wait(atomic_uint *word, uint32_t seen)
{
    syscall(SYS_futex, word, FUTEX_WAIT, seen, NULL, NULL, 0);
}

static inline void futex_wait_for(atomic_uint *word, uint32_t seen, int64_t ns)
{
    const struct timespec time = { .tv_sec = ns / KIT_S, .tv_nsec = ns % KIT_S };
    syscall(SYS_futex, word, FUTEX_WAIT, seen, &time, NULL, 0);
}

static inline void futex_wake(atomic_uint *word, int count)
{
    syscall(SYS_futex, word, FUTEX_WAKE, count, NULL, NULL, 0);
}

/* Stores the value and wakes every process that waits for the word. */
static inline void word_set(atomic_uint *word, uint32_t value)
{
    atomic_store(word, value);
    futex_wake(word, INT_MAX);
}

/* Sleeps until the word has this value. */
static inline void word_await(atomic_uint *word, uint32_t value)
{
    for (uint32_t seen; (seen = atomic_load(word)) != value;)
        futex_wait(word, seen);
}

/* One turn of a loop that spins. It yields now and then: there may be fewer CPUs than processes. */
static inline void spin_once(unsigned *spins)
{
    if (++*spins % 20000 == 0)
        sched_yield();
}

/* Spins until the word has this value. */
static inline void word_await_spinning(atomic_uint *word, uint32_t value)
{
    for (unsigned spins = 0; atomic_load_explicit(word, memory_order_acquire) != value;)
        spin_once(&spins);
}

#endif
