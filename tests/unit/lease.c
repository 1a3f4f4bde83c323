/* SPDX-License-Identifier: MIT */
#include "unit/shared_words.h"

static struct sl_lease open_lease(struct shared_words *w, int page, uint32_t every)
{
    return (struct sl_lease){ .words = shared_words_of(w),
                              .page = page_of(w, page),
                              .mode = page % 2 ? SLUICE_IN_ORDER : SLUICE_NEWEST,
                              .every = every };
}

/* Takes, keeps and ends the next frame, which must be `sequence`. */
static void read_one(struct sl_lease *lease, uint64_t sequence)
{
    uint64_t got = 0;
    int slot = sl_lease_take(lease, &got);
    CHECK(slot >= 0);
    CHECK_EQ(got, sequence);
    CHECK_EQ(lease->page.lease[slot], sequence);
    sl_lease_keep(lease, got);
    sl_lease_end(lease, (uint32_t)slot);
    CHECK_EQ(lease->page.lease[slot], 0);
}

static bool is_pending(const struct sl_lease *lease)
{
    return sl_lease_look(&lease->words, lease->mode, sl_lease_want(lease)) != SL_LEASE_NONE;
}

static void check_nothing(struct sl_lease *lease, int why)
{
    uint64_t got = 0;
    CHECK_EQ(sl_lease_take(lease, &got), why);
    for (int s = 0; s < WORDS_IDS; s++)
        CHECK_EQ(lease->page.lease[s], 0);
}

static void check_none(struct sl_lease *lease)
{
    check_nothing(lease, SL_LEASE_NONE);
}

/* One is committed, and its writer's device still works on it. */
static void check_soon(struct sl_lease *lease)
{
    check_nothing(lease, SL_LEASE_SOON);
    CHECK_EQ(sl_lease_look(&lease->words, lease->mode, sl_lease_want(lease)), SL_LEASE_SOON);
}

TEST(lease_newest_takes_the_head_once)
{
    struct shared_words w;
    shared_words_open(&w, 4);
    struct sl_lease lease = open_lease(&w, 0, 1);

    check_none(&lease);
    CHECK(!is_pending(&lease));
    CHECK_EQ(sl_lease_want(&lease), 1);
    shared_words_commit(&w, 1);
    shared_words_commit(&w, 2);
    CHECK(is_pending(&lease));
    read_one(&lease, 2);
    CHECK_EQ(lease.skipped, 0); /* frames before the first one do not count as missed */
    check_none(&lease);
    CHECK(!is_pending(&lease));
    for (uint64_t q = 3; q <= 6; q++)
        shared_words_commit(&w, q);
    read_one(&lease, 6);
    CHECK_EQ(lease.skipped, 3);
    CHECK_EQ(sl_lease_want(&lease), 7);
}

TEST(lease_that_is_not_kept_changes_nothing)
{
    for (int mode = 0; mode < 2; mode++) {
        struct shared_words w;
        shared_words_open(&w, 4);
        struct sl_lease lease = open_lease(&w, mode, 1);
        uint64_t got = 0;

        shared_words_commit(&w, 1);
        int slot = sl_lease_take(&lease, &got);
        CHECK(slot >= 0);
        sl_lease_end(&lease, (uint32_t)slot);
        CHECK_EQ(sl_lease_want(&lease), 1);
        read_one(&lease, 1);
    }
}

TEST(lease_passes_over_what_was_given_up_and_counts_it)
{
    for (int mode = 0; mode < 2; mode++) {
        struct shared_words w;
        shared_words_open(&w, 6);
        struct sl_lease lease = open_lease(&w, mode, 1);

        shared_words_commit(&w, 1);
        read_one(&lease, 1);
        shared_words_commit(&w, 2);
        shared_words_commit(&w, 3);
        lease.given_up = 3;
        CHECK_EQ(sl_lease_next(&lease), 2);
        CHECK_EQ(sl_lease_want(&lease), 4);
        CHECK(!is_pending(&lease));
        check_none(&lease);
        shared_words_commit(&w, 4);
        read_one(&lease, 4);
        CHECK_EQ(lease.skipped, 2);
    }
}

