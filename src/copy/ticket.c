/* SPDX-License-Identifier: MIT
 *
 * Tickets tell when a queued copy is done. The stream raises a word behind the copy, so querying
 * a ticket is reading a word: no driver call, safe during captures, on any thread. For a sent frame that is the word
 * that makes it ready; other copies get a word from a desk, which issues the tickets.
 *
 * A ticket is a number: the desk that issued it (12 bits, from 1), its index there (8), and a
 * serial (44) that no other ticket of this process has. A desk that was closed and is used again
 * begins with a higher serial, so old tickets are recognised.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "copy/copy.h"
#include "device/device.h"
#include "sync/sync.h"
#include "util/atomic.h"
#include "util/result.h"

#define DESKS        4095
#define WORD_BITS    8
#define SERIAL_BITS  44
#define SPIN         (20 * INT64_C(1000))
#define SHORTEST_NAP (5 * INT64_C(1000))
#define LONGEST_NAP  (SLUICE_MS / 2)
#define SLEEP_ERROR  (20 * INT64_C(1000)) /* how late a sleep ends */
#define ASK          (50 * SLUICE_MS) /* interval of checks whether the work can still complete */
#define MOST_EXPECTED (4 * SLUICE_S)

struct sl_desk {
    sl_word32 uses;    /* 0: free; else references: the owner's and those of threads inside a call */
    sl_word32 closing; /* also set until the desk is open */
    uint32_t index;
    uint64_t first; /* serials up to here belong to earlier users of the desk */
    sl_word *words;
    int (*alive)(void *user);
    void *user;

    sl_word ns_per_mib; /* measured for recent copies; 0: not measured yet */
    sl_word begun[SL_DESK_WORDS]; /* for each copy: when it was queued, */
    sl_word mibs[SL_DESK_WORDS];  /* and its size, rounded up; 0: unknown */

    sl_mutex lock; /* guards the members below */
    uint32_t next;
    uint64_t serials[SL_DESK_WORDS];   /* the last serial issued at this index, */
    struct sl_mark marks[SL_DESK_WORDS]; /* and its mark; without a word: not in use yet */
    sl_word failed[SL_DESK_WORDS];     /* the last serial that failed, */
    sl_word32 results[SL_DESK_WORDS];  /* and its result */
};

/* Allocated once, reused, and never freed, so a ticket of any age can be looked up safely. */
static _Atomic(struct sl_desk *) desks[DESKS];
static sl_word last_serial;

/* ---- which desk ---- */

static struct sl_desk *new_desk(uint32_t index)
{
    struct sl_desk *desk = calloc(1, sizeof *desk), *other = NULL;

    if (!desk)
        return NULL;
    desk->uses = 1;
    desk->closing = 1;
    desk->index = index;
    sl_mutex_init(&desk->lock);
    if (atomic_compare_exchange_strong(&desks[index], &other, desk))
        return desk;
    sl_mutex_finish(&desk->lock);
    free(desk);
    return NULL;
}

/* A free desk with one reference, still closed. */
static struct sl_desk *take_desk(void)
{
    for (uint32_t i = 0; i < DESKS; i++) {
        struct sl_desk *desk = sl_load(&desks[i], acquire);
        uint32_t none = 0;
        if (!desk && (desk = new_desk(i)) != NULL)
            return desk;
        if (desk && atomic_compare_exchange_strong(&desk->uses, &none, 1))
            return desk;
    }
    return NULL;
}

int sl_desk_open(sl_word *words, int (*alive)(void *user), void *user, struct sl_desk **out)
{
    struct sl_desk *desk = take_desk();
    if (!desk)
        return sl_fail(SLUICE_E_LIMIT, "no room for the tickets of another writer or reader: %d are open",
                       DESKS);
    desk->words = words;
    desk->alive = alive;
    desk->user = user;
    desk->next = 0;
    sl_store(&desk->ns_per_mib, 0, relaxed);
    desk->first = sl_load(&last_serial, seq_cst);
    for (uint32_t i = 0; i < SL_DESK_WORDS; i++) {
        desk->serials[i] = 0;
        desk->marks[i] = (struct sl_mark){ .word = NULL };
        sl_store(&desk->failed[i], 0, relaxed);
    }
    sl_store(&desk->closing, 0, seq_cst);
    *out = desk;
    return 0;
}

