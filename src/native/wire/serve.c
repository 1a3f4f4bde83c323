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
#define TEMPORARY          ".tmp"            /* suffix of the name while the socket is made */
#define LOCK_TIMEOUT       SLUICE_S          /* for a previous owner that is just dying (protocol 4.4) */

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

/* Does anybody answer under this name? A process that was killed still accepts connections while it dies. */
static bool has_writer(const struct sl_native_serve *serve, int64_t deadline, uint32_t *pid)
{
    struct sluice_channel_info info;
    int64_t now = sl_os_now();
    int r = sl_native_info(serve->name, deadline > now ? deadline - now : 0, &info, NULL, 0);

    if (r == 0)
        *pid = info.pid;
    return r == 0 || r == SLUICE_E_VERSION || r == SLUICE_E_PERMISSION;
}

static int report_name_taken(const struct sl_native_serve *serve, uint32_t pid)
{
    return sl_fail(SLUICE_E_EXISTS,
                   "channel '%s' in %s has a writer already (process %u%s): close it, or take another name",
                   serve->name, serve->dir.folder, pid, pid == sl_os_pid() ? ", this one" : "");
}

/* Does anybody accept connections? Another program's socket is not replaced. */
static int probe_socket(struct sl_native_serve *serve, bool *there)
{
    bool stale = false;
    int fd, r = sl_os_connect(serve->dir.fd, serve->dir.folder, serve->name, &fd, &stale);

    if (r == 0)
        sl_os_close(fd);
    serve->base.previous_died = serve->base.previous_died || (r == SLUICE_E_NOT_FOUND && stale);
    *there = r == 0 || r == SLUICE_AGAIN;
    return r == SLUICE_E_PROTOCOL ? r : 0;
}

/* The lock is ours. Its previous holder is gone; but if it had none, there may be a writer whose lock file was removed:
 * programs that clean up folders notice sockets in use, but not locks. */
static int check_socket(struct sl_native_serve *serve, int64_t deadline, bool fresh)
{
    uint32_t pid = 0;
    bool there, last = false;
    int r;

    while ((r = probe_socket(serve, &there)) == 0 && there && fresh) {
        if (last || has_writer(serve, deadline, &pid)) {
            sl_os_lock_forget(serve->lock_fd);
            return report_name_taken(serve, pid);
        }
        last = sl_os_now() > deadline;
        sl_os_sleep(5 * SLUICE_MS);
    }
    return r;
}

/* Under the service lock, so that a forked child closes the descriptor. */
static int try_lock(struct sl_native_serve *serve, const char *lock, uint32_t *holder)
{
    sl_service_lock();
    int r = sl_os_lock(serve->dir.fd, lock, &serve->lock_fd, holder);
    if (r == 0)
        r = sl_os_close_in_child(serve->lock_fd);
    sl_service_unlock();
    return r;
}

static int claim_name(struct sl_native_serve *serve)
{
    char lock[SLUICE_MAX_NAME + 8];
    int64_t deadline = sl_os_deadline(LOCK_TIMEOUT);
    uint32_t holder = 0;
    /* One more attempt after the deadline, as the lock may have become free while this thread did not run. */
    bool last = false;
    int r;

    snprintf(lock, sizeof lock, "%s.lock", serve->name);
    while ((r = try_lock(serve, lock, &holder)) == SLUICE_E_EXISTS) {
        if (last || has_writer(serve, deadline, &holder))
            return report_name_taken(serve, holder);
        serve->base.previous_died = true;
        last = sl_os_now() > deadline;
        sl_os_sleep(5 * SLUICE_MS);
    }
    SL_KILL_POINT("after_lock");
    return r != 0 ? r : check_socket(serve, deadline, holder == 0);
}

/* A writer that was killed while it made its socket leaves NAME.tmp behind. The holder of the name's lock may remove
 * it. */
static int remove_leftover(void *context, const char *file, uint32_t uid)
{
    const struct sl_native_serve *serve = context;
    char name[SLUICE_MAX_NAME + 8], lock[SLUICE_MAX_NAME + 16];
    size_t length = strlen(file), end = strlen(TEMPORARY);
    uint32_t holder;
    int fd;

    if (uid != sl_os_uid() || length <= end || length - end > SLUICE_MAX_NAME ||
        strcmp(file + length - end, TEMPORARY) != 0)
        return 0;
    snprintf(name, sizeof name, "%.*s", (int)(length - end), file);
    if (strcmp(name, serve->name) == 0) /* ours: listening replaces it */
        return 0;
    snprintf(lock, sizeof lock, "%s.lock", name);
    if (sl_os_lock(serve->dir.fd, lock, &fd, &holder) != 0)
        return 0;
    sl_os_remove(serve->dir.fd, file);
    sl_os_lock_forget(fd);
    sl_os_close(fd);
    return 0;
}

/* Under the service lock, so that a forked child does not keep the locks. */
static void remove_leftovers(struct sl_native_serve *serve)
{
    sl_service_lock();
    (void)sl_os_list(serve->dir.fd, remove_leftover, serve);
    sl_service_unlock();
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

/* Under the service lock, so that a forked child closes the descriptor. */
static int listen_for_readers(struct sl_native_serve *serve)
{
    char temporary[SLUICE_MAX_NAME + 8];
    const struct sluice_writer_params *writer = &serve->writer;
    unsigned mode = 0600;
    int64_t group = -1;
    int r;

    /* The file's mode lets peers connect; their credentials decide. */
    if (writer->gid_count == 1 && writer->uid_count == 0) {
        mode = 0660;
        group = writer->gids[0];
    } else if (writer->gid_count || writer->uid_count) {
        mode = 0666;
    }
    snprintf(temporary, sizeof temporary, "%s" TEMPORARY, serve->name);
    r = sl_os_listen(serve->dir.fd, serve->dir.folder, serve->name, temporary, mode, group, &serve->listener.fd);
    if (r != 0)
        return r;
    if ((r = sl_os_close_in_child(serve->listener.fd)) != 0)
        return r;
    SL_KILL_POINT("after_listen");
    serve->listener.ready = listener_ready;
    serve->listener.timer = listener_timer;
    return sl_service_add(&serve->listener);
}

static void destroy(struct sl_native_serve *serve)
{
    for (uint32_t i = 0; i < serve->memory_count; i++)
        free(serve->memories[i]);
    if (serve->control)
        sl_os_unmap(serve->control, serve->control_size);
    sl_os_close(serve->control_fd);
    sl_os_close(serve->listener.fd);
    sl_os_close(serve->lock_fd);
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
    serve->lock_fd = serve->listener.fd = serve->control_fd = serve->dir.fd = -1;
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
    if ((r = claim_name(serve)) != 0)
        goto err;
    remove_leftovers(serve);
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
    int r = serve->listener.fd < 0 ? listen_for_readers(serve) : 0;
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
    sl_service_remove(&serve->listener);
    /* The name is removed first: a reader that receives the goodbye looks for a new writer at once. */
    if (serve->listener.fd >= 0)
        sl_os_remove(serve->dir.fd, serve->name);
    sl_os_close(serve->listener.fd);
    serve->listener.fd = -1;
    sl_os_close(serve->lock_fd);
    serve->lock_fd = -1;
    while (serve->peers)
        sl_peer_close(serve->peers, SL_BYE_CLOSED);
    sl_service_unlock();
}

void sl_serve_destroy(struct sl_serve *serve)
{
    destroy(serve_of(serve));
}