TEST(lease_newest_takes_the_newest_that_is_ready)
{
    struct shared_words w;
    shared_words_open(&w, 5);
    struct sl_lease lease = open_lease(&w, 0, 1);
    uint32_t slots[6];

    for (uint64_t q = 1; q <= 5; q++) { /* committed ahead of a GPU that works */
        slots[q] = shared_words_take(&w, 0, SL_KEEP_LEASED);
        sl_ring_publish(&w.ring, slots[q], q);
    }
    check_soon(&lease);
    sl_store(&w.ready[slots[1]], 1, release);
    sl_store(&w.ready[slots[3]], 3, release); /* 3 before 2 */
    read_one(&lease, 3);
    sl_store(&w.ready[slots[2]], 2, release);
    check_soon(&lease); /* never backwards */
    sl_store(&w.ready[slots[4]], SL_POISON, release);
    check_soon(&lease);
    sl_store(&w.ready[slots[5]], 5, release);
    read_one(&lease, 5);
    sl_store(&w.ready[slots[5]], SL_POISON, release);
    check_none(&lease); /* a lost head is not waited for */
    CHECK_EQ(lease.skipped, 1);
}

/* In any mode: of frames that a GPU works on, the first one is ready first. */
TEST(lease_finds_the_first_that_is_committed)
{
    struct shared_words w;
    shared_words_open(&w, 4);
    struct sl_words words = shared_words_of(&w);

    CHECK_LE(sl_lease_first(&words, 1), -1);
    shared_words_commit(&w, 1);
    shared_words_commit(&w, 2);
    shared_words_commit(&w, 3);
    CHECK_EQ(words.slot_seq[sl_lease_first(&words, 1)], 1);
    CHECK_EQ(words.slot_seq[sl_lease_first(&words, 2)], 2);
    CHECK_LE(sl_lease_first(&words, 4), -1);
}

TEST(lease_backs_off_when_the_writer_was_faster)
{
    struct shared_words w;
    uint64_t got = 0;

    shared_words_open(&w, 4);
    struct sl_lease lease = open_lease(&w, 0, 1);
    uint32_t slot = shared_words_commit(&w, 1);
    sl_store(&w.slot_seq[slot], SL_MARK, seq_cst); /* between R1 and R3 */
    CHECK_EQ(sl_lease_take(&lease, &got), SL_LEASE_RETRY);
    CHECK_EQ(w.pages[0].lease[slot], 0);
    CHECK_EQ(lease.retries, 1);
    sl_store(&w.slot_seq[slot], 2, seq_cst);
    CHECK_EQ(sl_lease_take(&lease, &got), SL_LEASE_RETRY);
    CHECK_EQ(w.pages[0].lease[slot], 0);
    sl_store(&w.slot_seq[slot], 1, seq_cst);
    read_one(&lease, 1);
    CHECK_EQ(lease.retries, 2);
}

TEST(lease_in_order_takes_each_from_the_cursor)
{
    struct shared_words w;
    shared_words_open(&w, 6);
    struct sl_lease lease = open_lease(&w, 1, 1);

    check_none(&lease);
    for (uint64_t q = 1; q <= 5; q++)
        shared_words_commit(&w, q);
    w.pages[1].cursor = 3; /* where it joined */
    for (uint64_t q = 3; q <= 5; q++) {
        CHECK(is_pending(&lease));
        read_one(&lease, q);
        CHECK_EQ(w.pages[1].cursor, q + 1);
    }
    CHECK_EQ(lease.skipped, 0);
    check_none(&lease);
    shared_words_commit(&w, 6);
    read_one(&lease, 6);
}

TEST(lease_in_order_moves_the_cursor_after_the_lease_only)
{
    struct shared_words w;
    shared_words_open(&w, 4);
    struct sl_lease lease = open_lease(&w, 1, 1);
    uint64_t got = 0;

    shared_words_commit(&w, 1);
    int slot = sl_lease_take(&lease, &got);
    CHECK(slot >= 0);
    CHECK_EQ(w.pages[1].cursor, 1); /* until it is kept, the cursor keeps it too */
    sl_lease_keep(&lease, got);
    CHECK_EQ(w.pages[1].cursor, 2);
    CHECK_EQ(w.pages[1].lease[slot], 1); /* and from here on the lease does */
    sl_lease_end(&lease, (uint32_t)slot);
}

