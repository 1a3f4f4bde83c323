/* SPDX-License-Identifier: MIT
 *
 * Everything that Sluice needs from the operating system. posix/ has one file for each part below, under
 * the same name; another system gets a folder with the same files. No other folder makes system calls
 * for these purposes.
 *
 * Functions that return int return a sluice_result and set the error message (util/result.h), unless
 * stated otherwise. Descriptors are CLOEXEC and non-blocking.
 */
#ifndef SL_OS_H
#define SL_OS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/atomic.h"

/* ---- clock.c ---- */

/* CLOCK_MONOTONIC in nanoseconds. */
int64_t sl_os_now(void);

/* The same, up to 10 ms old, but much faster to read. */
int64_t sl_os_now_coarse(void);

/* Without overflow: SLUICE_FOREVER stays SLUICE_FOREVER. */
static inline int64_t sl_os_later(int64_t from, int64_t ns)
{
    return ns > INT64_MAX - from ? INT64_MAX : from + ns;
}

/* The same, from now on. */
int64_t sl_os_deadline(int64_t timeout_ns);

/* Sleeps for about this long. */
void sl_os_sleep(int64_t ns);

/* Yields the CPU to other threads. */
void sl_os_yield(void);

/* 64 random bits, never 0. */
uint64_t sl_os_random(void);

/* ---- shm.c: memory that can be shared with other processes ---- */

size_t sl_os_page_size(void);

/* Makes a memory object of `size` bytes (a whole number of pages), zeroed and sealed against shrinking and
 * growing. All of it is allocated now, so that no later access can fail. `name` shows in /proc.
 * More than the machine has available is SLUICE_E_NO_MEMORY without trying: the kernel would kill a process.
 */
int sl_os_memory_create(const char *name, uint64_t size, int *fd);

/* Forbids further seals; with `read_only` also new writable mappings by anybody. Existing ones stay
 * (F_SEAL_FUTURE_WRITE; never F_SEAL_WRITE, which fails while the memory is pinned for a GPU). */
int sl_os_memory_seal(int fd, bool read_only);

/* Is a received descriptor a memory object of exactly `size` bytes that cannot shrink or grow, with all
 * its pages allocated? If not: SLUICE_E_PROTOCOL, saying what it is instead. With `read_only` it must have
 * that seal too. */
int sl_os_memory_check(int fd, uint64_t size, bool read_only);

int sl_os_map(int fd, uint64_t size, bool writable, void **address);
void sl_os_unmap(void *address, uint64_t size);

/* For memory that a driver failed to unregister: from now on sl_os_unmap leaves it mapped. Otherwise the process could
 * not use the address again (protocol 6.1). */
void sl_os_keep_mapped(void *address);

/* ---- named_shm.c: named shared memory, which programs of other projects open by name ----
 *
 * On Linux: files in /dev/shm, as opened by shm_open("/NAME"). Names here have no slash, and SL_OS_NAMED bytes at
 * most. A memory lives until its last name and its last mapping are gone, and any process of the user may
 * remove a name.
 *
 * On Windows: sections with exactly this name (session-local), by CreateFileMappingW and OpenFileMappingW. A section
 * has one name, and lives as long as a handle to it. So link and remove do nothing and succeed, stat reports the same
 * section for as long as it can be opened, and sizes are whole pages. The lock is a separate object,
 * `Local\\sluice_lock_` and the name, which exists while its holder has it open.
 */
#define SL_OS_NAMED 255

/* In messages: what stands before a name, and who can find it. "/dev/shm/" on Linux, "section " on Windows. */
extern const char sl_os_named_at[], sl_os_named_reach[];

struct sl_os_named {
    uint64_t device, inode; /* which memory it is */
    uint64_t size;
    uint32_t links; /* how many names it has; 0: only mappings and descriptors keep it alive */
    uint32_t owner; /* uid */
};

/* Opens one, for mapping. It must be plain memory owned by this user or by root (root may open anybody's), else
 * SLUICE_E_PERMISSION. SLUICE_E_NOT_FOUND, without a message, if there is none. */
int sl_os_named_open(const char *name, bool writable, int *fd, struct sl_os_named *about);

/* Can a memory have several names, so that another one can take its place? If not, one is made under the name that
 * others open, before it is filled in. */
bool sl_os_named_has_names(void);

