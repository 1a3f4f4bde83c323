/* SPDX-License-Identifier: MIT
 *
 * The activation barrier: which writers it holds up, for whom, and for how long at most.
 */
#include <pthread.h>
#include <stdio.h>

#include "cipd_kit.h"
#include "cuda_link/wire/barrier.h"
#include "cuda_link/wire/shm_watch.h"

#define SECOND SLUICE_S

static struct sl_cipd_barrier barrier_of(const char *name)
{
    struct sl_cipd_barrier barrier;
    CHECK_OK(sl_cipd_barrier_init(&barrier, name));
    return barrier;
}

static uint32_t word(const struct foreign *foreign, int offset)
{
    uint32_t value;
    memcpy(&value, foreign->at + offset, 4);
    return value;
}

static void set_word(const struct foreign *foreign, int offset, uint32_t value)
{
    memcpy(foreign->at + offset, &value, 4);
}

static void set_stamp(const struct foreign *foreign, int64_t ns)
{
    memcpy(foreign->at + 16, &ns, 8);
}

/* A barrier as Python makes it. */
static struct foreign barrier_made(const char *name, uint32_t count, int64_t stamp)
{
    struct foreign foreign = foreign_make(name, 64);
    set_word(&foreign, 0, SL_CIPD_BARRIER_MAGIC);
    set_word(&foreign, 4, 1);
    set_word(&foreign, 8, count);
    set_stamp(&foreign, stamp);
    return foreign;
}

TEST(cipd_barrier_golden)
{
    static const unsigned char golden[64] = {
        0xaa, 0xba, 0xa1, 0xcd, 0x01, 0,    0, 0, 0x01, 0, 0, 0, 0,    0,    0, 0,
        0x79, 0xdf, 0x0d, 0x86, 0x48, 0x70, 0, 0, 0x09, 0, 0, 0, 0x92, 0x10, 0, 0,
    };
    const int64_t stamp = INT64_C(123456789012345);
    const char *name = cipd_name("golden");
    struct sl_cipd_barrier barrier = barrier_of(name);
    struct sl_cipd_barrier_state state;
    CHECK_OK(sl_cipd_barrier_enter(&barrier, stamp));
    struct foreign foreign = foreign_attach(name);
    CHECK_EQ(foreign.size, cipd_pages(64));
    CHECK_EQ(word(&foreign, 28), getpid());
    set_word(&foreign, 24, 9);
    set_word(&foreign, 28, 4242);
    CHECK_MEM(foreign.at, golden, 64);
    CHECK_OK(sl_cipd_barrier_read(name, &state));
    CHECK_EQ(state.magic, SL_CIPD_BARRIER_MAGIC);
    CHECK_EQ(state.version, 1);
    CHECK_EQ(state.count, 1);
    CHECK_EQ(state.change_ns, stamp);
    CHECK_EQ(state.skips, 9);
    CHECK_EQ(state.pid, 4242);
    sl_cipd_barrier_finish(&barrier, stamp);
    foreign_close(&foreign);
}

TEST(cipd_barrier_name)
{
    struct sl_cipd_barrier barrier;
    struct sl_cipd_barrier_state state;
    CHECK_OK(sl_cipd_barrier_init(&barrier, NULL));
    CHECK_STR(barrier.name, "cudalink_activation_barrier");
    CHECK_SAYS(sl_cipd_barrier_init(&barrier, "a/b"), SLUICE_E_NAME, "slash");
    CHECK_EQ(sl_cipd_barrier_read(cipd_name("none"), &state), SLUICE_E_NOT_FOUND);
}

TEST(cipd_barrier_absent)
{
    const char *name = cipd_name("absent");
    struct sl_cipd_barrier barrier = barrier_of(name);
    int64_t now = 100 * SECOND;
    CHECK(!sl_cipd_barrier_check(&barrier, now));
    struct foreign foreign = barrier_made(name, 1, now);
    CHECK(!sl_cipd_barrier_check(&barrier, now + SLUICE_MS)); /* it looks every 10 ms */
    CHECK(sl_cipd_barrier_check(&barrier, now + 10 * SLUICE_MS));
    CHECK_EQ(word(&foreign, 24), 1);
    CHECK_EQ(barrier.skipped, 1);
    CHECK_EQ(unlink(cipd_path(name)), 0); /* its name removed: both sides still have it */
    CHECK(sl_cipd_barrier_check(&barrier, now + SECOND));
    struct foreign other = barrier_made(name, 0, now); /* but not once there is another one */
    CHECK(!sl_cipd_barrier_check(&barrier, now + 2 * SECOND));
    sl_cipd_barrier_finish(&barrier, now);
    foreign_close(&foreign);
    foreign_close(&other);
}

