/* SPDX-License-Identifier: MIT
 *
 * The writer's side of a channel: its name, its control page, the memories that readers need.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "native/wire/native.h"
#include "util/hooks.h"
#include "util/result.h"

#define ACCEPTS_PER_TURN   16  /* endless connections must not keep the thread from other work */
#define MAX_GONE_PER_TURN  256 /* takes no longer: the whole queue, and those that arrive while it is emptied */
#define ACCEPT_RETRY_DELAY (100 * SLUICE_MS) /* after file descriptors ran out */

static int copy_ids(const uint32_t *from, uint32_t count, uint32_t **to)
{
    *to = NULL;
    if (count == 0)
        return 0;
    *to = malloc(count * sizeof **to);
    if (!*to)
        return sl_fail(SLUICE_E_NO_MEMORY, "no memory for %u ids", count);
    memcpy(*to, from, count * sizeof **to);
    return 0;
}

static int make_control(struct sl_native_serve *serve)
{
    const struct sl_serve_params *params = &serve->params;
    uint64_t size = sl_native_control_size(params->ids, sl_os_page_size());
    void *address;
    int r;

    if ((r = sl_os_memory_create("sluice-control", size, &serve->control_fd)) != 0)
        return r;
    if ((r = sl_os_map(serve->control_fd, size, true, &address)) != 0)
        return r;
    serve->control = address;
    serve->control_size = size;

    struct sl_control *control = serve->control;
    control->magic = SL_NATIVE_MAGIC;
    control->version = SLUICE_WIRE_VERSION_MAX;
    control->header_size = sizeof *control;
    control->size = size;
    control->session = params->session;
    control->ids = params->ids;
    control->record_stride = SL_NATIVE_STRIDE;
    control->meta_offset = SL_NATIVE_META_OFFSET;
    control->meta_capacity = SLUICE_MAX_META;
    control->memory_kind = params->memory_kind;
    control->writer_pid = sl_os_pid();
    control->features = SL_NATIVE_FEATURES;
    memcpy(control->device_uuid, params->uuid, sizeof control->device_uuid);
    sl_store(&control->oldest_memory, 1, relaxed);

    serve->base.words = (struct sl_words){
        .head = &control->head,
        .slot_seq = control->slot_seq,
        .ready = control->ready,
        .slot_memory = control->slot_memory,
        .ids = params->ids,
    };
    serve->base.pages = control;
    serve->base.page_bytes = size;
    serve->base.waiting = &control->waiting;
    return sl_os_memory_seal(serve->control_fd, true);
}

/* Peers that have hung up in the queue are discarded cheaply: otherwise a crowd that connects and leaves could fill the
 * queue faster than it is emptied, and keep others out. *gone: how many were discarded. */
static int accept_one(int listener, int *fd, int *gone)
{
    int r;

    while ((r = sl_os_accept(listener, fd)) == 0 && sl_os_hung_up(*fd)) {
        sl_os_hang_up(*fd);
        if (++*gone == MAX_GONE_PER_TURN)
            return SLUICE_AGAIN;
    }
    return r;
}

static void listener_ready(struct sl_watch *watch, bool readable, bool hung_up)
{
    struct sl_native_serve *serve =
        (struct sl_native_serve *)((char *)watch - offsetof(struct sl_native_serve, listener));
    int fd, gone = 0, r = 0;

    (void)hung_up;
    for (int i = 0; readable && i < ACCEPTS_PER_TURN && (r = accept_one(watch->fd, &fd, &gone)) == 0; i++) {
        if (sl_peer_open(serve, fd) != 0) {
            sl_log(SLUICE_LOG_WARN, "channel '%s': a connection is refused: %s", serve->name, sl_last_error());
            serve->base.refused++;
        }
    }
    /* Out of descriptors: the waiting peers stay in the queue, and would wake this thread for ever. */
    if (r < 0) {
        sl_log(SLUICE_LOG_ERROR, "channel '%s': cannot let readers in: %s", serve->name, sl_last_error());
        sl_service_pause(watch, true);
        sl_service_set_deadline(watch, sl_os_deadline(ACCEPT_RETRY_DELAY));
    }
}

static void listener_timer(struct sl_watch *watch)
{
    sl_service_pause(watch, false);
}

