/* SPDX-License-Identifier: MIT
 *
 * All that Sluice asks of an operating system. posix/ has one file for each part below, under the
 * same name; another system gets a folder with the same files. No other folder makes system calls for
 * these things.
 *
 * Calls that return int return a sluice_result with the sentence set (util/result.h), unless said
 * otherwise. Descriptors are CLOEXEC and non-blocking.
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

/* The same, but up to ten milliseconds ago, and in a fraction of the time. */
int64_t sl_os_now_coarse(void);

/* now + timeout, saturating; SLUICE_FOREVER stays it. */
int64_t sl_os_deadline(int64_t timeout_ns);

/* Sleeps about so long. */
void sl_os_sleep(int64_t ns);

/* Lets others run. */
void sl_os_yield(void);

/* 64 random bits, never 0. */
uint64_t sl_os_random(void);

/* ---- shm.c: memory that can be handed to others ---- */

size_t sl_os_page_size(void);

/* Makes a memory object of `size` bytes (a whole number of pages), all of it allocated now so that
 * no later access can fail, zeroed, and sealed against shrinking and growing. `name` shows in /proc.
 * More than the machine has left is SLUICE_E_NO_MEMORY without trying: the kernel would kill somebody.
 */
int sl_os_memory_create(const char *name, uint64_t size, int *fd);

/* Forbids further seals; with `read_only` also new writable mappings by anybody, those that exist stay
 * (F_SEAL_FUTURE_WRITE; never F_SEAL_WRITE, which fails while a GPU has it pinned). */
int sl_os_memory_seal(int fd, bool read_only);

/* Is a received descriptor a memory object of exactly `size` bytes that cannot shrink or grow, with all
 * its pages there? If not: SLUICE_E_PROTOCOL with what it is instead. With `read_only` it must carry that
 * seal too. */
int sl_os_memory_check(int fd, uint64_t size, bool read_only);

int sl_os_map(int fd, uint64_t size, bool writable, void **address);
void sl_os_unmap(void *address, uint64_t size);

/* ---- named.c: shared memory that has a name, as programs of other projects find it ----
 *
 * Here: files in /dev/shm, what shm_open("/NAME") opens; without a slash, SL_OS_NAMED bytes at most. A
 * memory lives until its last name and its last mapping are gone, and any process of the user may take
 * a name away.
 *
 * Windows has sections of this name verbatim (session-local): CreateFileMappingW and OpenFileMappingW.
 * A section lives as long as a handle of it: there, link and remove do nothing and succeed, look says the same
 * section for as long as it opens, the sizes are of whole pages (VirtualQuery), and the lock is a mutex
 * beside it, `Local\\sluice_lock_` and the name, whose abandonment is the end of its holder.
 */
#define SL_OS_NAMED 255

struct sl_os_named {
    uint64_t device, inode; /* which memory it is */
    uint64_t size;
    uint32_t links; /* names it has; 0: only mappings and descriptors keep it */
    uint32_t owner; /* uid */
};

/* Opens it, to map. It must be plain memory of this user's, or root's (root may open anybody's): else
 * SLUICE_E_PERMISSION. SLUICE_E_NOT_FOUND, without a sentence, if there is none. */
int sl_os_named_open(const char *name, bool writable, int *fd, struct sl_os_named *about);

/* Makes one with mode 0600, zeroed, with all its pages there so that no store to it can fail.
 * SLUICE_E_EXISTS, without a sentence, if the name is taken. */
int sl_os_named_make(const char *name, uint64_t size, int *fd, struct sl_os_named *about);

/* The same without a name: it goes with its last descriptor and mapping unless it is given one. SLUICE_E_UNSUPPORTED, without a
 * sentence, if this system has no such. */
int sl_os_named_make_hidden(uint64_t size, int *fd, struct sl_os_named *about);

/* Gives it a name. SLUICE_E_EXISTS without a sentence. */
int sl_os_named_give(int fd, const char *name);

