/* SPDX-License-Identifier: MIT
 *
 * One writer and two readers on three or four slots, by the code of src/native/protocol/ring.c and
 * src/native/protocol/lease.c alone. models/lease.pml checks the protocol; this checks the program.
 *
 * Checked: no held slot is taken; what is read is whole and right at both ends of the read; a reader in order finds
 * every frame that the writer did not take back; a newest reader that failed met a newer frame; at rest nothing is
 * marked or held, and taken + missed is all there were.
 */
#include "model/world.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "harness/test.h"

struct setting setting;
struct world w;

static struct sl_words words(void)
{
    return (struct sl_words){ .head = &w.head, .slot_seq = w.slot_seq, .ready = w.ready, .ids = setting.slots };
}

static struct sl_page page(int r)
{
    return (struct sl_page){ .lease = w.lease_words[r], .cursor = &w.cursor[r] };
}

static uint64_t head_now(void)
{
    return sl_head_sequence(explore_peek(&w.head));
}

/* ---- the writer ---- */

static bool nobody_chooses(void)
{
    return !w.choosing;
}

static int take(enum sl_keep keep, bool *stolen)
{
    if (setting.mutation == HEAD_REUSED)
        w.ring.head_slot = MOST_SLOTS;
    explore_until(nobody_chooses);
    w.choosing = 1;
    int slot = sl_ring_take(&w.ring, w.table, w.table_count, keep, stolen);
    w.choosing = 0;
    return slot;
}

/* W7: the slot is the writer's now. */
static void check_taken(int slot, uint64_t old, bool stolen)
{
    for (int r = 0; r < READERS; r++) {
        if (w.hold[r][slot])
            explore_violated("slot %d is taken while reader %d relies on its frame %llu", slot, r,
                             (unsigned long long)w.hold[r][slot]);
        if (old && w.in_table[r] && setting.mode[r] == SLUICE_IN_ORDER && !stolen &&
            explore_peek(&w.cursor[r]) <= old &&
            (setting.keep == SL_KEEP_ALL || w.ring.head_sequence - old < setting.depth[r]))
            explore_violated("frame %llu is taken back before reader %d has read it", (unsigned long long)old, r);
    }
}

static void publish(int slot)
{
    uint64_t sequence = w.ring.head_sequence + 1;

    sl_store(&w.data[slot], 0, relaxed); /* half written */
    sl_store(&w.data[slot], sequence, relaxed);
    sl_store(&w.ready[slot], sequence, release); /* W7 */
    sl_ring_publish(&w.ring, (uint32_t)slot, sequence);
}

static void writer(void)
{
    for (uint32_t i = 0; i < setting.frames;) {
        uint64_t old[MOST_SLOTS];
        bool stolen = false;
        for (uint32_t s = 0; s < setting.slots; s++)
            old[s] = w.ring.slots[s].sequence;
        explore_look();
        int slot = take(setting.keep, &stolen);
        if (slot < 0 && setting.steal)
            slot = take(SL_KEEP_LEASED, &stolen);
        if (slot >= 0) {
            check_taken(slot, old[slot], stolen);
            memset(old, 0, sizeof old); /* what is not needed any more is not part of the state */
            publish(slot);
            i++;
        } else if (setting.keep == SL_KEEP_ALL) {
            explore_wait();
        } else {
            w.dropped++;
            i++;
        }
    }
}

/* ---- readers ---- */

static void check_read(int r, int slot, uint64_t sequence)
{
    uint64_t data = sl_load(&w.data[slot], relaxed);
    if (data != sequence)
        explore_violated("reader %d reads %llu in frame %llu", r, (unsigned long long)data,
                         (unsigned long long)sequence);
}

/* A skipped frame must have been marked, and none that is kept for this reader is skipped. */
static void check_found(int r, uint64_t want, uint64_t sequence)
{
    if (setting.mode[r] != SLUICE_IN_ORDER)
        return;
    if (sequence < want)
        explore_violated("reader %d takes frame %llu and has had %llu", r, (unsigned long long)sequence,
                         (unsigned long long)want);
    for (uint64_t q = want; q < sequence; q++)
        if (!w.marked[q] || (!setting.steal && head_now() - q < setting.depth[r]))
            explore_violated("reader %d goes on to frame %llu, and %llu is still there", r,
                             (unsigned long long)sequence, (unsigned long long)q);
}