/* A checker that gets notifications of changes and found nothing at `now`; afterwards there is a barrier that is held.
 * */
struct notified {
    const char *name;
    int64_t now;
    sl_word changes;
    struct sl_cipd_barrier barrier;
    struct foreign foreign;
};

static void notified_begin(struct notified *notified, const char *name, uint64_t changes)
{
    *notified = (struct notified){ .name = cipd_name(name), .now = 100 * SECOND, .changes = changes };
    notified->barrier = barrier_of(notified->name);
    notified->barrier.changes = &notified->changes;
    CHECK(!sl_cipd_barrier_check(&notified->barrier, notified->now));
    notified->foreign = barrier_made(notified->name, 1, notified->now);
}

static void notified_end(struct notified *notified)
{
    CHECK_EQ(unlink(cipd_path(notified->name)), 0);
    sl_cipd_barrier_finish(&notified->barrier, notified->now);
    foreign_close(&notified->foreign);
}

TEST(cipd_barrier_is_searched_when_names_change)
{
    struct notified notified;
    notified_begin(&notified, "notified", 0);
    CHECK(!sl_cipd_barrier_check(&notified.barrier, notified.now + SECOND / 2)); /* without a notification */
    sl_add(&notified.changes, 1);
    CHECK(sl_cipd_barrier_check(&notified.barrier, notified.now + SECOND / 2));
    CHECK_EQ(unlink(cipd_path(notified.name)), 0);
    struct foreign other = barrier_made(notified.name, 0, notified.now);
    sl_add(&notified.changes, 1);
    CHECK(!sl_cipd_barrier_check(&notified.barrier, notified.now + SECOND / 2 + 1));
    notified_end(&notified);
    foreign_close(&other);
}

/* A process may fill in a barrier some time after it made the name, of which there is no notification. */
TEST(cipd_barrier_is_searched_often_after_a_change)
{
    struct notified notified;
    notified_begin(&notified, "late", 1);
    CHECK(!sl_cipd_barrier_check(&notified.barrier, notified.now + SLUICE_MS));
    CHECK(sl_cipd_barrier_check(&notified.barrier, notified.now + 10 * SLUICE_MS));
    notified_end(&notified);
}

/* Without a notification it is still searched now and then. */
TEST(cipd_barrier_is_found_without_notice)
{
    struct notified notified;
    notified_begin(&notified, "unnotified", 0);
    CHECK(sl_cipd_barrier_check(&notified.barrier, notified.now + SECOND));
    notified_end(&notified);
}

static bool tells_of(struct sl_cipd_shm_watch *watched, const char *name)
{
    uint64_t before = sl_load(&watched->changes, acquire);
    struct foreign foreign = barrier_made(name, 0, 0);
    CHECK_SOON(sl_load(&watched->changes, acquire) != before, 20);
    before = sl_load(&watched->changes, acquire);
    CHECK_EQ(unlink(cipd_path(name)), 0);
    foreign_close(&foreign);
    CHECK_SOON(sl_load(&watched->changes, acquire) != before, 20);
    return true;
}

TEST(cipd_names_tell_of_theirs)
{
    cipd_needs_files();
    char one[80], other[80];
    struct sl_cipd_shm_watch first = { .changes = 0 }, second = { .changes = 0 };
    snprintf(one, sizeof one, "%s", cipd_name("one"));
    snprintf(other, sizeof other, "%s", cipd_name("other"));
    CHECK(sl_cipd_shm_watch_join(&first, one));
    CHECK(sl_cipd_shm_watch_join(&second, other));
    for (int i = 0; i < 3; i++)
        CHECK(tells_of(&first, one));
    CHECK_EQ(sl_load(&second.changes, acquire), 0);
    sl_cipd_shm_watch_leave(&first);
    uint64_t before = sl_load(&first.changes, acquire);
    CHECK(tells_of(&second, other));
    CHECK_EQ(sl_load(&first.changes, acquire), before);
    sl_cipd_shm_watch_leave(&second);
    CHECK(sl_cipd_shm_watch_join(&first, one));
    CHECK(tells_of(&first, one));
    sl_cipd_shm_watch_leave(&first);
}

