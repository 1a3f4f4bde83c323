/* SPDX-License-Identifier: MIT
 *
 * One activation barrier between both sides.
 */
#include <pthread.h>

#include "cuda_link/wire/barrier.h"
#include "kit.h"
#include "util/hooks.h"

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
    CHECK_OK(sl_cipd_barrier_read(name, &state));
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
    /* it ends, and its tracker removes the name while we hold */
    CHECK_OK(sl_cipd_barrier_enter(&holder, test_now()));
    peer_end(&peer);
    int64_t until = test_now() + 10 * SLUICE_S;
    while (cipd_there(name) && test_now() < until)
        test_nap(1000000);
    sl_cipd_barrier_refresh(&holder);
    CHECK_OK(sl_cipd_barrier_read(name, &state));
    CHECK_EQ(state.count, 1);
    other = peer_start();
    peer_do(&other, "done", "barrier\t%s", name);
    peer_do(&other, "held", "held");
    peer_end(&other);
    sl_cipd_barrier_finish(&holder, test_now());
}

/* ---- a maker or a writer that is suspended ---- */

static const char *slow;          /* its name */
static struct foreign written;    /* its bytes, once it has some */
static int entries, joins, still; /* the attempts; and how long it is suspended, counted in these */

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
        CHECK_OK(sl_cipd_barrier_read(slow, &state));
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

/* Between the name and its bytes, and between these and their contents. */
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

/* Python writes all of it again at each change. */
static void write_again(const char *point)
{
    if (strcmp(point, "cipd_enter") == 0 && ++entries < still)
        memset(written.at, 0, 64);
    else if (strcmp(point, "cipd_join") == 0)
        write_whole(3);
}

TEST(a_barrier_that_is_written_while_it_is_read_is_valid)
{
    slow = cipd_name("written again");
    written = foreign_make(slow, 64);
    still = 700;
    sl_kill_point_hook = write_again;
    CHECK_OK(enter_and_leave());
    CHECK_GE(entries, still);
    foreign_close(&written);
}

TEST(a_barrier_that_stays_empty_is_ignored)
{
    slow = cipd_name("no bytes");
    int fd = make_without_bytes(slow);
    CHECK_SAYS(enter_and_leave(), SLUICE_E_PROTOCOL, "has 0 bytes");
    CHECK(cipd_there(slow));
    close(fd);
}

/* ---- several holders at once, and what a dead one has left ---- */

enum { HOLDERS = 3 };

static struct sl_cipd_barrier holders[HOLDERS];
static const int64_t entering_at = 100 * SLUICE_S;
static pthread_mutex_t turn_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turn_changed = PTHREAD_COND_INITIALIZER;
static int turn; /* the holder whose step it is; -1: none */
static bool entered[HOLDERS];
static _Thread_local int own_number = -1;

/* With the lock. */
static void await_turn(int whose)
{
    while (turn != whose)
        CHECK_EQ(pthread_cond_wait(&turn_changed, &turn_lock), 0);
}

static void give_turn(int whose)
{
    turn = whose;
    CHECK_EQ(pthread_cond_broadcast(&turn_changed), 0);
}

static void end_step(const char *point)
{
    if (own_number < 0 || strncmp(point, "cipd_renew", strlen("cipd_renew")))
        return;
    pthread_mutex_lock(&turn_lock);
    give_turn(-1);
    await_turn(own_number);
    pthread_mutex_unlock(&turn_lock);
}

static void *enter_in_steps(void *number)
{
    own_number = *(int *)number;
    pthread_mutex_lock(&turn_lock);
    await_turn(own_number);
    pthread_mutex_unlock(&turn_lock);
    CHECK_OK(sl_cipd_barrier_enter(&holders[own_number], entering_at));
    pthread_mutex_lock(&turn_lock);
    entered[own_number] = true;
    give_turn(-1);
    pthread_mutex_unlock(&turn_lock);
    return NULL;
}

/* One step each of those that still enter, in the order of `choices`: at each step, how many of them to pass over. */
struct order {
    int choices[64], of[64], steps;
};