static void destroy(struct sl_native_serve *serve)
{
    for (uint32_t i = 0; i < serve->memory_count; i++)
        free(serve->memories[i]);
    if (serve->control)
        sl_os_unmap(serve->control, serve->control_size);
    sl_os_close(serve->control_fd);
    sl_service_lock();
    sl_name_release(serve);
    sl_service_unlock();
    sl_channel_dir_close(&serve->dir);
    free(serve->uids);
    free(serve->gids);
    sl_mutex_finish(&serve->base.lock);
    free(serve);
}

int sl_serve_open(const struct sl_serve_params *params, struct sl_serve **out)
{
    struct sl_native_serve *serve = calloc(1, sizeof *serve);
    int r;

    if (!serve)
        return sl_fail(SLUICE_E_NO_MEMORY, "no memory for channel '%s'", params->name);
    serve->lock_fd = serve->control_fd = serve->dir.fd = -1;
    serve->listener = (struct sl_watch){ .fd = -1, .ready = listener_ready, .timer = listener_timer };
    serve->claim.fd = -1;
    serve->params = *params;
    serve->writer = *params->writer;
    serve->params.writer = &serve->writer;
    serve->opened_ns = sl_os_now();
    snprintf(serve->name, sizeof serve->name, "%s", params->name);
    snprintf(serve->device, sizeof serve->device, "%s", params->device);
    sl_mutex_init(&serve->base.lock);

    if ((r = copy_ids(params->writer->uids, params->writer->uid_count, &serve->uids)) != 0 ||
        (r = copy_ids(params->writer->gids, params->writer->gid_count, &serve->gids)) != 0)
        goto err;
    serve->writer.uids = serve->uids;
    serve->writer.gids = serve->gids;
    if ((r = sl_channel_dir_open(&serve->dir, true, serve->writer.uid_count || serve->writer.gid_count)) != 0)
        goto err;
    if ((r = sl_name_take(serve)) != 0)
        goto err;
    if ((r = make_control(serve)) != 0)
        goto err;
    *out = &serve->base;
    return 0;

err:
    destroy(serve);
    return r;
}

static struct sl_native_serve *serve_of(struct sl_serve *serve)
{
    return (struct sl_native_serve *)serve;
}

struct sl_record *sl_serve_record(struct sl_serve *serve, uint32_t slot)
{
    return (struct sl_record *)sl_record_address(serve_of(serve)->control, slot);
}

void *sl_serve_meta(struct sl_serve *serve, uint32_t slot)
{
    return sl_record_address(serve_of(serve)->control, slot) + SL_NATIVE_META_OFFSET;
}

void sl_serve_forget(struct sl_serve *base, uint32_t number)
{
    struct sl_native_serve *serve = serve_of(base);

    sl_service_lock();
    for (uint32_t i = 0; i < serve->memory_count; i++) {
        if (serve->memories[i]->announce.memory != number)
            continue;
        free(serve->memories[i]);
        serve->memory_count--;
        memmove(&serve->memories[i], &serve->memories[i + 1], (serve->memory_count - i) * sizeof serve->memories[0]);
        break;
    }
    if (serve->memory_count)
        sl_store(&serve->control->oldest_memory, serve->memories[0]->announce.memory, release);
    sl_service_unlock();
}

int sl_serve_announce(struct sl_serve *base, const struct sl_announce *announce)
{
    struct sl_native_serve *serve = serve_of(base);
    struct sl_native_memory *memory = malloc(sizeof *memory);

    if (!memory)
        return sl_fail(SLUICE_E_NO_MEMORY, "no memory to announce memory %u", announce->memory);
    memory->format = *announce->format;
    memory->announce = *announce;
    memory->announce.format = &memory->format;

    sl_service_lock();
    if (serve->memory_count == SL_MAX_MEMORIES) {
        sl_service_unlock();
        free(memory);
        return sl_fail(SLUICE_E_LIMIT, "readers hold frames of %d formats ago: they must release them first",
                       SL_MAX_MEMORIES);
    }
    serve->memories[serve->memory_count++] = memory;
    for (struct sl_peer *peer = serve->peers; peer; peer = peer->next)
        sl_peer_send_pending(peer);
    /* Readers can connect only once there is a format to send. */
    int r = serve->listener.fd < 0 ? sl_name_listen(serve) : 0;
    sl_service_unlock();
    if (r != 0)
        sl_serve_forget(base, announce->memory);
    return r;
}

