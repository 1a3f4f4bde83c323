/* SPDX-License-Identifier: MIT
 *
 * The lifetime of a CIPD segment: its names, its sizes, who may write to it.
 *
 * Python's resource tracker removes the name of a segment when any process that attached to it
 * ends, even if its writer goes on. So each segment of ours has a link name, ".NAME.PID.RANDOM", from
 * which sl_cipd_segment_refresh restores the first. A kernel lock shows that the writer is alive, so that second
 * names of dead writers are recognized even if the pid is in use again. On Windows a name
 * lives as long as its handles, and none of this is needed (os.h, named.c).
 */
#ifndef SL_CUDA_LINK_WIRE_SEGMENT_H
#define SL_CUDA_LINK_WIRE_SEGMENT_H

#include "cuda_link/wire/layout.h"
#include "os/os.h"

#define SL_CIPD_NAME 255 /* bytes of the longest name that can be attached */
/* The longest name of a writer, whose link name must fit too: two dots, a pid, a dot and 8 digits more. */
#define SL_CIPD_WRITER_NAME (SL_CIPD_NAME - 21)

struct sl_cipd_segment {
    char name[SL_CIPD_NAME + 1];
    char link_name[SL_CIPD_NAME + 1]; /* "": none (a reader's, or hidden) */
    int fd;                           /* -1: closed */
    int bell;                         /* a writer's doorbell; -1: none */
    unsigned char *at;                /* NULL: not mapped */
    uint64_t size;                    /* bytes that are mapped */
    struct sl_os_named memory;        /* which memory it is */
    bool writable;
    bool hidden; /* owned, but without a name yet: it is freed if its owner dies */
};
#define SL_CIPD_SEGMENT_INIT \
    { \
        .fd = -1, .bell = -1 \
    }

/* May this user publish in this memory of that name? SLUICE_E_PERMISSION if it is another user's, also for
 * root. */
int sl_cipd_segment_check_owner(const char *name, const struct sl_os_named *memory);

/* Of a memory without bytes, which is open for writing: takes its name away if whoever made it is dead. Where the
 * system cannot tell, it is taken for dead when it is `late`. SLUICE_AGAIN. */
int sl_cipd_segment_drop_empty(const struct sl_cipd_segment *segment, const char *name, bool late);

/* Attaches to an existing segment, as a reader, and maps all of it, up to SL_CIPD_SEGMENT. With `writable` (if the
 * file's mode allows) it can store to Sluice's private words. SLUICE_E_NOT_FOUND and SLUICE_E_PERMISSION;
 * SLUICE_NO_WRITER if it is too small for a header now. All with a message. */
int sl_cipd_segment_attach(struct sl_cipd_segment *segment, const char *name);

/* Takes ownership for a writer: locks the existing segment, whoever left it, or makes a new one. *fresh: all of it is
 * zero, and it is hidden if the system can do that: call `show` once there is a session in it.
 * SLUICE_E_EXISTS: a writer of Sluice's has it. Removes link names that dead writers left, also those of
 * other channels.
 * Takes the service lock briefly, so that no forked child keeps our lock. */
int sl_cipd_segment_own(struct sl_cipd_segment *segment, const char *name, bool *fresh);

/* Gives a hidden segment its names. SLUICE_E_EXISTS with a message: another program was faster. Not hidden: 0. */
int sl_cipd_segment_show(struct sl_cipd_segment *segment);

/* Makes another segment for a name that is owned: locked, zeroed, and without the public name yet. Under the service
 * lock, for the same reason. */
int sl_cipd_segment_make(struct sl_cipd_segment *made, const char *name);

/* Gives it the public name, atomically replacing the segment that has it. */
int sl_cipd_segment_publish(struct sl_cipd_segment *made);

/* Writer, periodically (a system call or two): is the name still ours? If it was removed it is
 * restored: 1. If another memory has it: SLUICE_E_EXISTS with a message, and nothing is done. Else 0. */
int sl_cipd_segment_refresh(struct sl_cipd_segment *segment);

/* The state of a reader's segment. Reader, when no frame has come for a while (system calls). */
enum sl_cipd_fate {
    SL_CIPD_HERE,     /* the name still refers to this memory, or that is not known */
    SL_CIPD_REPLACED, /* the name refers to other memory: connect again */
    SL_CIPD_ORPHAN,   /* the name is gone, and no writer of Sluice's is alive to restore it */
};
enum sl_cipd_fate sl_cipd_segment_fate(const struct sl_cipd_segment *segment);

/* Is a writer of Sluice's alive that owns this segment? (Others take no lock.) */
bool sl_cipd_segment_locked(const struct sl_cipd_segment *segment);

/* Unmaps and closes. If owned, removes both names first, the public one only if it still is ours. */
void sl_cipd_segment_close(struct sl_cipd_segment *segment);

/* Closes an owned segment as if it had never been owned; the public name stays. */
void sl_cipd_segment_leave(struct sl_cipd_segment *segment);

/* ---- link_names.c ---- */

/* Is `name` a valid segment name? SLUICE_E_NAME with a message if not: it is empty, has a '/', begins with a
 * dot, has bytes that are not printable ASCII, or is longer than `most`. Spaces and '>' are allowed. */
int sl_cipd_segment_check_name(const char *name, size_t most);

/* Are they the same memory, whatever the names? */
static inline bool sl_cipd_segment_same(const struct sl_os_named *a, const struct sl_os_named *b)
{
    return a->inode == b->inode && a->device == b->device;
}

/* Generates a new link name. */
void sl_cipd_link_name_make(const char *name, char link_name[SL_CIPD_NAME + 1]);

/* Removes the link names that dead writers of this name have left; `own` is the segment of the live one. */
void sl_cipd_link_names_sweep_own(const struct sl_cipd_segment *own);

/* Does `second` have the form of a link name of `name`: ".NAME.", digits, a dot, 8 hexadecimal digits? */
bool sl_cipd_link_name_matches(const char *name, const char *link_name);

/* Counts the link names that this user's dead writers of all channels have left; with `remove` it removes them.
 * Checks a few hundred of them at most. Where segments cannot be hidden, a writer that died before its first session
 * left no magic number; its link name is removed by the next writer of the same name. */
int sl_cipd_link_names_sweep(bool remove, uint32_t *left);

/* Finds the link name of a segment whose writer is alive and whose public name was removed. */
bool sl_cipd_link_name_find(const char *name, char link_name[SL_CIPD_NAME + 1]);

/* Calls `each` with the name of every segment that has the magic number of CIPD. Returns 0, or the first result of
 * `each` that is not 0. */
int sl_cipd_segment_list(int (*each)(void *context, const char *name), void *context);

#endif
