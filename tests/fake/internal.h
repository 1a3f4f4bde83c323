/* SPDX-License-Identifier: MIT
 *
 * The fake driver's internals. All of them are under one lock.
 */
#ifndef FAKE_INTERNAL_H
#define FAKE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "fake/fake.h"

/* The functions themselves, as fake_cuNAME. */
#define FAKE_DECLARE(name, version, parameters, arguments) int fake_cu##name parameters;
SL_CUDA_FUNCTIONS(FAKE_DECLARE)
SL_CUDA_OPTIONAL_FUNCTIONS(FAKE_DECLARE)
EXTRA_FUNCTIONS(FAKE_DECLARE)
#undef FAKE_DECLARE

#define FAKE_GPUS 8

/* The nodes of a graph, by their numbers, that the next one on a stream depends on. */
struct frontier {
    unsigned count;
    size_t nodes[64];
};

struct capture {
    uint64_t id;
    int mode;
    pthread_t thread;
    struct sl_cu_stream *origin;
    struct sl_cu_graph *graph;
    bool owned, broken;   /* begun by the library, as the program told it */
    struct capture *next; /* of those under way */
};

struct sl_cu_context {
    int device, primary, holds;
    bool alive;
    int error;   /* sticky */
    int freeing; /* threads in a call that frees, and waits for earlier work */
    unsigned long long id;
    struct sl_cu_stream *legacy;
    struct sl_cu_context *next;
};

enum op_kind {
    OP_NOTHING,
    OP_SPIN,
    OP_FILL,
    OP_CHECK,
    OP_STORE,
    OP_EDGES, /* of an image: `size` pixels in a row, from `target` to `address` */
    OP_CLEAR,
    OP_COPY,
    OP_WRITE,
    OP_FREE,  /* memory */
    OP_RUN,   /* a kernel of an image */
    OP_CALL,  /* a host function */
    OP_HOLD,  /* until a word is reached */
    OP_AFTER, /* another stream's work */
    OP_HEAR,  /* an event of another process */
    OP_MARK,  /* an event */
};

struct op {
    enum op_kind kind;
    uint64_t address, value, size, target;
    uint64_t rows, address_pitch, target_pitch; /* of a copy, of `size` bytes from `target`; of edges */
    bool address_loose, target_loose;           /* host memory that no GPU knows of */
    int to_type, from_type;                     /* of a copy: what kinds of memory its call named */
    const struct sl_cu_context *to, *from;      /* of a copy between two; NULL: the stream's */
    bool exact;                                 /* a hold: until the word is just this */
    void (*function)(void *data);
    void *data;
    const struct sl_cu_module *module; /* of a kernel */
    struct fake_launch *launch;        /* a reference */
    int64_t queued, end;               /* time; before the end it is not done */
    uint64_t releases;                 /* of endless work: fake_release calls when it began */
    struct sl_cu_stream *other;
    uint64_t other_id, turn;
    struct sl_cu_event *event;
    uint64_t id;
    struct op *next;
};

struct work {
    size_t count;
    struct op *first, *last;
};

struct sl_cu_stream {
    uint64_t magic;
    unsigned long long id;
    struct sl_cu_context *context;
    unsigned flags;
    int priority;
    bool owned, ended;    /* made by the library; destroyed */
    pthread_t askers[16]; /* the threads that queried its capture state and have not used it since, the last one last */
    unsigned asked;       /* how many they are */
    unsigned long long thread; /* whose default stream it is; 0: no thread's */
    struct work work;
    uint64_t last_id, done_id;
    int64_t finished; /* what is done: when */
    struct capture *capture;
    struct frontier frontier; /* while it captures */
    struct sl_cu_stream *next, *retired_before;
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
    struct frontier frontier;    /* of the stream that captured it */
    struct shared_event *shared; /* what other processes see of it; NULL: nothing */
    int fd;
    bool foreign; /* it is another process's */
    struct sl_cu_event *next;
};

/* In a page of its own: how often it was recorded, and how often that was reached. */
struct shared_event {
    _Atomic uint64_t recorded, reached;
};

