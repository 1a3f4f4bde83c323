/* SPDX-License-Identifier: MIT
 *
 * Hostile readers that write what they like wherever they can, and hold what they were not granted.
 */
#include <fcntl.h>
#include <linux/falloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hostile/attacker.h"
#include "native/wire/native.h"

/* ---- its own page ---- */

HOSTILE_READER(scribbles_over_its_page, .evicted = 0, .drops = true)
{
    struct attacker attacker[4];
    union sl_message hello = attacker_hello();
    int64_t since = 0;

    for (int i = 0; i < 4; i++) {
        hello.hello.mode = (uint32_t)i % 2;
        CHECK(attacker_go(&attacker[i], ARRIVED, &hello));
    }
    while (attack_lasts(&since, 1000))
        for (int i = 0; i < 4; i++)
            attacker_scribble(attacker[i].page, attacker[i].page_size);
}

/* Byte by byte, so that each part of a word changes alone. */
HOSTILE_READER(writes_every_byte_of_its_page, .evicted = 0, .drops = true)
{
    struct attacker attacker;
    int64_t since = 0;

    CHECK(attacker_go(&attacker, HOLDING, NULL));
    for (size_t at = 0; attack_lasts(&since, 1500); at = (at + 1) % attacker.page_size) {
        volatile unsigned char *byte = (unsigned char *)attacker.page + at;
        for (int value = 0; value < 256; value += 51)
            *byte = (unsigned char)value;
    }
}

HOSTILE_READER(wants_to_be_woken_for_ever, .evicted = 0)
{
    struct attacker attacker[8];
    int64_t since = 0;

    for (int i = 0; i < 8; i++)
        CHECK(attacker_go(&attacker[i], ARRIVED, NULL));
    while (attack_lasts(&since, 1000)) {
        for (int i = 0; i < 8; i++) { /* and never reads what it is woken with */
            sl_store(&attacker[i].page->want, 1, seq_cst);
            sl_store(&attacker[i].page->want_fd, 1, seq_cst);
            sl_add(&attacker[i].page->bell, 1);
        }
    }
}

HOSTILE_READER(floods_its_wake_socket, .evicted = 0)
{
    static char much[60000];
    struct attacker attacker[4];
    int64_t since = 0;

    for (int i = 0; i < 4; i++)
        CHECK(attacker_go(&attacker[i], ARRIVED, NULL));
    while (attack_lasts(&since, 1000)) {
        for (int i = 0; i < 4; i++) {
            (void)!send(attacker[i].wake, much, attacker_random() % 2 ? 1 : sizeof much, MSG_DONTWAIT | MSG_NOSIGNAL);
            (void)!send(attacker[i].wake, "", 0, MSG_DONTWAIT | MSG_NOSIGNAL);
        }
    }
}

HOSTILE_READER(takes_the_pages_from_under_its_page, .evicted = 0)
{
    struct attacker attacker;
    int64_t since = 0;

    CHECK(attacker_go(&attacker, HOLDING, NULL));
    while (attack_lasts(&since, 500)) {
        CHECK_EQ(fallocate(attacker.page_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)attacker.page_size),
                 0);
        attacker_attend(&attacker);
    }
}

/* ---- others' pages ---- */

static void try_to_change(int fd, uint64_t size)
{
    char path[64];

    CHECK_EQ((intptr_t)mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), -1);
    CHECK(ftruncate(fd, 0) != 0 && ftruncate(fd, (off_t)size * 2) != 0);
    CHECK(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096) != 0);
    CHECK(write(fd, "x", 1) < 0);
    CHECK(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE) != 0);
    void *page = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
    CHECK(page != MAP_FAILED);
    CHECK(mprotect(page, size, PROT_READ | PROT_WRITE) != 0);
    CHECK(madvise(page, size, MADV_REMOVE) != 0);
    munmap(page, size);
    (void)fchmod(fd, 0666); /* a name in /proc is another way to open it */
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int again = open(path, O_RDWR | O_CLOEXEC);
    if (again >= 0) {
        CHECK_EQ((intptr_t)mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, again, 0), -1);
        CHECK(write(again, "x", 1) < 0);
        close(again);
    }
}

