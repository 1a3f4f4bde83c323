/* SPDX-License-Identifier: MIT
 *
 * One writer and two readers over three or four slots, by the code of src/core/ring.c and src/core/lease.c
 * alone, in every order. models/lease.pml asks the same of the protocol; this asks it of the program.
 *
 * Checked: no held slot is taken; what is read is whole and right at both ends of the read; a reader in
 * order finds every frame that the writer did not take back; a newest reader that failed met a newer
 * frame; at rest nothing is marked or held, and taken + missed is all there were.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "core/lease.h"
#include "core/ring.h"
#include "harness/test.h"
#include "model/explore.h"

#define READERS 2
#define MOST_SLOTS 4
#define MOST_FRAMES 12 /* with those that are there at the beginning */
#define WRITER 0 /* the actors: the writer, then the readers */

/* One way to break what the code does, at its accesses. */
enum mutation {
    NONE,
    WEAK_LEASE,    /* R2 is not seq_cst */
    WEAK_MARK,     /* W4 is not seq_cst: the writer looks, then marks */
    WEAK_PUBLISH,  /* W7 to W9 are relaxed: a frame may be seen before its content */
    NO_VALIDATION, /* R3 does not look */
    NO_RESTORE,    /* W6 does nothing */
    NO_CURSORS,    /* W3 does not look */
    NO_LEASES,     /* W5 does not look */
    CURSOR_FIRST,  /* I3 before I2 */
    HEAD_REUSED,   /* W1 takes the head's slot too */
    LAPSE_ALIVE,   /* a reader's leases lapse while it lives */
    JOIN_LATE,     /* a reader begins before it is in the table */
};

struct setting {
    uint32_t mode[READERS], depth[READERS], hold[READERS];
    enum { THERE, JOINS, ABSENT } second; /* reader 1: from the start, from any time, or never */
    uint32_t slots;  /* 0: three */
    uint32_t there;  /* frames that were committed before it begins, and nobody has read */
    uint32_t frames; /* to be committed, or dropped */
    enum sl_keep keep;
    bool steal;            /* a starving writer takes unread frames */
    bool kill[READERS];    /* may die at any step */
    bool buffers;
    enum mutation mutation;
};

static struct setting setting;

/* All of the state: shared words first, then what each keeps to itself, then what the checks remember. */
static struct world {
    sl_word head, slot_seq[MOST_SLOTS], ready[MOST_SLOTS], data[MOST_SLOTS];
    sl_word lease_words[READERS][MOST_SLOTS], cursor[READERS];
    struct sl_ring ring;
    struct sl_reader_slot table[READERS];
    uint32_t table_count;
    uint32_t choosing; /* the writer has the channel lock */
    struct sl_lease lease[READERS];
    uint64_t taken[READERS], first[READERS];
    uint64_t hold[READERS][MOST_SLOTS]; /* frames that a reader relies on */
    uint32_t marked[MOST_FRAMES];       /* frames that the writer took back, or tried to */
    uint32_t in_table[READERS], joined[READERS], lapsed[READERS];
    uint64_t dropped;
    uint64_t withheld[READERS]; /* CURSOR_FIRST: the lease, and where */
    sl_word *withheld_at[READERS];
} w;

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

/* What was passed over must have been marked, and nothing that is kept for this reader is. */
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

static bool has_joined_0(void) { return w.joined[0]; }
static bool has_joined_1(void) { return w.joined[1]; }

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

static void reader_0(void) { read_frames(0); }
static void reader_1(void) { read_frames(1); }

/* ---- coming and going ---- */

