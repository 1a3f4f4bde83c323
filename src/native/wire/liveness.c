/* SPDX-License-Identifier: MIT
 *
 * Decides when a reader that has not sent a goodbye is dead, so that its leases lapse (protocol
 * 4.1). Runs on the service thread, under its lock.
 *
 * If frames are in host memory, the reader reads no more once its process has ended, or some time
 * after it hung up. On a GPU its work continues: after a hang-up until the driver has ended it,
 * which is before the process has ended; after the end of the process if a forked child has the
 * driver's descriptors, and then the connection's, too, so that the hang-up comes last. A live
 * reader that only lost its connection continues as well: its place stays until it has released its
 * frames.
 */
#include "util/result.h"
#include "native/wire/native.h"

#define HANG_UP_PATIENCE SLUICE_S          /* a hang-up alone counts as death after this */
#define DRIVER_PATIENCE (250 * SLUICE_MS)  /* a GPU may write for so long after a hang-up that came last */
#define LOOK_AGAIN (20 * SLUICE_MS)        /* interval of checks whether its leases have ended */
#define MOST_HUNG_UP 2                     /* connections of one process that are given this patience */

static bool on_gpu(const struct sl_peer *peer)
{
    return peer->serve->control->memory_kind != SL_MEM_HOST;
}

/* Number of frames that it, or its GPU, still holds. */
static uint32_t held(struct sl_peer *peer)
{
    uint64_t slots;
    int64_t age;

    sl_mutex_lock(&peer->serve->base.lock); /* taken because begin marks slots under it */
    uint32_t count = sl_peer_held(peer, &slots, &age);
    sl_mutex_unlock(&peer->serve->base.lock);
    return count;
}

void sl_peer_died(struct sl_peer *peer, const char *how)
{
    if (sl_table_has(peer))
        peer->serve->base.readers_died++;
    sl_peer_log_departure(peer, how);
    sl_peer_close(peer, 0);
}

bool sl_peer_may_lapse(struct sl_peer *peer)
{
    return !on_gpu(peer) || held(peer) == 0;
}

uint32_t sl_peers_hung_up(const struct sl_peer *peer)
{
    uint32_t count = 0;

    for (const struct sl_peer *other = peer->serve->peers; other; other = other->next)
        count += other->state == SL_PEER_HUNG_UP && other->identity.pid == peer->identity.pid;
    return count;
}

/* A reader that joins, takes a lease and hangs up again and again can hold only a few slots by
 * that. */
static bool hangs_up_often(struct sl_peer *peer)
{
    return sl_peers_hung_up(peer) >= MOST_HUNG_UP && sl_peer_may_lapse(peer);
}

/* Its connection has ended, but it stays in the table. */
static void cut(struct sl_peer *peer)
{
    peer->state = SL_PEER_HUNG_UP;
    sl_service_remove(&peer->socket);
    sl_os_hang_up(peer->socket.fd);
    peer->socket.fd = -1;
}

/* From here on its leases count, but frames that it has not taken are not kept for it. */
static void linger(struct sl_peer *peer, int64_t patience)
{
    uint32_t count = held(peer);

    sl_table_keep_nothing(peer);
    if (count)
        sl_log(SLUICE_LOG_INFO, "channel '%s': reader '%s' (process %u) is gone, its work on the GPU may still use %u frames",
               peer->serve->name, peer->hello.program, peer->identity.pid, count);
    sl_service_set_deadline(&peer->process, sl_os_deadline(patience));
}

void sl_peer_hung_up(struct sl_peer *peer)
{
    bool ended = peer->ended || sl_os_pidfd_dead(peer->process.fd);

    if (!sl_table_has(peer)) {
        sl_peer_close(peer, 0);
        return;
    }
    if (ended && sl_peer_may_lapse(peer)) {
        sl_peer_died(peer, "died");
        return;
    }
    if (!ended && hangs_up_often(peer)) {
        sl_peer_died(peer, "hung up without a word");
        return;
    }
    cut(peer);
    if (!peer->process.added && sl_service_add(&peer->process) != 0) {
        sl_peer_died(peer, "hung up");
        return;
    }
    if (ended)
        linger(peer, peer->serve->base.lingers_ns ? peer->serve->base.lingers_ns : DRIVER_PATIENCE);
    else if (on_gpu(peer))
        linger(peer, HANG_UP_PATIENCE);
    else /* it seems to be alive: wait for its pidfd */
        sl_service_set_deadline(&peer->process, sl_os_deadline(HANG_UP_PATIENCE));
    if (ended)
        sl_service_pause(&peer->process, true); /* else it would be reported for ever, as it stays readable */
    peer->ended = ended;
}

static void process_ready(struct sl_watch *watch, bool readable, bool hung_up_too)
{
    struct sl_peer *peer = SL_PEER_OF(watch, process);

    (void)hung_up_too;
    /* It may have sent a goodbye before it died (protocol 5.11). */
    if (!readable || !sl_peer_read(peer, SL_LAST_MESSAGES))
        return;
    bool gone = peer->state == SL_PEER_HUNG_UP;
    if ((gone && !peer->serve->base.lingers_ns) || sl_peer_may_lapse(peer)) {
        sl_peer_died(peer, "died");
        return;
    }
    peer->ended = true;
    sl_service_pause(watch, true);
    linger(peer, gone ? peer->serve->base.lingers_ns : LOOK_AGAIN);
}

/* It is alive, and hung up some time ago. Has it executed another program, which ends its work on
 * the GPU? */
static bool has_left(const struct sl_peer *peer)
{
    return peer->left_ns && sl_os_now() - peer->left_ns >= HANG_UP_PATIENCE;
}

static void process_timer(struct sl_watch *watch)
{
    struct sl_peer *peer = SL_PEER_OF(watch, process);
    bool gone = peer->state == SL_PEER_HUNG_UP;

    if (sl_peer_may_lapse(peer) || (gone && (peer->process.fd < 0 || has_left(peer))))
        sl_peer_died(peer, peer->ended ? "died" : "hung up without a word");
    else if (gone && peer->ended)
        sl_peer_died(peer, "died");
    else
        sl_service_set_deadline(watch, sl_os_deadline(LOOK_AGAIN));
}

struct sl_watch sl_peer_process_watch(void)
{
    return (struct sl_watch){ .fd = -1, .ready = process_ready, .timer = process_timer };
}
