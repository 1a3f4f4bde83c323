/* SPDX-License-Identifier: MIT
 *
 * Who may read a channel, and with what.
 */
#include "util/result.h"
#include "wire/native/native.h"

/* Where others may connect, none of them may keep everybody else out (protocol 5.5). */
static uint32_t places_of(const struct sl_native_serve *serve, uint32_t uid)
{
    uint32_t places = 0;

    for (const struct sl_peer *peer = serve->peers; peer; peer = peer->next)
        places += sl_table_has(peer) && peer->identity.uid == uid;
    return places;
}

static int check_request(const struct sl_peer *peer)
{
    const struct sluice_writer_params *writer = &peer->serve->writer;
    const struct sl_msg_hello *hello = &peer->hello;
    uint32_t most = writer->max_slots - 2;

    if (sl_version_agree(hello->version_min, hello->version_max) == 0)
        return sl_fail(SLUICE_E_VERSION,
                       "channel '%s': its writer speaks wire versions %d to %d, the reader %u to %u: update the older one",
                       peer->serve->name, SLUICE_WIRE_VERSION_MIN, SLUICE_WIRE_VERSION_MAX, hello->version_min,
                       hello->version_max);
    if (hello->features_required & ~SL_NATIVE_FEATURES)
        return sl_fail(SLUICE_E_VERSION, "channel '%s': the reader needs features %#llx, the writer has %#llx",
                       peer->serve->name, (unsigned long long)hello->features_required,
                       (unsigned long long)SL_NATIVE_FEATURES);
    if (hello->role == SL_ROLE_OBSERVER)
        return 0;
    if (peer->serve->base.reader_count >= writer->readers)
        return sl_fail(SLUICE_E_LIMIT, "channel '%s': all %u places for readers are taken", peer->serve->name,
                       writer->readers);
    if (peer->identity.uid != sl_os_uid() && places_of(peer->serve, peer->identity.uid) * 2 >= writer->readers)
        return sl_fail(SLUICE_E_LIMIT, "channel '%s': user %u has half of its %u places for readers already",
                       peer->serve->name, peer->identity.uid, writer->readers);
    if (hello->hold > most)
        return sl_fail(SLUICE_E_LIMIT, "channel '%s': hold %u is too much, %u slots allow %u: raise the writer's max_slots",
                       peer->serve->name, hello->hold, writer->max_slots, most);
    if (hello->depth > most)
        return sl_fail(SLUICE_E_LIMIT, "channel '%s': depth %u is too much, %u slots allow %u: raise the writer's max_slots",
                       peer->serve->name, hello->depth, writer->max_slots, most);
    if (hello->writable && !writer->writable)
        return sl_fail(SLUICE_E_PERMISSION, "channel '%s': its writer does not allow writable readers (its option 'writable')",
                       peer->serve->name);
    return 0;
}

int sl_peer_check(const struct sl_peer *peer)
{
    const struct sluice_writer_params *writer = &peer->serve->writer;
    int r = sl_hello_check(&peer->hello);

    if (r != 0)
        return r;
    if (!sl_os_peer_allowed(peer->socket.fd, &peer->identity, writer->uids, writer->uid_count, writer->gids,
                            writer->gid_count))
        return sl_fail(SLUICE_E_PERMISSION,
                       "channel '%s' belongs to user %u and user %u is not among those it allows: its writer's option 'uids'",
                       peer->serve->name, sl_os_uid(), peer->identity.uid);
    return check_request(peer);
}

uint32_t sl_peer_grant_depth(const struct sl_peer *peer)
{
    uint32_t most = peer->serve->writer.max_slots - 2;

    if (peer->hello.depth)
        return peer->hello.depth;
    return most < 4 ? most : 4;
}
