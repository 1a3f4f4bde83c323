/* SPDX-License-Identifier: MIT
 *
 * Copies between a program's arrays and slots. Where slots lie decides who copies: the CPU, or a
 * GPU's streams. A kind is one table; copy.c is the only file that lists them.
 *
 * A copier belongs to one writer or reader. A job is one send or fetch through it:
 *     begin    looks at the program's arrays and at its stream, and waits for nothing but them
 *     queue    for each array; it copies at once, queues the copy on job->stream, or holds it back
 *     launch   queues what was held back, and raises the words of the frame behind all of it
 *     ticket   what the caller waits by; or `finish`, which waits. Neither fails to be one: what it
 *              takes was set aside at begin, if it was `wanted` then
 *     end      always, after a begin that succeeded
 * Between queue and ticket a sender commits its frame on job->stream, behind the copies; by launch, if there is one.
 */
#ifndef SL_COPY_H
#define SL_COPY_H

#include <stdbool.h>

#include <sluice/device.h>
#include <sluice/format.h>
#include <sluice/writer.h>

#include "os/os.h"
#include "util/atomic.h"

struct sl_signal;

/* ---- what is copied ---- */

/* One dimension of a copy. */
struct sl_copy_step {
    int64_t count;
    int64_t to, from; /* strides */
};

/* `run` bytes in one piece, repeated over `depth` dimensions, the innermost first. */
struct sl_copy_part {
    char *to;
    const char *from;
    uint64_t run;
    int depth;
    struct sl_copy_step steps[SLUICE_MAX_DIMS];
};

/* One array: a part, or one for each plane of an image. */
struct sl_copy {
    int count;
    struct sl_copy_part parts[SLUICE_MAX_PLANES];
};

/* ---- part.c ---- */

/* Repeats the part as a whole. Where that continues what is there on both sides, it becomes one. */
void sl_part_repeat(struct sl_copy_part *part, int64_t count, int64_t to, int64_t from);

uint64_t sl_part_bytes(const struct sl_copy_part *part);

/* The two halves of a copy by way of `middle`, where its bytes lie side by side. */
void sl_part_halve(const struct sl_copy_part *part, char *middle, struct sl_copy_part *in,
                   struct sl_copy_part *out);

/* Calls `piece` for pieces of at most `room` bytes that are the part together, until one fails. */
int sl_part_each(const struct sl_copy_part *part, uint64_t room,
                 int (*piece)(void *user, const struct sl_copy_part *part), void *user);

/* Copies on the CPU, now. */
void sl_part_run(const struct sl_copy_part *part);

/* ---- who copies ---- */

/* What stands for one piece of queued work (ticket.c). */
struct sl_mark {
    uint64_t id; /* of its ticket */
    sl_word *word;
    uint64_t value; /* the word has it when the work is done */
    const sl_word *holder; /* of a slot's `ready`: which frame has the slot, for the loss of a later one says nothing of
                              this; NULL: the word is never poisoned */
};

enum sl_copy_way { SL_COPY_SEND, SL_COPY_FETCH };

/* The program's side of one array: what it touches, whatever its strides. */
struct sl_copy_side {
    const char *name; /* of the array, for sentences */
    const void *first;
    uint64_t bytes;
    int place;     /* the kind's own, as is what follows */
    void *context;
    unsigned long long buffer;
};

/* Which copies a send comes to, for a sender that knows: those of its plan, from one array into one slot. No two plans of a
 * copier have the same number; 0 is none. */
struct sl_copy_key {
    uint64_t plan;
    const void *from;
    void *to;
};

/* An event of the device's driver that stands for the last work on some memory: copies into it come behind. */
struct sl_cu_event;
struct sl_copy_fence {
    struct sl_cu_event *event; /* NULL: there is none, and the CPU sees to the order */
    uint64_t stream;           /* it was recorded on last; 0: on none yet */
};

