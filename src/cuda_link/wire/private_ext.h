/* SPDX-License-Identifier: MIT
 *
 * What Sluice's own writers and readers share beyond the protocol, in the second half of segments that
 * Sluice made, which no other program reads. It is valid only while `version` is the session's, so that another
 * program's session in the same segment makes it invalid.
 *
 * - asleep: a reader stores 1 before it sleeps on the write index, so that a publish makes no
 *   system call when nobody sleeps. A sleeper that was killed costs one unneeded call.
 * - begun: the index of the frame that the writer is writing, or wrote last. It is stored before the writer touches the
 *   slot, so that a reader knows whether its slot was touched, and need not assume so of every oldest frame. Before the
 *   slots' memory is freed it becomes an index so far ahead that every frame of the session counts as overwritten.
 * - finished: the index of a finished frame that a reader took. The writer always leaves one finished frame for
 * readers; with this index it need not query its GPU for one, which is most of the cost of a send.
 * - gpu: the GPU that the slots are on, as the handles do not say so.
 * - times: the frame index and the time for each slot, so that a reader knows which frame the time belongs to.
 */
#ifndef SL_CUDA_LINK_WIRE_PRIVATE_EXT_H
#define SL_CUDA_LINK_WIRE_PRIVATE_EXT_H

#include "cuda_link/wire/layout.h"

#define SL_CIPD_EXT_AT    2048
#define SL_CIPD_GPU       16                   /* bytes of a UUID */
#define SL_CIPD_EXT_MAGIC UINT32_C(0x58554c53) /* "SLUX" */

struct sl_cipd_private_ext {
    sl_word32 magic;    /* 0x000 stored behind a version of 0 */
    sl_word32 asleep;   /* 0x004 */
    sl_word version;    /* 0x008 the session's; 0: a session is being stored */
    sl_word32 pid;      /* 0x010 the writer's, for display */
    sl_word32 begun;    /* 0x014; 0: none yet */
    sl_word32 finished; /* 0x018; 0: none yet */
    sl_word32 gpu[4];   /* 0x01c its UUID; zeros: not told */
    sl_word32 reserved[5];
    struct {
        sl_word32 index; /* 0: being stored */
        sl_word32 reserved;
        sl_word time_ns;        /* CLOCK_MONOTONIC */
    } times[SL_CIPD_MAX_SLOTS]; /* 0x040 */
};

/* NULL if the mapping is too small for it. */
struct sl_cipd_private_ext *sl_cipd_private_ext(unsigned char *at, uint64_t size);

/* Is it valid for the session of this version? */
bool sl_cipd_ext_is_live(const struct sl_cipd_private_ext *ext, uint64_t version);

/* Writer, before it changes data that readers copy; in effect until it begins a session. */
void sl_cipd_ext_change(struct sl_cipd_private_ext *ext);

/* Reader, after it copied the data of this version: has the writer, if it lives, begun to change that data? */
bool sl_cipd_ext_changes(const struct sl_cipd_private_ext *ext, uint64_t version);

/* Writer, after sl_cipd_ext_change: initializes it for a session, whose version was just stored. */
void sl_cipd_ext_begin(struct sl_cipd_private_ext *ext, uint64_t version, uint32_t pid,
                       const unsigned char gpu[SL_CIPD_GPU]);

/* Reader: the slots' GPU; false if it is not known, or the session is over. */
bool sl_cipd_ext_gpu(const struct sl_cipd_private_ext *ext, uint64_t version, unsigned char gpu[SL_CIPD_GPU]);

/* Writer, before it touches the slot that the frame `index` will be in. */
void sl_cipd_ext_announce(struct sl_cipd_private_ext *ext, uint32_t index);

/* Writer, before it frees the slots: all frames of the session count as overwritten from now on. */
void sl_cipd_ext_end(struct sl_cipd_private_ext *ext);

/* Reader: stores the index of a finished frame. Writer: the last one that a reader stored; 0: none. */
void sl_cipd_ext_finish(struct sl_cipd_private_ext *ext, uint32_t index);
uint32_t sl_cipd_ext_finished(const struct sl_cipd_private_ext *ext);

/* Writer, before it stores an index: stores its time; returns whether a reader sleeps. */
bool sl_cipd_ext_before_publish(struct sl_cipd_private_ext *ext, uint32_t slot, uint32_t index, int64_t time_ns);

/* Writer, after it stored the index: must sleepers be woken? `slept` is the result of sl_cipd_ext_before_publish. */
bool sl_cipd_ext_after_publish(struct sl_cipd_private_ext *ext, bool slept);

/* Reader: the time of the frame `index`, 0 or more. False if it was overwritten. */
bool sl_cipd_ext_time(const struct sl_cipd_private_ext *ext, uint32_t slot, uint32_t index, int64_t *time_ns);

#endif