/* Addresses that the driver knows. */
enum fake_range_kind {
    FAKE_RESERVED,  /* by MemAddressReserve, with memory or without */
    FAKE_ALLOCATED, /* by MemAlloc */
    FAKE_OPENED,    /* another process's, by IpcOpenMemHandle */
    FAKE_REGISTERED,
    FAKE_PINNED, /* by MemHostAlloc */
};

struct fake_range {
    enum fake_range_kind kind;
    uint64_t address;
    size_t size;
    unsigned long long id;
    int device;
    struct sl_cu_context *context; /* that it ends with; NULL for a reservation */
    struct fake_memory *memory;    /* that is mapped here */
    bool managed;                  /* the CPU's as well */
    unsigned char access[FAKE_GPUS];
    char *view; /* where the GPU sees it, if not here */
    int home;   /* of what was opened: the GPU that it was allocated on, if this process sees that */
    int fd;     /* of what was allocated or opened; -1 */
    bool owned; /* by the library */
    bool freed; /* in stream order; it is still there */
    struct fake_range *next;
};

#define STREAM_MAGIC UINT64_C(0x53747265616d2121)
#define EVENT_MAGIC  UINT64_C(0x4576656e74212121)

extern pthread_mutex_t fake_lock;
extern pthread_cond_t fake_changed; /* work was done, or is to do */
extern struct sl_cu_context *fake_contexts;
extern struct sl_cu_stream *fake_streams;
extern struct capture *fake_captures;
extern struct fake_range *fake_ranges;
extern struct fake_things fake_living;

#define FAKE_DEPTH \
    64 /* GStreamer's plug-in leaves a dozen contexts on the stack, one for each codec that the GPU lacks */

/* Of the calling thread. */
struct fake_thread {
    bool library; /* the call that runs is the library's */
    bool gpu;     /* it is the GPU's own, which calls a function of the host's */
    enum fake_function function;
    int depth, mode;
    unsigned long long number; /* 0 until it is queried */
    struct sl_cu_context *stack[FAKE_DEPTH];
};
/* In the block that each thread is made with. What a library that comes later asks for as it is first used, glibc frees
 * as another thread begins, and the thread sanitizer does not see what orders the two. */
extern _Thread_local struct fake_thread fake_thread __attribute__((tls_model("initial-exec")));

