/* SPDX-License-Identifier: MIT
 *
 * One activation barrier between both sides.
 */
#include "kit.h"
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