static void leave(struct sl_desk *desk)
{
    if (atomic_fetch_sub(&desk->uses, 1) == 2 && sl_load(&desk->closing, seq_cst))
        sl_os_wake(&desk->uses, 1);
}

void sl_desk_close(struct sl_desk *desk)
{
    uint32_t uses = 1;

    if (!desk)
        return;
    sl_store(&desk->closing, 1, seq_cst);
    sl_os_wake(&desk->closing, INT32_MAX);
    while (!atomic_compare_exchange_strong(&desk->uses, &uses, 0)) {
        (void)sl_os_wait(&desk->uses, uses, sl_os_deadline(SLUICE_MS));
        uses = 1;
    }
}

/* ---- giving out ---- */

/* A slot's word may be poisoned because a later frame was lost. */
static bool reached(const struct sl_mark *mark)
{
    uint64_t word = sl_load(mark->word, acquire);

    if (sl_reached(word, mark->value))
        return true;
    return word == SL_POISON && mark->holder && sl_load(mark->holder, acquire) != mark->value;
}

static uint32_t number_of(const struct sl_mark *mark)
{
    return mark->id >> SERIAL_BITS & (SL_DESK_WORDS - 1);
}

static uint64_t serial_of(const struct sl_mark *mark)
{
    return mark->id & ((UINT64_C(1) << SERIAL_BITS) - 1);
}

/* The next index whose work has ended; -1 if there is none. Called with the lock held. */
static int find_free(const struct sl_desk *desk)
{
    for (uint32_t tries = 0; tries < SL_DESK_WORDS; tries++) {
        uint32_t at = (desk->next + tries) % SL_DESK_WORDS;
        if (!desk->marks[at].word || reached(&desk->marks[at]))
            return (int)at;
    }
    return -1;
}

/* Issues a ticket for a word of the caller's, or, if `mark` has none, for one of the desk's. */
static bool give_out(struct sl_desk *desk, struct sl_mark *mark)
{
    sl_mutex_lock(&desk->lock);
    int at = find_free(desk);
    if (at >= 0) {
        uint64_t serial = desk->serials[at] = sl_add(&last_serial, 1) + 1;
        mark->id = (uint64_t)(desk->index + 1) << (WORD_BITS + SERIAL_BITS) | (uint64_t)at << SERIAL_BITS | serial;
        if (!mark->word) {
            mark->word = &desk->words[at];
            mark->value = serial;
        }
        desk->marks[at] = *mark;
        desk->next = (uint32_t)at + 1;
        sl_store(&desk->mibs[at], 0, relaxed);
    }
    sl_mutex_unlock(&desk->lock);
    return at >= 0;
}

int sl_desk_issue(struct sl_desk *desk, struct sl_mark *mark)
{
    *mark = (struct sl_mark){ .word = NULL };
    if (give_out(desk, mark))
        return 0;
    return sl_fail(SLUICE_E_BUSY, "%d copies are under way already: wait for one of their tickets", SL_DESK_WORDS);
}

bool sl_desk_stand(struct sl_desk *desk, struct sl_mark *mark)
{
    return give_out(desk, mark);
}

void sl_desk_settle(struct sl_desk *desk, const struct sl_mark *mark, int result)
{
    uint32_t at = number_of(mark);

    if (result != 0) {
        sl_store(&desk->results[at], (uint32_t)result, relaxed);
        sl_store(&desk->failed[at], serial_of(mark), release);
    }
    sl_store(mark->word, mark->value, release);
}

/* ---- waiting ---- */

