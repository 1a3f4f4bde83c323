/* SPDX-License-Identifier: MIT
 *
 * The activation barrier: a segment with one name for the whole machine, and the count of its
 * holders and skips.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cuda_link/wire/barrier.h"
#include "util/hooks.h"
#include "util/result.h"

#define LOOK_ABSENT (10 * SLUICE_MS)
#define LOOK_THERE  (250 * SLUICE_MS)
#define LOOK_TOLD   SLUICE_S /* if the kernel notifies of changes, */
/* But for this long after a change it looks often: a process that adds a name fills in the memory
 * later. */
#define ALERT SLUICE_S
/* Attempts, a millisecond apart, as the process that makes or writes it may be suspended. */
enum { ENTERING = 1000, TENDING = 100 };

/* The layout: little-endian, and here even aligned. */
struct words {
    sl_word32 magic, version, count, padding;
    sl_word change_ns;
    sl_word32 skips, pid;
    unsigned char zero[32];
};
_Static_assert(sizeof(struct words) == SL_CIPD_BARRIER_BYTES, "no padding");

static struct words *words_of(const struct sl_cipd_barrier *barrier)
{
    return (struct words *)(void *)barrier->segment.at;
}

int sl_cipd_barrier_init(struct sl_cipd_barrier *barrier, const char *name)
{
    name = name ? name : SL_CIPD_BARRIER_NAME;
    int result = sl_cipd_segment_check_name(name, SL_CIPD_WRITER_NAME);
    if (result)
        return result;
    *barrier = (struct sl_cipd_barrier){
        .stale_ns = SL_CIPD_BARRIER_STALE,
        .settle = SL_CIPD_BARRIER_SETTLE,
        .segment = SL_CIPD_SEGMENT_INIT,
    };
    memcpy(barrier->name, name, strlen(name) + 1);
    return 0;
}

/* ---- the memory ---- */

static void detach(struct sl_cipd_barrier *barrier)
{
    struct sl_cipd_segment *segment = &barrier->segment;
    if (segment->link_name[0])
        sl_os_named_remove(segment->link_name, &segment->memory);
    sl_os_unmap(segment->at, SL_CIPD_BARRIER_BYTES);
    sl_os_close(segment->fd);
    *segment = (struct sl_cipd_segment)SL_CIPD_SEGMENT_INIT;
}

/* Maps a segment that is open. */
static int map(struct sl_cipd_barrier *barrier)
{
    struct sl_cipd_segment *segment = &barrier->segment;
    void *address;
    int result;
    if (segment->memory.size < SL_CIPD_BARRIER_BYTES)
        result = sl_fail(SLUICE_E_PROTOCOL, "%s%s has %" PRIu64 " bytes: it is no activation barrier", sl_os_named_at,
                         barrier->name, segment->memory.size);
    else if ((result = sl_os_close_in_child(segment->fd)) == 0)
        result = sl_os_map(segment->fd, SL_CIPD_BARRIER_BYTES, true, &address);
    if (result)
        detach(barrier);
    else
        segment->at = address;
    return result;
}

static int open_it(struct sl_cipd_barrier *barrier)
{
    int result = sl_os_named_open(barrier->name, true, &barrier->segment.fd, &barrier->segment.memory);
    if (result == 0 && (result = sl_cipd_segment_check_owner(barrier->name, &barrier->segment.memory)) != 0)
        detach(barrier);
    return result;
}

static int attach(struct sl_cipd_barrier *barrier)
{
    int result = open_it(barrier);
    return result ? result : map(barrier);
}

/* Does the name refer to other memory now? If the name was only removed, this one stays in use, as
 * its other users still have it, too. */
static bool moved(const struct sl_cipd_barrier *barrier)
{
    const struct sl_os_named *memory = &barrier->segment.memory;
    struct sl_os_named now;
    return sl_os_named_stat(barrier->name, &now) == 0 && (now.inode != memory->inode || now.device != memory->device);
}

bool sl_cipd_barrier_stale(uint64_t change_ns, int64_t now_ns, int64_t limit_ns)
{
    int64_t age = (int64_t)((uint64_t)now_ns - change_ns);
    return age > limit_ns || age < -limit_ns;
}

