/* SPDX-License-Identifier: MIT
 *
 * The bytes of a CIPD segment, as shared by programs of cuda-link 1.0 to 1.13. Offsets for a
 * number of slots, and loads and stores of each field. Nothing here makes system calls or needs a GPU.
 *
 * All numbers are little-endian and packed, so most are misaligned. The u32 write index at 16 is the only
 * word that orders others: stored with release, loaded with acquire. Python's writers clear a
 * field before they store it, so that each may briefly be read as zero.
 *
 *     0   u32 magic          20+128s  memory handle of slot s      20+128N  u8  shut
 *     4   u64 version        84+128s  event handle of slot s       21+128N  metadata, 20 bytes
 *     12  u32 slots (N)                                            41+128N  f64 time, seconds
 *     16  u32 write index                                          49+128N  the end
 */
#ifndef SL_CUDA_LINK_WIRE_LAYOUT_H
#define SL_CUDA_LINK_WIRE_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/atomic.h"

#define SL_CIPD_MAGIC      UINT32_C(0x43495044)
#define SL_CIPD_MAGIC_09   UINT32_C(0x43495043) /* cuda-link 0.9, which has other metadata */
#define SL_CIPD_MAX_SLOTS  10
#define SL_CIPD_HANDLE     64 /* bytes of a memory's or an event's handle */
#define SL_CIPD_HEADER     20 /* bytes before the first handle */
#define SL_CIPD_VERSION_AT 4
#define SL_CIPD_INDEX_AT   16
#define SL_CIPD_SEGMENT    4096 /* bytes of the segments that Sluice makes, for any N */

/* Offsets of the fields after the handles, for a number of slots that was checked. */
struct sl_cipd_layout {
    uint32_t slots;
    uint32_t shut, metadata, time, total;
};

/* False, and nothing written, unless `slots` is 1 to SL_CIPD_MAX_SLOTS. */
bool sl_cipd_layout(uint32_t slots, struct sl_cipd_layout *layout);

struct sl_cipd_handles {
    unsigned char memory[SL_CIPD_HANDLE];
    unsigned char event[SL_CIPD_HANDLE]; /* all zero: the slot has no event */
};

/* Is every byte zero? */
bool sl_cipd_zero(const unsigned char *bytes, size_t size);

/* The metadata as in the segment. */
struct sl_cipd_metadata {
    uint32_t width, height, components;
    uint8_t kind, bits;
    uint16_t flags;
    uint32_t bytes; /* of one frame */
};

/* ---- loads and stores; `at` is the segment's first byte, page-aligned ---- */

uint32_t sl_cipd_load_magic(const unsigned char *at);
void sl_cipd_store_magic(unsigned char *at, uint32_t magic);
uint64_t sl_cipd_load_version(const unsigned char *at);          /* acquire */
void sl_cipd_store_version(unsigned char *at, uint64_t version); /* release */
uint32_t sl_cipd_load_slots(const unsigned char *at);
void sl_cipd_store_slots(unsigned char *at, uint32_t slots);
uint32_t sl_cipd_load_index(const unsigned char *at);           /* acquire */
void sl_cipd_store_index(unsigned char *at, uint32_t index);    /* release */
uint32_t sl_cipd_swap_index(unsigned char *at, uint32_t index); /* the same, returns the old value; as fast */
const sl_word32 *sl_cipd_index_word(const unsigned char *at);   /* to sleep on */

/* Loads a slot's handles; tells whether they equal `handles`; stores them. */
void sl_cipd_load_handles(const unsigned char *at, uint32_t slot, struct sl_cipd_handles *handles);
bool sl_cipd_handles_stand(const unsigned char *at, uint32_t slot, const struct sl_cipd_handles *handles);
void sl_cipd_store_handles(unsigned char *at, uint32_t slot, const struct sl_cipd_handles *handles);

uint8_t sl_cipd_load_shut(const unsigned char *at, const struct sl_cipd_layout *layout);       /* acquire */
void sl_cipd_store_shut(unsigned char *at, const struct sl_cipd_layout *layout, uint8_t shut); /* release */
void sl_cipd_load_metadata(const unsigned char *at, const struct sl_cipd_layout *layout,
                           struct sl_cipd_metadata *metadata);
bool sl_cipd_metadata_stands(const unsigned char *at, const struct sl_cipd_layout *layout,
                             const struct sl_cipd_metadata *metadata);
void sl_cipd_store_metadata(unsigned char *at, const struct sl_cipd_layout *layout,
                            const struct sl_cipd_metadata *metadata);
double sl_cipd_load_time(const unsigned char *at, const struct sl_cipd_layout *layout);
void sl_cipd_store_time(unsigned char *at, const struct sl_cipd_layout *layout, double seconds);

/* ---- arithmetic of the write index: the number of published frames, 32 bits; it skips 0 when it wraps ---- */

/* The slot of the frame that an index announces: (index - 1) mod slots. `index` is not 0. */
uint32_t sl_cipd_index_slot(uint32_t index, uint32_t slots);

/* The slot that the next frame goes to: index mod slots. */
uint32_t sl_cipd_index_next_slot(uint32_t index, uint32_t slots);

/* The index of the next frame. After 0xFFFFFFFF it restarts at the number that keeps the slots in
 * rotation. */
uint32_t sl_cipd_index_next(uint32_t index, uint32_t slots);

/* Frames published from one index to a later one, also across the wrap. */
uint32_t sl_cipd_index_distance(uint32_t from, uint32_t to, uint32_t slots);

/* Does its slot still belong to the frame `index` when the writer has reached the frame `come`? With `begun`, `come` is
 * the frame that it has begun, as Sluice's writers announce; else the last one that it published. */
bool sl_cipd_index_left(uint32_t index, uint32_t come, bool begun, uint32_t slots);

#endif
