/* SPDX-License-Identifier: MIT
 *
 * Sleeps on shared words: futexes that work across processes.
 */
#include <errno.h>
#include <linux/futex.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <sluice/base.h>

#include "os/posix/posix.h"

int sl_os_futex_wait(const sl_word32 *word, uint32_t value, int64_t deadline)
{
    if (sl_load(word, seq_cst) != value)
        return 0;
    if (deadline <= 0) /* the clock is always above 0, and the kernel refuses earlier times */
        return SLUICE_TIMEOUT;
    /* SLUICE_FOREVER needs no special case: it is 292 years away. */
    struct timespec until = sl_timespec(deadline);
    long result = syscall(SYS_futex, word, FUTEX_WAIT_BITSET, value, &until, NULL, FUTEX_BITSET_MATCH_ANY);
    /* EINTR and EAGAIN: the caller checks again */
    return result < 0 && errno == ETIMEDOUT ? SLUICE_TIMEOUT : 0;
}

#define MOST_SLACK (100 * 1000) /* a thread with more slack wants to be woken rarely */

int sl_os_futex_wait_precise(const sl_word32 *word, uint32_t value, int64_t until)
{
    int slack = prctl(PR_GET_TIMERSLACK); /* of this thread; it is not changed */

    if (slack > MOST_SLACK)
        slack = MOST_SLACK;
    return sl_os_futex_wait(word, value, slack > 0 && until > slack ? until - slack : until);
}

int sl_os_futex_wait_of(const sl_word32 *word, uint32_t value, int64_t deadline, uint32_t pid)
{
    (void)pid;
    return sl_os_futex_wait(word, value, deadline);
}

void sl_os_futex_wake(const sl_word32 *word, int count)
{
    syscall(SYS_futex, word, FUTEX_WAKE, count, NULL, NULL, 0);
}