struct sl_copier {
    const struct sl_copy_ops *ops;
    const char *device;  /* "cuda:0" */
    const char *channel; /* for sentences */
    bool graph;          /* sends that come again may be graphs of the driver's */
    bool hurried;        /* our own stream has the highest priority */
    void *state;         /* the kind's own */
};

struct sl_copy_job {
    struct sl_copier *copier;
    enum sl_copy_way way;
    bool wanted;                 /* a ticket will be asked for that no word of a launch tells, or finish be called though
                                    nothing failed */
    bool prompt;                 /* the first queue follows begin at once: nothing in between waits */
    struct sluice_stream stream; /* on which the copies are queued */
    void *state;                 /* the kind's own, as are `scope`, `asked`, `mark` and `raised` */
    struct {
        bool pushed, exchanged;
        int mode;
    } scope;
    bool asked;                  /* about the stream's capture, for the next call on it */
    bool held;                   /* copies wait for the launch */
    bool by_graph;               /* which was that of a graph */
    bool touched;                /* something on the stream may use the slot, */
    bool queued;                 /* and the program's memory */
    uint64_t bytes;              /* of the latter, copied by a device */
    struct sl_mark mark;
    bool raised;
    struct sl_copy_key key;      /* of what is queued; no plan: it has none */
    uint32_t count;
    struct sl_copy_side sides[SLUICE_MAX_ARRAYS];
};

struct sl_copy_ops {
    const char *kind; /* "host" */
    bool looks;       /* at job->sides; else they need not be filled in */
    int (*open)(struct sl_copier *copier);
    /* Waits a while for copies under way; `working`: that is vain, the device is busy with something that
     * does not end. Its tickets are stale from now on. */
    void (*close)(struct sl_copier *copier, bool working);

    int (*begin)(struct sl_copy_job *job, struct sluice_stream stream);
    /* Before queue: true if what the key stands for is held back now, so that nothing need be queued. NULL: never. */
    bool (*again)(struct sl_copy_job *job, const struct sl_copy_key *key);
    int (*queue)(struct sl_copy_job *job, uint32_t side, const struct sl_copy *copy);
    int (*launch)(struct sl_copy_job *job, const struct sl_signal *signals, uint32_t count); /* NULL: sl_sync_ops do it */
    /* Words that a launch will probably raise next: its graph, if there is one, is made ready for them. NULL: none is. */
    void (*prepare)(struct sl_copier *copier, const struct sl_signal *signals, uint32_t count);
    void (*ticket)(struct sl_copy_job *job, const struct sl_mark *told, struct sluice_ticket *ticket);
    int (*finish)(struct sl_copy_job *job);
    /* For slots that others wait for by events, instead of words. `follow` before the first queue: the stream waits for the
     * fence, unless that is its own. `record` behind the last, instead of launch: queues what was held back, and records the
     * event; with a fence that has none it records nothing. NULL where there are no such events. */
    int (*follow)(struct sl_copy_job *job, const struct sl_copy_fence *fence);
    int (*record)(struct sl_copy_job *job, struct sl_copy_fence *fence);
    /* Does all of the program's memory lie on this device? After begin. */
    bool (*near)(const struct sl_copy_job *job);
    void (*end)(struct sl_copy_job *job);
    /* Memory of slots ends into which nothing is copied any more. */
    void (*forget)(struct sl_copier *copier, const void *to, uint64_t bytes);
};

/* A copier for slots on `device`; the strings stay the caller's. On the caller's thread: it may wait
 * for a driver. */
int sl_copier_open(struct sl_copier *copier, const char *device, const char *channel, bool graph);
/* The same with copier->graph and ->hurried as they stand. */
int sl_copier_open_so(struct sl_copier *copier, const char *device, const char *channel);
void sl_copier_close(struct sl_copier *copier, bool working);
void sl_copier_forget(struct sl_copier *copier, const void *to, uint64_t bytes);

