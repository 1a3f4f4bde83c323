/* SPDX-License-Identifier: MIT
 *
 * Stands in for os/posix/service.c, clock.c and wake.c: it defines all that they do, so that the linker
 * never takes them from the library.
 */
#include "os_stub.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sluice/base.h>

#include "fuzz.h"
#include "os/posix/posix.h"

#define MOST_WATCHES 1024
#define TICK         1000  /* the clock advances when it is read */
#define MOST_ROUNDS  10000 /* in one sleep: more means that it never settles */

bool (*os_stub_peer)(void);

static struct sl_watch *watches[MOST_WATCHES];
static bool paused[MOST_WATCHES];
static size_t watch_count;
static bool locked;
static int64_t now = 1000 * SLUICE_S;

/* ---- clock.c ---- */

int64_t sl_os_now(void)
{
    return now += TICK;
}
int64_t sl_os_now_coarse(void)
{
    return now;
}

int64_t sl_os_deadline(int64_t timeout_ns)
{
    int64_t at = sl_os_now();
    return timeout_ns > SLUICE_FOREVER - at ? SLUICE_FOREVER : at + timeout_ns;
}

void sl_os_sleep(int64_t ns)
{
    now += ns > 0 ? ns : 0;
}

void sl_os_yield(void)
{
}

uint64_t sl_os_random(void)
{
    static uint64_t state;
    state += UINT64_C(0x9e3779b97f4a7c15);
    return state ? state : 1;
}

/* ---- service.c ---- */

void sl_service_lock(void)
{
    REQUIRE(!locked);
    locked = true;
}

void sl_service_unlock(void)
{
    REQUIRE(locked);
    locked = false;
}

static size_t find(const struct sl_watch *watch)
{
    size_t i = 0;
    while (i < watch_count && watches[i] != watch)
        i++;
    return i;
}

int sl_service_add(struct sl_watch *watch)
{
    REQUIRE(locked && !watch->added && watch_count < MOST_WATCHES);
    watch->added = true;
    watch->muted = false;
    paused[watch_count] = false;
    watches[watch_count++] = watch;
    return 0;
}

void sl_service_remove(struct sl_watch *watch)
{
    REQUIRE(locked);
    if (!watch->added)
        return;
    size_t i = find(watch);
    REQUIRE(i < watch_count);
    watch->added = false;
    watch_count--;
    memmove(&watches[i], &watches[i + 1], (watch_count - i) * sizeof watches[0]);
    memmove(&paused[i], &paused[i + 1], (watch_count - i) * sizeof paused[0]);
}

void sl_service_set_deadline(struct sl_watch *watch, int64_t deadline)
{
    REQUIRE(locked);
    watch->deadline = deadline;
}

void sl_service_pause(struct sl_watch *watch, bool pause)
{
    size_t i = find(watch);
    if (i < watch_count)
        paused[i] = pause;
}

int sl_service_hold(void)
{
    return 0;
}
void sl_service_drop(void)
{
}
void sl_service_before_fork(void)
{
}
void sl_service_after_fork(bool child)
{
    (void)child;
}

/* A socket stays readable for ever after its end: it is reported until it is empty. */
static void report(struct sl_watch *watch, short events)
{
    bool readable = events & POLLIN, hung_up = events & (POLLHUP | POLLERR | POLLRDHUP);
    if (hung_up) {
        int left = 0;
        bool counted = ioctl(watch->fd, FIONREAD, &left) == 0;
        if (counted && !left)
            readable = false;
        if (!counted || !left)
            watch->muted = true;
    }
    if (watch->ready)
        watch->ready(watch, readable, hung_up);
}

static bool run_events(void)
{
    struct pollfd fds[MOST_WATCHES];
    struct sl_watch *who[MOST_WATCHES];
    size_t count = 0;
    bool any = false;

    for (size_t i = 0; i < watch_count; i++) {
        if (watches[i]->fd < 0 || watches[i]->muted)
            continue;
        who[count] = watches[i];
        fds[count++] = (struct pollfd){ .fd = watches[i]->fd, .events = (short)(paused[i] ? 0 : POLLIN | POLLRDHUP) };
    }
    if (poll(fds, count, 0) <= 0)
        return false;
    for (size_t i = 0; i < count; i++) {
        REQUIRE(!(fds[i].revents & POLLNVAL));
        /* A callback before this one may have removed it. */
        if (fds[i].revents && find(who[i]) < watch_count) {
            report(who[i], fds[i].revents);
            any = true;
        }
    }
    return any;
}

static struct sl_watch *first_timer(void)
{
    struct sl_watch *first = NULL;
    for (size_t i = 0; i < watch_count; i++)
        if (watches[i]->deadline && watches[i]->timer && (!first || watches[i]->deadline < first->deadline))
            first = watches[i];
    return first;
}

static bool run_timer(void)
{
    struct sl_watch *watch = first_timer();
    if (!watch || watch->deadline > now)
        return false;
    watch->deadline = 0;
    watch->timer(watch);
    return true;
}

bool os_stub_run(void)
{
    sl_service_lock();
    bool any = run_events();
    any = run_timer() || any;
    sl_service_unlock();
    return any;
}

void os_stub_settle(void)
{
    int rounds = 0;
    while (os_stub_run())
        REQUIRE(++rounds < MOST_ROUNDS);
}

void os_stub_pass(int64_t ns)
{
    int64_t end = now + ns;
    int rounds = 0;

    for (;;) {
        os_stub_settle();
        struct sl_watch *next = first_timer();
        if (!next || next->deadline >= end)
            break;
        if (next->deadline > now)
            now = next->deadline;
        REQUIRE(++rounds < MOST_ROUNDS);
    }
    if (now < end)
        now = end;
}

size_t os_stub_watches(void)
{
    return watch_count;
}

/* ---- wake.c ---- */

int sl_os_futex_wait(const sl_word32 *word, uint32_t value, int64_t deadline)
{
    int rounds = 0;

    REQUIRE(!locked);
    REQUIRE(deadline < SLUICE_FOREVER); /* no fuzzer waits for ever */
    while (sl_load(word, seq_cst) == value) {
        if (deadline <= now)
            return SLUICE_TIMEOUT;
        REQUIRE(++rounds < MOST_ROUNDS);
        if (os_stub_run() || (os_stub_peer && os_stub_peer()))
            continue;
        struct sl_watch *next = first_timer();
        now = next && next->deadline < deadline ? next->deadline : deadline;
    }
    return 0;
}

int sl_os_futex_wait_of(const sl_word32 *word, uint32_t value, int64_t deadline, uint32_t pid)
{
    (void)pid;
    return sl_os_futex_wait(word, value, deadline);
}

int sl_os_futex_wait_precise(const sl_word32 *word, uint32_t value, int64_t until)
{
    return sl_os_futex_wait(word, value, until);
}

void sl_os_futex_wake(const sl_word32 *word, int count)
{
    (void)word;
    (void)count;
}

/* ---- the folder ---- */

static char folder[64];

static void remove_folder(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    (void)!system(command);
}

const char *os_stub_folder(void)
{
    if (!folder[0]) {
        snprintf(folder, sizeof folder, "/tmp/sluice-fuzz-XXXXXX");
        REQUIRE(mkdtemp(folder));
        setenv("SLUICE_DIR", folder, 1);
        atexit(remove_folder);
    }
    return folder;
}

int os_stub_next_fd(void)
{
    int fd = dup(STDERR_FILENO);
    close(fd);
    return fd;
}
