/* SPDX-License-Identifier: MIT
 *
 * What a writer reports to observers. On the service thread, under its lock; this costs begin and
 * commit nothing.
 */
#include <stdio.h>
#include <string.h>

#include "native/wire/native.h"

static uint64_t newest(const struct sl_native_serve *serve)
{
    return sl_head_sequence(sl_load(&serve->control->head, acquire));
}

uint64_t sl_peer_lag(const struct sl_peer *peer)
{
    uint64_t head = newest(peer->serve);
    /* The reader may have written any value here. */
    uint64_t read = peer->hello.mode == SLUICE_IN_ORDER ? sl_load(&peer->page->cursor, relaxed) - 1
                                                        : sl_load(&peer->page->last, relaxed);
    return read < head ? head - read : 0;
}

/* The age of a lease: as the reader reports it, but at least since we first saw it. */
static int64_t lease_age(struct sl_peer *peer, uint32_t slot, uint64_t lease, int64_t now)
{
    int64_t said = (int64_t)((uint64_t)now - sl_load(&peer->page->lease_ns[slot], relaxed));

    if (peer->seen[slot].sequence != lease) {
        peer->seen[slot].sequence = lease;
        peer->seen[slot].since_ns = now;
    }
    int64_t seen = now - peer->seen[slot].since_ns, longest = now - peer->joined_ns;
    if (said < seen)
        return seen;
    return said < longest ? said : longest;
}

uint32_t sl_peer_held(struct sl_peer *peer, uint64_t *slots, int64_t *age_ns)
{
    const struct sl_control *control = peer->serve->control;
    int64_t now = sl_os_now(), oldest = 0;
    uint32_t held = 0;

    *slots = 0;
    for (uint32_t s = 0; s < control->ids; s++) {
        uint64_t lease = sl_load(&peer->page->lease[s], acquire);
        if (lease == 0)
            continue;
        if (lease == sl_load(&control->slot_seq[s], acquire)) {
            held++;
            if (s < 64)
                *slots |= UINT64_C(1) << s;
        }
        int64_t age = lease_age(peer, s, lease, now);
        if (age > oldest)
            oldest = age;
    }
    *age_ns = oldest;
    return held;
}

/* The first digits of a GPU's UUID identify it. The page's contents are untrusted. */
static void say_path(const struct sl_reader_page *page, struct sl_msg_reader *reader)
{
    uint64_t path = sl_load(&page->path, relaxed), gpu = sl_load(&page->gpu[0], relaxed);
    const unsigned char *uuid = (const unsigned char *)&gpu;
    const char *how = path == SL_PATH_PEER ? "mapped by" : "copied to", *why = "";

    if (path == SL_PATH_COPIED)
        why = "its GPU and the channel's are no peers: neither reaches the other's memory";
    else if (path == SL_PATH_COPIED_AS_ASKED)
        why = "it asked for copies on its own GPU (staged)";
    if (path == SL_PATH_MAPPED || path > SL_PATH_COPIED_AS_ASKED)
        snprintf(reader->path, sizeof reader->path, "mapped");
    else
        snprintf(reader->path, sizeof reader->path, "%s GPU-%02x%02x%02x%02x", how, uuid[0], uuid[1], uuid[2], uuid[3]);
    snprintf(reader->copy_reason, sizeof reader->copy_reason, "%s", why);
}

static void fill_reader(struct sl_peer *peer, struct sl_msg_reader *reader)
{
    reader->pid = peer->identity.pid;
    reader->uid = peer->identity.uid;
    memcpy(reader->program, peer->hello.program, sizeof reader->program);
    reader->mode = peer->hello.mode;
    reader->depth = peer->depth;
    reader->hold = peer->hello.hold;
    reader->every = peer->hello.every;
    reader->writable = peer->hello.writable;
    sl_mutex_lock(&peer->serve->base.lock);
    reader->held = sl_peer_held(peer, &reader->held_slots, &reader->held_ns);
    sl_mutex_unlock(&peer->serve->base.lock);
    reader->taken = sl_load(&peer->page->taken, relaxed);
    reader->missed = sl_load(&peer->page->missed, relaxed);
    reader->latency_ns = sl_load(&peer->page->latency_ns, relaxed);
    reader->latency_total_ns = sl_load(&peer->page->latency_total_ns, relaxed);
    reader->latency_max_ns = sl_load(&peer->page->latency_max_ns, relaxed);
    reader->lease_mean_ns = sl_load(&peer->page->lease_mean_ns, relaxed);
    reader->ahead = peer->hello.ahead;
    reader->parked = (uint32_t)sl_load(&peer->page->waiting_streams, relaxed);
    reader->lag = sl_peer_lag(peer);
    reader->joined_ns = peer->joined_ns;
    say_path(peer->page, reader);
}

static void fill_channel(struct sl_native_serve *serve, struct sl_msg_channel *channel)
{
    struct sluice_channel_info info = { .size = sizeof info };

    sl_mutex_lock(&serve->base.lock);
    serve->params.describe(serve->params.context, &info);
    sl_mutex_unlock(&serve->base.lock);
    channel->pid = sl_os_pid();
    channel->uid = sl_os_uid();
    channel->version = SLUICE_WIRE_VERSION_MAX;
    channel->generation = info.generation;
    sl_os_program(channel->program, sizeof channel->program);
    snprintf(channel->device, sizeof channel->device, "%s", serve->device);
    memcpy(channel->device_uuid, serve->control->device_uuid, sizeof channel->device_uuid);
    channel->memory_kind = serve->control->memory_kind;
    channel->session = serve->params.session;
    channel->slots = info.slots;
    channel->max_slots = serve->writer.max_slots;
    channel->policy = serve->writer.policy;
    channel->readers = serve->base.reader_count;
    channel->max_readers = serve->writer.readers;
    channel->writable = serve->writer.writable;
    channel->committed = info.committed;
    channel->dropped = info.dropped;
    channel->stolen = info.stolen;
    channel->bytes = info.bytes;
    channel->evicted = serve->base.evicted;
    channel->died = serve->base.readers_died;
    channel->refused = serve->base.refused;
    channel->name_restored = serve->base.name_restored;
    channel->name_restored_ns = serve->base.name_restored_ns;
    channel->opened_ns = serve->opened_ns;
    channel->last_commit_ns = info.last_commit_ns;
    channel->now_ns = sl_os_now();
    /* The first generation is announced before it is in the writer's own data. */
    sl_format_to_wire(&channel->format, info.generation ? &info.format : &serve->memories[0]->format);
}

/* An observer that does not read its socket is not waited for. */
int sl_status_send(struct sl_native_serve *serve, int fd)
{
    union sl_message message = SL_MESSAGE(SL_MSG_CHANNEL, channel);
    int r;

    fill_channel(serve, &message.channel);
    if ((r = sl_os_send(fd, &message, message.header.size, NULL, 0)) != 0)
        return r;
    for (struct sl_peer *peer = serve->peers; peer; peer = peer->next) {
        if (!sl_reader_table_has(peer))
            continue;
        union sl_message reader = SL_MESSAGE(SL_MSG_READER, reader);
        fill_reader(peer, &reader.reader);
        if ((r = sl_os_send(fd, &reader, reader.header.size, NULL, 0)) != 0)
            return r;
    }
    return 0;
}
