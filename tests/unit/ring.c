/* SPDX-License-Identifier: MIT */
#include "unit/shared_words.h"

static int take(struct shared_words *w, uint32_t readers, enum sl_keep keep)
{
    return sl_ring_take(&w->ring, w->readers, readers, keep, NULL);
}

TEST(ring_gives_each_idle_slot_once)
{
    struct shared_words w;
    bool seen[WORDS_IDS] = { false };

    shared_words_open(&w, 5);
    for (int i = 0; i < 5; i++) {
        uint32_t slot = shared_words_take(&w, 0, SL_KEEP_ALL);
        CHECK(slot < 5 && !seen[slot]);
        seen[slot] = true;
        CHECK_EQ(w.ring.slots[slot].state, SL_SLOT_BEGUN);
        CHECK_EQ(w.slot_seq[slot], SL_MARK);
    }
    CHECK_EQ(take(&w, 0, SL_KEEP_LEASED), -1);
}

TEST(ring_reuses_the_least_recently_published_first_and_never_the_head)
{
    struct shared_words w;
    uint32_t slots[5];

    shared_words_open(&w, 4);
    for (uint64_t q = 1; q <= 4; q++)
        slots[q] = shared_words_commit(&w, q);
    CHECK_EQ(w.head, sl_head_pack(4, slots[4]));
    for (uint64_t q = 1; q <= 3; q++) {
        CHECK_EQ(shared_words_take(&w, 0, SL_KEEP_LEASED), slots[q]);
        CHECK_EQ(w.slot_seq[slots[q]], SL_MARK);
    }
    CHECK_EQ(take(&w, 0, SL_KEEP_LEASED), -1);
    CHECK_EQ(w.slot_seq[slots[4]], 4);
    /* Committed in another order than begun. */
    shared_words_publish(&w, slots[3], 5);
    shared_words_publish(&w, slots[1], 6);
    CHECK_EQ(shared_words_take(&w, 0, SL_KEEP_LEASED), slots[4]);
    CHECK_EQ(shared_words_take(&w, 0, SL_KEEP_LEASED), slots[3]);
    CHECK_EQ(take(&w, 0, SL_KEEP_LEASED), -1);
}

TEST(ring_leaves_a_slot_whose_frame_is_not_finished)
{
    struct shared_words w;

    shared_words_open(&w, 3);
    uint32_t a = shared_words_take(&w, 0, SL_KEEP_LEASED);
    sl_ring_publish(&w.ring, a, 1); /* ready comes later: a GPU works */
    uint32_t b = shared_words_commit(&w, 2), c = shared_words_commit(&w, 3);
    CHECK_EQ(shared_words_take(&w, 0, SL_KEEP_LEASED), b);
    CHECK_EQ(take(&w, 0, SL_KEEP_LEASED), -1);
    sl_store(&w.ready[a], SL_POISON, release);
    CHECK_EQ(take(&w, 0, SL_KEEP_LEASED), -1);
    sl_store(&w.ready[a], 1, release);
    CHECK_EQ(shared_words_take(&w, 0, SL_KEEP_LEASED), a);
    CHECK_EQ(w.slot_seq[c], 3);
}

TEST(ring_leaves_what_is_held)
{
    struct shared_words w;

    shared_words_open(&w, 3);
    uint32_t a = shared_words_commit(&w, 1), b = shared_words_commit(&w, 2);
    shared_words_commit(&w, 3);
    for (int reader = 0; reader < 2; reader++) { /* of either mode */
        w.pages[0].cursor = w.pages[1].cursor = 99;
        sl_store(&w.pages[reader].lease[a], 1, seq_cst);
        CHECK_EQ(shared_words_take(&w, 2, SL_KEEP_LEASED), b);
        CHECK_EQ(w.slot_seq[a], 1); /* restored: it was marked for a moment */
        CHECK_EQ(w.ring.slots[a].state, SL_SLOT_IDLE);
        CHECK_EQ(take(&w, 2, SL_KEEP_LEASED), -1);
        sl_store(&w.pages[reader].lease[a], 0, release);
        shared_words_publish(&w, b, 2);
        w.ring.head_slot = 2;
        w.ring.head_sequence = 3;
    }
    /* A word that does not name its frame holds nothing (protocol 1.9). */
    sl_store(&w.pages[0].lease[a], 77, seq_cst);
    CHECK_EQ(shared_words_take(&w, 2, SL_KEEP_LEASED), a);
    /* Readers that are not in the table have none. */
    sl_store(&w.pages[3].lease[b], 2, seq_cst);
    CHECK_EQ(shared_words_take(&w, 2, SL_KEEP_LEASED), b);
}