static void end_lease(int r, int slot)
{
    w.hold[r][slot] = 0;
    sl_lease_end(&w.lease[r], (uint32_t)slot);
}

static bool has_joined_0(void)
{
    return w.joined[0];
}
static bool has_joined_1(void)
{
    return w.joined[1];
}

static void read_frames(int r)
{
    struct sl_lease *lease = &w.lease[r];
    int before = -1; /* held since the frame before this one */

    explore_until(r == 0 ? has_joined_0 : has_joined_1);
    for (;;) {
        uint64_t q = 0, want = sl_lease_want(lease), head = head_now();
        explore_look();
        int slot = sl_lease_take(lease, &q);
        if (slot == SL_LEASE_RETRY) {
            if (setting.mode[r] == SLUICE_NEWEST && head_now() == head)
                explore_violated("reader %d has failed, and there is no newer frame", r);
            continue;
        }
        if (slot < 0) {
            if (!explore_alive(WRITER) && head_now() < sl_lease_want(lease))
                break;
            explore_wait();
            continue;
        }
        check_found(r, want, q);
        sl_lease_keep(lease, q);
        w.hold[r][slot] = q;
        w.taken[r]++;
        check_read(r, slot, q);
        if (before >= 0)
            end_lease(r, before);
        check_read(r, slot, q);
        before = setting.hold[r] > 1 ? slot : -1;
        if (before < 0)
            end_lease(r, slot);
    }
    if (before >= 0)
        end_lease(r, before);
}

static void reader_0(void)
{
    read_frames(0);
}
static void reader_1(void)
{
    read_frames(1);
}

/* ---- deaths and joins ---- */

static void enter_table(int r)
{
    uint64_t head = head_now();

    w.table[w.table_count++] =
        (struct sl_reader_slot){ .page = page(r), .mode = setting.mode[r], .depth = setting.depth[r] };
    w.first[r] = head ? head : 1;
    atomic_init(&w.cursor[r], w.first[r]);
    w.in_table[r] = 1;
}

static void leave_table(int r)
{
    for (uint32_t i = 0; i < w.table_count; i++) {
        if (w.table[i].page.cursor == &w.cursor[r]) {
            w.table[i] = w.table[--w.table_count];
            memset(&w.table[w.table_count], 0, sizeof w.table[0]);
            break;
        }
    }
    w.in_table[r] = 0;
}

static bool may_join(void)
{
    return setting.second == JOINS && !w.joined[1] && !w.choosing;
}

static void join(void)
{
    if (setting.mutation == JOIN_LATE) {
        w.first[1] = head_now() ? head_now() : 1;
        atomic_init(&w.cursor[1], w.first[1]);
    } else {
        enter_table(1);
    }
    w.joined[1] = 1;
}

static bool may_join_late(void)
{
    return setting.mutation == JOIN_LATE && w.joined[1] && !w.in_table[1] && !w.choosing;
}

static void join_late(void)
{
    enter_table(1);
}

static bool may_die(void)
{
    for (int r = 0; r < READERS; r++)
        if (setting.kill[r] && w.joined[r] && !w.lapsed[r] && !w.choosing && explore_alive(r + 1))
            return true;
    return false;
}

/* Kills the one that may die; with both, the first one first. */
static void die(void)
{
    int r = setting.kill[0] && explore_alive(1) && !w.lapsed[0] ? 0 : 1;

    if (setting.mutation == LAPSE_ALIVE) {
        w.lapsed[r] = 1;
        leave_table(r);
    } else {
        explore_kill(r + 1);
    }
}

static bool may_remove_dead(void)
{
    for (int r = 0; r < READERS; r++)
        if (explore_killed(r + 1) && w.in_table[r])
            return !w.choosing;
    return false;
}

static void remove_dead(void)
{
    int r = explore_killed(1) && w.in_table[0] ? 0 : 1;
    leave_table(r);
    memset(w.hold[r], 0, sizeof w.hold[r]);
    explore_changed();
}