void sl_serve_wake(struct sl_serve *base, uint64_t sequence)
{
    for (uint32_t i = 0; i < base->reader_count; i++) {
        struct sl_reader_slot *reader = &base->readers[i];
        uint64_t want = sl_load(reader->page.want, seq_cst);
        if (want != 0 && sequence >= want) {
            sl_store(reader->page.want, 0, relaxed);
            sl_add(reader->page.bell, 1);
            sl_os_futex_wake(reader->page.bell, 1);
        }
        want = sl_load(reader->page.want_fd, seq_cst);
        if (want != 0 && sequence >= want) {
            sl_store(reader->page.want_fd, 0, relaxed);
            SL_KILL_POINT("before_byte");
            (void)sl_os_send(reader->wake_fd, "", 1, NULL, 0);
        }
    }
}

void sl_serve_totals(struct sl_serve *base, const struct sl_totals *totals)
{
    struct sl_control *control = serve_of(base)->control;

    sl_store(&control->committed, totals->committed, relaxed);
    sl_store(&control->dropped, totals->dropped, relaxed);
    sl_store(&control->stolen, totals->stolen, relaxed);
    sl_store(&control->bytes, totals->bytes, relaxed);
}

void sl_serve_holders(struct sl_serve *base, char *text, size_t size)
{
    size_t used = 0;

    text[0] = '\0';
    for (uint32_t i = 0; i < base->reader_count && used < size; i++) {
        struct sl_peer *peer = base->readers[i].peer;
        uint64_t slots, lag;
        int64_t age;
        uint32_t held = sl_peer_held(peer, &slots, &age);
        const char *program = peer->hello.program;
        if (held > 0) {
            int n = snprintf(text + used, size - used, "%sreader '%s' (process %u) has held %u for %.3f s",
                             used ? "; " : "", program, peer->identity.pid, held, (double)age / 1e9);
            used += n > 0 ? (size_t)n : 0;
        }
        if (used < size && base->readers[i].mode == SLUICE_IN_ORDER && (lag = sl_peer_lag(peer)) > 0) {
            int n = snprintf(text + used, size - used, "%sreader '%s' (process %u) has not read %llu frames",
                             used ? "; " : "", program, peer->identity.pid, (unsigned long long)lag);
            used += n > 0 ? (size_t)n : 0;
        }
    }
}

/* Why a reader is evicted, or NULL. */
static const char *eviction_reason(struct sl_peer *peer, int64_t lease_timeout_ns, int64_t *age)
{
    uint64_t slots;
    const char *why = NULL;

    sl_mutex_lock(&peer->serve->base.lock);
    (void)sl_peer_held(peer, &slots, age);
    if (lease_timeout_ns && *age >= lease_timeout_ns)
        why = "it held a frame for too long";
    if (sl_peer_overdraws(peer))
        why = "it holds more frames than it asked for";
    sl_mutex_unlock(&peer->serve->base.lock);
    return why;
}

uint32_t sl_serve_evict(struct sl_serve *base, int64_t lease_timeout_ns)
{
    struct sl_native_serve *serve = serve_of(base);
    struct sl_peer *peer, *next;
    uint32_t evicted = 0;

    sl_service_lock();
    for (peer = serve->peers; peer; peer = next) {
        int64_t age;
        const char *why;
        next = peer->next;
        if (!sl_reader_table_has(peer) || !(why = eviction_reason(peer, lease_timeout_ns, &age)))
            continue;
        sl_log(SLUICE_LOG_WARN, "channel '%s': reader '%s' (process %u) is evicted: %s (%.3f s)", serve->name,
               peer->hello.program, peer->identity.pid, why, (double)age / 1e9);
        sl_peer_close(peer, SL_BYE_EVICTED);
        serve->base.evicted++;
        evicted++;
    }
    sl_service_unlock();
    return evicted;
}

void sl_serve_close(struct sl_serve *base)
{
    struct sl_native_serve *serve = serve_of(base);

    sl_store(&serve->control->closed, 1, seq_cst);
    sl_service_lock();
    /* First the name: a reader that receives the goodbye looks for a new writer at once. */
    sl_name_release(serve);
    while (serve->peers)
        sl_peer_close(serve->peers, SL_BYE_CLOSED);
    sl_service_unlock();
}

void sl_serve_destroy(struct sl_serve *serve)
{
    destroy(serve_of(serve));
}
