/* SPDX-License-Identifier: MIT
 *
 * Inside a writer of Sluice's own channels: writer.c opens and closes, begin.c and commit.c handle frames, free_slot.c
 * finds the slot for them, grow.c adds one, generation.c has the memory behind them.
 */
#ifndef SL_NATIVE_WRITER_WRITER_H
#define SL_NATIVE_WRITER_WRITER_H

#include <sluice/writer.h>

#include "channel/arrays.h"
#include "channel/channel.h"
#include "copy/copy.h"
#include "device/device.h"
#include "mem/mem.h"
#include "native/protocol/ring.h"
#include "native/wire/wire.h"
#include "native/writer/in_flight.h"
#include "native/writer/reader_semaphores.h"
#include "sync/sync.h"
#include "trace/trace.h"

#define SL_MEMORY_NAME 96

struct sl_writer_memory {
    struct sl_mem_shared shared; /* by the writer, and each pin */
    struct sl_writer_memory *next;
    uint32_t number, generation;
    uint32_t slots; /* that still belong to it */
    struct sl_memory object;
};

/* A slot whose send failed in a capture: deferred_cancel.c. */
struct sl_deferred_cancel {
    struct sl_deferred after;
    struct sl_writer *writer;
    sl_word32 state;
};

struct sl_writer_slot {
    char *address;
    uint64_t token;      /* of the frame begun in it; 0: none */
    bool reshaped;       /* its record's geometry is not the format's */
    struct sl_span span; /* from begin to commit or cancel */
    struct sl_deferred_cancel deferred_cancel;
};

struct sl_writer {
    struct sluice_writer base;
    struct sluice_writer_params params; /* complete */
    struct sl_serve *serve;
    char device_name[SL_DEVICE_NAME];
    const struct sl_mem_ops *mem;
    struct sl_in_flight in_flight;
    struct sl_reader_semaphores reader_semaphores;
    struct sl_copier copier; /* of send, from its first call on */
    struct sl_send_cache send_cache;

    uint64_t session;
    uint64_t next_token;
    uint32_t begun;
    uint32_t deferred_cancels; /* of these, those that deferred_cancel.c has */
    bool took_long;            /* the last begin found no free slot at once, or called the driver */
    int likely_slot;           /* the slot that the next send will probably take; -1: none */
    bool old_slots;            /* of older generations, to be retired */
    struct sl_growth *growth;  /* a slot that is being added; NULL: none */
    int64_t grow_again_ns;     /* after growing failed: do not try again before */

    /* Below: under serve->lock where another thread may look (describe, stats). */
    struct sluice_format format;
    uint32_t generation, slot_count, next_memory;
    struct sl_ring ring;
    struct sl_writer_slot slots[SL_MAX_IDS];
    struct sl_writer_memory *memories;
    struct sl_totals totals;
    uint64_t cancelled, copied_bytes, graph_sends, waited_ns;
    int64_t last_commit_ns;
};

static inline struct sl_writer *sl_writer_of(struct sluice_writer *base)
{
    return (struct sl_writer *)base;
}

/* ---- the backend's functions: channel/channel.h ---- */

int sl_native_writer_open(struct sluice_writer *base, const struct sluice_writer_params *params);
int sl_native_begin(struct sluice_writer *base, int64_t timeout_ns, struct sluice_frame *frame);
int sl_native_wait(struct sluice_writer *base, int64_t timeout_ns);
int sl_native_commit(struct sluice_writer *base, struct sluice_frame *frame, struct sluice_stream stream);
int sl_native_cancel(struct sluice_writer *base, struct sluice_frame *frame, struct sluice_stream stream);
int sl_native_send(struct sluice_writer *base, struct sluice_frame *header, const struct sluice_array *arrays,
                   uint32_t count, struct sluice_stream stream, struct sluice_ticket *ticket);
int sl_native_reformat(struct sluice_writer *base, const struct sluice_format *format);
int sl_native_writer_format(struct sluice_writer *base, struct sluice_format *format);
void sl_native_writer_stats(struct sluice_writer *base, struct sluice_writer_stats *stats);
int sl_native_writer_pin(struct sluice_writer *base, const struct sluice_frame *frame, sluice_pin **pin);
int sl_native_writer_view(struct sluice_writer *base, const struct sluice_frame *frame, struct sl_view *view);

/* ---- slot_memory.c ---- */

/* A memory for slots that is yet to be made (sl_mem_create, object.size bytes), and the name to make it by. */
int sl_slot_memory_plan(const struct sl_writer *writer, const struct sluice_format *format, uint32_t slots,
                        char name[SL_MEMORY_NAME], struct sl_writer_memory **memory);

/* Announces a memory that was made to all readers; after a failure the memory is dropped. */
int sl_slot_memory_announce(struct sl_writer *writer, struct sl_writer_memory *memory,
                            const struct sluice_format *format);

/* Gives each slot of an announced memory a number; there must be enough free ones. Under the channel lock. */
void sl_slot_memory_number(struct sl_writer *writer, struct sl_writer_memory *memory,
                           const struct sluice_format *format);

/* Announces and numbers the one slot of a memory that was made for this generation. */
int sl_slot_memory_add(struct sl_writer *writer, struct sl_writer_memory *memory);

