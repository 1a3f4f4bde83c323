/* SPDX-License-Identifier: MIT
 *
 * Copies between a program's arrays and slots. The slots' device decides what copies: the CPU, or a
 * GPU's streams. A kind is one table; copy.c is the only file that lists them.
 *
 * A copier belongs to one writer or reader. A job is one send or fetch through it:
 *     begin    examines the program's arrays and its stream
 *     queue    for each array: copies at once, queues the copy on job->stream, or defers it to launch
 *     launch   queues the deferred copies, and behind them the words that make the frame ready
 *     ticket   what the caller waits with; or `finish`, which waits. Neither can fail for lack of resources: if the job
 * was `needs_fence`, begin has reserved them end      always, after a begin that succeeded Between queue and ticket a
 * sender commits its frame on job->stream, behind the copies; with launch, if the kind has one.
 */
#ifndef SL_COPY_H
#define SL_COPY_H

#include <stdbool.h>

#include <sluice/device.h>
#include <sluice/format.h>
#include <sluice/writer.h>

#include "format/copy_region.h"
#include "os/os.h"
#include "util/atomic.h"

struct sl_signal;

/* ---- host_access.c ---- */

/* May the CPU access these bytes of a program's? False for a GPU's. */
bool sl_copy_host_accessible(const void *first, uint64_t bytes);

/* Copies between two arrays in host memory: sluice_array_copy. */
int sl_array_copy(const struct sluice_array *to, const struct sluice_array *from);

/* The same for all sides of a job; SLUICE_E_INVALID. */
struct sl_copy_job;
int sl_copy_check_sides(const struct sl_copy_job *job);

/* ---- who copies ---- */

/* How to tell that one piece of queued work is done (ticket.c): the word has reached the value. */
struct sl_fence {
    uint64_t id; /* of its ticket */
    sl_word *word;
    uint64_t value;
    const sl_word
        *slot_seq; /* if the word is a slot's `ready`, that slot's slot_seq: a poisoned word means that this work was
                    lost only if the frame in the slot is still the same; NULL: the word is never poisoned */
};

enum sl_copy_way { SL_COPY_SEND, SL_COPY_FETCH };

/* The program's side of one array: the memory that it touches, whatever its strides. */
struct sl_copy_side {
    const char *name; /* of the array, for messages */
    const void *first;
    uint64_t bytes;
    int memory; /* this and what follows are the kind's own */
    void *context;
    unsigned long long buffer;
};

/* Identifies the copies of a repeated send: a plan, applied to one array and one slot. No two plans of a
 * copier have the same number; 0 is no plan. */
struct sl_copy_key {
    uint64_t plan;
    const void *from;
    void *to;
};

/* A driver event behind the last work on some memory: copies into that memory must wait for it. */
struct sl_cu_event;
struct sl_copy_event {
    struct sl_cu_event *event; /* NULL: none; the CPU keeps the order */
    uint64_t stream;           /* on which it was recorded last (sl_stream_queue_id); 0: never recorded */
};

struct sl_copier {
    const struct sl_copy_ops *ops;
    const char *device;  /* "cuda:0" */
    const char *channel; /* for messages */
    bool graph;          /* repeated sends may become CUDA graphs */
    bool hurried;        /* the library's own stream has the highest priority */
    void *state;         /* the kind's own */
};

struct sl_copy_job {
    struct sl_copier *copier;
    enum sl_copy_way way;
    bool needs_fence; /* the caller will ask for a ticket that needs a word of its own, or will call finish also
                         without a failure */
    bool prompt;      /* the first queue follows begin without a wait in between */
    struct sluice_stream stream; /* on which the copies are queued */
    void *state;                 /* the kind's own, as are `scope`, `capture_checked`, `fence` and `signalled` */
    struct {
        bool pushed, exchanged;
        int mode;
    } scope;
    bool capture_checked; /* the stream's capture state was queried, and holds for the next call on it */
    bool held;            /* copies are deferred to launch */
    bool by_graph;        /* launch has launched a graph */
    bool uses_slot;       /* work on the stream may use the slot */
    bool uses_source;     /* work on the stream may use the program's memory */
    uint64_t bytes;       /* of that memory, copied by a device */
    struct sl_fence fence;
    bool signalled;         /* `fence` is queued behind the copies */
    bool abandoned;         /* work may be under way of whose end no fence tells */
    struct sl_copy_key key; /* of what is queued; plan 0: none */
    uint32_t count;
    struct sl_copy_side sides[SLUICE_MAX_ARRAYS];
};

struct sl_copy_ops {
    const char *kind; /* "host" */
    bool needs_sides; /* it needs job->sides; else they need not be filled in */
    int (*open)(struct sl_copier *copier);
    /* Waits a while for copies in flight, unless `working` says that the device is busy with something that
     * does not end. Its tickets are stale from now on. False: copies are under way still. */
    bool (*close)(struct sl_copier *copier, bool working);