TEST(ring_keeps_unread_frames_as_policy_has_it)
{
    static const struct {
        enum sl_keep keep;
        uint64_t cursor;
        int expected;
        bool stolen;
    } cases[] = {
        { SL_KEEP_ALL, 1, -1, false }, /* a waiting writer takes nothing unread */
        { SL_KEEP_ALL, 2, 1, false },  /* read up to 1 */
        { SL_KEEP_DEPTH, 1, 1, true }, /* with depth 2 and head 4, 1 is out of reach: taken */
        { SL_KEEP_DEPTH, 5, 1, false }, { SL_KEEP_LEASED, 1, 1, true },
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct shared_words w;
        uint32_t slots[5];
        bool stolen = false;
        shared_words_open(&w, 4);
        for (uint64_t q = 1; q <= 4; q++)
            slots[q] = shared_words_commit(&w, q);
        w.pages[1].cursor = cases[i].cursor;
        int slot = sl_ring_take(&w.ring, w.readers, 2, cases[i].keep, &stolen);
        CHECK_EQ(slot, cases[i].expected < 0 ? -1 : (int)slots[cases[i].expected]);
        CHECK_EQ(stolen, cases[i].stolen);
    }
}

TEST(ring_keeps_the_newest_depth_of_each_recorder)
{
    struct shared_words w;
    uint32_t slots[7];

    shared_words_open(&w, 6);
    for (uint64_t q = 1; q <= 6; q++)
        slots[q] = shared_words_commit(&w, q);
    w.readers[1].depth = 4; /* 3 to 6 */
    w.readers[3].depth = 1; /* 6 */
    CHECK_EQ(shared_words_take(&w, 4, SL_KEEP_DEPTH), slots[1]);
    CHECK_EQ(shared_words_take(&w, 4, SL_KEEP_DEPTH), slots[2]);
    CHECK_EQ(take(&w, 4, SL_KEEP_DEPTH), -1);
    w.pages[1].cursor = 4; /* it has read 3 */
    CHECK_EQ(shared_words_take(&w, 4, SL_KEEP_DEPTH), slots[3]);
    CHECK_EQ(take(&w, 4, SL_KEEP_DEPTH), -1);
    CHECK_EQ(shared_words_take(&w, 4, SL_KEEP_LEASED), slots[4]);
}

TEST(ring_leaves_a_cancelled_slot_empty)
{
    struct shared_words w;

    shared_words_open(&w, 3);
    uint32_t a = shared_words_commit(&w, 1);
    shared_words_commit(&w, 2);
    shared_words_commit(&w, 3);
    CHECK_EQ(shared_words_take(&w, 0, SL_KEEP_LEASED), a);
    sl_ring_cancel(&w.ring, a);
    CHECK_EQ(w.slot_seq[a], 0); /* its frame is gone (protocol 1.4) */
    CHECK_EQ(w.ring.slots[a].state, SL_SLOT_IDLE);
    CHECK_EQ(sl_head_sequence(w.head), 3);
    /* An empty slot is taken first, whatever words name it. */
    sl_store(&w.pages[0].lease[a], 1, seq_cst);
    CHECK_EQ(shared_words_take(&w, 2, SL_KEEP_ALL), a);
}

TEST(ring_retires_unneeded_slots)
{
    struct shared_words w;
    bool stolen = false;

    shared_words_open(&w, 4);
    uint32_t a = shared_words_commit(&w, 1), b = shared_words_commit(&w, 2), head = shared_words_commit(&w, 3);
    CHECK(!sl_ring_retire(&w.ring, a, w.readers, 0, SL_KEEP_LEASED, NULL)); /* it is not old */
    for (uint32_t s = 0; s < 4; s++)
        w.ring.slots[s].state = SL_SLOT_OLD;
    CHECK_EQ(take(&w, 0, SL_KEEP_LEASED), -1); /* old ones are never taken */
    CHECK(!sl_ring_retire(&w.ring, head, w.readers, 0, SL_KEEP_LEASED, NULL));
    CHECK(!sl_ring_retire(&w.ring, a, w.readers, 2, SL_KEEP_ALL, NULL)); /* not read yet */
    w.pages[1].cursor = 2;
    sl_store(&w.pages[0].lease[a], 55, seq_cst); /* any word: the number goes to another memory */
    CHECK(!sl_ring_retire(&w.ring, a, w.readers, 2, SL_KEEP_ALL, NULL));
    CHECK_EQ(w.slot_seq[a], 1);
    sl_store(&w.pages[0].lease[a], 0, release);
    sl_store(&w.ready[a], 0, release);
    CHECK(!sl_ring_retire(&w.ring, a, w.readers, 2, SL_KEEP_ALL, NULL)); /* still being written */
    sl_store(&w.ready[a], 1, release);
    CHECK(sl_ring_retire(&w.ring, a, w.readers, 2, SL_KEEP_ALL, &stolen));
    CHECK(!stolen);
    CHECK_EQ(w.slot_seq[a], 0);
    CHECK_EQ(w.ring.slots[a].state, SL_SLOT_NONE);
    CHECK(!sl_ring_retire(&w.ring, b, w.readers, 2, SL_KEEP_DEPTH, NULL));
    CHECK(sl_ring_retire(&w.ring, b, w.readers, 2, SL_KEEP_LEASED, &stolen));
    CHECK(stolen);
    CHECK(sl_ring_retire(&w.ring, 3, w.readers, 2, SL_KEEP_ALL, NULL)); /* never used */
}