/* How many slot numbers no memory has. */
uint32_t sl_slot_memory_free_numbers(const struct sl_writer *writer);

/* Retires slots of older generations that nobody needs any more, and gives their memory back. */
void sl_slot_memory_retire(struct sl_writer *writer, enum sl_keep keep);

/* The memory of a slot, kept mapped until sl_mem_drop. */
struct sl_mem_shared *sl_slot_memory_pin(struct sl_writer *writer, uint32_t slot);

/* Gives all memory back: when the writer ends. */
void sl_slot_memory_destroy(struct sl_writer *writer);

/* ---- generation.c ---- */

/* Makes the next generation, of `format` (complete), with params.slots slots. */
int sl_generation_make(struct sl_writer *writer, const struct sluice_format *format);

/* ---- grow.c ---- */

/* Adds a slot to this generation if it may and can grow. SLUICE_NO_SLOT, without a sentence, if not, or if its memory
 * is not there until `patience_ns` after this began; a later call, or sl_grow_settle, then adds it. */
int sl_grow(struct sl_writer *writer, int64_t patience_ns);

/* Completes the growth if its memory has been made; else SLUICE_NO_SLOT. */
int sl_grow_settle(struct sl_writer *writer);

/* Abandons the growth: its generation, or the writer, ends. */
void sl_grow_leave(struct sl_writer *writer);

/* ---- free_slot.c ---- */

/* A frame so late that the driver is queried about it. */
#define SL_LATE (5 * SLUICE_MS)

/* Takes a free slot, or waits for one; -1: none became free. */
int sl_free_slot_find(struct sl_writer *writer, int64_t timeout_ns);

/* Returns SLUICE_NO_SLOT, with a message that says why none is free. `dropped`: 1 if this counts as a dropped frame. */
int sl_free_slot_report_none(struct sl_writer *writer, uint64_t dropped);

/* Calls `is_done` whenever a slot may have become free, until it returns true or the time is up. The time, and that in
 * the statistics, counts from `since`. */
bool sl_free_slot_wait(struct sl_writer *writer, int64_t since, int64_t timeout_ns,
                       bool (*is_done)(struct sl_writer *, int *), int *out);

/* ---- begin.c ---- */

/* A send begins: prefetches what its begin will read first. */
void sl_begin_prefetch(struct sl_writer *writer);

/* ---- device_loss.c ---- */

/* Is the device still usable? Queries the driver if frames are late. */
int sl_writer_check_device(struct sl_writer *writer, int64_t now);

/* The device is lost: so are the frames that it works on. Returns `result`. */
int sl_writer_lose_frames(struct sl_writer *writer, int result);

/* A send failed before its begin. If the device is lost, so are its frames. Returns `result`, with the message that it
 * had. */
int sl_writer_explain_failure(struct sl_writer *writer, int result);

/* ---- commit.c ---- */

/* Commits a frame; `job` (may be NULL): its copies, which may be deferred until now. */
int sl_commit_frame(struct sl_writer *writer, struct sluice_frame *frame, struct sluice_stream stream,
                    struct sl_copy_job *job);

/* A send is queued: prepares the next one while the GPU works, also in the job's copier. */
void sl_commit_prepare_next(struct sl_writer *writer, struct sl_copy_job *job);

/* 0, or SLUICE_E_BUSY if frames are begun, with a message that ends with `why`. */
int sl_commit_check_none_begun(struct sl_writer *writer, const char *why);

/* ---- frame.c ---- */

/* Was this frame begun by this writer, and is it neither committed nor cancelled? SLUICE_E_STALE. */
int sl_frame_check_begun(const struct sl_writer *writer, const struct sluice_frame *frame);

/* The slot's frame is committed or cancelled. */
void sl_frame_end(struct sl_writer *writer, uint32_t slot);

/* Cancels the slot's frame. Whatever work uses the slot has been queued, with a signal behind it. */
void sl_frame_cancel(struct sl_writer *writer, uint32_t slot);

/* The caller's frame is of no use any more. */
void sl_frame_invalidate(struct sluice_frame *frame);

/* Prefetches the cache lines that commit stores to. Readers of the slot's last frame, or one that waits for this frame,
 * have them. */
static inline void sl_record_prefetch(const struct sl_record *record)
{
    sl_fetch_to_store(record);
    sl_fetch_to_store((const char *)record + 64);
}

/* ---- deferred_cancel.c ---- */

/* `stream` captures a graph, so the slot's frame cannot be cancelled yet: does that once the capture has ended. */
int sl_deferred_cancel_begin(struct sl_writer *writer, uint32_t slot, struct sluice_stream stream);

/* Cancels those whose streams no longer capture. */
void sl_deferred_cancel_settle(struct sl_writer *writer);

/* Waits until the slot's frame was cancelled and its work is done. False: not in time. */
bool sl_deferred_cancel_wait(struct sl_writer *writer, uint32_t slot, int64_t timeout_ns);

/* When the writer ends. False: not all could be cancelled, and work may still use their slots. */
bool sl_deferred_cancel_end(struct sl_writer *writer, int64_t timeout_ns);

#endif
