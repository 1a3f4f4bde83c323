/* SPDX-License-Identifier: MIT
 *
 * A channel's name: the claim, the lock file and the socket by which a writer has it, and the timer that puts them back
 * when something has removed them.
 */
#include <stdio.h>
#include <string.h>

#include "native/wire/native.h"
#include "util/hooks.h"
#include "util/result.h"

#define TAKE_TIMEOUT   SLUICE_S          /* for a previous owner that is just dying (protocol 4.4) */
#define CHECK_INTERVAL (500 * SLUICE_MS) /* of the files of a name */
#define LOCK           ".lock"           /* suffix of the lock's file */

/* The lock's file; a writer that has one already gives it up for this. */
static int lock_name(struct sl_native_serve *serve, uint32_t *holder)
{
    char name[SLUICE_MAX_NAME + 8];
    int fd, r;

    snprintf(name, sizeof name, "%s" LOCK, serve->name);
    if ((r = sl_os_lock(serve->dir.fd, name, &fd, holder)) != 0)
        return r;
    sl_os_close(serve->lock_fd);
    serve->lock_fd = fd;
    (void)sl_os_file_at(serve->dir.fd, name, &serve->lock_file);
    return sl_os_close_in_child(fd);
}

/* ---- taking it ---- */

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

static int report_taken(const struct sl_native_serve *serve, uint32_t pid)
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
            return report_taken(serve, pid);
        }
        last = sl_os_now() > deadline;
        sl_os_sleep(5 * SLUICE_MS);
    }
    return r;
}

/* A process that connects wants to know which process has the claim. The kernel has told it that, so hang up. */
static void claim_ready(struct sl_watch *watch, bool readable, bool hung_up)
{
    int fd, r = readable ? sl_os_accept(watch->fd, &fd) : SLUICE_AGAIN;

    (void)hung_up;
    if (r == 0)
        sl_os_hang_up(fd);
    else if (r < 0) /* out of descriptors: they stay in the queue until the next check */
        sl_service_pause(watch, true);
}

static int claim(struct sl_native_serve *serve, uint32_t *holder)
{
    int r;

    if (serve->claim.fd >= 0)
        return 0;
    if ((r = sl_os_claim(serve->dir.folder, serve->name, &serve->claim.fd, holder)) != 0 || serve->claim.fd < 0)
        return r;
    serve->claim.ready = claim_ready;
    r = sl_os_close_in_child(serve->claim.fd);
    return r != 0 ? r : sl_service_add(&serve->claim);
}

/* Under the service lock, so that a forked child closes the descriptors. */
static int try_take(struct sl_native_serve *serve, uint32_t *holder)
{
    sl_service_lock();
    int r = claim(serve, holder);
    if (r == 0)
        r = lock_name(serve, holder);
    sl_service_unlock();
    return r;
}

int sl_name_take(struct sl_native_serve *serve)
{
    int64_t deadline = sl_os_deadline(TAKE_TIMEOUT);
    uint32_t holder = 0;
    /* One more attempt after the deadline, as the name may have become free while this thread did not run. */
    bool last = false;
    int r;

    while ((r = try_take(serve, &holder)) == SLUICE_E_EXISTS) {
        if (last || has_writer(serve, deadline, &holder))
            return report_taken(serve, holder);
        serve->base.previous_died = true;
        last = sl_os_now() > deadline;
        sl_os_sleep(5 * SLUICE_MS);
    }
    SL_KILL_POINT("after_lock");
    return r != 0 ? r : check_socket(serve, deadline, holder == 0);
}

/* ---- putting it back ---- */

/* Makes the socket, and replaces the one that readers cannot find any more. */
static int listen_anew(struct sl_native_serve *serve)
{
    const struct sluice_writer_params *writer = &serve->writer;
    unsigned mode = 0600;
    int64_t group = -1;
    int fd, r;

    /* The file's mode lets peers connect; their credentials decide. */
    if (writer->gid_count == 1 && writer->uid_count == 0) {
        mode = 0660;
        group = writer->gids[0];
    } else if (writer->gid_count || writer->uid_count) {
        mode = 0666;
    }
    if ((r = sl_os_listen(serve->dir.fd, serve->dir.folder, serve->name, mode, group, &fd)) != 0)
        return r;
    if (serve->listener.fd >= 0) {
        serve->listener.ready(&serve->listener, true, false); /* peers that have connected to the old socket */
        sl_service_remove(&serve->listener);
        sl_os_close(serve->listener.fd);
    }
    serve->listener.fd = fd;
    if (!sl_os_file_at(serve->dir.fd, serve->name, &serve->socket_file))
        serve->socket_file = (struct sl_os_file){ 0 };
    if ((r = sl_os_close_in_child(fd)) != 0)
        return r;
    SL_KILL_POINT("after_listen");
    return sl_service_add(&serve->listener);
}

/* By its whole path: what is in a folder that was replaced does not count. */
static bool has_file(const struct sl_native_serve *serve, const char *suffix, const struct sl_os_file *file)
{
    char path[sizeof serve->dir.folder + SLUICE_MAX_NAME + 8];
    struct sl_os_file there;

    snprintf(path, sizeof path, "%s/%s%s", serve->dir.folder, serve->name, suffix);
    return sl_os_file_at(-1, path, &there) && there.device == file->device && there.inode == file->inode;
}