    int (*begin)(struct sl_copy_job *job, struct sluice_stream stream);
    /* Before queue: true if the copies of this key are known, and now deferred to launch, so that nothing need be
     * queued. NULL: never. */
    bool (*reuse)(struct sl_copy_job *job, const struct sl_copy_key *key);
    int (*queue)(struct sl_copy_job *job, uint32_t side, const struct sl_copy *copy);
    int (*launch)(struct sl_copy_job *job, const struct sl_signal *signals,
                  uint32_t count); /* NULL: sl_sync_ops do it */
    /* Words that the next launch will probably raise: updates its graph for them in advance, if there is one. May be
     * NULL. */
    void (*prepare)(struct sl_copier *copier, const struct sl_signal *signals, uint32_t count);
    void (*ticket)(struct sl_copy_job *job, const struct sl_fence *existing, struct sluice_ticket *ticket);
    int (*finish)(struct sl_copy_job *job);
    /* For slots whose readers wait for events instead of words. `follow`, before the first queue: the stream waits for
     * the event, unless it was recorded on this stream. `record`, after the last, instead of launch: queues the
     * deferred copies, and records the event's event, if it has one. NULL for kinds without events. */
    int (*wait_for)(struct sl_copy_job *job, const struct sl_copy_event *event);
    int (*record)(struct sl_copy_job *job, struct sl_copy_event *event);
    /* Is all of the program's memory on this device? After begin. */
    bool (*is_local)(const struct sl_copy_job *job);
    void (*end)(struct sl_copy_job *job);
    /* The memory of slots is about to be freed; nothing is copied into it any more. */
    void (*forget)(struct sl_copier *copier, const void *to, uint64_t bytes);
};

/* A copier for slots on `device`; the strings stay the caller's. May wait for the driver. */
int sl_copier_open(struct sl_copier *copier, const char *device, const char *channel, bool graph);
/* The same with copier->graph and ->hurried set by the caller. */
int sl_copier_open_with(struct sl_copier *copier, const char *device, const char *channel);
bool sl_copier_close(struct sl_copier *copier, bool working);
void sl_copier_forget(struct sl_copier *copier, const void *to, uint64_t bytes);

/* With job->way, ->needs_fence, ->prompt, ->count and the sides' first three words filled in. SLUICE_E_INVALID for
 * memory that is not there, SLUICE_E_CAPTURING, SLUICE_E_WRONG_DEVICE, ...: nothing was done. */
int sl_copy_begin(struct sl_copier *copier, struct sl_copy_job *job, struct sluice_stream stream);
/* Are these, which are all copies of the job, known from an earlier send, and deferred to launch now? Else queue them;
 * with job->key set they may be known the next time. */
bool sl_copy_reuse(struct sl_copy_job *job, const struct sl_copy_key *key);
int sl_copy_queue(struct sl_copy_job *job, uint32_t side, const struct sl_copy *copy);
/* Time has passed since begin though the job is prompt: the stream's capture state must be queried again. */
void sl_copy_recheck_capture(struct sl_copy_job *job);
/* Does the kind have a launch? Then that raises the words. */
bool sl_copy_launches(const struct sl_copy_job *job);
/* As `signal` of sl_sync_ops, behind all queued and deferred copies. */
int sl_copy_launch(struct sl_copy_job *job, const struct sl_signal *signals, uint32_t count);
void sl_copy_prepare(struct sl_copy_job *job, const struct sl_signal *signals, uint32_t count); /* before end */
/* `existing`: a word that launch has queued, behind the copies, and its value: the ticket can use it. It lives as long
 * as the copier. NULL: none. */
void sl_copy_ticket(struct sl_copy_job *job, const struct sl_fence *existing, struct sluice_ticket *ticket);
int sl_copy_finish(struct sl_copy_job *job);
int sl_copy_wait_for(struct sl_copy_job *job, const struct sl_copy_event *event);
int sl_copy_record(struct sl_copy_job *job, struct sl_copy_event *event);
bool sl_copy_is_local(const struct sl_copy_job *job);
void sl_copy_end(struct sl_copy_job *job);

extern const struct sl_copy_ops sl_copy_host;
extern const struct sl_copy_ops sl_copy_cuda;

/* ---- ticket.c ---- */

/* The ticket of a copy that was done when its call returned. */
#define SL_TICKET_DONE UINT64_C(1)

/* The ticket of a copy that had no word, and was not done in time. */
#define SL_TICKET_UNKNOWN UINT64_C(2)

/* Issues tickets for work that raises a word when it is done. While in flight each has a number of its own, and if need
 * be a word of its own, as streams finish in any order. */
struct sl_fence_pool;

#define SL_FENCE_POOL_WORDS 256 /* that many can be under way at once */

/* `words` are SL_FENCE_POOL_WORDS zeros. `check_device` is called now and then during a wait; if it fails, the wait
 * ends with its result. */
int sl_fence_pool_open(sl_word *words, int (*check_device)(void *user), void *user, struct sl_fence_pool **pool);

/* Its tickets are stale from now on; returns when no thread is in a call on it any more. */
void sl_fence_pool_close(struct sl_fence_pool *pool);

/* The next ticket, with one of the pool's words. Any thread. SLUICE_E_BUSY if all are in flight. */
int sl_fence_pool_issue(struct sl_fence_pool *pool, struct sl_fence *fence);

/* The next ticket, for a word of the caller's that will reach fence->value, and lives until the pool is closed. False
 * if all are in flight. */
bool sl_fence_pool_adopt(struct sl_fence_pool *pool, struct sl_fence *fence);

/* For work that will raise no word: it has ended, with this result. */
void sl_fence_pool_complete(struct sl_fence_pool *pool, const struct sl_fence *fence, int result);

/* The fence is behind a copy of so many bytes, which is queued now: the pool estimates its end from earlier copies, so
 * that a thread that waits for it is awake then. */
void sl_fence_pool_expect(struct sl_fence_pool *pool, const struct sl_fence *fence, uint64_t bytes);

/* 0, SLUICE_TIMEOUT without a message, or how it failed. Spins for at least `spin_ns`, and around the estimated end. */
int sl_fence_pool_wait(struct sl_fence_pool *pool, const struct sl_fence *fence, int64_t spin_ns, int64_t timeout_ns);

/* Waits until nothing is in flight. */
int sl_fence_pool_drain(struct sl_fence_pool *pool, int64_t timeout_ns);

/* The public calls, by a ticket's number. */
int sl_ticket_wait(uint64_t id, int64_t timeout_ns);

#endif