TEST(cipd_barrier_active_and_stale)
{
    const char *name = cipd_name("stale");
    int64_t now = 100 * SECOND;
    struct foreign foreign = barrier_made(name, 0, now);
    struct sl_cipd_barrier barrier = barrier_of(name);
    CHECK(!sl_cipd_barrier_check(&barrier, now));
    set_word(&foreign, 8, 3);
    CHECK(sl_cipd_barrier_check(&barrier, now));
    CHECK(sl_cipd_barrier_check(&barrier, now + 5 * SECOND));
    CHECK(!sl_cipd_barrier_check(&barrier, now + 5 * SECOND + 1));
    set_stamp(&foreign, now + 10 * SECOND);
    CHECK(sl_cipd_barrier_check(&barrier, now + 6 * SECOND)); /* a little in the future */
    set_stamp(&foreign, INT64_MAX);
    CHECK(!sl_cipd_barrier_check(&barrier, now));
    set_stamp(&foreign, now);
    barrier.stale_ns = SECOND;
    CHECK(!sl_cipd_barrier_check(&barrier, now + 2 * SECOND));
    CHECK_EQ(word(&foreign, 24), 3);
    CHECK_EQ(word(&foreign, 8), 3);
    sl_cipd_barrier_finish(&barrier, now);
    CHECK_EQ(word(&foreign, 8), 3); /* it held nothing */
    foreign_close(&foreign);
}

TEST(cipd_barrier_alien)
{
    const char *name = cipd_name("alien");
    int64_t now = 100 * SECOND;
    struct foreign foreign = barrier_made(name, 1, now);
    struct sl_cipd_barrier barrier = barrier_of(name);
    unsigned char before[64];
    set_word(&foreign, 0, 0x12345678);
    memcpy(before, foreign.at, 64);
    CHECK(!sl_cipd_barrier_check(&barrier, now));
    CHECK_SAYS(sl_cipd_barrier_enter(&barrier, now), SLUICE_E_PROTOCOL, "no activation barrier");
    CHECK(!barrier.held);
    CHECK_MEM(foreign.at, before, 64);
    CHECK_EQ(cipd_seconds(name), 0);
    set_word(&foreign, 0, SL_CIPD_BARRIER_MAGIC);
    set_word(&foreign, 4, 2);
    CHECK(!sl_cipd_barrier_check(&barrier, now + SECOND));
    CHECK_EQ(unlink(cipd_path(name)), 0);
    foreign_close(&foreign);
    foreign = foreign_make(name, 63);
    CHECK(!sl_cipd_barrier_check(&barrier, now + 2 * SECOND));
    CHECK_SAYS(sl_cipd_barrier_enter(&barrier, now), SLUICE_E_PROTOCOL, "63 bytes");
    foreign_close(&foreign);
    sl_cipd_barrier_finish(&barrier, now);
}

TEST(cipd_barrier_made_and_never_written)
{
    const char *name = cipd_name("unwritten");
    struct foreign foreign = foreign_make(name, 64);
    struct sl_cipd_barrier barrier = barrier_of(name);
    CHECK_OK(sl_cipd_barrier_enter(&barrier, SECOND));
    CHECK_EQ(word(&foreign, 0), SL_CIPD_BARRIER_MAGIC);
    CHECK_EQ(word(&foreign, 4), 1);
    CHECK_EQ(word(&foreign, 8), 1);
    sl_cipd_barrier_finish(&barrier, SECOND);
    foreign_close(&foreign);
}

/* Its maker was killed before it wrote the bytes. */
TEST(cipd_barrier_left_without_bytes)
{
    cipd_needs_files();
    const char *name = cipd_name("left empty");
    foreign_make(name, 0);
    struct sl_cipd_barrier barrier = barrier_of(name), checker = barrier_of(name);
    CHECK(!sl_cipd_barrier_check(&checker, SECOND));
    CHECK_OK(sl_cipd_barrier_enter(&barrier, 2 * SECOND));
    CHECK(sl_cipd_barrier_check(&checker, 2 * SECOND));
    struct foreign foreign = foreign_attach(name);
    CHECK_EQ(foreign.size, cipd_pages(64));
    CHECK_EQ(word(&foreign, 0), SL_CIPD_BARRIER_MAGIC);
    CHECK_EQ(word(&foreign, 8), 1);
    sl_cipd_barrier_finish(&barrier, SECOND);
    sl_cipd_barrier_finish(&checker, SECOND);
    CHECK_EQ(cipd_seconds(name), 0);
    foreign_close(&foreign);
}

