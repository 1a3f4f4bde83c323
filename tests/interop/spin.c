/* SPDX-License-Identifier: MIT
 *
 * A reader that polls a writer in Python without a pause. Python clears each field before it stores it, and the reader
 * must not take the zeros for a restart.
 */
#include "kit.h"

enum { PIECE = 50000 };

/* What the reader's own rules hide: how often it met a zero. */
struct windows {
    long looks, index, version;
};

static void look_beside(struct follower *follower, struct windows *windows)
{
    const unsigned char *at = follower->consumer.segment.at;
    if (!at)
        return;
    windows->looks++;
    windows->index += sl_cipd_load_index(at) == 0;
    windows->version += sl_cipd_load_version(at) == 0;
}

TEST_TIMEOUT(spin_on_pythons_frames, 600)
{
    const char *name = cipd_name("spin");
    uint32_t frames = (uint32_t)test_scale(10000000), last = 0;
    struct child peer = peer_start();
    struct windows windows = { .looks = 0 };
    struct follower follower;
    follower_init(&follower, name);
    peer_do(&peer, "done", "writer\t%s\t433", name);
    peer_do(&peer, "version 1", "begin\t3\t77");
    peer_do(&peer, "index 1", "publish\t1");
    follower_reach(&follower, 77, 10);
    last = follower.frame.index;
    for (uint32_t done = 1; done < frames; done += PIECE) {
        uint32_t piece = frames - done < PIECE ? frames - done : PIECE;
        peer_tell(&peer, "publish\t%u", piece);
        int64_t until = test_now() + (int64_t)(60 * test_slowness() * 1e9);
        while (last < done + piece) {
            look_beside(&follower, &windows);
            if (follower_poll(&follower)) {
                CHECK(follower.frame.index > last);
                CHECK_EQ(follower.frame.missed, follower.frame.index - last - 1);
                CHECK_EQ(follower.frame.slot, (follower.frame.index - 1) % 3);
                last = follower.frame.index;
            } else {
                CHECK(test_now() < until);
            }
        }
        CHECK(child_line(&peer, 60));
    }
    printf("# %u frames, %ld taken; of %ld looks the index was 0 in %ld, the version in %ld\n", frames, follower.frames,
           windows.looks, windows.index, windows.version);
    CHECK_EQ(follower.sessions, 1);
    CHECK_EQ(follower.losses + follower.shuts + follower.changes, 0);
    CHECK_EQ(last, frames);
    follower_end(&follower);
    peer_end(&peer);
}

/* Only the version: it never goes back, and 0 is not one. */
TEST_TIMEOUT(spin_on_pythons_versions, 600)
{
    const char *name = cipd_name("versions");
    uint32_t bumps = (uint32_t)test_scale(1000000);
    struct child peer = peer_start();
    struct follower follower;
    uint64_t last = 1;
    char end[40];
    long zeros = 0;
    follower_init(&follower, name);
    peer_do(&peer, "done", "writer\t%s\t433", name);
    peer_do(&peer, "version 1", "begin\t3\t77");
    peer_do(&peer, "index 1", "publish\t1");
    follower_reach(&follower, 77, 10);
    const struct foreign foreign = foreign_attach(name);
    peer_tell(&peer, "bump\t%u", bumps);
    while (last < bumps + 1) {
        uint64_t version = sl_cipd_load_version(foreign.at);
        zeros += version == 0;
        CHECK(version == 0 || version >= last);
        last = version ? version : last;
        follower_poll(&follower);
    }
    snprintf(end, sizeof(end), "version %u", bumps + 1);
    CHECK_STR(child_line(&peer, 60), end);
    follower_reach(&follower, 77, 10);
    CHECK_EQ(follower.consumer.session.version, bumps + 1);
    CHECK_EQ(follower.losses + follower.shuts, 0);
    printf("# %u versions, %ld sessions, %ld zeros\n", bumps, follower.sessions, zeros);
    follower_end(&follower);
    peer_end(&peer);
}

/* Sessions without a pause, version stored first: no frame is ever of two. */
TEST_TIMEOUT(spin_on_pythons_sessions, 600)
{
    const char *name = cipd_name("sessions");
    int sessions = (int)test_scale(10000);
    struct child peer = peer_start();
    struct follower follower;
    follower_init(&follower, name);
    peer_do(&peer, "done", "writer\t%s\t433", name);
    for (int session = 1; session <= sessions; session++) {
        peer_tell(&peer, "begin\t%d\t%d", 2 + session / 10 % 2, session);
        peer_tell(&peer, "publish\t3");
        for (int answers = 0; answers < 2;) { /* it polls meanwhile */
            follower_poll(&follower);
            if (peer_answered(&peer))
                answers++;
        }
    }
    follower_reach(&follower, sessions, 10);
    CHECK_EQ(follower.losses, 0);
    printf("# %d sessions, %ld of them joined, %ld frames, %ld mixed\n", sessions, follower.sessions, follower.frames,
           follower.mixed);
    follower_end(&follower);
    peer_end(&peer);
}