/* A writable descriptor of its own for the memory of another. SLUICE_E_UNSUPPORTED, without a sentence, if this system has
 * no such. */
int sl_os_named_again(int fd, int *again);

/* What a descriptor or a name stands for. The name: SLUICE_E_NOT_FOUND without a sentence. */
int sl_os_named_about(int fd, struct sl_os_named *about);
int sl_os_named_look(const char *name, struct sl_os_named *about);

/* Gives a memory one more name, in one step. SLUICE_E_EXISTS and SLUICE_E_NOT_FOUND without a sentence. */
int sl_os_named_link(const char *from, const char *to);

/* The same, and takes the name away from the memory that has it, in one step too. */
int sl_os_named_move(const char *from, const char *to);

/* Takes a name away if it still is that memory's. True: it was, and is gone. */
bool sl_os_named_remove(const char *name, const struct sl_os_named *memory);

/* Calls `each` for every name that begins so. Returns 0, or what `each` returned when not 0. */
int sl_os_named_list(const char *prefix, int (*each)(void *context, const char *name), void *context);

/* As sl_os_watch_open, for these names. */
int sl_os_named_watch(int *fd);

/* A lock on the memory behind a writable descriptor, which no other descriptor of it then gets; the
 * kernel drops it with the last copy of the descriptor. Programs that do not ask do not notice.
 * `shared`: together with others that share it. SLUICE_E_EXISTS, without a sentence, if it is taken. */
int sl_os_named_lock(int fd, bool shared);

/* Has another descriptor of the memory the lock, shared or not? */
bool sl_os_named_locked(int fd);

/* ---- wake.c: sleeping on a word that others change ----
 *
 * Windows sleeps so within one process only (WaitOnAddress). Between processes cuda-link's doorbell is there for it,
 * an event that resets itself, `Local\\cudalink_db_` and the segment's name, less than 260 characters: the writer makes
 * it behind the segment, sets it behind each index, each version and the flag at the end, and closes it last. A reader
 * opens it (SYNCHRONIZE), looks at the index before it waits and at everything after that, and waits for a moment at a
 * time, for there may be none, and it wakes one waiter only. It says that a frame was published, never that a slot is
 * ready.
 */

/* Sleeps while *word == value, until woken or `deadline` (sl_os_now's clock; SLUICE_FOREVER: none).
 * Returns 0 when the caller should look again (also without reason), SLUICE_TIMEOUT at the deadline.
 * Works across processes, and on a read-only mapping. Sets no sentence. */
int sl_os_wait(const sl_word32 *word, uint32_t value, int64_t deadline);

/* The same for who looks again at about `until`, and who may wake a little before that: at other deadlines the kernel lets a
 * thread sleep on for as long as it pleases within the thread's timer slack, which is 50 us unless the program has set it. */
int sl_os_nap(const sl_word32 *word, uint32_t value, int64_t until);

/* Wakes up to `count` sleepers. */
void sl_os_wake(const sl_word32 *word, int count);

/* ---- dir.c: the folder of channels, its locks and sockets ---- */

/* The folder channels live in, as a whole path: SLUICE_DIR, else $XDG_RUNTIME_DIR/sluice if that is a folder of this
 * user (sudo leaves another's behind), else /tmp/sluice-UID. Setuid programs ignore both variables.
 * *ours says that it is one of the two standard folders, which are this user's alone.
 * SLUICE_E_INVALID if `size` is too small for it. */
int sl_os_folder_name(char *path, size_t size, bool *ours);

/* The k-th standard folder that a channel of this machine might also live in (k = 0, 1, ...), for the
 * sentence of "not found"; false when there is no k-th. */
bool sl_os_folder_other(int k, char *path, size_t size);

struct sl_folder_options {
    bool create;
    bool others;     /* other users or groups may use it: mode 0711, else 0700 */
};