/* Makes one with mode 0600, zeroed, with all its pages allocated so that no store to it can fail.
 * SLUICE_E_EXISTS, without a message, if the name is taken. */
int sl_os_named_make(const char *name, uint64_t size, int *fd, struct sl_os_named *about);

/* The same without a name: it is freed with its last descriptor and mapping unless it is given one.
 * SLUICE_E_UNSUPPORTED, without a message, if this system cannot do that. */
int sl_os_named_make_hidden(uint64_t size, int *fd, struct sl_os_named *about);

/* Gives it a name. SLUICE_E_EXISTS without a message. */
int sl_os_named_add_name(int fd, const char *name);

/* Opens the memory of descriptor `fd` again, as an independent writable descriptor. SLUICE_E_UNSUPPORTED, without a
 * message, if this system cannot do that. */
int sl_os_named_reopen(int fd, int *again);

/* Which memory a descriptor or a name refers to. For a name: SLUICE_E_NOT_FOUND without a message. */
int sl_os_named_about(int fd, struct sl_os_named *about);
int sl_os_named_stat(const char *name, struct sl_os_named *about);

/* Copies its first `size` bytes. Unlike access through a mapping this is safe if its owner truncates it. False if it is
 * shorter than that. */
bool sl_os_named_read(int fd, void *bytes, size_t size);

/* Gives a memory one more name, atomically. SLUICE_E_EXISTS and SLUICE_E_NOT_FOUND without a message. */
int sl_os_named_link(const char *from, const char *to);

/* The same, but atomically replaces the memory that has the name `to`. Uses a third name, which is left behind if this
 * process is killed in between. */
int sl_os_named_move(const char *from, const char *third, const char *to);

/* Removes a name if it still refers to that memory. True: it did, and is removed. */
bool sl_os_named_remove(const char *name, const struct sl_os_named *memory);

/* Calls `each` for every name with this prefix. Returns 0, or the first result of `each` that is not 0. */
int sl_os_named_list(const char *prefix, int (*each)(void *context, const char *name), void *context);

/* Like sl_os_watch_open, for these names. */
int sl_os_named_watch(int *fd);

/* Takes an advisory lock on the memory behind a writable descriptor, which excludes all other descriptors of it. The
 * kernel releases it when the last copy of the descriptor is closed.
 * `shared`: others may hold it shared, too. SLUICE_E_EXISTS, without a message, if it is taken. */
int sl_os_named_lock(int fd, bool shared);

/* Does another descriptor of the memory hold the lock, shared or not? */
bool sl_os_named_locked(int fd);

/* Is this the only writable descriptor of the memory? 1: yes; 0: another process has one, so that process is alive.
 * SLUICE_E_UNSUPPORTED, without a message, where the system cannot tell, also for another user's file. (Windows has no
 * such question: a section is made with its size.) */
int sl_os_named_alone(int fd);

/* ---- futex.c: sleeping on a word that others change ----
 *
 * Windows can do this within one process only (WaitOnAddress); between processes it takes a named event.
 */

/* Sleeps while *word == value, until woken or `deadline` (sl_os_now's clock; SLUICE_FOREVER: none).
 * Returns 0 when the caller should check again (also spuriously), SLUICE_TIMEOUT at the deadline.
 * Works across processes, and on a read-only mapping. Sets no error message. */
int sl_os_futex_wait(const sl_word32 *word, uint32_t value, int64_t deadline);

/* The same for a word that the process `pid` changes. On Windows, which can wait for both, SLUICE_CLOSED: that has
 * ended. */
int sl_os_futex_wait_of(const sl_word32 *word, uint32_t value, int64_t deadline, uint32_t pid);

/* As sl_os_futex_wait, for a caller that wants to check again at about `until`, and may wake slightly before that. In
 * sl_os_futex_wait the kernel may wake the thread late by up to its timer slack, which is 50 us unless the program has
 * set it. */
int sl_os_futex_wait_precise(const sl_word32 *word, uint32_t value, int64_t until);

/* Wakes up to `count` waiters. */
void sl_os_futex_wake(const sl_word32 *word, int count);

/* ---- bell.c: the doorbell of cuda-link, which exists on Windows alone ---- */

/* A writer's, for its channel. SLUICE_E_UNSUPPORTED, without a message, where there is none. */
int sl_os_bell_make(const char *channel, int *bell);
void sl_os_bell_ring(int bell);

/* ---- dir.c: the folder of channels, and its locks ---- */

