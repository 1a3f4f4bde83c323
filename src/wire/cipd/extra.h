/* SPDX-License-Identifier: MIT
 *
 * What Sluice's own writers and readers share beyond the protocol, in the last half of segments that
 * Sluice made: nobody else looks there. It counts only while `version` is the session's, so that what a
 * writer of ours left says nothing when another program writes into the same segment.
 *
 * - asleep: a reader stores 1 before it sleeps on the write index, so that a publish makes no
 *   system call when nobody sleeps. A killed sleeper costs one call too many.
 * - begun: the index of the frame that the writer is writing, or wrote last: stored before it touches the slot, so that
 *   a reader knows whether its own was touched, and needs not to suppose so of each frame that is the oldest. Before the
 *   slots' memory is freed, one that no frame of the session comes near: each of them counts as written over from then on.
 * - finished: the index of a frame that a reader took because it had seen it finished. The writer, who leaves one finished
 *   frame alone, needs not to ask its GPU for one then, which is what costs most of a send.
 * - gpu: on which GPU the slots lie, as the handles do not say so.
 * - times: of each slot the index and the time, so that a reader knows whose time it is.
 */
#ifndef SL_WIRE_CIPD_EXTRA_H
#define SL_WIRE_CIPD_EXTRA_H

#include "wire/cipd/layout.h"

#define SL_CIPD_EXTRA_AT 2048
#define SL_CIPD_GPU 16 /* bytes of a UUID */
#define SL_CIPD_EXTRA_MAGIC UINT32_C(0x58554c53) /* "SLUX" */

struct sl_cipd_extra {
    sl_word32 magic;   /* 0x000 stored last */
    sl_word32 asleep;  /* 0x004 */
    sl_word version;   /* 0x008 the session that it is of; 0: one is being stored */
    sl_word32 pid;     /* 0x010 the writer's, for people */
    sl_word32 begun;   /* 0x014; 0: none yet */
    sl_word32 finished; /* 0x018; 0: none yet */
    sl_word32 gpu[4];  /* 0x01c its UUID; zeros: not told */
    sl_word32 reserved[5];
    struct {
        sl_word32 index; /* 0: being stored */
        sl_word32 reserved;
        sl_word time_ns; /* CLOCK_MONOTONIC */
    } times[SL_CIPD_MAX_SLOTS]; /* 0x040 */
};

/* NULL if the mapping is too small for it. */
struct sl_cipd_extra *sl_cipd_extra(unsigned char *at, uint64_t size);

/* Does it speak of the session of this version? */
bool sl_cipd_extra_live(const struct sl_cipd_extra *extra, uint64_t version);

/* Writer, before it changes what a reader copies; until it begins a session or stores the version. */
void sl_cipd_extra_change(struct sl_cipd_extra *extra);

/* Reader, behind a copy of what this version said: has the writer begun to change that, if it lives? */
bool sl_cipd_extra_changes(const struct sl_cipd_extra *extra, uint64_t version);

/* Writer, behind sl_cipd_extra_change: begins it for a session, before the session's version is stored. */
void sl_cipd_extra_begin(struct sl_cipd_extra *extra, uint64_t version, uint32_t pid, const unsigned char gpu[SL_CIPD_GPU]);

/* Reader: which GPU that is; false if it is not told, or the session is over. */
bool sl_cipd_extra_gpu(const struct sl_cipd_extra *extra, uint64_t version, unsigned char gpu[SL_CIPD_GPU]);

/* Writer, before it touches the slot that the frame `index` will be in. */
void sl_cipd_extra_begun(struct sl_cipd_extra *extra, uint32_t index);

/* Writer, before it frees the slots: no frame of the session is what it was any more. */
void sl_cipd_extra_end(struct sl_cipd_extra *extra);

/* Reader, of a frame that it has seen finished; and writer: the last one that a reader says so of, 0: none. */
void sl_cipd_extra_finish(struct sl_cipd_extra *extra, uint32_t index);
uint32_t sl_cipd_extra_finished(const struct sl_cipd_extra *extra);

/* Writer, before it stores an index: notes its time; returns whether somebody sleeps. */
bool sl_cipd_extra_before(struct sl_cipd_extra *extra, uint32_t slot, uint32_t index, int64_t time_ns);

/* Writer, behind it: must sleepers be woken? `slept` is what `before` returned. */
bool sl_cipd_extra_after(struct sl_cipd_extra *extra, bool slept);

/* Reader: the time of the frame `index`. False if it is known no more. */
bool sl_cipd_extra_time(const struct sl_cipd_extra *extra, uint32_t slot, uint32_t index, int64_t *time_ns);

#endif