/* Opens (and makes) the folder. A standard folder must be a real directory (no link), owned by us,
 * mode 0700, else SLUICE_E_PERMISSION says what it is and the mend. Any other may be anybody's that we
 * can use, but not one in which strangers could replace our files (world-writable without sticky bit).
 * `others` on a standard folder: SLUICE_E_PERMISSION, the mend being SLUICE_DIR; the same for one that
 * is there already and lets nobody else in. One that we may pass through but not list will do.
 * SLUICE_E_NOT_FOUND if it is not there. */
int sl_os_folder_open(const char *path, bool ours, struct sl_folder_options options, int *dir);

/* Takes the lock file `name` in `dir` (made if need be, never removed; our pid is written into it). If
 * somebody holds it: SLUICE_E_EXISTS without a sentence, *holder the pid written in it (0 unknown). The
 * kernel drops it with the last copy of *fd. */
int sl_os_lock(int dir, const char *name, int *fd, uint32_t *holder);

/* A listening SOCK_SEQPACKET socket under `name`, which it replaces in one step (made under
 * `temporary`, then renamed). `mode` is the file's. Long paths work. */
int sl_os_listen(int dir, const char *path, const char *name, const char *temporary, unsigned mode,
                 int64_t group, int *fd);

/* Connects. SLUICE_E_NOT_FOUND: no such name, or nobody listens (*stale: the file is there);
 * SLUICE_AGAIN: its queue is full, try later; SLUICE_E_PERMISSION; SLUICE_E_PROTOCOL: a socket, but
 * not one of ours. */
int sl_os_connect(int dir, const char *path, const char *name, int *fd, bool *stale);

void sl_os_remove(int dir, const char *name);

/* Calls `each` for every socket in the folder. Returns 0, or what `each` returned when not 0. */
int sl_os_list(int dir, int (*each)(void *context, const char *name, uint32_t uid), void *context);

/* Watching a folder for names that come and go (inotify). */
int sl_os_watch_open(const char *path, int *fd);
bool sl_os_watch_drain(int fd); /* true if anything happened */

/* Some of it, name by name; NULL: the kernel could not keep all, or the folder itself is gone. False if there is nothing: others
 * may make names faster than they are read. */
bool sl_os_watch_read(int fd, void (*each)(void *context, const char *name), void *context);

/* ---- pass.c: messages with descriptors ---- */

#define SL_OS_MAX_FDS 4

/* One message. 0; SLUICE_AGAIN when there is no room now (also ETOOMANYREFS); SLUICE_CLOSED when the
 * peer is gone. Never blocks, never raises SIGPIPE. Sets no sentence for these. An empty message is
 * SLUICE_E_INVALID: it would read as the end. */
int sl_os_send(int fd, const void *message, size_t size, const int *fds, int fd_count);

/* One message into `message`; *size says how long it was. Descriptors that came are in fds[0 ..
 * *fd_count-1], CLOEXEC; `fds` has room for SL_OS_MAX_FDS. 0; SLUICE_AGAIN when there is none;
 * SLUICE_CLOSED at the end, also of a peer that was killed, and after all that it sent;
 * SLUICE_E_NO_DESCRIPTORS when descriptors were cut off (names RLIMIT_NOFILE), SLUICE_E_PROTOCOL for a
 * message over `capacity` or more than SL_OS_MAX_FDS: those that came are closed. */
int sl_os_receive(int fd, void *message, size_t capacity, size_t *size, int *fds, int *fd_count);

/* From now on nobody can send descriptors to this socket, nor, if it listens, to those that it accepts.
 * Only Linux 6.16 and newer can say so; before it nothing happens. */
void sl_os_take_no_descriptors(int fd);

/* Closes descriptors that another process sent, -1 among them too. None may keep us (as a TCP socket
 * that lingers would); a file on FUSE still can. */
void sl_os_discard(const int *fds, int count);

/* Ends a connection, also where a forked child has kept it, and closes what its peer sent that was not
 * received in the same way. */
void sl_os_hang_up(int fd);