/* The absolute path of the folder of channels: SLUICE_DIR, else $XDG_RUNTIME_DIR/sluice if $XDG_RUNTIME_DIR belongs to
 * this user (after sudo it may be another's), else /tmp/sluice-UID. Setuid programs ignore both variables. *ours: it is
 * one of the two standard folders, which only this user can access. SLUICE_E_INVALID if `size` is too small. */
int sl_os_folder_name(char *path, size_t size, bool *ours);

/* The k-th standard folder in which a channel of this machine might also be (k = 0, 1, ...), for the
 * "not found" message; false when there is no k-th. */
bool sl_os_folder_other(int k, char *path, size_t size);

struct sl_folder_options {
    bool create;
    bool others; /* other users or groups may use it: mode 0711, else 0700 */
};

/* Opens the folder, and makes it if need be. A standard folder must be a real directory (no link), owned by us,
 * with mode 0700; else SLUICE_E_PERMISSION says what it is and how to fix it. Any other folder may have any owner,
 * but strangers must not be able to replace our files in it (world-writable without the sticky bit).
 * `others` with a standard folder is SLUICE_E_PERMISSION, and the message suggests SLUICE_DIR; so is an existing folder
 * that lets nobody else in. Search permission is enough; the folder need not be readable.
 * SLUICE_E_NOT_FOUND if it does not exist. */
int sl_os_folder_open(const char *path, bool ours, struct sl_folder_options options, int *dir);

/* Takes the lock file `name` in `dir` (made if need be, never removed; our pid is written into it). If
 * somebody holds it: SLUICE_E_EXISTS without a message. *holder is the pid found in it, of the process that
 * holds it or held it last (0: unknown, or nobody ever did). The kernel releases the lock when the last copy of
 * *fd is closed. */
int sl_os_lock(int dir, const char *name, int *fd, uint32_t *holder);

/* Clears the pid in a lock file that we hold, as if nobody had ever held it. */
void sl_os_lock_forget(int fd);

void sl_os_remove(int dir, const char *name);

/* Which file that is. */
struct sl_os_file {
    uint64_t device, inode;
};

/* Of a name in a folder, a link itself; `dir` -1: `name` is a whole path. False if there is none. */
bool sl_os_file_at(int dir, const char *name, struct sl_os_file *file);

/* Is that the file that `fd` has open? */
bool sl_os_is_file(int fd, const struct sl_os_file *file);

/* Calls `each` for every socket in the folder. Returns 0, or the first result of `each` that is not 0. */
int sl_os_list(int dir, int (*each)(void *context, const char *name, uint32_t uid), void *context);

/* Watches a folder for names that are added and removed, and sockets that begin to listen (inotify). */
int sl_os_watch_open(const char *path, int *fd);
int sl_os_watch_add(int fd, const char *path); /* one more folder */
bool sl_os_watch_drain(int fd);                /* true if anything happened */

/* Reads some of the events and calls `each` with the name of each one; NULL: events were lost, or the folder itself is
 * gone. False if there were none. It does not read until none are left, as others may make names faster than they are
 * read. */
bool sl_os_watch_read(int fd, void (*each)(void *context, const char *name), void *context);

/* ---- local_socket.c: a channel's sockets ---- */

/* Makes a listening SOCK_SEQPACKET socket under `name`. A socket that has the name is replaced: nobody may listen on it
 * any more. The kernel lists it under this name from the beginning, so that programs which clean up folders see that it
 * is in use. For a moment it refuses connections; once it listens its mode is set, which a watch of the folder reports.
 * `mode` is the file's. Long paths work. */
int sl_os_listen(int dir, const char *path, const char *name, unsigned mode, int64_t group, int *fd);

/* Connects. SLUICE_E_NOT_FOUND: no such name, or nobody listens (*stale: the file exists);
 * SLUICE_AGAIN: its queue is full, try later; SLUICE_E_PERMISSION; SLUICE_E_PROTOCOL: a socket, but
 * not one of ours. */
int sl_os_connect(int dir, const char *path, const char *name, int *fd, bool *stale);

/* Claims a name in a folder for this user, whatever happens to the folder and the files in it: an abstract socket,
 * which lives as long as its descriptor. It covers processes that share this one's network namespace, and see the
 * same files; the lock file covers others. *fd listens: accept, and hang up. It is -1 where the system has no such
 * sockets, or another user has taken the address, and then nothing is claimed. SLUICE_E_EXISTS, without a
 * message, if a process of this user (*holder) has it. */