TEST(cipd_barrier_holds_until_it_has_settled)
{
    const char *name = cipd_name("settle");
    int64_t now = 100 * SECOND;
    struct sl_cipd_barrier holder = barrier_of(name), checker = barrier_of(name);
    CHECK_OK(sl_cipd_barrier_enter(&holder, now));
    CHECK_OK(sl_cipd_barrier_enter(&holder, now)); /* once */
    CHECK(sl_cipd_barrier_check(&checker, now));
    CHECK(!sl_cipd_barrier_check(&holder, now)); /* not its own */
    struct foreign foreign = foreign_attach(name);
    CHECK_EQ(word(&foreign, 8), 1);
    sl_cipd_barrier_published(&holder, now); /* not counted: it is not set up yet */
    sl_cipd_barrier_settle(&holder, now);
    for (int frame = 1; frame < 30; frame++)
        sl_cipd_barrier_published(&holder, now);
    CHECK_EQ(word(&foreign, 8), 1);
    sl_cipd_barrier_published(&holder, now + 7);
    CHECK_EQ(word(&foreign, 8), 0);
    CHECK_EQ(word(&foreign, 16), (uint32_t)(now + 7));
    CHECK(!sl_cipd_barrier_check(&checker, now + 8));
    sl_cipd_barrier_published(&holder, now);
    sl_cipd_barrier_leave(&holder, now);
    CHECK_EQ(word(&foreign, 8), 0);
    holder.settle = 0;
    CHECK_OK(sl_cipd_barrier_enter(&holder, now));
    sl_cipd_barrier_settle(&holder, now);
    CHECK_EQ(word(&foreign, 8), 0);
    CHECK_OK(sl_cipd_barrier_enter(&holder, now));
    sl_cipd_barrier_finish(&holder, now); /* torn down while it holds */
    CHECK_EQ(word(&foreign, 8), 0);
    CHECK(cipd_there(name)); /* it belongs to the machine */
    CHECK_EQ(cipd_seconds(name), 0);
    sl_cipd_barrier_finish(&checker, now);
    foreign_close(&foreign);
}

TEST(cipd_barrier_residue)
{
    static const struct {
        uint32_t count;
        int64_t age;
        uint32_t then;
    } cases[] = {
        { 3, 6, 1 }, { 3, 4, 4 }, { 0, 6, 1 }, { UINT32_MAX, 0, 1 }, { UINT32_MAX, 6, 1 },
    };
    for (int i = 0; i < 5; i++) {
        const char *name = cipd_name("residue");
        int64_t now = 100 * SECOND;
        struct foreign foreign = barrier_made(name, cases[i].count, now - cases[i].age * SECOND);
        struct sl_cipd_barrier barrier = barrier_of(name);
        CHECK_OK(sl_cipd_barrier_enter(&barrier, now));
        CHECK_EQ(word(&foreign, 8), cases[i].then);
        sl_cipd_barrier_leave(&barrier, now);
        CHECK_EQ(word(&foreign, 8), cases[i].then - 1);
        sl_cipd_barrier_finish(&barrier, now);
        CHECK_EQ(unlink(cipd_path(name)), 0);
        foreign_close(&foreign);
    }
}

/* Python overwrote our change: the count does not go below 0. */
TEST(cipd_barrier_leave_clamps)
{
    const char *name = cipd_name("clamp");
    struct sl_cipd_barrier barrier = barrier_of(name);
    CHECK_OK(sl_cipd_barrier_enter(&barrier, SECOND));
    struct foreign foreign = foreign_attach(name);
    set_word(&foreign, 8, 0);
    sl_cipd_barrier_leave(&barrier, SECOND);
    CHECK_EQ(word(&foreign, 8), 0);
    sl_cipd_barrier_finish(&barrier, SECOND);
    foreign_close(&foreign);
}