/* ---- checkers ---- */

/* May names have been added or removed since the last check? */
static bool changed(struct sl_cipd_barrier *barrier, int64_t now)
{
    uint64_t changes = barrier->changes ? sl_load(barrier->changes, acquire) : barrier->seen;
    if (changes == barrier->seen)
        return false;
    barrier->seen = changes;
    barrier->alert_ns = now + ALERT;
    return true;
}

static bool there(struct sl_cipd_barrier *barrier, int64_t now)
{
    if (!changed(barrier, now) && now < barrier->look_ns)
        return barrier->segment.at != NULL;
    if (barrier->segment.at && moved(barrier))
        detach(barrier);
    if (!barrier->segment.at)
        attach(barrier);
    if (barrier->changes && now >= barrier->alert_ns)
        barrier->look_ns = now + LOOK_TOLD;
    else
        barrier->look_ns = now + (barrier->segment.at ? LOOK_THERE : LOOK_ABSENT);
    return barrier->segment.at != NULL;
}

bool sl_cipd_barrier_check(struct sl_cipd_barrier *barrier, int64_t now_ns)
{
    if (barrier->held || !there(barrier, now_ns))
        return false;
    struct words *words = words_of(barrier);
    if (sl_load(&words->magic, acquire) != SL_CIPD_BARRIER_MAGIC || sl_load(&words->version, acquire) != 1 ||
        sl_load(&words->count, acquire) == 0)
        return false;
    if (sl_cipd_barrier_stale(sl_load(&words->change_ns, acquire), now_ns, barrier->stale_ns)) {
        if (!barrier->is_logged)
            sl_log(SLUICE_LOG_WARN, "the activation barrier (%s%s) is held by dead processes only: ignored",
                   sl_os_named_at, barrier->name);
        barrier->is_logged = true;
        return false;
    }
    barrier->is_logged = false;
    sl_add(&words->skips, 1);
    barrier->skipped++;
    return true;
}

/* ---- holders ---- */

static void new_second(struct sl_cipd_barrier *barrier)
{
    snprintf(barrier->segment.link_name, sizeof(barrier->segment.link_name), ".%.*s.%" PRIu32 ".%08" PRIx32,
             SL_CIPD_WRITER_NAME, barrier->name, sl_os_pid(), (uint32_t)sl_os_random());
}

static void stamp(struct sl_cipd_barrier *barrier, int64_t now)
{
    struct words *words = words_of(barrier);
    sl_store(&words->change_ns, (uint64_t)now, release);
    sl_store(&words->pid, sl_os_pid(), release);
}

/* Makes one with its header complete before anybody can see it, if memory can get its name later. SLUICE_AGAIN: another
 * process has made one meanwhile. */
static int make(struct sl_cipd_barrier *barrier)
{
    struct sl_cipd_segment *segment = &barrier->segment;
    if (sl_os_named_has_names())
        new_second(barrier);
    const char *name = segment->link_name[0] ? segment->link_name : barrier->name;
    int result = sl_os_named_make(name, SL_CIPD_BARRIER_BYTES, &segment->fd, &segment->memory);
    if (result) {
        segment->link_name[0] = 0;
        return result == SLUICE_E_EXISTS ? SLUICE_AGAIN : result;
    }
    if ((result = map(barrier)) != 0)
        return result;
    struct words *words = words_of(barrier);
    sl_store(&words->version, 1, relaxed);
    sl_store(&words->magic, SL_CIPD_BARRIER_MAGIC, release);
    result = sl_os_named_link(segment->link_name, barrier->name);
    if (result == 0)
        result = sl_os_named_lock(segment->fd, true);
    if (result)
        detach(barrier);
    return result == SLUICE_E_EXISTS || result == SLUICE_E_NOT_FOUND ? SLUICE_AGAIN : result;
}

/* Joins an existing one. Python clears the header before it rewrites it. SLUICE_AGAIN: try again;
 * `left` of `attempts` attempts remain. */