static bool has_lock(const struct sl_native_serve *serve)
{
    return has_file(serve, LOCK, &serve->lock_file);
}

static bool has_socket(const struct sl_native_serve *serve)
{
    return has_file(serve, "", &serve->socket_file);
}

static bool has_folder(const struct sl_native_serve *serve)
{
    struct sl_os_file folder;

    return sl_os_file_at(-1, serve->dir.folder, &folder) && sl_os_is_file(serve->dir.fd, &folder);
}

static int open_folder_anew(struct sl_native_serve *serve)
{
    struct sl_folder_options options = { .create = true, .others = serve->writer.uid_count || serve->writer.gid_count };
    int fd, r = sl_os_folder_open(serve->dir.folder, serve->dir.ours, options, &fd);

    if (r != 0)
        return r;
    sl_os_close(serve->dir.fd);
    serve->dir.fd = fd;
    return 0;
}

static int report_other_writer(uint32_t pid)
{
    return sl_fail(SLUICE_E_EXISTS, "another writer (process %u) has the name now: close one of the two", pid);
}

/* The socket is not the one that was made: whose is it? 0: nobody's, or this writer's after all (*ours). */
static int identify_socket(struct sl_native_serve *serve, bool *ours)
{
    struct sl_peer_identity peer = { .pidfd = -1 };
    bool stale;
    int fd, r = sl_os_connect(serve->dir.fd, serve->dir.folder, serve->name, &fd, &stale);

    *ours = false;
    if (r == SLUICE_E_NOT_FOUND)
        return 0;
    if (r == 0) {
        (void)sl_os_peer(fd, &peer);
        sl_os_close(peer.pidfd);
        sl_os_close(fd);
        *ours = peer.pid == sl_os_pid();
    }
    if (*ours) {
        (void)sl_os_file_at(serve->dir.fd, serve->name, &serve->socket_file);
        return 0;
    }
    return r == 0 || r == SLUICE_AGAIN ? report_other_writer(peer.pid) : r;
}

/* *missing: what had gone. 0 once the name is whole. The lock comes after a look at the socket: another writer's lock
 * is left to it, also if it lost that for a moment. */
static int put_back(struct sl_native_serve *serve, const char **missing)
{
    bool folder = has_folder(serve), ours = true;
    uint32_t holder = 0;
    int r;

    *missing = !folder ? "folder" : has_socket(serve) ? "lock file" : "socket";
    if (!folder && (r = open_folder_anew(serve)) != 0)
        return r;
    if (!has_socket(serve) && (r = identify_socket(serve, &ours)) != 0)
        return r;
    if (!has_lock(serve) && (r = lock_name(serve, &holder)) != 0)
        return r == SLUICE_E_EXISTS ? report_other_writer(holder) : r;
    return ours ? 0 : listen_anew(serve);
}

static void report_restored(struct sl_native_serve *serve, const char *missing)
{
    serve->base.name_lost = false;
    serve->name_trouble[0] = '\0';
    serve->base.name_restored++;
    serve->base.name_restored_ns = sl_os_now();
    sl_log(SLUICE_LOG_WARN, "channel '%s': its %s in %s was removed or replaced: the name is put back", serve->name,
           missing, serve->dir.folder);
}

/* Says each cause once. */
static void report_lost(struct sl_native_serve *serve)
{
    serve->base.name_lost = true;
    if (strncmp(serve->name_trouble, sl_last_error(), sizeof serve->name_trouble - 1) == 0)
        return;
    snprintf(serve->name_trouble, sizeof serve->name_trouble, "%s", sl_last_error());
    sl_log(SLUICE_LOG_ERROR, "channel '%s': new readers cannot find it in %s: %s", serve->name, serve->dir.folder,
           serve->name_trouble);
}

/* All channels of a process are checked at the same time: it wakes once. */
static int64_t next_check(void)
{
    return (sl_os_now() / CHECK_INTERVAL + 1) * CHECK_INTERVAL;
}

static void check_name(struct sl_watch *watch)
{
    struct sl_native_serve *serve =
        (struct sl_native_serve *)((char *)watch - offsetof(struct sl_native_serve, checks));
    const char *missing;

    sl_service_set_deadline(watch, next_check());
    sl_service_pause(&serve->claim, false);
    if (!serve->base.name_lost && has_lock(serve) && has_socket(serve))
        return;
    if (put_back(serve, &missing) == 0)
        report_restored(serve, missing);
    else
        report_lost(serve);
}

int sl_name_listen(struct sl_native_serve *serve)
{
    int r = listen_anew(serve);

    if (r != 0)
        return r;
    serve->checks = (struct sl_watch){ .fd = -1, .timer = check_name, .deadline = next_check() };
    return sl_service_add(&serve->checks);
}

void sl_name_release(struct sl_native_serve *serve)
{
    sl_service_remove(&serve->checks);
    sl_service_remove(&serve->listener);
    sl_service_remove(&serve->claim);
    if (serve->listener.fd >= 0 && has_socket(serve))
        sl_os_remove(serve->dir.fd, serve->name);
    sl_os_close(serve->listener.fd);
    sl_os_close(serve->lock_fd);
    sl_os_close(serve->claim.fd);
    serve->listener.fd = serve->lock_fd = serve->claim.fd = -1;
}