static void enter_all(struct order *order)
{
    pthread_t threads[HOLDERS];
    int numbers[HOLDERS] = { 0, 1, 2 };
    turn = -1;
    for (int i = 0; i < HOLDERS; i++) {
        entered[i] = false;
        CHECK_EQ(pthread_create(&threads[i], NULL, enter_in_steps, &numbers[i]), 0);
    }
    pthread_mutex_lock(&turn_lock);
    for (order->steps = 0;; order->steps++) {
        int waiting[HOLDERS], count = 0;
        for (int i = 0; i < HOLDERS; i++)
            if (!entered[i])
                waiting[count++] = i;
        if (!count)
            break;
        CHECK_LE(order->steps, 63);
        order->of[order->steps] = count;
        give_turn(waiting[order->choices[order->steps]]);
        await_turn(-1);
    }
    pthread_mutex_unlock(&turn_lock);
    for (int i = 0; i < HOLDERS; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
}

/* Counts up, like a number with digits of these many values. False: that was the last one. */
static bool next_order(struct order *order)
{
    for (int i = order->steps - 1; i >= 0; i--) {
        order->choices[i]++;
        if (order->choices[i] < order->of[i])
            return true;
        order->choices[i] = 0;
    }
    return false;
}

static void set_barrier(uint32_t count, int64_t stamp)
{
    memcpy(written.at + 8, &count, 4);
    memcpy(written.at + 16, &stamp, 8);
}

static uint32_t count_now(void)
{
    uint32_t count;
    memcpy(&count, written.at + 8, 4);
    return count;
}

static void each_order_counts_all(uint32_t residue)
{
    struct order order = { .steps = 0 };
    long orders = 0;
    slow = cipd_name("several");
    written = foreign_make(slow, 64);
    write_whole(0);
    for (int i = 0; i < HOLDERS; i++)
        CHECK_OK(sl_cipd_barrier_init(&holders[i], slow));
    sl_kill_point_hook = end_step;
    do {
        set_barrier(residue, entering_at - 6 * SLUICE_S);
        enter_all(&order);
        orders++;
        CHECK_EQ(count_now(), HOLDERS);
        for (int i = 0; i < HOLDERS; i++) {
            sl_cipd_barrier_leave(&holders[i], entering_at);
            CHECK_EQ(count_now(), HOLDERS - 1 - i);
        }
    } while (next_order(&order));
    sl_kill_point_hook = NULL;
    CHECK_GE(orders, 1680); /* of three times three steps */
    for (int i = 0; i < HOLDERS; i++)
        sl_cipd_barrier_finish(&holders[i], entering_at);
    foreign_close(&written);
}

TEST_TIMEOUT(holders_who_enter_at_once_are_all_counted, 120)
{
    each_order_counts_all(0);
}
TEST_TIMEOUT(one_dead_holders_count_is_taken_back_once, 120)
{
    each_order_counts_all(1);
}
TEST_TIMEOUT(three_dead_holders_counts_are_taken_back_once, 120)
{
    each_order_counts_all(3);
}

/* Python writes all of it while a holder of ours takes back a residue of 3. */
static const char *at_point;
static uint32_t by_python;

static void write_by_python(const char *point)
{
    if (strcmp(point, at_point) == 0) {
        at_point = "";
        set_barrier(by_python, entering_at - 1);
    }
}

TEST(a_count_that_python_writes_while_a_residue_is_taken_back_stays)
{
    static const struct {
        const char *point;
        uint32_t count, then;
    } cases[] = {
        { "cipd_renew", 1, 2 },   { "cipd_renew", 4, 5 },   { "cipd_renewed", 1, 2 },
        { "cipd_renewed", 0, 1 }, { "cipd_renewed", 4, 2 }, { "cipd_renewed", UINT32_MAX, UINT32_MAX - 2 },
    };
    struct sl_cipd_barrier holder;
    slow = cipd_name("python meanwhile");
    written = foreign_make(slow, 64);
    write_whole(0);
    CHECK_OK(sl_cipd_barrier_init(&holder, slow));
    sl_kill_point_hook = write_by_python;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        set_barrier(3, entering_at - 6 * SLUICE_S);
        at_point = cases[i].point;
        by_python = cases[i].count;
        CHECK_OK(sl_cipd_barrier_enter(&holder, entering_at));
        CHECK_STR(at_point, "");
        CHECK_EQ(count_now(), cases[i].then);
        sl_cipd_barrier_leave(&holder, entering_at);
        CHECK_EQ(count_now(), cases[i].then - 1);
    }
    sl_kill_point_hook = NULL;
    sl_cipd_barrier_finish(&holder, entering_at);
    foreign_close(&written);
}