static int join(struct sl_cipd_barrier *barrier, int left, int attempts)
{
    struct sl_cipd_segment *segment = &barrier->segment;
    struct words *words = words_of(barrier);
    uint32_t magic = sl_load(&words->magic, acquire);
    SL_KILL_POINT("cipd_join");
    if (magic == 0 && left < attempts / 2 &&
        sl_cipd_zero(segment->at, SL_CIPD_BARRIER_BYTES)) { /* made, but never written */
        sl_store(&words->version, 1, relaxed);
        sl_store(&words->magic, SL_CIPD_BARRIER_MAGIC, release);
    } else if (magic == 0 && left > 0) { /* it is being written */
        return SLUICE_AGAIN;
    } else if (magic != SL_CIPD_BARRIER_MAGIC) {
        return sl_fail(SLUICE_E_PROTOCOL, "%s%s is no activation barrier of cuda-link's: remove it", sl_os_named_at,
                       barrier->name);
    }
    if (segment->link_name[0])
        return 0;
    new_second(barrier);
    int result = sl_os_named_link(barrier->name, segment->link_name);
    if (result) {
        segment->link_name[0] = 0;
        return result == SLUICE_E_NOT_FOUND || result == SLUICE_E_EXISTS ? SLUICE_AGAIN : result;
    }
    /* If a program that is not ours holds an exclusive lock, the link name is not protected from
     * being swept. */
    (void)sl_os_named_lock(segment->fd, true);
    return 0;
}

/* One without any bytes is just being made, or was left by a program that was killed. */
static int attach_or_drop(struct sl_cipd_barrier *barrier, int left, int attempts)
{
    int result = open_it(barrier);
    if (result == 0 && barrier->segment.memory.size == 0 && left > 0) {
        result = sl_cipd_segment_drop_empty(&barrier->segment, barrier->name, left < attempts / 2);
        detach(barrier);
        return result;
    }
    return result ? result : map(barrier);
}

static int open_or_make(struct sl_cipd_barrier *barrier, int attempts)
{
    int result = SLUICE_AGAIN;
    for (int left = attempts - 1; result == SLUICE_AGAIN && left >= 0; left--) {
        if (left < attempts - 1)
            sl_os_sleep(SLUICE_MS);
        SL_KILL_POINT("cipd_enter");
        if (barrier->segment.at && moved(barrier))
            detach(barrier);
        result = barrier->segment.at ? 0 : attach_or_drop(barrier, left, attempts);
        if (result == SLUICE_E_NOT_FOUND)
            result = make(barrier);
        else if (result == SLUICE_E_PROTOCOL && left > 0) /* too small: its size may not be complete yet */
            result = SLUICE_AGAIN;
        else if (result == 0 && (result = join(barrier, left, attempts)) != 0)
            detach(barrier);
    }
    if (result == SLUICE_AGAIN)
        return sl_fail(SLUICE_E_SYSTEM, "the activation barrier %s%s comes and goes all the time", sl_os_named_at,
                       barrier->name);
    return result;
}

/* Removes the link names of dead holders, if nobody holds the barrier now. */
static int sweep(void *context, const char *name)
{
    const struct sl_cipd_barrier *barrier = context;
    struct sl_os_named memory;
    int fd;
    if (!sl_cipd_link_name_matches(barrier->name, name) || !strcmp(name, barrier->segment.link_name) ||
        sl_os_named_open(name, true, &fd, &memory))
        return 0;
    if (!sl_os_named_locked(fd))
        sl_os_named_remove(name, &memory);
    sl_os_close(fd);
    return 0;
}

/* Makes the stamp current before the holder is counted, so a count that includes a holder which has just entered never
 * has a stale stamp beside it. Of several holders that find it stale one alone replaces it: it gets the count that dead
 * ones have left, loaded before that, which no other one has added to. For all others the stamp is current: they get 0.
 */
static uint32_t renew(struct sl_cipd_barrier *barrier, int64_t now)
{
    struct words *words = words_of(barrier);
    uint64_t before = sl_load(&words->change_ns, acquire);
    uint32_t left;
    do {
        left = sl_cipd_barrier_stale(before, now, barrier->stale_ns) ? sl_load(&words->count, acquire) : 0;
        SL_KILL_POINT("cipd_renew");
    } while (!atomic_compare_exchange_weak(&words->change_ns, &before, (uint64_t)now));
    SL_KILL_POINT("cipd_renewed");
    return left;
}