int sl_os_claim(const char *folder, const char *name, int *fd, uint32_t *holder);

/* Has a process of this user claimed that name? */
bool sl_os_find_claimant(const char *folder, const char *name, uint32_t *pid);

/* ---- fd_passing.c: messages with descriptors ---- */

#define SL_OS_MAX_FDS 4

/* Sends one message. 0; SLUICE_AGAIN if there is no room now (also ETOOMANYREFS); SLUICE_CLOSED if the
 * peer is gone; it sets no error message for these. Never blocks, never raises SIGPIPE. An empty message is
 * SLUICE_E_INVALID: the receiver would take it for the end. */
int sl_os_send(int fd, const void *message, size_t size, const int *fds, int fd_count);

/* Receives one message into `message`; *size is its length. Descriptors that came with it are in fds[0 ..
 * *fd_count-1], CLOEXEC; `fds` has room for SL_OS_MAX_FDS. 0; SLUICE_AGAIN if there is no message;
 * SLUICE_CLOSED after the last message of a peer that closed or was killed;
 * SLUICE_E_NO_DESCRIPTORS if descriptors were truncated (the message names RLIMIT_NOFILE), SLUICE_E_PROTOCOL for a
 * message over `capacity` or more than SL_OS_MAX_FDS: in both cases the descriptors that came are closed. */
int sl_os_receive(int fd, void *message, size_t capacity, size_t *size, int *fds, int *fd_count);

/* From now on nobody can send descriptors to this socket, nor, if it listens, to those that it accepts.
 * Needs Linux 6.16; does nothing on older kernels. */
void sl_os_take_no_descriptors(int fd);

/* Closes descriptors that another process sent; -1 is ignored. Prevents closes that block, as that of a TCP socket
 * that lingers would; a file on FUSE still can block. */
void sl_os_discard(const int *fds, int count);

/* Ends a connection, even if a forked child has kept a copy of it, and closes descriptors that its peer sent and nobody
 * received, as sl_os_discard does. */
void sl_os_hang_up(int fd);

/* Has its peer closed this connection, or died? Messages from it may still be unread. */
bool sl_os_hung_up(int fd);

/* Two connected sockets for one-byte wakes (SOCK_SEQPACKET). */
int sl_os_socket_pair(int fds[2]);

/* Could a descriptor that another process sent be one of those two? */
bool sl_os_is_wake_socket(int fd);

/* Accepts a connection: 0, SLUICE_AGAIN, or a failure. After SLUICE_E_NO_DESCRIPTORS the listener stays readable: pause
 * its watch for a while (sl_service_pause). */
int sl_os_accept(int listener, int *fd);

/* 0 if the process can open `count` more descriptors, else SLUICE_E_NO_DESCRIPTORS with its limit. Slow, for failures
 * only: it checks each number, and opens none. */
int sl_os_descriptors_left(uint32_t count);
void sl_os_close(int fd); /* keeps errno; -1 is ignored; undoes sl_os_close_in_child */

/* Reads all that is pending on a wake socket, up to a limit; true if anything came. */
bool sl_os_drain(int fd);

/* ---- driver_fd.c: descriptors that a driver made ---- */

/* What kind of file a descriptor refers to, in enough detail to recognize those of one driver. */
struct sl_os_driver_fd {
    uint64_t file_system;
    uint32_t type, driver;
};
int sl_os_driver_fd_kind(int fd, struct sl_os_driver_fd *kind);

/* Prepares a descriptor that a driver made: it is CLOEXEC from now on. */
int sl_os_driver_fd_prepare(int fd);

/* ---- epoll.c: what a program may poll ---- */

/* An epoll is readable while any descriptor in it is. */
int sl_os_epoll_open(int *fd);
int sl_os_epoll_add(int epoll, int fd);
void sl_os_epoll_remove(int epoll, int fd);

/* An eventfd is readable from set to clear. */
int sl_os_eventfd_open(int *fd);
void sl_os_eventfd_set(int fd);
void sl_os_eventfd_clear(int fd);

/* What a program polls: the descriptor itself. SLUICE_E_UNSUPPORTED on Windows, where it is a number of ours for a
 * handle, for which a program waits instead. That is SLUICE_E_UNSUPPORTED elsewhere. */
