/* SPDX-License-Identifier: MIT */
#include "native/reader/gpu_wait.h"

#include <stdio.h>

#include "channel/stream_deps.h"
#include "util/result.h"

#define LOOK (5 * SLUICE_MS)
#define GRACE (SLUICE_S / 4) /* how long a dead writer's GPU may still work (protocol 4.1) */
#define FIRST_WAIT (SLUICE_MS / 50)
#define LAST_WAIT SLUICE_MS
#define PATIENCE (2 * SLUICE_S) /* how long the close of a reader waits */
#define PARKS 16 /* waiting streams, and lost frames that were not reported yet */
#define BEHIND 16

/* A stream or an event. */
struct point {
    uint64_t handle;
    struct sl_stream_place place; /* of a stream; handles with the same place count as one */
};

/* Under the service lock. */
static struct park {
    const void *owner; /* the session, or a bare channel's own pointer; NULL: the entry is free */
    struct sluice_reader *reader; /* NULL: of a bare channel, which watches the stream itself: only `behind` is used here */
    struct sl_session *session;
    uint64_t sequence; /* 0: lost, and already reported */
    int64_t deadline;
    uint32_t slot;
    uint32_t more; /* lost frames of the session that were merged into this entry */
    bool lost, told_gone;
    struct point behind[BEHIND]; /* the waiting stream, and what was made to wait for it */
    uint32_t behind_count;       /* BEHIND + 1: too many to list; any stream may be among them */
} parks[PARKS];
static int top; /* entries from here on are free */
static uint32_t waiting; /* entries that are not lost: each holds a place of sl_sync_park */

sl_word32 sl_park_used; /* number of entries in use */

static void look(struct sl_watch *watch);

static struct sl_watch watch = { .fd = -1, .timer = look };

/* Adds `change`, which may be -1 as unsigned. */
static void count_waiting(struct sl_session *session, uint32_t change)
{
    waiting += change;
    session->parked += change;
    sl_store(session->link->page.parked, session->parked, relaxed);
}

static void count_used(uint32_t change)
{
    sl_store(&sl_park_used, sl_load(&sl_park_used, relaxed) + change, relaxed);
}

static void go_on(const struct park *park)
{
    count_waiting(park->session, (uint32_t)-1);
    sl_sync_unpark();
}

static void end(struct park *park)
{
    bool waits = park->reader && !park->lost;

    park->owner = NULL;
    park->reader = NULL;
    while (top > 0 && !parks[top - 1].owner)
        top--;
    count_used((uint32_t)-1);
    if (waits)
        go_on(park);
}

/* How many lost frames must be reported to its reader. */
static uint32_t losses(const struct park *park)
{
    return park->more + (park->sequence != 0);
}

static void lose(struct park *park)
{
    struct sl_session *session = park->session;

    park->lost = true; /* before the poison: whoever sees that also sees this, and that a loss must be reported */
    sl_add(&park->reader->untold, 1);
    sl_store(&session->spoiled[park->slot], 1, relaxed);
    sl_store(&session->link->page.own_ready[park->slot], SL_POISON, seq_cst);
    sl_add(&park->reader->lost, 1);
    go_on(park);
    sl_session_ring(park->reader); /* acquire has this to report */
    sl_log(SLUICE_LOG_WARN, "channel '%s': frame %llu was not finished in time: a stream that waited for it goes on without",
           park->reader->name, (unsigned long long)park->sequence);
}

static void look_at(struct park *park, int64_t now)
{
    const struct sl_link *link = park->session->link;

    if (sl_reached(sl_load(&link->page.own_ready[park->slot], acquire), park->sequence)) {
        end(park);
        return;
    }
    if (!park->told_gone && sl_load(&link->gone, acquire)) {
        park->told_gone = true;
        if (park->deadline > now + GRACE)
            park->deadline = now + GRACE;
    }
    if (now >= park->deadline || sl_load(&link->words.ready[park->slot], acquire) == SL_POISON)
        lose(park);
}

static void look_at_all(int64_t now)
{
    for (int i = 0; i < top; i++)
        if (parks[i].reader && !parks[i].lost)
            look_at(&parks[i], now);
}

static void look(struct sl_watch *self)
{
    look_at_all(sl_os_now());
    if (waiting > 0)
        sl_service_set_deadline(self, sl_os_deadline(LOOK));
    else
        sl_service_remove(self);
}

/* ---- what comes behind ---- */

static struct point point_at(const struct sl_stream *stream)
{
    struct point point = { .handle = atomic_load_explicit(&stream->object.id, memory_order_relaxed) };

    stream->object.device->ops->stream_place(stream, &point.place);
    return point;
}

/* Without the service lock, as dropping the last reference to an object ends it. */
static struct point point_of(uint64_t handle)
{
    struct point point = { .handle = handle };

    (void)sl_stream_place((struct sluice_stream){ handle }, &point.place);
    return point;
}

/* A handle of CU_STREAM_PER_THREAD is another stream on each thread. */
static bool is_same(const struct point *a, const struct point *b)
{
    return a->handle == b->handle && a->place.thread == b->place.thread;
}

