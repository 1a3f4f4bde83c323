/* SPDX-License-Identifier: MIT
 *
 * Decides who may read a channel, with which parameters, and which connection ends to make room for another. peer.c
 * acts on it.
 */
#include "native/wire/native.h"
#include "util/result.h"

#define MAX_HUNG_UP       8        /* connections that a process has closed while its GPU still works on their frames */
#define FIRST_ACK_TIMEOUT SLUICE_S /* for a reader to accept its first memory, once the table is full */

static uint32_t count_readers_of_user(const struct sl_native_serve *serve, uint32_t uid)
{
    uint32_t count = 0;

    for (const struct sl_peer *peer = serve->peers; peer; peer = peer->next)
        count += sl_reader_table_has(peer) && peer->identity.uid == uid;
    return count;
}

/* A reader of the process that has the most readers in the table; *most: how many. */
static const struct sl_peer *find_largest_process(const struct sl_native_serve *serve, uint32_t *most)
{
    const struct sl_peer *found = NULL;

    *most = 0;
    for (const struct sl_peer *peer = serve->peers; peer; peer = peer->next) {
        uint32_t count = 0;
        for (const struct sl_peer *other = serve->peers; other; other = other->next)
            count += sl_reader_table_has(other) && other->identity.pid == peer->identity.pid;
        if (count > *most) {
            *most = count;
            found = peer;
        }
    }
    return found;
}

static int check_reader_count(const struct sl_peer *peer)
{
    const struct sl_native_serve *serve = peer->serve;
    uint32_t places = serve->writer.readers, uid = peer->identity.uid, most;

    if (serve->base.reader_count >= places) {
        const struct sl_peer *holder = find_largest_process(serve, &most);
        return sl_fail(SLUICE_E_LIMIT,
                       "channel '%s': all %u places for readers are taken, %u of them by '%s' (process %u)",
                       serve->name, places, most, holder->hello.program, holder->identity.pid);
    }
    if (sl_liveness_count_hung_up(peer) >= MAX_HUNG_UP)
        return sl_fail(SLUICE_E_LIMIT,
                       "channel '%s': process %u has hung up %d times while its GPU still used frames of this channel: "
                       "let that end, or start it again",
                       serve->name, peer->identity.pid, MAX_HUNG_UP);
    /* Where other users may connect, none of them may keep all others out (protocol 5.5). */
    if (uid != sl_os_uid() && count_readers_of_user(serve, uid) * 2 >= places)
        return sl_fail(SLUICE_E_LIMIT, "channel '%s': user %u has half of its %u places for readers already",
                       serve->name, uid, places);
    return 0;
}

/* How many frames one reader may hold, or have unread: all but the newest one and the one being
 * written. */
static uint32_t max_frames(const struct sluice_writer_params *writer)
{
    return writer->max_slots - 2;
}

static int check_request(const struct sl_peer *peer)
{
    const struct sluice_writer_params *writer = &peer->serve->writer;
    const struct sl_msg_hello *hello = &peer->hello;
    uint32_t most = max_frames(writer);

    if (sl_version_agree(hello->version_min, hello->version_max) == 0)
        return sl_fail(
            SLUICE_E_VERSION,
            "channel '%s': its writer speaks wire versions %d to %d, the reader %u to %u: update the older one",
            peer->serve->name, SLUICE_WIRE_VERSION_MIN, SLUICE_WIRE_VERSION_MAX, hello->version_min,
            hello->version_max);
    if (hello->features_required & ~SL_NATIVE_FEATURES)
        return sl_fail(SLUICE_E_VERSION, "channel '%s': the reader needs features %#llx, the writer has %#llx",
                       peer->serve->name, (unsigned long long)hello->features_required,
                       (unsigned long long)SL_NATIVE_FEATURES);
    if (hello->role == SL_ROLE_OBSERVER)
        return 0;
    if (hello->hold > most && hello->hold != SLUICE_MOST)
        return sl_fail(SLUICE_E_LIMIT,
                       "channel '%s': hold %u is too much, %u slots allow %u: raise the writer's max_slots",
                       peer->serve->name, hello->hold, writer->max_slots, most);
    if (hello->depth > most)
        return sl_fail(SLUICE_E_LIMIT,
                       "channel '%s': depth %u is too much, %u slots allow %u: raise the writer's max_slots",
                       peer->serve->name, hello->depth, writer->max_slots, most);
    if (hello->writable && !writer->writable)
        return sl_fail(SLUICE_E_PERMISSION,
                       "channel '%s': its writer does not allow writable readers (its option 'writable')",
                       peer->serve->name);
    return check_reader_count(peer);
}

int sl_admit_check(const struct sl_peer *peer)
{
    const struct sluice_writer_params *writer = &peer->serve->writer;
    int r = sl_hello_check(&peer->hello);

    if (r != 0)
        return r;
    if (!sl_os_peer_allowed(peer->socket.fd, &peer->identity, writer->uids, writer->uid_count, writer->gids,
                            writer->gid_count))
        return sl_fail(
            SLUICE_E_PERMISSION,
            "channel '%s' belongs to user %u and user %u is not among those it allows: its writer's option 'uids'",
            peer->serve->name, sl_os_uid(), peer->identity.uid);
    return check_request(peer);
}

uint32_t sl_admit_hold(const struct sl_peer *peer)
{
    return peer->hello.hold == SLUICE_MOST ? max_frames(&peer->serve->writer) : peer->hello.hold;
}

uint32_t sl_admit_depth(const struct sl_peer *peer)
{
    uint32_t most = max_frames(&peer->serve->writer);

    if (peer->hello.depth)
        return peer->hello.depth;
    return most < 4 ? most : 4;
}

/* ---- connections that end to make room for others ---- */

struct sl_peer *sl_admit_find_replaceable_reader(struct sl_native_serve *serve)
{
    struct sl_peer *hung_up = NULL, *silent = NULL;

    for (struct sl_peer *peer = serve->peers; peer; peer = peer->next) {
        if (peer->state == SL_PEER_HUNG_UP && sl_liveness_may_end_leases(peer))
            hung_up = peer;
        else if (sl_reader_table_has(peer) && !peer->has_memory && sl_os_now() - peer->joined_ns > FIRST_ACK_TIMEOUT)
            silent = peer;
    }
    return hung_up ? hung_up : silent;
}

/* Orders nonreaders: by how many their user has, then by how many their process has. */
static uint32_t count_similar_nonreaders(const struct sl_peer *peer)
{
    uint32_t of_user = 0, of_process = 0;

    for (const struct sl_peer *other = peer->serve->peers; other; other = other->next) {
        bool same_user = !sl_peer_is_reader(other) && other->identity.uid == peer->identity.uid;
        of_user += same_user;
        of_process += same_user && other->identity.pid == peer->identity.pid;
    }
    return of_user << 16 | of_process;
}

/* A peer that connects and sends nothing must not keep others out (protocol 5.5): the user with the most nonreaders
 * loses one, of that user's processes the one with the most, and of those the oldest. */
struct sl_peer *sl_admit_find_replaceable_nonreader(struct sl_native_serve *serve)
{
    struct sl_peer *found = NULL;
    uint32_t most = 0;

    for (struct sl_peer *peer = serve->peers; peer; peer = peer->next) { /* newest first */
        uint32_t count = sl_peer_is_reader(peer) ? 0 : count_similar_nonreaders(peer);
        if (count >= most && count > 0) {
            most = count;
            found = peer;
        }
    }
    return found;
}