static void enter_table(int r)
{
    uint64_t head = head_now();

    w.table[w.table_count++] = (struct sl_reader_slot){ .page = page(r), .mode = setting.mode[r],
                                                        .depth = setting.depth[r] };
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

static bool may_join(void) { return setting.second == JOINS && !w.joined[1] && !w.choosing; }

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

static void join_late(void) { enter_table(1); }

static bool may_die(void)
{
    for (int r = 0; r < READERS; r++)
        if (setting.kill[r] && w.joined[r] && !w.lapsed[r] && !w.choosing && explore_alive(r + 1))
            return true;
    return false;
}

/* The one that may; with both, the first first. */
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

static bool may_be_buried(void)
{
    for (int r = 0; r < READERS; r++)
        if (explore_killed(r + 1) && w.in_table[r])
            return !w.choosing;
    return false;
}

static void bury(void)
{
    int r = explore_killed(1) && w.in_table[0] ? 0 : 1;
    leave_table(r);
    memset(w.hold[r], 0, sizeof w.hold[r]);
    explore_changed();
}

/* ---- the ends of it ---- */

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
        explore_violated("of %u frames %llu are there", setting.there + setting.frames,
                         (unsigned long long)head_now());
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

/* ---- mutations ---- */

static bool in(const void *word, const sl_word *array, int count)
{
    return (const sl_word *)word >= array && (const sl_word *)word < array + count;
}

static void relax(struct explore_access *access, bool which)
{
    if (which)
        access->order = memory_order_relaxed;
}

/* The lease waits until the cursor has moved. */
static void cursor_first(struct explore_access *access, int r)
{
    if (r < 0 || !access->is_store)
        return;
    if (in(access->word, w.lease_words[r], MOST_SLOTS) && access->value) {
        w.withheld_at[r] = access->word;
        w.withheld[r] = access->value;
        access->skip = true;
    } else if (access->word == &w.cursor[r] && w.withheld_at[r]) {
        sl_word *lease = w.withheld_at[r];
        uint64_t q = w.withheld[r];
        w.withheld_at[r] = NULL;
        access->skip = true;
        sl_store(&w.cursor[r], access->value, seq_cst);
        sl_store(lease, q, seq_cst);
    }
}

static void change(struct explore_access *access)
{
    int r = access->actor - 1;
    bool slot_seq = in(access->word, w.slot_seq, MOST_SLOTS);
    bool leases = in(access->word, &w.lease_words[0][0], READERS * MOST_SLOTS);

    if (access->is_store && slot_seq && access->value == SL_MARK)
        w.marked[w.ring.slots[(sl_word *)access->word - w.slot_seq].sequence] = 1;
    switch (setting.mutation) {
    case WEAK_LEASE:
        relax(access, access->is_store && leases && access->value);
        break;
    case WEAK_MARK:
        relax(access, access->is_store && slot_seq && access->value == SL_MARK);
        break;
    case WEAK_PUBLISH:
        relax(access, access->is_store && (in(access->word, w.ready, MOST_SLOTS) || slot_seq || access->word == &w.head));
        break;
    case NO_VALIDATION:
        if (r >= 0 && !access->is_store && slot_seq && access->order == memory_order_seq_cst) {
            access->value = explore_peek(&w.lease_words[r][(sl_word *)access->word - w.slot_seq]);
            access->skip = true;
        }
        break;
    case NO_RESTORE:
        access->skip = access->is_store && access->actor == WRITER && slot_seq && access->value != SL_MARK &&
                       access->value == w.ring.slots[(sl_word *)access->word - w.slot_seq].sequence;
        break;
    case NO_CURSORS:
        if (access->actor == WRITER && in(access->word, w.cursor, READERS)) {
            access->value = UINT64_MAX;
            access->skip = true;
        }
        break;
    case NO_LEASES:
        access->skip = access->actor == WRITER && leases && !access->is_store;
        break;
    case CURSOR_FIRST:
        cursor_first(access, r);
        break;
    default:
        break;
    }
}

/* ---- running it ---- */

static struct explore_result run(struct setting what, bool print)
{
    struct explore explore = {
        .world = &w, .world_size = sizeof w, .begin = begin,
        .actors = { writer, reader_0, what.second == ABSENT ? NULL : reader_1 },
        .actor_names = { "writer", "reader 0", "reader 1" },
        .may_happen = { may_join, may_join_late, may_die, may_be_buried },
        .happen = { join, join_late, die, bury },
        .extra_names = { "reader 1 joins", "reader 1 is entered", "a reader dies", "a dead reader leaves the table" },
        .at_rest = at_rest, .name_word = name_word, .change = change,
        .buffers = what.buffers, .most_states = 30000000,
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

static void holds(struct setting what)
{
    if (test_slowness() > 1)
        SKIP("coroutines and sanitizers do not go together");
    struct explore_result result = run(what, true);
    CHECK_STR(result.violation, "");
    CHECK(result.complete);
}

static void is_caught(struct setting what, const char *how)
{
    if (test_slowness() > 1)
        SKIP("coroutines and sanitizers do not go together");
    struct explore_result result = run(what, false);
    CHECK_HAS(result.violation, how);
}

#define BOTH(x) { (x), (x) }

/* With SLUICE_TEST_SCALE above 1 one more. */
static uint32_t frames(uint32_t count)
{
    return count + (test_scale(100) > 100);
}

#define NEWEST BOTH(SLUICE_NEWEST)
#define IN_ORDER BOTH(SLUICE_IN_ORDER)
#define MIXED { SLUICE_NEWEST, SLUICE_IN_ORDER }

/* What each takes, and how far it goes, is in the tests' output: --verbose. */
#define HOLDS(name, ...) \
    TEST_TIMEOUT(name, 600) { holds((struct setting){ __VA_ARGS__ }); }
#define HOLDS_LONG(name, ...) \
    TEST_TIMEOUT(name, 600) \
    { \
        if (frames(0) == 0) \
            SKIP("takes long; SLUICE_TEST_SCALE=2 runs it"); \
        holds((struct setting){ __VA_ARGS__ }); \
    }
#define CAUGHT(name, how, ...) \
    TEST_TIMEOUT(name, 600) { is_caught((struct setting){ __VA_ARGS__ }, how); }

HOLDS(newest, .mode = NEWEST, .there = 1, .frames = frames(3), .keep = SL_KEEP_DEPTH)
HOLDS(newest_buffered, .mode = NEWEST, .there = 1, .frames = frames(4), .keep = SL_KEEP_DEPTH, .buffers = true,
      .second = ABSENT)
HOLDS_LONG(two_newest_buffered, .mode = NEWEST, .there = 1, .frames = 3, .keep = SL_KEEP_DEPTH, .buffers = true)
HOLDS(newest_killed, .mode = NEWEST, .there = 1, .frames = frames(4), .keep = SL_KEEP_DEPTH, .kill = { true, false },
      .second = ABSENT)
HOLDS_LONG(one_of_two_newest_killed, .mode = NEWEST, .there = 1, .frames = 3, .keep = SL_KEEP_DEPTH,
           .kill = { true, false })
HOLDS(newest_joins, .mode = NEWEST, .there = 1, .frames = frames(3), .keep = SL_KEEP_DEPTH, .second = JOINS)
HOLDS(newest_holds_two, .mode = NEWEST, .hold = BOTH(2), .there = 1, .frames = frames(4), .slots = 4,
      .keep = SL_KEEP_DEPTH, .second = ABSENT, .buffers = true)
HOLDS(in_order_and_newest, .mode = MIXED, .there = 3, .frames = frames(2), .keep = SL_KEEP_ALL)
HOLDS(in_order_and_newest_buffered, .mode = MIXED, .there = 3, .frames = frames(1), .keep = SL_KEEP_ALL,
      .buffers = true)
HOLDS(in_order_killed, .mode = MIXED, .there = 3, .frames = frames(1), .keep = SL_KEEP_ALL, .kill = { false, true })
HOLDS(in_order_joins, .mode = MIXED, .there = 3, .frames = frames(2), .keep = SL_KEEP_ALL, .second = JOINS)
HOLDS(in_order_holds_two, .mode = IN_ORDER, .hold = BOTH(2), .there = 4, .frames = frames(4), .slots = 4,
      .keep = SL_KEEP_ALL, .second = ABSENT)
HOLDS(by_depth, .mode = MIXED, .depth = BOTH(1), .there = 3, .frames = frames(1), .keep = SL_KEEP_DEPTH)
HOLDS_LONG(two_by_depth, .mode = IN_ORDER, .depth = BOTH(1), .there = 3, .frames = 1, .keep = SL_KEEP_DEPTH)
HOLDS(by_depth_alone, .mode = IN_ORDER, .depth = BOTH(2), .there = 3, .frames = frames(4), .keep = SL_KEEP_DEPTH,
      .second = ABSENT)
HOLDS(by_depth_buffered, .mode = IN_ORDER, .depth = BOTH(2), .there = 3, .frames = frames(3), .keep = SL_KEEP_DEPTH,
      .second = ABSENT, .buffers = true)
HOLDS(by_depth_stolen, .mode = MIXED, .depth = BOTH(2), .there = 3, .frames = frames(1), .keep = SL_KEEP_DEPTH,
      .steal = true)

CAUGHT(mutation_weak_lease, "relies on", .mode = NEWEST, .there = 1, .frames = 3, .keep = SL_KEEP_DEPTH, .buffers = true,
       .second = ABSENT, .mutation = WEAK_LEASE)
CAUGHT(mutation_weak_mark, "reader 0", .mode = NEWEST, .there = 1, .frames = 3, .keep = SL_KEEP_DEPTH, .buffers = true,
       .second = ABSENT, .mutation = WEAK_MARK)
CAUGHT(mutation_weak_publish, "reader 0", .mode = NEWEST, .there = 1, .frames = 3, .keep = SL_KEEP_DEPTH, .buffers = true,
       .second = ABSENT, .mutation = WEAK_PUBLISH)
CAUGHT(mutation_no_validation, "reads", .mode = NEWEST, .there = 1, .frames = 3, .keep = SL_KEEP_DEPTH, .second = ABSENT,
       .mutation = NO_VALIDATION)
CAUGHT(mutation_no_restore, "marked for ever", .mode = NEWEST, .there = 1, .frames = 3, .keep = SL_KEEP_DEPTH, .second = ABSENT,
       .mutation = NO_RESTORE)
CAUGHT(mutation_no_cursors, "before reader 0 has read it", .mode = IN_ORDER, .there = 3, .frames = 2, .keep = SL_KEEP_ALL,
       .second = ABSENT, .mutation = NO_CURSORS)
CAUGHT(mutation_no_leases, "relies on", .mode = NEWEST, .there = 1, .frames = 3, .keep = SL_KEEP_DEPTH, .second = ABSENT,
       .mutation = NO_LEASES)
CAUGHT(mutation_cursor_first, "relies on", .mode = IN_ORDER, .there = 3, .frames = 2, .keep = SL_KEEP_ALL, .second = ABSENT,
       .mutation = CURSOR_FIRST)
CAUGHT(mutation_head_reused, "no newer frame", .mode = NEWEST, .hold = BOTH(2), .there = 1, .frames = 3, .keep = SL_KEEP_DEPTH, .second = ABSENT,
       .mutation = HEAD_REUSED)
CAUGHT(mutation_lapse_alive, "relies on", .mode = NEWEST, .there = 1, .frames = 3, .keep = SL_KEEP_DEPTH, .second = ABSENT,
       .kill = { true, false }, .mutation = LAPSE_ALIVE)
CAUGHT(mutation_join_late, "relies on", .mode = NEWEST, .there = 1, .frames = 3, .keep = SL_KEEP_DEPTH, .second = JOINS,
       .mutation = JOIN_LATE)