TEST(lease_in_order_goes_on_after_frames_that_a_dropping_writer_took)
{
    struct shared_words w;
    uint64_t got = 0;

    shared_words_open(&w, 3);
    struct sl_lease lease = open_lease(&w, 1, 1);
    for (uint64_t q = 1; q <= 10; q++)
        shared_words_commit(&w, q); /* 8, 9 and 10 are left */
    read_one(&lease, 8);
    CHECK_EQ(lease.skipped, 7);
    uint32_t taken = shared_words_take(&w, 0, SL_KEEP_LEASED);      /* 8's slot */
    CHECK_EQ(shared_words_take(&w, 0, SL_KEEP_LEASED) != taken, 1); /* 9's */
    read_one(&lease, 10);
    CHECK_EQ(lease.skipped, 8);
    CHECK_EQ(w.pages[1].cursor, 11);

    /* A head whose frame cannot be found was overwritten since, so there is a newer one. */
    shared_words_open(&w, 3);
    shared_words_commit(&w, 1);
    sl_store(&w.slot_seq[0], SL_MARK, seq_cst);
    CHECK_EQ(sl_lease_take(&lease, &got), SL_LEASE_RETRY);
}

TEST(lease_in_order_waits_for_one_that_is_not_ready)
{
    struct shared_words w;
    shared_words_open(&w, 4);
    struct sl_lease lease = open_lease(&w, 1, 1);

    uint32_t first = shared_words_take(&w, 0, SL_KEEP_LEASED);
    sl_ring_publish(&w.ring, first, 1);
    shared_words_commit(&w, 2);
    check_soon(&lease); /* 2 is ready, and comes after 1 */
    sl_store(&w.ready[first], 1, release);
    read_one(&lease, 1);
    read_one(&lease, 2);
}

TEST(lease_in_order_goes_on_after_a_lost_frame)
{
    struct shared_words w;
    shared_words_open(&w, 4);
    struct sl_lease lease = open_lease(&w, 1, 1);
    uint64_t got = 0;

    uint32_t first = shared_words_take(&w, 0, SL_KEEP_LEASED);
    sl_ring_publish(&w.ring, first, 1);
    shared_words_commit(&w, 2);
    sl_store(&w.ready[first], SL_POISON, release);
    CHECK_EQ(sl_lease_take(&lease, &got), SL_LEASE_RETRY);
    CHECK_EQ(lease.lost, 1);
    read_one(&lease, 2);
    CHECK_EQ(lease.skipped, 1); /* missed as well */
    CHECK((uint32_t)shared_words_take(&w, 0, SL_KEEP_LEASED) !=
          first); /* it is not known when that slot will be free */
}

TEST(lease_every_third)
{
    for (int mode = 0; mode < 2; mode++) {
        struct shared_words w;
        shared_words_open(&w, 8);
        struct sl_lease lease = open_lease(&w, mode, 3);

        for (uint64_t q = 1; q <= 9; q++) {
            shared_words_commit(&w, q);
            if (q % 3 == 1)
                read_one(&lease, q);
            else
                check_none(&lease);
        }
        CHECK_EQ(lease.skipped, 0); /* it asked for no others */
        CHECK_EQ(sl_lease_want(&lease), 10);
    }
}

TEST(lease_ignores_an_invalid_head)
{
    struct shared_words w;
    shared_words_open(&w, 4);

    for (int mode = 0; mode < 2; mode++) {
        struct sl_lease lease = open_lease(&w, mode, 1);
        sl_store(&w.head, sl_head_pack(5, WORDS_IDS), seq_cst);
        check_none(&lease);
        sl_store(&w.head, UINT64_MAX, seq_cst);
        check_none(&lease);
    }
}