HOSTILE_READER(writes_where_it_may_only_read, .evicted = 0)
{
    struct attacker attacker;

    CHECK(attacker_go(&attacker, ARRIVED, NULL));
    try_to_change(attacker.control_fd, attacker.control_size);
    try_to_change(attacker.memory_fd, 4096);
    CHECK(ftruncate(attacker.page_fd, 0) != 0);
    CHECK(fcntl(attacker.page_fd, F_ADD_SEALS, F_SEAL_WRITE) != 0);
}

/* ---- leases ---- */

static void hold_all(struct attacker *attacker)
{
    for (uint32_t s = 0; s < attacker->control->ids; s++)
        sl_store(&attacker->page->lease[s], sl_load(&attacker->control->slot_seq[s], seq_cst), seq_cst);
}

/* Leases on all that is there, for ever: without a limit no frame would ever be written again. */
HOSTILE_READER(holds_every_slot, .evicted = 1)
{
    struct attacker attacker;

    CHECK(attacker_go(&attacker, ARRIVED, NULL));
    while (!sl_load(&attacker.page->evicted, acquire)) {
        hold_all(&attacker);
        attacker_attend(&attacker);
    }
}

/* A frame may be lost where it holds again before the writer has checked a second time. */
HOSTILE_READER(holds_every_slot_again_and_again, .evicted = 20, .drops = true)
{
    int64_t since = 0;
    int evicted = 0;

    while (attack_lasts(&since, 1000) || evicted < 20) {
        struct attacker attacker;
        int64_t joined = 0;
        if (attacker_go(&attacker, ARRIVED, NULL)) {
            while (!sl_load(&attacker.page->evicted, acquire) && attack_lasts(&joined, 200))
                hold_all(&attacker);
            evicted += sl_load(&attacker.page->evicted, acquire) != 0;
        }
        attacker_close(&attacker);
    }
}

/* Each holds what it was granted, and no more: it may, unless the writer set a limit. Each holds a frame of
 * its own, until the writer has no slot left. */
static void hold_what_was_granted(int readers)
{
    union sl_message hello = attacker_hello();

    for (int i = 0; i < readers; i++) {
        struct attacker attacker;
        CHECK(attacker_go(&attacker, HOLDING, &hello));
        uint64_t head = sl_load(&attacker.control->head, acquire), dropped = honest_info("cam").dropped;
        CHECK_SOON(sl_load(&attacker.control->head, acquire) != head || honest_info("cam").dropped > dropped, 20);
    }
}

HOSTILE_READER(never_releases, .evicted = 0, .starves = true)
{
    hold_what_was_granted(8);
}

HOSTILE_READER(never_releases_and_is_evicted, .options = { "lease_ms=3000" }, .evicted = 1, .drops = true)
{
    hold_what_was_granted(8);
    test_nap(3500 * SLUICE_MS);
}

/* An honest reader is never taken for one that exceeds its limit: it takes and releases at full speed, while the writer
 * is starved and checks. */
TEST_TIMEOUT(a_reader_within_its_grant_is_not_evicted, 60)
{
    test_dir();
    struct child writer = kit_start("writer", "slots=4", "max_slots=4", NULL), holders[2], readers[4];
    child_expect(&writer, "open", 10);
    for (int i = 0; i < 2; i++) {
        holders[i] = kit_start("reader", NULL);
        child_expect(&holders[i], "open", 10);
        EXPECT_ANSWER(&writer, "commit 1", "committed");
        EXPECT_ANSWER(&holders[i], "hold 20000", "holds");
    }
    for (int i = 0; i < 4; i++) {
        readers[i] = kit_start("reader", i % 2 ? "mode=1" : "mode=0", "hold=1", NULL);
        child_expect(&readers[i], "open", 10);
        EXPECT_ANSWER(&readers[i], "run", "running");
    }
    const char *answer;
    long long dropped = 0;
    for (int turn = 0; turn < 10 && dropped == 0; turn++) { /* on a busy machine the readers may be in time */
        EXPECT_ANSWER(&writer, "run 0", "running");         /* without a pause: it keeps finding no slot */
        test_nap(test_scale(2000) * SLUICE_MS);
        answer = ask(&writer, "stop");
        fprintf(stderr, "%s\n", answer);
        dropped = NUMBER(answer, "dropped");
    }
    CHECK_GE(dropped, 1);
    CHECK_EQ(honest_info("cam").evicted, 0);
    for (int i = 0; i < 4; i++) {
        answer = ask(&readers[i], "stop");
        CHECK_EQ(NUMBER(answer, "lost"), 0);
        CHECK_EQ(NUMBER(answer, "torn"), 0);
        role_stop(&readers[i]);
    }
    for (int i = 0; i < 2; i++) {
        EXPECT_ANSWER(&holders[i], "give", "gave");
        role_stop(&holders[i]);
    }
    role_stop(&writer);
}