static int how_it_ended(struct sl_desk *desk, const struct sl_mark *mark)
{
    uint32_t at = number_of(mark);

    if (sl_load(&desk->failed[at], acquire) != serial_of(mark))
        return 0;
    return sl_fail((int)sl_load(&desk->results[at], relaxed),
                   "the copy failed: the device's driver failed when it was under way");
}

static int closed(void)
{
    return sl_fail(SLUICE_E_STALE, "the writer or reader that this ticket is of has been closed");
}

void sl_desk_expect(struct sl_desk *desk, const struct sl_mark *mark, uint64_t bytes)
{
    uint32_t at = number_of(mark);

    sl_store(&desk->begun[at], (uint64_t)sl_os_now(), relaxed);
    sl_store(&desk->mibs[at], (bytes >> 20) + 1, relaxed);
}

/* When a wait began, and the interval in which spinning pays, as a sleep ends later than a short
 * copy takes. */
struct wait {
    int64_t start, spin_from, spin_until, deadline;
    bool slept;
};

/* How far the end of a copy may be from its estimate: relatively more for a short one. */
static int64_t error_of(int64_t expected_ns)
{
    int64_t quarter = expected_ns / 4, eighth = expected_ns / 8;

    return quarter < SLUICE_MS ? quarter : eighth > SLUICE_MS ? eighth : SLUICE_MS;
}

static struct wait begin_wait(const struct sl_desk *desk, uint32_t at, int64_t spin_ns, int64_t timeout_ns)
{
    int64_t now = sl_os_now();
    struct wait wait = { .start = now, .spin_from = now, .spin_until = now + spin_ns,
                         .deadline = sl_os_deadline(timeout_ns) };
    uint64_t mibs = sl_load(&desk->mibs[at], relaxed), each = sl_load(&desk->ns_per_mib, relaxed);

    if (mibs == 0 || each == 0)
        return wait;
    int64_t expected = each < MOST_EXPECTED / mibs ? (int64_t)(each * mibs) : MOST_EXPECTED;
    int64_t end = (int64_t)sl_load(&desk->begun[at], relaxed) + expected, error = error_of(expected);
    if (end - error - SLEEP_ERROR > now + SLEEP_ERROR)
        wait.spin_from = end - error - SLEEP_ERROR;
    if (end + error > now)
        wait.spin_until = end + error + SPIN;
    return wait;
}

/* Updates the time for a MiB after a wait: by a little up or down, but by much down if the copy was
 * over when the thread woke, as then nobody knows since when. A copy that ended late because of
 * other work is not counted. */
static void learn(struct sl_desk *desk, uint32_t at, bool over)
{
    uint64_t mibs = sl_load(&desk->mibs[at], relaxed), before = sl_load(&desk->ns_per_mib, relaxed);

    if (mibs == 0)
        return;
    int64_t took = sl_os_now() - (int64_t)sl_load(&desk->begun[at], relaxed);
    uint64_t each = took > 0 ? (uint64_t)took / mibs : 0, next = before - before / 4;
    if (before == 0 || (over && each < next))
        next = each;
    else if (!over)
        next += (each < 2 * before ? each : 2 * before) / 4;
    sl_store(&desk->ns_per_mib, next, relaxed);
}

/* Sleeps, longer each time the estimate has passed. */
static void nap(struct sl_desk *desk, struct wait *wait, int64_t now)
{
    int64_t length = (now - wait->start) / 8;
    int64_t until = wait->spin_from < now + LONGEST_NAP ? wait->spin_from : now + LONGEST_NAP;

    wait->slept = now < wait->spin_from;
    if (now >= wait->spin_from && now < wait->spin_until) {
        sl_pause();
        return;
    }
    if (now >= wait->spin_until)
        until = now + (length < SHORTEST_NAP ? SHORTEST_NAP : length > LONGEST_NAP ? LONGEST_NAP : length);
    (void)sl_os_nap(&desk->closing, 0, until < wait->deadline ? until : wait->deadline);
}