int sl_os_descriptor(int fd);
int sl_os_handle(int fd, void **handle);

/* Waits until `fd` is readable: 0, or SLUICE_TIMEOUT. Sets no error message. */
int sl_os_wait_readable(int fd, int64_t deadline);

/* ---- process.c ---- */

struct sl_peer_identity {
    uint32_t pid, uid, gid;
    int pidfd; /* readable when the process is dead; -1 where the kernel has none */
};

/* The identity of the peer, from the kernel (SO_PEERCRED, SO_PEERPIDFD). */
int sl_os_peer(int fd, struct sl_peer_identity *peer);

/* May this peer be trusted? Yes if its uid is ours or in `uids`, or if it is in a group of `gids`
 * (its primary group; supplementary groups too where the kernel has SO_PEERGROUPS). The overflow uid
 * stands for any unmapped user, so it is trusted only if `uids` names it. */
bool sl_os_peer_allowed(int fd, const struct sl_peer_identity *peer, const uint32_t *uids, uint32_t uid_count,
                        const uint32_t *gids, uint32_t gid_count);

/* A pidfd of this process, to send where the kernel has no SO_PEERPIDFD; -1 if none. */
int sl_os_self_pidfd(void);

/* Is it a pidfd, and has its process ended? */
bool sl_os_pidfd_valid(int fd);
bool sl_os_pidfd_dead(int fd);

uint32_t sl_os_pid(void);

/* Does a process of this number run, which may be another user's? */
bool sl_os_process_runs(uint32_t pid);

uint32_t sl_os_uid(void);

/* The program's short name ("python3"). */
void sl_os_program(char *name, size_t size);

/* Does this system's driver model of GPUs (WDDM) hold work back until there is more of it? A GPU may do without. */
bool sl_os_holds_work_back(void);

/* Does this system run on WSL2? Reads system files below `root`, which is "" outside tests. */
bool sl_os_wsl(const char *root);

/* Is there memory at `address` that this process may read? True where the system cannot tell. */
bool sl_os_readable(const void *address);

/* ---- fork.c ---- */

/* Is this process a child made by fork or clone without exec, after sl_fork_install? False if the child itself was the
 * first to call sl_fork_install. Costs one load, or a getpid where the kernel cannot wipe pages on fork. */
bool sl_os_forked(void);

/* From now on forks are detected. Descriptors and the service thread call it themselves; whatever else
 * a child must not use calls it first. SLUICE_E_FORKED in a forked child. */
int sl_fork_install(void);

/* Marks a descriptor that a forked child must not keep (sockets, locks, eventfds): it is closed in the child
 * right after the fork. sl_os_close removes the mark. If the descriptor is opened and marked under the service lock,
 * no child can inherit it in between. The child of a raw clone system call is detected, but keeps all of
 * them. SLUICE_E_LIMIT for descriptors from 2^20; SLUICE_E_FORKED in a forked child. */
int sl_os_close_in_child(int fd);

/* Removes the mark: a forked child keeps the descriptor from now on. */
void sl_os_keep_in_child(int fd);

/* ---- thread.c ---- */

typedef struct sl_mutex {
    _Alignas(16) unsigned char opaque[64];
} sl_mutex;
void sl_mutex_init(sl_mutex *mutex);
void sl_mutex_finish(sl_mutex *mutex);
void sl_mutex_lock(sl_mutex *mutex);
void sl_mutex_unlock(sl_mutex *mutex);

/* A number of the calling thread, which no other thread of this process has or will have; never 0. */
uint64_t sl_os_thread_number(void);

/* How many CPUs this process may use. */
uint32_t sl_os_cpu_count(void);

/* Names the calling thread, for debuggers and ps; at most 15 bytes. */
void sl_os_name_thread(const char *name);

/* Memory of this process alone at a multiple of `unit`, a power of two; `size` is a multiple of that, too. NULL: there
 * is none. */
void *sl_os_aligned_alloc(size_t unit, size_t size);
void sl_os_aligned_free(void *memory);

/* Memory of this process alone, zeroed, for stacks: it takes up what is touched only. To be unmapped (sl_os_unmap). */
int sl_os_reserve(uint64_t size, void **address);

/* Runs the function on a new, detached thread that blocks all signals. SLUICE_E_SYSTEM if none can be
 * made. */
int sl_os_start_thread(void (*function)(void *argument), void *argument);