/* ---- at the end ---- */

static void begin(void)
{
    w.ring.words = words();
    for (uint32_t s = 0; s < setting.slots; s++) {
        uint64_t sequence = s < setting.there ? s + 1 : 0;
        w.ring.slots[s] = (struct sl_ring_slot){ .sequence = sequence, .state = SL_SLOT_IDLE };
        atomic_init(&w.slot_seq[s], sequence);
        atomic_init(&w.ready[s], sequence);
        atomic_init(&w.data[s], sequence);
    }
    w.ring.used = setting.slots;
    w.ring.head_sequence = setting.there;
    w.ring.head_slot = setting.there - 1;
    for (int r = 0; r < READERS; r++) {
        w.lease[r] = (struct sl_lease){ .words = words(), .page = page(r), .mode = setting.mode[r], .every = 1 };
        if (r == 0 || setting.second == THERE) {
            enter_table(r);
            w.joined[r] = 1;
        }
    }
    /* Those who are there have seen none of them. */
    atomic_init(&w.head, sl_head_pack(setting.there, setting.there - 1));
}

static void at_rest(void)
{
    for (uint32_t s = 0; s < setting.slots; s++) {
        if (explore_peek(&w.slot_seq[s]) == SL_MARK)
            explore_violated("slot %u is marked for ever", s);
        for (int r = 0; r < READERS; r++)
            if (w.in_table[r] && explore_peek(&w.lease_words[r][s]) != 0)
                explore_violated("slot %u is held for ever by reader %d", s, r);
    }
    if (head_now() + w.dropped != setting.there + setting.frames)
        explore_violated("of %u frames %llu are there", setting.there + setting.frames, (unsigned long long)head_now());
    for (int r = 0; r < READERS; r++) {
        if (!w.in_table[r] || setting.mode[r] != SLUICE_IN_ORDER)
            continue;
        if (w.first[r] + w.taken[r] + w.lease[r].skipped != head_now() + 1)
            explore_violated("reader %d has taken %llu and missed %llu since frame %llu", r,
                             (unsigned long long)w.taken[r], (unsigned long long)w.lease[r].skipped,
                             (unsigned long long)w.first[r]);
    }
}

static void name_word(const void *word, char *text, size_t size)
{
    const sl_word *at = word;

    snprintf(text, size, "?");
    if (at == &w.head)
        snprintf(text, size, "head (*256+s)");
    for (int s = 0; s < MOST_SLOTS; s++) {
        if (at == &w.slot_seq[s])
            snprintf(text, size, "slot_seq[%d]", s);
        if (at == &w.ready[s])
            snprintf(text, size, "ready[%d]", s);
        if (at == &w.data[s])
            snprintf(text, size, "data[%d]", s);
        for (int r = 0; r < READERS; r++)
            if (at == &w.lease_words[r][s])
                snprintf(text, size, "lease %d[%d]", r, s);
    }
    for (int r = 0; r < READERS; r++)
        if (at == &w.cursor[r])
            snprintf(text, size, "cursor %d", r);
}

/* ---- running it ---- */

struct explore_result world_explore(struct setting what, bool print)
{
    struct explore explore = {
        .world = &w,
        .world_size = offsetof(struct world, ring.slots[MOST_SLOTS]),
        .begin = begin,
        .actors = { writer, reader_0, what.second == ABSENT ? NULL : reader_1 },
        .actor_names = { "writer", "reader 0", "reader 1" },
        .may_happen = { may_join, may_join_late, may_die, may_remove_dead },
        .happen = { join, join_late, die, remove_dead },
        .extra_names = { "reader 1 joins", "reader 1 is entered", "a reader dies", "a dead reader leaves the table" },
        .at_rest = at_rest,
        .name_word = name_word,
        .change = mutate,
        .buffers = what.buffers,
        .most_states = 30000000,
    };
    struct explore_result result;

    setting = what;
    if (setting.slots == 0)
        setting.slots = 3;
    explore_run(&explore, &result, print);
    fprintf(stderr, "%llu states, %llu steps%s%s\n", (unsigned long long)result.states,
            (unsigned long long)result.steps, result.violation[0] ? ": " : "", result.violation);
    return result;
}