TEST(cipd_barrier_tick)
{
    const char *name = cipd_name("tend");
    struct sl_cipd_barrier holder = barrier_of(name), checker = barrier_of(name);
    int64_t now = test_now();
    sl_cipd_barrier_refresh(&holder);
    CHECK(!cipd_there(name));
    CHECK_OK(sl_cipd_barrier_enter(&holder, now));
    CHECK_EQ(unlink(cipd_path(name)), 0);
    CHECK(!sl_cipd_barrier_check(&checker, now));
    sl_cipd_barrier_refresh(&holder);
    CHECK(cipd_there(name));
    CHECK(sl_cipd_barrier_check(&checker, now + SECOND));
    /* another one was made meanwhile: the hold goes there */
    CHECK_EQ(unlink(cipd_path(name)), 0);
    struct foreign other = barrier_made(name, 0, now);
    sl_cipd_barrier_refresh(&holder);
    CHECK_EQ(word(&other, 8), 1);
    CHECK(holder.held);
    CHECK_EQ(cipd_seconds(name), 1);
    sl_cipd_barrier_finish(&holder, now);
    CHECK_EQ(word(&other, 8), 0);
    sl_cipd_barrier_finish(&checker, now);
    foreign_close(&other);
}

TEST(cipd_barrier_sweeps_second_names)
{
    const char *name = cipd_name("sweep");
    struct sl_cipd_barrier dead = barrier_of(name), one = barrier_of(name), two = barrier_of(name);
    CHECK_OK(sl_cipd_barrier_enter(&dead, SECOND));
    sl_os_close(dead.segment.fd); /* as if killed */
    sl_os_unmap(dead.segment.at, 64);
    CHECK_EQ(unlink(cipd_path(name)), 0);
    CHECK_EQ(cipd_seconds(name), 1);
    CHECK_OK(sl_cipd_barrier_enter(&one, SECOND));
    CHECK_EQ(cipd_seconds(name), 1);
    CHECK(!cipd_there(dead.segment.link_name));
    CHECK_OK(sl_cipd_barrier_enter(&two, SECOND));
    CHECK_EQ(cipd_seconds(name), 2); /* a living process keeps its own */
    sl_cipd_barrier_finish(&one, SECOND);
    sl_cipd_barrier_finish(&two, SECOND);
    CHECK_EQ(cipd_seconds(name), 0);
}

/* A skipped frame: the flag is cleared, and the index stays. */
TEST(cipd_barrier_skips_a_frame)
{
    const char *name = cipd_name("frames");
    struct sl_cipd_segment_writer producer = SL_CIPD_SEGMENT_WRITER_INIT;
    struct sl_cipd_metadata metadata = metadata_of(64, 32, 4);
    int64_t now = 100 * SECOND;
    struct foreign foreign = barrier_made(cipd_name("frames barrier"), 1, now);
    struct sl_cipd_barrier barrier = barrier_of(cipd_name("frames barrier"));
    CHECK_OK(sl_cipd_write_open(&producer, name));
    CHECK_OK(sl_cipd_write_begin(&producer, 3, golden_all(), &metadata));
    sl_cipd_write_publish(&producer, 1);
    sl_cipd_store_shut(producer.segment.at, &producer.layout, 1);
    for (int frame = 0; frame < 5; frame++) {
        CHECK(sl_cipd_barrier_check(&barrier, now));
        sl_cipd_write_skip(&producer);
    }
    CHECK_EQ(sl_cipd_load_index(producer.segment.at), 1);
    CHECK_EQ(sl_cipd_load_shut(producer.segment.at, &producer.layout), 0);
    CHECK_EQ(word(&foreign, 24), 5);
    sl_cipd_write_close(&producer);
    sl_cipd_barrier_finish(&barrier, now);
    foreign_close(&foreign);
}

static const char *crowd;

static void *come_and_go(void *unused)
{
    struct sl_cipd_barrier barrier = barrier_of(crowd);
    long rounds = test_scale(2000);
    (void)unused;
    for (long i = 0; i < rounds; i++) {
        CHECK_OK(sl_cipd_barrier_enter(&barrier, test_now()));
        sl_cipd_barrier_leave(&barrier, test_now());
        if (i % 100 == 0) /* the last one removes no name */
            sl_cipd_barrier_finish(&barrier, test_now());
    }
    sl_cipd_barrier_finish(&barrier, test_now());
    return NULL;
}

TEST(cipd_barrier_counts_right_between_our_own)
{
    cipd_needs_files();
    pthread_t threads[4];
    struct sl_cipd_barrier_state state;
    crowd = cipd_name("crowd");
    for (int i = 0; i < 4; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, come_and_go, NULL), 0);
    for (int i = 0; i < 4; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    CHECK_OK(sl_cipd_barrier_read(crowd, &state));
    CHECK_EQ(state.count, 0);
    CHECK_EQ(cipd_seconds(crowd), 0);
}
