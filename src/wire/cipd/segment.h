/* SPDX-License-Identifier: MIT
 *
 * A CIPD segment's life: its names, its sizes, who may write it.
 *
 * Python's resource tracker takes the name of a segment away when any process that had attached it
 * ends, though its writer goes on. So each segment of ours has a second name, ".NAME.PID.RANDOM", from
 * which sl_cipd_segment_tend gives the first one back. A lock of the kernel's says that the writer lives; it
 * tells which second names are left behind, whatever became of the pid. On Windows a name
 * lives with its handles, and none of this is needed (os.h, named.c).
 */
#ifndef SL_WIRE_CIPD_SEGMENT_H
#define SL_WIRE_CIPD_SEGMENT_H

#include "os/os.h"
#include "wire/cipd/layout.h"

#define SL_CIPD_NAME 255 /* bytes of the longest name that can be attached */
/* A writer's, whose second name must fit too: two dots more, a pid, a dot, 8 digits. */
#define SL_CIPD_WRITER_NAME (SL_CIPD_NAME - 21)

struct sl_cipd_segment {
    char name[SL_CIPD_NAME + 1];
    char second[SL_CIPD_NAME + 1]; /* "": none (a reader's, or hidden) */
    int fd;                        /* -1: closed */
    unsigned char *at;             /* NULL: not mapped */
    uint64_t size;                 /* bytes that are mapped */
    struct sl_os_named memory;     /* which one it is */
    bool writable;
    bool hidden; /* an owner's: nobody can find it yet, and it goes with its owner */
};
#define SL_CIPD_SEGMENT_INIT { .fd = -1 }

/* May it be a segment's name? SLUICE_E_NAME with a sentence if not: it is empty, has a '/', begins with a
 * dot, has bytes that are not printable ASCII, or is longer than `most`. Spaces and '>' are fine. */
int sl_cipd_segment_check_name(const char *name, size_t most);

/* Attaches to what there is, as a reader: mapped as large as it is, SL_CIPD_SEGMENT at most. With `writable`
 * also to store in our private words, if the file lets us. SLUICE_E_NOT_FOUND and SLUICE_E_PERMISSION; SLUICE_NO_WRITER if it
 * is too small for a header now. All with a sentence. */
int sl_cipd_segment_attach(struct sl_cipd_segment *segment, const char *name);

/* Makes it the writer's: locks what there is, whoever left it, or else makes a new one. *fresh: all of it is
 * zero, and where the system can it is hidden: `show` is to follow, once there is a session in it.
 * SLUICE_E_EXISTS: a writer of Sluice's has it. Sweeps second names that dead writers left, also those of
 * other channels.
 * Takes the service lock for a moment, so that no forked child keeps our lock. */
int sl_cipd_segment_own(struct sl_cipd_segment *segment, const char *name, bool *fresh);

/* Gives a hidden one its names. SLUICE_E_EXISTS with a sentence: another program was quicker. Not hidden: 0. */
int sl_cipd_segment_show(struct sl_cipd_segment *segment);

/* Makes another one for a name that is owned, locked, zeroed, and without the public name yet. Under the service lock, for
 * the same reason. */
int sl_cipd_segment_make(struct sl_cipd_segment *made, const char *name);

/* Gives it the public name, in one step in place of the one that has it. */
int sl_cipd_segment_publish(struct sl_cipd_segment *made);

/* Writer, now and then (a system call or two): is the name still ours? If it was taken away it is given
 * back: 1. If another memory has it: SLUICE_E_EXISTS with a sentence, and nothing is done. Else 0. */
int sl_cipd_segment_tend(struct sl_cipd_segment *segment);

/* Has `second` the form of a second name of `name`: ".NAME.", digits, a dot, 8 digits of base 16? */
bool sl_cipd_segment_is_second(const char *name, const char *second);

/* How many second names of this user's dead writers there are, of whatever channel; with `remove` they are taken away.
 * Looks at a few hundred of them at most. Where nothing can be hidden, a writer that died before its first session left no
 * magic number, and its second name to the next writer of its own name. */
int sl_cipd_segment_sweep(bool remove, uint32_t *left);

/* Finds the second name of a segment whose writer lives and whose public name was taken away. */
bool sl_cipd_segment_find_second(const char *name, char second[SL_CIPD_NAME + 1]);

/* What has become of a reader's segment. Reader, when no frame has come for a while (system calls). */
enum sl_cipd_fate {
    SL_CIPD_HERE,     /* the name still is this memory's, or nobody can tell */
    SL_CIPD_REPLACED, /* the name is another memory's: connect anew */
    SL_CIPD_ORPHAN,   /* the name is gone, and no writer of ours is there to give it back */
};
enum sl_cipd_fate sl_cipd_segment_fate(const struct sl_cipd_segment *segment);

/* Is a writer of Sluice's alive that has this segment? (Others take no lock.) */
bool sl_cipd_segment_locked(const struct sl_cipd_segment *segment);

/* Unmaps and closes. An owner's: takes both names away first, the public one if it still is ours. */
void sl_cipd_segment_close(struct sl_cipd_segment *segment);

/* An owner's: closes it as if it had never been owned; the public name stays. */
void sl_cipd_segment_leave(struct sl_cipd_segment *segment);

/* Calls `each` with the name of every segment that has the magic number of CIPD. Returns 0, or what `each`
 * returned when not 0. */
int sl_cipd_segment_list(int (*each)(void *context, const char *name), void *context);

#endif