/* ---- background.c, for all systems: cleanup that no call may wait for ----
 *
 * A driver that frees memory may first wait for all work that the program has on the GPU. */

/* Calls function(argument) on a new thread; on this one if none can be made, or if this is such a thread already. The
 * caller holds no lock that the function takes. */
void sl_background_run(void (*function)(void *argument), void *argument);

/* The same for callers that cannot run it themselves: false if no thread can be made. */
bool sl_background_start(void (*function)(void *argument), void *argument);

/* How many of these threads run, besides this one. */
uint32_t sl_background_count(void);

/* Before something is made that will be freed so: waits up to 2 s while 16 of these threads run. */
void sl_background_await_capacity(void);

/* Waits up to 2 s until none of these threads runs, except this one. True if there were any, and none runs now. */
bool sl_background_drain(void);

/* The same when a channel is closed; if a thread still runs, a warning names the channel. */
void sl_background_await(const char *channel);

/* ---- service.c: the service thread ----
 *
 * It starts with the first watch and ends with the last, blocks all signals, and sleeps in one place.
 * One mutex, the service lock, serializes it with the calls of other threads: callbacks
 * run with it held, and whoever adds, changes or removes a watch holds it. So a watch that was removed
 * under the lock will never run again. Callbacks must not block. The lock is not held while the thread
 * sleeps.
 *
 * A thread that has removed the last watch waits in sl_service_unlock until the service thread has ended, so that
 * neither it nor its descriptors are left (if a callback removed it, the thread ends soon by itself). A fork
 * takes the lock; a forked child can take it too, but has no thread: adding is SLUICE_E_FORKED there.
 */
void sl_service_lock(void);
void sl_service_unlock(void);

/* ready() is called again for as long as there is something to read. A hang-up is reported with the last data
 * or after it (readable is false then); after that the fd is not polled any more, but the timer still works.
 * A pidfd is readable when its process is dead, and hung up as well once the process was reaped. A callback
 * may add, remove and free any watch, including its own. An fd is in one watch at most; remove that before
 * closing it. */
struct sl_watch {
    void (*ready)(struct sl_watch *watch, bool readable, bool hung_up); /* the fd is readable or hung up */
    void (*timer)(struct sl_watch *watch);                              /* `deadline` has passed */
    int fd;                                                             /* -1: a timer only */
    int64_t deadline;                                                   /* 0: none. Cleared before timer() is called */
    bool added;                                                         /* private from here on */
    bool muted;        /* hung up and reported: its fd is not polled any more */
    size_t heap_index; /* its index among the timers */
};

/* All under the service lock. Adding starts the thread if need be: SLUICE_E_SYSTEM if it cannot;
 * SLUICE_E_INVALID for an fd that cannot be watched or already is. Removing a watch that was not added does
 * nothing. Once the watch was added, change its deadline by set_deadline only. */
int sl_service_add(struct sl_watch *watch);
void sl_service_remove(struct sl_watch *watch);
void sl_service_set_deadline(struct sl_watch *watch, int64_t deadline);

/* While a watch is paused only a hang-up of its fd is reported. For an fd that is readable but cannot be read now,
 * like a listener when descriptors have run out: otherwise the thread would never sleep. */
void sl_service_pause(struct sl_watch *watch, bool paused);

/* Keep the thread alive from the first user to the last: each holds one reference. */
int sl_service_hold(void);
void sl_service_drop(void);

/* ---- name_watch.c, for all systems: names that come to a folder or leave it ----
 *
 * All watches of a process share one descriptor for each folder. */

struct sl_watched_folder;

struct sl_name_watch {
    const char *name; /* valid until it leaves */
    /* The name came or left, or perhaps: reports were lost. On the service thread, under its lock. It must not leave.
     */
    void (*changed)(struct sl_name_watch *watch);
    struct sl_name_watch *next; /* private from here on */
    struct sl_watched_folder *folder;
};

/* Under the service lock. `folder`: NULL is that of named shared memory. SLUICE_E_NOT_FOUND if there is no such folder;
 * SLUICE_E_NO_DESCRIPTORS, also at the limit fs.inotify.max_user_instances. The last watch of a folder that leaves may
 * wait 20 ms for the kernel. Leaving without having joined does nothing. */
int sl_name_watch_join(struct sl_name_watch *watch, const char *folder);
void sl_name_watch_leave(struct sl_name_watch *watch);