void fake_break_rule(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The current context if it can work; else NULL and *code. */
struct sl_cu_context *fake_current(int *code);

/* Nothing of a context's may be worked on or ended while another one is current. */
void fake_check_context(const struct sl_cu_context *own, const struct sl_cu_context *current);

/* The stream of a handle, for work on it or, with `looking`, to inspect it. NULL and *code if there is none, or, for
 * work, if it is the default stream and unusable. */
struct sl_cu_stream *fake_stream(struct sl_cu_stream *handle, bool looking, int *code);
struct sl_cu_stream *fake_stream_new(struct sl_cu_context *context, unsigned flags, int priority);
void fake_stream_end(struct sl_cu_stream *stream);
void fake_streams_retire(void);
void fake_events_end(struct sl_cu_context *context);
struct sl_cu_event *fake_event_new(struct sl_cu_context *context, unsigned flags);
bool fake_event_usable(struct sl_cu_event *event, int *code);
void fake_modules_end(struct sl_cu_context *context);
bool fake_module_usable(const struct sl_cu_module *module);
int fake_event_share(struct sl_cu_event *event); /* if its flags say so */
void fake_event_unshare(struct sl_cu_event *event);

/* Queues a copy of an operation, or puts it into the graph that the stream captures. */
int fake_queue_on(struct sl_cu_stream *handle, const struct op *ops, unsigned count);
int fake_queue(struct sl_cu_stream *stream, const struct op *op);
void fake_append(struct work *work, const struct op *op); /* a copy of it */
void fake_op_end(struct op *op);
/* For work that only counts: the point that must be reached. */
uint64_t fake_tail(struct sl_cu_stream *stream);
/* Waits without the lock until the point is reached, or the context dies. */
int fake_wait(struct sl_cu_stream *stream, uint64_t id);

/* Waits for all that is queued in a context. */
int fake_wait_all(struct sl_cu_context *context);
/* As NVIDIA's driver does: others launch, copy and record nothing meanwhile. */
int fake_wait_to_free(struct sl_cu_context *context);

/* The thread's current context, whatever its state; NULL: none. */
struct sl_cu_context *fake_thread_context(void);

/* The thread that does the work runs while there is a context. */
void fake_gpu_start(void);
void fake_gpu_stop(void); /* with the lock, which it lets go meanwhile */

/* Time slices of processes, for the thread that does the work. Without SLUICE_FAKE_SLICES a slice never ends, and
 * no lock is held. */
void fake_turns_begin(void);
void fake_turns_end(void);
bool fake_turn_lasts(void); /* may it work? */
bool fake_turn_is_held(void);
int64_t fake_turn_since(void), fake_turn_until(void);
int64_t fake_turn_take(void); /* waits for it without the lock. Returns how long others had it */
void fake_turn_leave(void);

/* Waits until the GPU touches no memory; it does not begin before the lock is let go. */
void fake_pause(void);

/* This thread made an unsafe call: breaks the captures that see it. SL_CU_CAPTURE_UNSUPPORTED if there were any. */
int fake_break_captures(void);
/* It waited for the whole device, which no capture survives. */
int fake_break_all_captures(void);

/* ---- the machine ---- */

/* The GPUs of the machine that this process sees, in its order; how many. */
int fake_places(int places[FAKE_GPUS]);
int fake_place(int device); /* -1: there is no such GPU */

/* A line for the file that SLUICE_FAKE_LOG names. */
void fake_log(const char *line);

/* Has it this feature? A caller that uses a missing one has not asked. */
bool fake_can(int attribute);

/* ---- graphs ---- */

struct sl_cu_graph *fake_graph_new(struct sl_cu_context *context);
/* Adds a copy of an operation, behind the nodes of a frontier, which it then becomes. */
void fake_graph_add(struct sl_cu_graph *graph, const struct op *op, struct frontier *frontier);
void fake_frontier_add(struct frontier *to, const struct frontier *from);
/* Does one of `ends`, or what they depend on, include all of `nodes`? */
bool fake_graph_joined(const struct sl_cu_graph *graph, const struct frontier *ends, const struct frontier *nodes);
void fake_graph_end(struct sl_cu_graph *graph);
void fake_graphs_end(struct sl_cu_context *context);

/* What a node does: a code of the driver's; false if it is no operation. */
int fake_copy_3d(const struct sl_cu_copy_3d *copy, int device, struct op *op);
bool fake_read_operation(const union sl_cu_mem_op *from, int device, struct op *op);

/* ---- images, whose kernels are the host's code ---- */

struct fake_image;
struct fake_kernel;
struct fake_launch;

/* A code of the driver's, and the compiler's log. NULL, and no error: PTX of the kernels that gpu.c knows. */
int fake_image_open(const void *bytes, struct fake_image **image, const char **log);
const struct fake_kernel *fake_image_find(const struct fake_image *image, const char *name);

struct fake_launch *fake_launch_new(const struct fake_image *image, const struct fake_kernel *kernel,
                                    const uint32_t grid[3], const uint32_t block[3], size_t shared, void **arguments);
void fake_launch_hold(struct fake_launch *launch);
void fake_launch_drop(struct fake_launch *launch);
void *fake_launch_see(const struct fake_launch *launch, int device);
bool fake_launch_run(const struct fake_launch *launch, void *bytes);

/* ---- memory ---- */

struct fake_range *fake_range_add(enum fake_range_kind kind, uint64_t address, size_t size);
struct fake_range *fake_range_at(uint64_t address); /* NULL: nobody's */
void fake_range_end(struct fake_range *range);
int fake_free(enum fake_range_kind kind, uint64_t address);
/* Memory of a context that is in a file. */
struct fake_range *fake_range_map(enum fake_range_kind kind, int fd, size_t size, struct sl_cu_context *context);
void fake_memory_end(struct sl_cu_context *context);
void fake_free_now(const struct op *op); /* in the GPU's thread */

/* Where the CPU sees what the GPU sees at an address. NULL: it may not do that with all of it. */
void *fake_see(int device, uint64_t address, size_t size, bool writing);

/* The same for the two sides of a copy, whose engines also reach memory of other GPUs. */
void *fake_copy_end(const struct op *op, int device, bool writing);

void fake_edges(const struct op *op, unsigned char *to, const unsigned char *from);

int64_t fake_now(void);

#endif