/* Increments the count, less what dead holders have left of it. A count that is smaller than that was reset meanwhile,
 * by Python say: it counts others that hold. */
static void add(struct sl_cipd_barrier *barrier, int64_t now)
{
    sl_word32 *count = &words_of(barrier)->count;
    uint32_t left = renew(barrier, now), before = sl_load(count, acquire), others;
    do {
        others = before >= left ? before - left : before;
    } while (!atomic_compare_exchange_weak(count, &before, others == UINT32_MAX ? 1 : others + 1));
    sl_store(&words_of(barrier)->pid, sl_os_pid(), release);
}

static void subtract(struct sl_cipd_barrier *barrier, int64_t now)
{
    sl_word32 *count = &words_of(barrier)->count;
    uint32_t before = sl_load(count, acquire);
    while (before && !atomic_compare_exchange_weak(count, &before, before - 1))
        ;
    stamp(barrier, now);
}

int sl_cipd_barrier_enter(struct sl_cipd_barrier *barrier, int64_t now_ns)
{
    char prefix[SL_CIPD_NAME + 3];
    barrier->left = 0;
    if (barrier->held)
        return 0;
    int result = open_or_make(barrier, ENTERING);
    if (result)
        return result;
    snprintf(prefix, sizeof(prefix), ".%s.", barrier->name);
    sl_os_named_list(prefix, sweep, barrier);
    add(barrier, now_ns);
    barrier->held = true;
    return 0;
}

void sl_cipd_barrier_settle(struct sl_cipd_barrier *barrier, int64_t now_ns)
{
    if (!barrier->held)
        return;
    barrier->left = barrier->settle;
    if (!barrier->left)
        sl_cipd_barrier_leave(barrier, now_ns);
}

void sl_cipd_barrier_published(struct sl_cipd_barrier *barrier, int64_t now_ns)
{
    if (barrier->left && --barrier->left == 0)
        sl_cipd_barrier_leave(barrier, now_ns);
}

void sl_cipd_barrier_leave(struct sl_cipd_barrier *barrier, int64_t now_ns)
{
    barrier->left = 0;
    if (!barrier->held)
        return;
    barrier->held = false;
    subtract(barrier, now_ns);
}

void sl_cipd_barrier_refresh(struct sl_cipd_barrier *barrier)
{
    if (!barrier->held)
        return;
    struct sl_os_named now;
    if (sl_os_named_stat(barrier->name, &now) == SLUICE_E_NOT_FOUND)
        (void)sl_os_named_link(barrier->segment.link_name, barrier->name);
    if (!moved(barrier))
        return;
    /* Another process has made a new segment, which processes that open the barrier from now on
     * use. */
    int64_t when = sl_os_now();
    subtract(barrier, when);
    detach(barrier);
    barrier->held = open_or_make(barrier, TENDING) == 0;
    if (barrier->held)
        add(barrier, when);
}

void sl_cipd_barrier_finish(struct sl_cipd_barrier *barrier, int64_t now_ns)
{
    sl_cipd_barrier_leave(barrier, now_ns);
    detach(barrier);
}

/* ---- observers ---- */

int sl_cipd_barrier_read(const char *name, struct sl_cipd_barrier_state *state)
{
    struct sl_cipd_barrier barrier;
    int result = sl_cipd_barrier_init(&barrier, name);
    if (result || (result = attach(&barrier)) != 0)
        return result;
    struct words *words = words_of(&barrier);
    *state = (struct sl_cipd_barrier_state){
        .magic = sl_load(&words->magic, acquire),
        .version = sl_load(&words->version, acquire),
        .count = sl_load(&words->count, acquire),
        .skips = sl_load(&words->skips, acquire),
        .pid = sl_load(&words->pid, acquire),
        .change_ns = sl_load(&words->change_ns, acquire),
    };
    detach(&barrier);
    return 0;
}