/* Has its peer closed this connection, or died? What it sent may still be there. */
bool sl_os_hung_up(int fd);

/* Two connected sockets for one-byte wakes (SOCK_SEQPACKET). */
int sl_os_socket_pair(int fds[2]);

/* Could it be one of those two? Of a descriptor that another process sent. */
bool sl_os_is_wake_socket(int fd);

/* 0, SLUICE_AGAIN, or a failure. After SLUICE_E_NO_DESCRIPTORS the listener stays readable: pause its
 * watch for a while (sl_service_pause). */
int sl_os_accept(int listener, int *fd);

/* 0 if the process can open `count` descriptors more, else SLUICE_E_NO_DESCRIPTORS with its limit. Opens none: it looks
 * at each number, so that is for failures. */
int sl_os_descriptors_left(uint32_t count);
void sl_os_close(int fd); /* keeps errno; -1 is fine; forgets the fd's fork entry */

/* Reads everything there is from a wake socket (but not for ever); true if anything came. */
bool sl_os_drain(int fd);

/* ---- foreign.c: descriptors that a driver made ---- */

/* What a descriptor stands for, as far as one driver's differ from all else. */
struct sl_os_kind {
    uint64_t file_system;
    uint32_t type, driver;
};
int sl_os_kind_of(int fd, struct sl_os_kind *kind);

/* Takes over a descriptor that was made outside: it is CLOEXEC from now on. */
int sl_os_keep(int fd);

/* ---- gate.c: what a program may poll ---- */

/* A gate is readable while any descriptor in it is. */
int sl_os_gate_open(int *fd);
int sl_os_gate_add(int gate, int fd);
void sl_os_gate_remove(int gate, int fd);

/* A note is readable from set to clear. */
int sl_os_note_open(int *fd);
void sl_os_note_set(int fd);
void sl_os_note_clear(int fd);

/* Waits until `fd` is readable: 0, or SLUICE_TIMEOUT. Sets no sentence. */
int sl_os_wait_readable(int fd, int64_t deadline);

/* ---- process.c ---- */

struct sl_peer_identity {
    uint32_t pid, uid, gid;
    int pidfd; /* readable when the process is dead; -1 where the kernel cannot say */
};

/* Who is at the other end, as the kernel says (SO_PEERCRED, SO_PEERPIDFD). */
int sl_os_peer(int fd, struct sl_peer_identity *peer);

/* May this peer be trusted? Yes if its uid is ours, or is in `uids`, or it is in a group of `gids`
 * (its primary one; supplementary groups too where the kernel tells: SO_PEERGROUPS). The overflow uid
 * stands for anybody: only if `uids` names it. */
bool sl_os_peer_allowed(int fd, const struct sl_peer_identity *peer, const uint32_t *uids, uint32_t uid_count,
                        const uint32_t *gids, uint32_t gid_count);

/* A descriptor for our own process, to send where the kernel has no SO_PEERPIDFD; -1 if none. */
int sl_os_self_pidfd(void);

/* Is it a pidfd, and has its process ended? */
bool sl_os_pidfd_valid(int fd);
bool sl_os_pidfd_dead(int fd);

uint32_t sl_os_pid(void);
uint32_t sl_os_uid(void);

/* The program's short name ("python3"). */
void sl_os_program(char *name, size_t size);

/* Does Windows lie below (WSL2)? Looks into the system's files, which begin at `root`: "". */
bool sl_os_wsl(const char *root);

/* Is there memory at `address` that this process may read? True where the system does not tell. */
bool sl_os_readable(const void *address);

/* ---- fork.c ---- */

/* In a child made by fork or clone without exec, after sl_fork_install? A child that is the first to
 * install it is not one. Costs one load, or a getpid where the kernel cannot wipe pages on fork. */
bool sl_os_forked(void);

/* From now on forks are noticed; descriptors and the service thread see to it themselves, whatever else
 * a child must not use calls this first. SLUICE_E_FORKED in a forked child. */