static bool is_behind(const struct park *park, const struct point *point)
{
    if (!park->owner)
        return false;
    if (park->behind_count > BEHIND)
        return true;
    for (uint32_t i = 0; i < park->behind_count; i++)
        if (is_same(&park->behind[i], point) || sl_stream_ordered(&park->behind[i].place, &point->place))
            return true;
    return false;
}

static void take_out(struct park *park, uint64_t handle)
{
    for (uint32_t i = 0; park->behind_count <= BEHIND && i < park->behind_count; i++)
        if (park->behind[i].handle == handle)
            park->behind[i--] = park->behind[--park->behind_count];
}

static void put_behind(struct park *park, const struct point *point)
{
    if (park->behind_count < BEHIND)
        park->behind[park->behind_count] = *point;
    if (park->behind_count <= BEHIND)
        park->behind_count++;
}

/* Merges the entries of two lost frames of a session. Work that comes after either one stays unpublished, and both are reported,
 * but not the number of the second. */
static struct park *join(struct park *first, struct park *second)
{
    first->more += losses(second);
    for (uint32_t i = 0; i < second->behind_count && i < BEHIND; i++)
        if (!is_behind(first, &second->behind[i]))
            put_behind(first, &second->behind[i]);
    if (second->behind_count > BEHIND)
        first->behind_count = BEHIND + 1;
    end(second);
    return second;
}

static struct park *free_park(void)
{
    for (int i = 0; i < PARKS; i++)
        if (!parks[i].owner)
            return &parks[i];
    for (int i = 0; i < PARKS; i++) /* too many lost frames that no acquire has reported */
        for (int j = i + 1; parks[i].reader && parks[i].lost && j < PARKS; j++)
            if (parks[j].reader && parks[j].lost && parks[j].session == parks[i].session)
                return join(&parks[i], &parks[j]);
    return NULL;
}

/* The function that sl_stream_hand_on points to. */
static void hand_on(uint64_t from, uint64_t to, bool anew)
{
    if (sl_load(&sl_park_used, relaxed) == 0)
        return;
    struct point source = point_of(from), target = point_of(to);
    sl_service_lock();
    for (int i = 0; i < top; i++) {
        bool comes = is_behind(&parks[i], &source);
        if (anew)
            take_out(&parks[i], to);
        if (comes && !is_behind(&parks[i], &target))
            put_behind(&parks[i], &target);
    }
    sl_service_unlock();
}

/* ---- begin, end ---- */

/* Does an existing entry prevent a new one? If not, the service thread checks them soon enough: their words are on cache lines
 * that a GPU has written, and fetching those takes as long as most of acquire. */
static bool in_the_way(const struct sl_session *session, uint32_t slot)
{
    bool same = false;

    for (int i = 0; i < top; i++) /* they would share the word to be poisoned */
        same = same || (parks[i].reader && parks[i].session == session && parks[i].slot == slot);
    return same || !sl_sync_may_park();
}

/* Unused places in `behind` stay as they are. */
static void fill(struct park *park, const void *owner, uint64_t sequence, const struct point *first)
{
    if (top <= park - parks)
        top = (int)(park - parks) + 1;
    count_used(1);
    park->owner = owner;
    park->sequence = sequence;
    park->more = 0;
    park->lost = park->told_gone = false;
    park->behind[0] = *first;
    park->behind_count = 1;
}

/* Takes a place of sl_sync_park, and sees to it that the service thread checks the entries. */
static bool take_place(void)
{
    if (!sl_sync_park())
        return false;
    if (watch.added || sl_service_add(&watch) == 0)
        return true;
    sl_sync_unpark();
    return false;
}

bool sl_park_begin(struct sluice_reader *reader, uint32_t slot, uint64_t sequence, const struct sl_stream *stream)
{
    struct point first = point_at(stream);
    int64_t now = reader->now, most = reader->params.ahead_ns;
    bool begun = false;

    atomic_store_explicit(&sl_stream_hand_on, hand_on, memory_order_release);
    sl_service_lock();
    if (in_the_way(reader->session, slot))
        look_at_all(now);
    struct park *park = free_park();
    if (park && take_place()) {
        fill(park, reader->session, sequence, &first);
        park->reader = reader;
        park->session = reader->session;
        park->slot = slot;
        park->deadline = sl_os_later(now, most);
        count_waiting(reader->session, 1);
        if (!watch.deadline)
            sl_service_set_deadline(&watch, now + LOOK);
        begun = true;
    }
    sl_service_unlock();
    return begun;
}

static struct park *find(const struct sl_session *session, uint32_t slot, uint64_t sequence)
{
    for (int i = 0; i < top; i++)
        if (parks[i].reader && parks[i].session == session && parks[i].slot == slot && parks[i].sequence == sequence)
            return &parks[i];
    return NULL;
}

void sl_park_cancel(const struct sluice_reader *reader, uint32_t slot, uint64_t sequence)
{
    sl_service_lock();
    struct park *park = find(reader->session, slot, sequence);
    if (park)
        end(park);
    sl_service_unlock();
}