/* Was its folder removed, so that nothing is reported any more? */
bool sl_name_watch_is_over(const struct sl_name_watch *watch);

/* ---- spawn.c: programs that are run to their end ---- */

struct sl_os_program {
    char path[4096];
    uint64_t bytes, inode; /* these three change when another version is installed */
    int64_t changed;
};

/* False on Windows, where none is found. */
bool sl_os_runs_programs(void);

/* Finds a program by its name, in PATH, or by its path. */
bool sl_os_find_program(const char *name, struct sl_os_program *program);

struct sl_os_run {
    const char *const *argv;        /* ends with NULL; argv[0] is a path */
    const char *const *environment; /* "NAME=value", besides ours and instead of it; ends with NULL. NULL: none */
    const void *input;              /* what it reads from its stdin */
    size_t input_size;
    char *output; /* set: what it wrote to its stdout and stderr, with a NUL at the end; to be freed */
    size_t output_size;
    int status; /* set: its exit status; 128 and the signal; -1: not known, as this process ignores SIGCHLD */
};

/* Runs a program, without a shell, and waits for its end. It inherits no descriptor and no blocked signal. */
int sl_os_run(struct sl_os_run *run);

/* ---- temp.c: temporary folders, and whole files ---- */

#define SL_OS_TEMP 512 /* room for the path of one */

/* Makes a folder that only this user can access, in TMPDIR or /tmp. */
int sl_os_temp_make(char *path, size_t size);

/* Removes it, with the files in it. */
void sl_os_temp_remove(const char *path);

/* A new file; the user may execute it, others nothing. */
int sl_os_file_write(const char *path, const void *bytes, size_t size);

/* *bytes: to be freed. */
int sl_os_file_read(const char *path, void **bytes, size_t *size);

/* ---- private_dir.c: a folder that only this user can access, and small files in it ---- */

/* Opens it. `make`: makes it, and the folders that it is in, if it does not exist; else that is SLUICE_E_NOT_FOUND.
 * SLUICE_E_PERMISSION if it is a link, another user's, or of another mode than 0700. Close it by sl_os_close. */
int sl_os_private_dir_open(const char *path, bool make, int *dir);

/* Reads a file; *bytes: to be freed. SLUICE_E_NOT_FOUND, without a message; SLUICE_E_INVALID for more than `most`
 * bytes, and for what is no file. */
int sl_os_private_read(int dir, const char *name, uint64_t most, void **bytes, size_t *size);

/* Writes a file beside, whose name begins with SL_OS_BESIDE, and gives it the name: readers see the old one or the new
 * one. A process that is killed leaves the file beside. */
#define SL_OS_BESIDE "beside-"
int sl_os_private_replace(int dir, const char *name, const void *bytes, size_t size);

/* Makes a file the newest one. */
void sl_os_private_touch(int dir, const char *name);

/* Calls `each` for each file, with the time of its last change by sl_os_wall_clock. Returns 0, or the first result of
 * `each` that is not 0. */
int sl_os_private_list(int dir, int (*each)(void *context, const char *name, int64_t changed), void *context);

/* Nanoseconds since 1970, which may jump. */
int64_t sl_os_wall_clock(void);

/* ---- dl.c: libraries loaded at run time ---- */

/* The name that a library has on this system. */
const char *sl_os_dl_pick(const char *posix, const char *windows);

/* SLUICE_E_NO_DESCRIPTORS if no descriptor is left to open it with, else SLUICE_E_UNSUPPORTED if it cannot be loaded.
 */
int sl_os_dl_open(const char *name, void **library);
void *sl_os_dl_symbol(void *library, const char *name);
void sl_os_dl_close(void *library);

/* Has this process loaded a library of that name or path? Does not load it. */
bool sl_os_dl_loaded(const char *name);

/* temp.c: loads a library from its bytes. `name` shows in /proc. SLUICE_E_UNSUPPORTED if it cannot be loaded. */
int sl_os_dl_load(const char *name, const void *bytes, size_t size, void **library);

/* The path of the `nth` (0: the first) library that this process has loaded whose file's name begins so. False if there
 * are not so many, or it does not fit. */
bool sl_os_dl_find(const char *start, int nth, char *path, size_t size);

/* How many libraries this process has loaded so far, those included that it unloaded. Cheap. */
uint64_t sl_os_dl_count(void);

#endif
