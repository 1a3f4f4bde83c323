/* SPDX-License-Identifier: MIT
 *
 * The fake driver's own things. All of them are under one lock.
 */
#ifndef FAKE_INSIDE_H
#define FAKE_INSIDE_H

#include <pthread.h>
#include <stdatomic.h>

#include "fake/fake.h"

/* The functions themselves, as fake_cuNAME. */
#define FAKE_DECLARE(name, version, parameters, arguments) int fake_cu##name parameters;
SL_CUDA_FUNCTIONS(FAKE_DECLARE)
MORE_FUNCTIONS(FAKE_DECLARE)
#undef FAKE_DECLARE

struct capture {
    uint64_t id;
    int mode;
    pthread_t thread;
    struct sl_cu_stream *origin;
    struct sl_cu_graph *graph;
    bool broken;
    struct capture *next; /* of those under way */
};

struct sl_cu_context {
    int device, primary, holds;
    bool alive;
    int error; /* sticky */
    unsigned long long id;
    struct sl_cu_stream *legacy, *per_thread;
    struct sl_cu_context *next;
};

enum op_kind {
    OP_NOTHING,
    OP_SPIN,
    OP_FILL,
    OP_CHECK,
    OP_STORE,
    OP_CLEAR,
    OP_COPY,
    OP_WRITE,
    OP_HOLD,  /* until a word is reached */
    OP_AFTER, /* another stream's work */
    OP_MARK,  /* an event */
};

struct op {
    enum op_kind kind;
    uint64_t address, value, size, target;
    int64_t end; /* of a spin, once it runs */
    struct sl_cu_stream *other;
    uint64_t other_id, turn;
    struct sl_cu_event *event;
    uint64_t id;
    struct op *next;
};

struct sl_cu_stream {
    uint64_t magic;
    struct sl_cu_context *context;
    unsigned flags;
    int priority;
    bool owned, ended; /* made by the library; destroyed */
    bool asked;        /* about its capture, */
    pthread_t asker;   /* by this thread, since it was last used */
    struct op *first, *last;
    uint64_t last_id, done_id;
    struct capture *capture;
    struct sl_cu_stream *next;
};

struct sl_cu_event {
    uint64_t magic;
    struct sl_cu_context *context;
    unsigned flags;
    bool owned, recorded, ended;
    struct sl_cu_stream *stream; /* where it was recorded last, */
    uint64_t id, turn;           /* at which point, for which time */
    int64_t time;
    struct capture *capture;
    uint64_t capture_id;
    struct sl_cu_event *next;
};

struct sl_cu_graph {
    size_t count;
    struct op *first, *last;
};

#define STREAM_MAGIC UINT64_C(0x53747265616d2121)
#define EVENT_MAGIC  UINT64_C(0x4576656e74212121)

extern pthread_mutex_t fake_lock;
extern pthread_cond_t fake_changed; /* work was done, or is to do */
extern struct sl_cu_context *fake_contexts;
extern struct sl_cu_stream *fake_streams;
extern struct capture *fake_captures;
extern struct fake_things fake_living;

/* Of the calling thread. */
struct fake_thread {
    bool library; /* the call that runs is the library's */
    enum fake_function function;
    int depth, mode;
    struct sl_cu_context *stack[16];
};
extern _Thread_local struct fake_thread fake_thread;

void fake_break_rule(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The current context if it can work; else NULL and *code. */
struct sl_cu_context *fake_current(int *code);

/* The stream behind a handle, for work on it or, `looking`, to see what it is. NULL and *code if it
 * is none, or, unless only looked at, if it is the default stream and shut. */
struct sl_cu_stream *fake_stream(struct sl_cu_stream *handle, bool looking, int *code);
struct sl_cu_stream *fake_stream_new(struct sl_cu_context *context, unsigned flags, int priority);
void fake_stream_end(struct sl_cu_stream *stream);
void fake_events_end(struct sl_cu_context *context);

/* Queues a copy of an operation, or puts it into the graph that the stream captures. */
int fake_queue(struct sl_cu_stream *stream, const struct op *op);
/* For work that only counts: the point that must be reached. */
uint64_t fake_tail(struct sl_cu_stream *stream);
/* Waits without the lock until the point is reached, or the context dies. */
int fake_wait(struct sl_cu_stream *stream, uint64_t id);

/* The thread that does the work runs while there is a context. */
void fake_gpu_start(void);
void fake_gpu_stop(void); /* with the lock, which it lets go meanwhile */

/* This thread did something that no capture bears: breaks those that see it. True if there were
 * any. */
bool fake_break_captures(void);
void fake_graph_free(struct sl_cu_graph *graph);

/* May the GPU store there? */
bool fake_writable(uint64_t address, size_t size);

int64_t fake_now(void);

#endif