static void tell(struct park *park)
{
    sl_add(&park->reader->untold, -losses(park));
    end(park);
}

/* For its own frame only. */
static void tell_one(struct park *park)
{
    if (park->more == 0) {
        tell(park);
    } else {
        sl_add(&park->reader->untold, (uint32_t)-1);
        park->sequence = 0;
    }
}

bool sl_park_was_lost(const struct sl_session *session, uint32_t slot, uint64_t sequence)
{
    sl_service_lock();
    struct park *park = find(session, slot, sequence);
    bool lost = park && park->lost;
    if (lost)
        tell_one(park);
    sl_service_unlock();
    return lost;
}

int sl_park_tell_lost(struct sluice_reader *reader)
{
    char list[160] = "", rest[32] = "";
    uint32_t count = 0, named = 0;
    size_t at = 0;

    sl_service_lock();
    for (int i = 0; i < top; i++) {
        if (parks[i].reader != reader || !parks[i].lost)
            continue;
        if (parks[i].sequence != 0 && at < sizeof list - 24)
            at += (size_t)snprintf(list + at, sizeof list - at, named++ ? ", %llu" : "frame %llu",
                                   (unsigned long long)parks[i].sequence);
        count += losses(&parks[i]);
        tell(&parks[i]);
    }
    sl_service_unlock();
    if (count == 0)
        return 0;
    if (count > named)
        (void)snprintf(rest, sizeof rest, named ? " and %u more" : "%u frames", count - named);
    return sl_fail(SLUICE_E_LOST, "channel '%s': its writer did not finish %s%s: what was queued on it read something else",
                   reader->name, list, rest);
}

int sl_park_check_all(struct sluice_stream stream)
{
    int64_t wait = FIRST_WAIT;

    while (stream.id != SLUICE_ON_CPU.id && sl_load(&sl_park_used, relaxed) > 0) {
        struct point point = point_of(stream.id);
        bool waits = false, lost = false;
        sl_service_lock();
        look_at_all(sl_os_now());
        for (int i = 0; i < top; i++) {
            bool ours = is_behind(&parks[i], &point);
            lost = lost || (ours && parks[i].lost);
            waits = waits || (ours && !parks[i].lost);
        }
        sl_service_unlock();
        if (lost)
            return sl_fail(SLUICE_E_LOST,
                           "a frame that this stream waited for was never finished, so what was made of it is not whole; "
                           "cancel this frame");
        if (!waits)
            return 0;
        sl_os_sleep(wait);
        wait = wait * 2 < LAST_WAIT ? wait * 2 : LAST_WAIT;
    }
    return 0;
}

/* Does a stream wait for a frame of this reader? `no_longer`: lets it continue. */
static bool is_waited_for(struct sluice_reader *reader, bool no_longer)
{
    bool any = false;

    sl_service_lock();
    look_at_all(sl_os_now());
    for (int i = 0; i < top; i++) {
        if (parks[i].reader != reader || parks[i].lost)
            continue;
        if (no_longer)
            lose(&parks[i]);
        else
            any = true;
    }
    sl_service_unlock();
    return any;
}

void sl_park_drain(struct sluice_reader *reader)
{
    int64_t deadline = sl_os_deadline(PATIENCE), wait = FIRST_WAIT;

    while (sl_load(&sl_park_used, relaxed) > 0 && is_waited_for(reader, sl_os_now() >= deadline)) {
        sl_os_sleep(wait);
        wait = wait * 2 < LAST_WAIT ? wait * 2 : LAST_WAIT;
    }
}

void sl_park_forget(const struct sl_session *session)
{
    for (int i = 0; i < top; i++) {
        if (!parks[i].reader || parks[i].session != session)
            continue;
        if (parks[i].lost)
            tell(&parks[i]);
        else
            end(&parks[i]);
    }
}

/* ---- behind.h ---- */

bool sl_behind_begin(const void *owner, uint64_t number, const struct sl_stream *stream)
{
    struct point first = point_at(stream);

    atomic_store_explicit(&sl_stream_hand_on, hand_on, memory_order_release);
    sl_service_lock();
    struct park *park = free_park();
    if (park)
        fill(park, owner, number, &first);
    sl_service_unlock();
    return park != NULL;
}

static struct park *of_bare(const void *owner, uint64_t number)
{
    for (int i = 0; i < top; i++)
        if (parks[i].owner == owner && parks[i].sequence == number)
            return &parks[i];
    return NULL;
}

void sl_behind_lose(const void *owner, uint64_t number, const void *then)
{
    struct park *park = of_bare(owner, number);

    if (!park)
        return;
    park->lost = true;
    park->owner = then;
}

void sl_behind_end(const void *owner, uint64_t number)
{
    struct park *park = of_bare(owner, number);

    if (park)
        end(park);
}

void sl_behind_end_all(const void *owner)
{
    for (int i = 0; i < top; i++)
        if (parks[i].owner == owner)
            end(&parks[i]);
}
