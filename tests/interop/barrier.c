/* SPDX-License-Identifier: MIT
 *
 * One activation barrier between both sides.
 */
#include "kit.h"
#include "util/hooks.h"
#include "wire/cipd/barrier.h"

TEST_TIMEOUT(barrier_of_python_holds_us, 60)
{
    const char *name = cipd_name("barrier");
    struct child peer = peer_start();
    struct sl_cipd_barrier checker;
    struct sl_cipd_barrier_state state;
    CHECK_OK(sl_cipd_barrier_init(&checker, name));
    CHECK(!sl_cipd_barrier_check(&checker, test_now()));
    peer_do(&peer, "done", "barrier\t%s", name);
    peer_do(&peer, "count 1", "count\t1");
    CHECK_SOON(sl_cipd_barrier_check(&checker, test_now()), 4);
    CHECK_OK(sl_cipd_barrier_look(name, &state));
    CHECK_GE(state.skips, 1);
    CHECK_EQ(state.pid, peer.pid);
    peer_do(&peer, "count 0", "count\t-1");
    CHECK(!sl_cipd_barrier_check(&checker, test_now()));
    sl_cipd_barrier_finish(&checker, test_now());
    peer_end(&peer);
}

TEST_TIMEOUT(barrier_of_ours_holds_python, 60)
{
    const char *name = cipd_name("our barrier");
    struct child peer = peer_start(), other;
    struct sl_cipd_barrier holder;
    struct sl_cipd_barrier_state state;
    CHECK_OK(sl_cipd_barrier_init(&holder, name));
    CHECK_OK(sl_cipd_barrier_enter(&holder, test_now()));
    peer_do(&peer, "done", "barrier\t%s", name);
    peer_do(&peer, "held", "held");
    peer_do(&peer, "count 2", "count\t1");
    sl_cipd_barrier_leave(&holder, test_now());
    peer_do(&peer, "held", "held");
    peer_do(&peer, "count 0", "count\t-1");
    peer_do(&peer, "free", "held");
    /* it ends, and its tracker takes the name away while we hold */
    CHECK_OK(sl_cipd_barrier_enter(&holder, test_now()));
    peer_end(&peer);
    int64_t until = test_now() + 10 * SLUICE_S;
    while (cipd_there(name) && test_now() < until)
        test_nap(1000000);
    sl_cipd_barrier_tend(&holder);
    CHECK_OK(sl_cipd_barrier_look(name, &state));
    CHECK_EQ(state.count, 1);
    other = peer_start();
    peer_do(&other, "done", "barrier\t%s", name);
    peer_do(&other, "held", "held");
    peer_end(&other);
    sl_cipd_barrier_finish(&holder, test_now());
}

/* ---- who makes it, or writes it, stands still ---- */

static const char *slow;       /* its name */
static struct foreign written; /* its bytes, once it has some */
static int entries, joins, still; /* what we tried; and how long it stands still, in these */

static void write_whole(uint32_t count)
{
    uint32_t head[] = { SL_CIPD_BARRIER_MAGIC, 1, count };
    memcpy(written.at, head, sizeof head);
    memcpy(written.at + 16, &(int64_t){ test_now() }, 8);
}

static int enter_and_leave(void)
{
    struct sl_cipd_barrier holder;
    CHECK_OK(sl_cipd_barrier_init(&holder, slow));
    int result = sl_cipd_barrier_enter(&holder, test_now());
    sl_kill_point_hook = NULL;
    if (result == 0) {
        struct sl_cipd_barrier_state state;
        CHECK_OK(sl_cipd_barrier_look(slow, &state));
        CHECK_EQ(state.count, 4);
    }
    sl_cipd_barrier_finish(&holder, test_now());
    return result;
}

static void make_slowly(const char *point)
{
    if (strcmp(point, "cipd_enter") == 0 && ++entries == still) {
        CHECK_EQ(truncate(cipd_path(slow), 64), 0);
        written = foreign_attach(slow);
    } else if (strcmp(point, "cipd_join") == 0 && ++joins == still) {
        write_whole(3);
    }
}

/* As Python, which keeps it open from the beginning. */
static int make_without_bytes(const char *name)
{
    int fd = open(cipd_path(name), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    CHECK_GE(fd, 0);
    return fd;
}

/* Between the name and its bytes, and between these and what stands in them. */
TEST(a_barrier_that_is_made_slowly_is_one)
{
    slow = cipd_name("made slowly");
    int fd = make_without_bytes(slow);
    still = 200;
    sl_kill_point_hook = make_slowly;
    CHECK_OK(enter_and_leave());
    CHECK_GE(entries, 2 * still);
    foreign_close(&written);
    close(fd);
}

/* Python writes all of it anew at each change. */
static void write_again(const char *point)
{
    if (strcmp(point, "cipd_enter") == 0 && ++entries < still)
        memset(written.at, 0, 64);
    else if (strcmp(point, "cipd_join") == 0)
        write_whole(3);
}

TEST(a_barrier_that_is_written_while_it_is_looked_at_is_one)
{
    slow = cipd_name("written again");
    written = foreign_make(slow, 64);
    still = 700;
    sl_kill_point_hook = write_again;
    CHECK_OK(enter_and_leave());
    CHECK_GE(entries, still);
    foreign_close(&written);
}

TEST(a_barrier_whose_maker_never_gives_it_bytes_is_none)
{
    slow = cipd_name("no bytes");
    int fd = make_without_bytes(slow);
    CHECK_SAYS(enter_and_leave(), SLUICE_E_PROTOCOL, "has 0 bytes");
    CHECK(cipd_there(slow));
    close(fd);
}
