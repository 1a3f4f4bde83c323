/* SPDX-License-Identifier: MIT
 *
 * Decides when a reader that has not sent a goodbye is dead, so that its leases lapse (protocol 4.1). Runs on the
 * service thread, under its lock.
 *
 * If frames are in host memory, the reader reads no more once its process has ended, or some time after it hung up. On
 * a GPU its work continues: after a hang-up until the driver has ended it, which is before the process has ended; after
 * the end of the process if a forked child has the driver's descriptors, and then the connection's, too, so that the
 * hang-up comes last. A live reader that only lost its connection continues as well: it stays in the table until it has
 * released its frames.
 */
#include "native/wire/native.h"
#include "util/result.h"

#define HANG_UP_TIMEOUT     SLUICE_S          /* a hang-up alone counts as death after this */
#define DRIVER_TIMEOUT      (250 * SLUICE_MS) /* a GPU may write for so long after a hang-up that came last */
#define LEASE_POLL_INTERVAL (20 * SLUICE_MS)
#define MAX_HUNG_UP         2 /* connections of one process that are given HANG_UP_TIMEOUT */

static bool on_gpu(const struct sl_peer *peer)
{
    return peer->serve->control->memory_kind != SL_MEM_HOST;
}

/* Number of frames that it, or its GPU, still holds. */
static uint32_t count_held(struct sl_peer *peer)
{
    uint64_t slots;
    int64_t age;

    sl_mutex_lock(&peer->serve->base.lock); /* taken because begin marks slots under it */
    uint32_t count = sl_peer_held(peer, &slots, &age);
    sl_mutex_unlock(&peer->serve->base.lock);
    return count;
}

void sl_liveness_remove(struct sl_peer *peer, const char *how)
{
    if (sl_reader_table_has(peer))
        peer->serve->base.readers_died++;
    sl_peer_log_departure(peer, how);
    sl_peer_close(peer, 0);
}

bool sl_liveness_may_end_leases(struct sl_peer *peer)
{
    return !on_gpu(peer) || count_held(peer) == 0;
}

uint32_t sl_liveness_count_hung_up(const struct sl_peer *peer)
{
    uint32_t count = 0;

    for (const struct sl_peer *other = peer->serve->peers; other; other = other->next)
        count += other->state == SL_PEER_HUNG_UP && other->identity.pid == peer->identity.pid;
    return count;
}

/* A reader that joins, takes a lease and hangs up again and again can hold only a few slots by that. */
static bool hangs_up_often(struct sl_peer *peer)
{
    return sl_liveness_count_hung_up(peer) >= MAX_HUNG_UP && sl_liveness_may_end_leases(peer);
}

/* Ends the connection, but leaves the reader in the table. */
static void close_socket(struct sl_peer *peer)
{
    peer->state = SL_PEER_HUNG_UP;
    sl_service_remove(&peer->socket);
    sl_os_hang_up(peer->socket.fd);
    peer->socket.fd = -1;
}

/* From here on its leases count, but frames that it has not taken are not kept for it. */
static void keep_leases(struct sl_peer *peer, int64_t timeout_ns)
{
    uint32_t count = count_held(peer);

    sl_reader_table_keep_leased_only(peer);
    if (count)
        sl_log(SLUICE_LOG_INFO,
               "channel '%s': reader '%s' (process %u) is gone, its work on the GPU may still use %u frames",
               peer->serve->name, peer->hello.program, peer->identity.pid, count);
    sl_service_set_deadline(&peer->process, sl_os_deadline(timeout_ns));
}

void sl_liveness_hung_up(struct sl_peer *peer)
{
    bool ended = peer->process_ended || sl_os_pidfd_dead(peer->process.fd);

    if (!sl_reader_table_has(peer)) {
        sl_peer_close(peer, 0);
        return;
    }
    if (ended && sl_liveness_may_end_leases(peer)) {
        sl_liveness_remove(peer, "died");
        return;
    }
    if (!ended && hangs_up_often(peer)) {
        sl_liveness_remove(peer, "hung up without a goodbye");
        return;
    }
    close_socket(peer);
    if (!peer->process.added && sl_service_add(&peer->process) != 0) {
        sl_liveness_remove(peer, "hung up");
        return;
    }
    if (ended)
        keep_leases(peer, peer->serve->base.lingers_ns ? peer->serve->base.lingers_ns : DRIVER_TIMEOUT);
    else if (on_gpu(peer))
        keep_leases(peer, HANG_UP_TIMEOUT);
    else /* it seems to be alive: wait for its pidfd */
        sl_service_set_deadline(&peer->process, sl_os_deadline(HANG_UP_TIMEOUT));
    if (ended)
        sl_service_pause(&peer->process, true); /* else it would be reported for ever, as it stays readable */
    peer->process_ended = ended;
}

void sl_liveness_process_ended(struct sl_peer *peer)
{
    int64_t lingers_ns = peer->serve->base.lingers_ns;
    bool hung_up = peer->state == SL_PEER_HUNG_UP;

    if ((hung_up && !lingers_ns) || sl_liveness_may_end_leases(peer)) {
        sl_liveness_remove(peer, "died");
        return;
    }
    peer->process_ended = true;
    sl_service_pause(&peer->process, true);
    keep_leases(peer, hung_up ? lingers_ns : LEASE_POLL_INTERVAL);
}

/* The process is alive, and hung up some time ago. Has it executed another program, which ends its work on the GPU? */
static bool has_executed(const struct sl_peer *peer)
{
    return peer->wake_closed_ns && sl_os_now() - peer->wake_closed_ns >= HANG_UP_TIMEOUT;
}

void sl_liveness_timer(struct sl_peer *peer)
{
    bool hung_up = peer->state == SL_PEER_HUNG_UP;

    if (sl_liveness_may_end_leases(peer) || (hung_up && (peer->process.fd < 0 || has_executed(peer))))
        sl_liveness_remove(peer, peer->process_ended ? "died" : "hung up without a goodbye");
    else if (hung_up && peer->process_ended)
        sl_liveness_remove(peer, "died");
    else
        sl_service_set_deadline(&peer->process, sl_os_deadline(LEASE_POLL_INTERVAL));
}