/* The same without chance: one lease moves from slot to slot while the writer counts. */
static atomic_int counting;

static void *move_a_lease(void *context)
{
    struct sl_reader_page *page = context;
    for (uint64_t q = 1; atomic_load(&counting); q++) {
        uint32_t slot = (uint32_t)(q * 7 % SL_MAX_IDS);
        sl_store(&page->lease[slot], q, seq_cst);
        sl_store(&page->lease[slot], 0, release);
    }
    return NULL;
}

TEST(a_lease_that_moves_counts_once)
{
    struct sl_native_serve *serve = calloc(1, sizeof *serve);
    struct sl_control *control = calloc(1, sizeof *control);
    struct sl_reader_page *page = calloc(1, sizeof *page);
    struct sl_peer *peer = calloc(1, sizeof *peer);
    pthread_t thread;

    CHECK(serve && control && page && peer);
    control->ids = SL_MAX_IDS;
    control->memory_kind = SL_MEM_HOST;
    serve->control = control;
    *peer = (struct sl_peer){ .serve = serve, .page = page, .hello.hold = 1 };
    atomic_store(&counting, 1);
    CHECK_EQ(pthread_create(&thread, NULL, move_a_lease, page), 0);
    int64_t since = 0;
    while (attack_lasts(&since, 1000))
        for (int i = 0; i < 1000; i++)
            CHECK(!sl_peer_overdraws(peer));
    atomic_store(&counting, 0);
    pthread_join(thread, NULL);
    sl_store(&page->lease[3], 5, seq_cst);
    CHECK(!sl_peer_overdraws(peer));
    sl_store(&page->lease[90], 4, seq_cst);
    CHECK(sl_peer_overdraws(peer));
    free(peer);
    free(page);
    free(control);
    free(serve);
}

/* Words that are not leases: they would keep the slots of old formats for ever. */
ROLE(litterer)
{
    struct attacker attacker;

    CHECK(attacker_go(&attacker, ARRIVED, NULL));
    for (uint32_t s = 0; s < SL_MAX_IDS; s++)
        sl_store(&attacker.page->lease[s], 12345678, seq_cst);
    role_say("there");
    (void)role_line();
    return 0;
}

TEST(lease_words_of_nothing_do_not_keep_old_formats)
{
    test_dir();
    struct child writer = kit_start("writer", NULL), reader = kit_start("reader", NULL);
    child_expect(&writer, "open", 10);
    child_expect(&reader, "open", 10);
    struct child litterer = role_start("litterer", NULL);
    child_expect(&litterer, "there", 10);
    for (int i = 0; i < 40; i++) {
        EXPECT_ANSWER(&writer, i % 2 ? "reformat 4096" : "reformat 8192", "generation");
        EXPECT_ANSWER(&writer, "commit 1", "committed");
        EXPECT_ANSWER(&reader, "take 20000", "took");
    }
    struct sluice_channel_info info = honest_info("cam");
    CHECK_EQ(info.evicted, 1);
    CHECK_EQ(info.readers, 1);
    CHECK_EQ(info.dropped, 0);
    role_stop(&litterer);
    role_stop(&reader);
    role_stop(&writer);
}

/* ---- unread frames ---- */

HOSTILE_READER(reads_nothing_in_order, .evicted = 0)
{
    union sl_message hello = attacker_hello();
    hello.hello.mode = SLUICE_IN_ORDER;
    hello.hello.depth = 6;
    for (int i = 0; i < 8; i++) {
        struct attacker attacker;
        CHECK(attacker_go(&attacker, ARRIVED, &hello));
        sl_store(&attacker.page->cursor, (uint64_t)i, seq_cst);
    }
}