/* With job->way, ->wanted, ->prompt, ->count and the sides' first three words filled in. SLUICE_E_INVALID for memory
 * that is not there, SLUICE_E_CAPTURING, SLUICE_E_WRONG_DEVICE, ...: nothing was done. */
int sl_copy_begin(struct sl_copier *copier, struct sl_copy_job *job, struct sluice_stream stream);
/* Are these copies, all of the job's, held back as they were before? Else they are to be queued; with job->key they may be
 * known the next time. */
bool sl_copy_again(struct sl_copy_job *job, const struct sl_copy_key *key);
int sl_copy_queue(struct sl_copy_job *job, uint32_t side, const struct sl_copy *copy);
/* Time has passed since begin, though the job is prompt: somebody may capture on the stream now. */
void sl_copy_late(struct sl_copy_job *job);
/* Is there a launch? Then nobody else raises the words. */
bool sl_copy_launches(const struct sl_copy_job *job);
/* As the signal of sl_sync_ops, behind all that was queued and held back. */
int sl_copy_launch(struct sl_copy_job *job, const struct sl_signal *signals, uint32_t count);
void sl_copy_prepare(struct sl_copy_job *job, const struct sl_signal *signals, uint32_t count); /* before end */
/* `told`: a word that a launch raised, and what it has since then, which tell when the copies are done; it stays as long
 * as the copier. NULL: there is none. */
void sl_copy_ticket(struct sl_copy_job *job, const struct sl_mark *told, struct sluice_ticket *ticket);
int sl_copy_finish(struct sl_copy_job *job);
int sl_copy_follow(struct sl_copy_job *job, const struct sl_copy_fence *fence);
int sl_copy_record(struct sl_copy_job *job, struct sl_copy_fence *fence);
bool sl_copy_near(const struct sl_copy_job *job);
void sl_copy_end(struct sl_copy_job *job);

extern const struct sl_copy_ops sl_copy_host;
extern const struct sl_copy_ops sl_copy_cuda;

/* ---- ticket.c ---- */

/* Of a copy that was done when its call returned. */
#define SL_TICKET_DONE UINT64_C(1)

/* Gives out tickets for work that raises a word when it is done; each has a number, and if need be a word, of its own for
 * as long as it is under way, for streams finish in any order. */
struct sl_desk;

#define SL_DESK_WORDS 256 /* that many can be under way at once */

/* `words` are SL_DESK_WORDS zeros. `alive` is asked now and then while somebody waits: a failure is
 * what the waiting ends with. */
int sl_desk_open(sl_word *words, int (*alive)(void *user), void *user, struct sl_desk **desk);

/* Its tickets are stale from now on; returns when nobody is inside any more. */
void sl_desk_close(struct sl_desk *desk);

/* The next one, and a word of the desk's. Any thread. SLUICE_E_BUSY if all are under way. */
int sl_desk_issue(struct sl_desk *desk, struct sl_mark *mark);

/* The next one, for a word of the caller's that is to reach mark->value, and stays until the desk is closed. False if all
 * are under way. */
bool sl_desk_stand(struct sl_desk *desk, struct sl_mark *mark);

/* For work that nothing will tell the end of: it ended like this (0: well). */
void sl_desk_settle(struct sl_desk *desk, const struct sl_mark *mark, int result);

/* It is the end of a copy of so many bytes, which is queued now: by what others took the desk knows when to
 * expect it, and whoever waits for it is awake then. */
void sl_desk_expect(struct sl_desk *desk, const struct sl_mark *mark, uint64_t bytes);

/* 0, SLUICE_TIMEOUT without a sentence, or how it failed. Stays awake for so long at least, and whenever the end is
 * expected. */
int sl_desk_wait(struct sl_desk *desk, const struct sl_mark *mark, int64_t spin_ns, int64_t timeout_ns);

/* Waits until nothing is under way. */
int sl_desk_drain(struct sl_desk *desk, int64_t timeout_ns);

/* By a ticket's number, for the public calls. */
int sl_ticket_wait(uint64_t id, int64_t timeout_ns);

#endif