int sl_desk_wait(struct sl_desk *desk, const struct sl_mark *mark, int64_t spin_ns, int64_t timeout_ns)
{
    if (reached(mark))
        return how_it_ended(desk, mark);
    struct wait wait = begin_wait(desk, number_of(mark), spin_ns > SPIN ? spin_ns : SPIN, timeout_ns);
    int64_t now = wait.start, ask = now + ASK;
    while (!reached(mark)) {
        int r = 0;
        if (sl_load(&desk->closing, acquire))
            return closed();
        if (now >= wait.deadline)
            return SLUICE_TIMEOUT;
        if (now >= ask && (r = desk->alive(desk->user)) < 0)
            return r;
        ask = now >= ask ? now + ASK : ask;
        nap(desk, &wait, now);
        now = sl_os_now();
    }
    learn(desk, number_of(mark), wait.slept);
    return how_it_ended(desk, mark);
}

int sl_desk_drain(struct sl_desk *desk, int64_t timeout_ns)
{
    int64_t deadline = sl_os_deadline(timeout_ns);
    int r = 0;

    for (uint32_t i = 0; i < SL_DESK_WORDS && r == 0; i++) {
        int64_t left = deadline == SLUICE_FOREVER ? SLUICE_FOREVER : deadline - sl_os_now();
        if (desk->marks[i].word && !reached(&desk->marks[i]))
            r = sl_desk_wait(desk, &desk->marks[i], 0, left > 0 ? left : 0);
    }
    return r;
}

/* ---- by number ---- */

static int no_ticket(void)
{
    return sl_fail(SLUICE_E_HANDLE, "not a ticket of send or fetch");
}

/* The index may have been issued again since: then the work has ended. */
static int look_up(struct sl_desk *desk, uint64_t id, struct sl_mark *mark)
{
    *mark = (struct sl_mark){ .id = id };
    uint32_t at = number_of(mark);
    uint64_t serial = serial_of(mark);

    mark->word = &desk->words[at]; /* a word at 0, so it counts as reached */
    sl_mutex_lock(&desk->lock);
    uint64_t last = desk->serials[at];
    if (last == serial)
        *mark = desk->marks[at];
    sl_mutex_unlock(&desk->lock);
    return last < serial ? no_ticket() : 0;
}

/* Takes a reference to the desk that issued the ticket. */
static int enter(uint64_t id, struct sl_desk **out, struct sl_mark *mark)
{
    uint32_t index = (uint32_t)(id >> (WORD_BITS + SERIAL_BITS));
    struct sl_desk *desk = index > 0 && index <= DESKS ? sl_load(&desks[index - 1], acquire) : NULL;
    uint64_t serial = id & ((UINT64_C(1) << SERIAL_BITS) - 1);

    if (!desk || serial == 0 || serial > sl_load(&last_serial, seq_cst))
        return no_ticket();
    for (uint32_t uses = sl_load(&desk->uses, seq_cst);;) {
        if (uses == 0)
            return closed();
        if (atomic_compare_exchange_weak(&desk->uses, &uses, uses + 1))
            break;
    }
    int r = sl_load(&desk->closing, seq_cst) || serial <= desk->first ? closed() : 0;
    if (r == 0) {
        r = look_up(desk, id, mark);
    }
    if (r != 0)
        leave(desk);
    else
        *out = desk;
    return r;
}

int sl_ticket_wait(uint64_t id, int64_t timeout_ns)
{
    struct sl_desk *desk;
    struct sl_mark mark;

    if (id == SL_TICKET_DONE)
        return 0;
    if (id == SL_TICKET_UNKNOWN)
        return sl_fail(SLUICE_E_BUSY, "nobody knows when this copy ends: %d others were under way when it was queued", SL_DESK_WORDS);
    if (id == 0)
        return sl_fail(SLUICE_E_HANDLE, "zero ticket: send or fetch fills it in");
    int r = sl_object_forked();
    if (r == 0)
        r = enter(id, &desk, &mark);
    if (r != 0)
        return r;
    r = sl_desk_wait(desk, &mark, 0, timeout_ns);
    leave(desk);
    return r;
}