int sl_fork_install(void);

/* A descriptor that a forked child must not keep (sockets, locks, eventfds): it is closed in the child
 * right after the fork, until sl_os_close forgets it. Made and entered under the service lock it is
 * never seen by a child in between. The child of a bare clone system call is noticed, but has them
 * all. SLUICE_E_LIMIT for descriptors from 2^20; SLUICE_E_FORKED in a forked child. */
int sl_os_close_in_child(int fd);

/* Forgets that: a forked child keeps it from now on, untouched. */
void sl_os_keep_in_child(int fd);

/* ---- thread.c ---- */

typedef struct sl_mutex { _Alignas(16) unsigned char opaque[64]; } sl_mutex;
void sl_mutex_init(sl_mutex *mutex);
void sl_mutex_finish(sl_mutex *mutex);
void sl_mutex_lock(sl_mutex *mutex);
void sl_mutex_unlock(sl_mutex *mutex);

/* Runs it on a thread of its own, which takes no signals and which nobody waits for. SLUICE_E_SYSTEM if
 * there can be none. */
int sl_os_start_thread(void (*function)(void *argument), void *argument);

/* ---- service.c: the one quiet thread ----
 *
 * It starts with the first watch and ends with the last, blocks all signals, and sleeps in one place.
 * One mutex, the service lock, orders everything it does with the calls of other threads: callbacks
 * run with it held, and whoever adds, changes or removes a watch holds it. So a watch that was removed
 * under the lock will never run again. Callbacks must not block. The lock is not held while the thread
 * sleeps.
 *
 * Whoever removed the last watch waits in sl_service_unlock for the thread's end, so that neither it
 * nor a descriptor of it is left (unless that was a callback: then it ends soon by itself). A fork
 * takes the lock; a forked child can take it too, but has no thread: adding is SLUICE_E_FORKED there.
 */
void sl_service_lock(void);
void sl_service_unlock(void);

/* ready() comes again for as long as there is something to read. A hang-up is told with the last data
 * or after it (readable is false then); after that the fd is not looked at any more, the timer goes on.
 * A pidfd is readable when its process is dead, and hung up as well once that was waited for. A callback
 * may add, remove and free any watch, its own too. An fd is in one watch at most; remove that before
 * closing it. */
struct sl_watch {
    void (*ready)(struct sl_watch *watch, bool readable, bool hung_up); /* the fd did something */
    void (*timer)(struct sl_watch *watch);                             /* `deadline` has passed */
    int fd;           /* -1: a timer alone */
    int64_t deadline; /* 0: none. Cleared before timer() is called */
    bool added;       /* private from here on */
    bool muted;       /* hung up and reported: its fd is not looked at any more */
    size_t place;     /* among the timers */
};

/* All under the service lock. Add starts the thread if need be: SLUICE_E_SYSTEM if it cannot;
 * SLUICE_E_INVALID for what cannot be watched or is already. Remove of one that was not added does
 * nothing. A deadline is changed by set_deadline alone once the watch was added. */
int sl_service_add(struct sl_watch *watch);
void sl_service_remove(struct sl_watch *watch);
void sl_service_set_deadline(struct sl_watch *watch, int64_t deadline);

/* While paused its fd only counts when it hangs up. For what is readable but cannot be read just now,
 * like a listener when descriptors have run out: else the thread would never sleep. */
void sl_service_pause(struct sl_watch *watch, bool paused);

/* Keeps the thread alive between first and last user: one reference each. */
int sl_service_hold(void);
void sl_service_drop(void);

/* ---- dl.c: libraries found at run time ---- */

/* SLUICE_E_NO_DESCRIPTORS if none is left to read it with, else SLUICE_E_UNSUPPORTED if it cannot be loaded. */
int sl_os_dl_open(const char *name, void **library);
void *sl_os_dl_symbol(void *library, const char *name);
void sl_os_dl_close(void *library);

#endif
