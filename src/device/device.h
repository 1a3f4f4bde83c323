/* SPDX-License-Identifier: MIT
 *
 * Internals of devices, streams and events, and the table of functions that each kind of device provides.
 *
 * The common layer checks everything once (handles, owners, capture, timing, "never recorded",
 * the current streams) before it calls a kind, so a kind only gets live objects of its own.
 * device.c is the one file that lists the kinds.
 *
 * A thread that uses an object holds a reference to it. An object that is ended meanwhile loses its handle at
 * once, and its native object when the last reference is dropped. So no lock but a device's fork_lock is held while a
 * kind works, and nothing is destroyed while a thread uses it.
 */
#ifndef SL_DEVICE_DEVICE_H
#define SL_DEVICE_DEVICE_H

#include <stdbool.h>

#include <sluice/device.h>

#include "device/object.h"
#include "os/os.h"
#include "util/atomic.h"

#define SL_DEVICE_NAME        64
#define SL_DEVICE_UUID        16
#define SL_DEVICE_NATIVE_BITS 6  /* of a hash of native streams */
#define SL_DEVICE_FORKS       32 /* streams that it lends to parallel sections */
#define SL_CONVERT_KERNELS    11

/* A stream that the device lends to parallel sections. */
struct sl_loan {
    struct sluice_stream stream, parent; /* stream: 0, or one that has ended: none. parent: 0: it is not lent */
};

struct sl_device {
    struct sl_object object;
    const struct sl_device_ops *ops;
    void *state; /* private to the kind */
    char name[SL_DEVICE_NAME];

    sl_mutex lock; /* guards the members below, and the list of objects */
    bool open;
    struct sl_object *objects; /* its streams and events: a handle ends exactly when its object leaves the list */
    uint64_t default_stream;   /* its handle; 0 until first requested */
    struct sl_stream *by_native[1 << SL_DEVICE_NATIVE_BITS];
    struct sl_retired_stream *retired;   /* the kind's: streams whose handles have ended, and whose work has not */
    sl_word convert[SL_CONVERT_KERNELS]; /* handles of the kernels of convert/cuda.c; 0: not loaded. No lock */

    sl_mutex fork_lock; /* guards the members below; held during a whole fork or join */
    struct sl_loan forks[SL_DEVICE_FORKS];
    uint32_t next_fork; /* where to look for a stream first */
};

/* What to call when a wrapped stream's handle has ended and nothing uses it any more. */
struct sl_stream_release {
    struct sl_stream_release *next;
    void (*release)(void *user);
    void *user;
};

struct sl_stream {
    struct sl_object object;
    uintptr_t native;
    enum sluice_stream_kind kind;
    int32_t priority;
    bool blocking;
    /* under the device's lock */
    uintptr_t wrapped;             /* the native stream by which a wrap finds it */
    struct sl_stream *next_native; /* in by_native */
    uint32_t more_wraps;           /* counts of its handle, besides the first */
    struct sl_stream_release *releases;
    unsigned current;    /* number of entries on all threads' stacks of current streams; the device's lock */
    bool forked;         /* it is one of device->forks */
    sl_word spare_event; /* the kind's: an event that no call uses now, for streams that wait for this one; 0: none */
    sl_word part;        /* host: what it is in a capture; CUDA: the capture that it joined, and that no stream has
                            waited for since; 0: nothing */
};

struct sl_event {
    struct sl_object object;
    uintptr_t native;
    bool timing, sleep;
    _Atomic bool recorded;
    _Atomic uint64_t capture; /* set by the kind: the capture in which it was last recorded; 0: none */
    sl_word recorded_on;      /* CUDA: the handle of the stream that captured it */
};

/* A stream's state of graph capture. */
enum sl_capture {
    SL_CAPTURE_NONE,
    SL_CAPTURE_ACTIVE,  /* it is capturing, or its capture was invalidated */
    SL_CAPTURE_BLOCKED, /* another stream's capture prohibits the use of this one */
};

enum sl_stream_state {
    SL_STREAM_IDLE,
    SL_STREAM_BUSY,
    SL_STREAM_CAPTURES, /* or it cannot be used */
};

/* Where a stream's work is queued. Two handles may refer to one place. */
struct sl_stream_queue {
    const void *context; /* set by the kind; NULL: nothing is queued there */
    uintptr_t native;    /* 0: the context's default stream, whatever its handle */
    uint64_t thread; /* the thread whose default stream it is (CU_STREAM_PER_THREAD): the calling one; 0: no thread's */
    bool blocking;
};

/* A kind of device. No function is NULL; they may run on any thread at any time, concurrently.
 * Those that return int return a sluice_result and set the error message. Functions marked "quick" are
 * called under a lock and must not wait for anything. */
struct sl_device_ops {
    const char *name;

    /* Which hardware this name refers to: the same bytes in every process. Zeros: host
     * memory. Makes no context. name_of is the opposite: a name that opens it. */
    int (*identify)(const char *name, unsigned char uuid[SL_DEVICE_UUID]);
    void (*name_of)(const unsigned char uuid[SL_DEVICE_UUID], char name[SL_DEVICE_NAME]);

    int (*open)(struct sl_device *device); /* by device->name; sets ->state */
    void (*close)(struct sl_device *device);
    int (*synchronize)(struct sl_device *device);

    /* Page-aligned host memory that the device copies at full speed. `keeper` is private to the kind, which needs it to
     * free the memory, even after the device was closed. */
    int (*host_alloc)(struct sl_device *device, size_t size, void **memory, void **keeper);
    int (*host_free)(void *memory, void *keeper);

    /* Create by ->priority and ->blocking; wrap by `native`, which it checks. They set ->native. */
    int (*stream_create)(struct sl_stream *stream);
    int (*stream_wrap)(struct sl_stream *stream, uintptr_t native);
    int (*stream_default)(struct sl_stream *stream);
    /* Waits for nothing; queued work still runs. Does not destroy a native stream that is not owned. */
    void (*stream_destroy)(struct sl_stream *stream);
    /* Quick. Also SL_CAPTURE_NONE if the driver call fails: then the calls that follow fail by themselves. */
    enum sl_capture (*stream_capture)(struct sl_stream *stream);
    /* Quick. */
    void (*stream_queue)(const struct sl_stream *stream, struct sl_stream_queue *queue);
    int (*stream_query)(struct sl_stream *stream); /* 0 or SLUICE_NOT_READY */
    int (*stream_synchronize)(struct sl_stream *stream);

    /* Of streams that nothing else uses now. */
    void (*streams_state)(struct sl_stream *const *streams, uint32_t count, enum sl_stream_state *states);

    /* Each of `streams` waits for each of `others`, up to SL_DEVICE_FORKS of one device, and not the same. If a wait
     * fails, the others are still queued. `others` and `event` may belong to another device of this kind. */
    int (*streams_wait)(struct sl_stream *const *streams, uint32_t count, struct sl_stream *const *others,
                        uint32_t other_count);
    int (*stream_wait_event)(struct sl_stream *stream, struct sl_event *event);

    int (*event_create)(struct sl_event *event); /* by ->timing and ->sleep; sets ->native */
    void (*event_destroy)(struct sl_event *event);
    int (*event_record)(struct sl_event *event, struct sl_stream *stream);
    int (*event_query)(struct sl_event *event); /* 0 or SLUICE_NOT_READY */
    int (*event_synchronize)(struct sl_event *event);
    int (*event_elapsed)(struct sl_event *start, struct sl_event *stop,
                         double *milliseconds); /* 0 or SLUICE_NOT_READY */
};

extern const struct sl_device_ops sl_device_host;
extern const struct sl_device_ops sl_device_cuda;

/* ---- for the core ---- */

/* The kind of the device called `name`, e.g. "host" or "cuda:0"; NULL if that is no device name. */
const struct sl_device_ops *sl_device_kind(const char *name);

/* Copies a device's name, with its end, to a program's `name`, which is not NULL. SLUICE_E_LIMIT if it does not fit. */
int sl_device_copy_name(const char *device, char *name, size_t size);

/* The kind by its own name, e.g. "cuda". */
const struct sl_device_ops *sl_device_of_kind(const char *kind);

/* May `stream` order frames on a device of this kind (NULL: of any)? SLUICE_ON_CPU may.
 * 0; SLUICE_E_INVALID for no stream; SLUICE_E_HANDLE; SLUICE_E_CLOSED; SLUICE_E_STALE; SLUICE_E_WRONG_DEVICE. */
int sl_stream_check_handle(struct sluice_stream stream, const struct sl_device_ops *kind);

static inline int sl_stream_check(struct sluice_stream stream, const struct sl_device_ops *kind)
{
    return stream.id == SLUICE_ON_CPU.id ? 0 : sl_stream_check_handle(stream, kind);
}

/* After such a check, or a call with a stream, with its `result`, which this returns: if the stream is another
 * device's, the message names the channel, too. */
int sl_stream_refused(const char *channel, int result);

/* 0, or SLUICE_E_CAPTURING, saying that `what` cannot be done: the stream captures. For one that was checked. */
int sl_stream_check_apart(struct sluice_stream stream, const char *what);

/* The stream behind a handle, kept alive until sl_object_drop(&stream->object). */
int sl_stream_hold(struct sluice_stream handle, struct sl_stream **stream);

/* Does this handle refer to a stream that has not ended? Takes no reference, so the stream may end at any time. Does
 * not check for a fork: for callers that hold a reference to something else, which proves that this is no forked child.
 */
bool sl_stream_is_alive(struct sluice_stream handle);

/* False, and a place where nothing is queued, if there is no such stream. Sets no error message. */
bool sl_stream_queue_of(struct sluice_stream stream, struct sl_stream_queue *queue);

/* A number of the native stream on which the calling thread's work with this object is queued: the same number, the
 * same stream. It is the handle, except for each thread's default stream, of which a handle has many. */
uint64_t sl_stream_queue_id(const struct sl_stream *stream);

/* Can work queued on one run after work queued earlier on the other, without a wait that Sluice knows of? True for two
 * blocking streams, as work on the default stream runs after all of one's work and before all of the other's. False for
 * the default streams of two threads: a program with these rarely uses the default stream of all threads. */
bool sl_stream_ordered(const struct sl_stream_queue *a, const struct sl_stream_queue *b);

/* Called, if set, before a wait or a record is queued that makes whatever comes after `to` also come after `from`.
 * Both are handles of streams or events; `anew`: and after nothing else any more. It may be called on any thread,
 * and no lock of this layer is held. */
extern void (*_Atomic sl_stream_order_hook)(uint64_t from, uint64_t to, bool anew);

/* The same for SLUICE_CHECK. Also called after a wait of the CPU: `to` is SLUICE_ON_CPU, `from` may be a device. */
extern void (*_Atomic sl_stream_check_hook)(uint64_t from, uint64_t to, bool anew);

/* The CPU has waited for a stream, an event or a device, or seen that it is done. */
void sl_stream_add_host_wait(uint64_t from);

/* Something deferred until a stream's capture has ended. `run` is called on any thread, one at a time. It returns false
 * if it must be called again later; once its work is done it must not touch `deferred`, which may be in use again by
 * then. */
struct sl_deferred {
    struct sl_deferred *next;
    struct sl_stream *stream; /* a reference, dropped when `run` is done */
    uint64_t thread;          /* for the owner: the stream's, as in sl_stream_queue; `run` may be on another */
    bool (*run)(struct sl_deferred *deferred);
    bool listed;
};

void sl_deferred_add(struct sl_deferred *deferred);

/* Calls `run`, unless it is done. */
void sl_deferred_run(struct sl_deferred *deferred);

/* `run` is not called any more. */
void sl_deferred_cancel(struct sl_deferred *deferred);

/* ---- between the files of this layer, and for tests ---- */

/* Calls both hooks, if they are set. */
void sl_stream_add_order(uint64_t from, uint64_t to, bool anew);

/* Queues the waits by the kind's function of this name, and calls both hooks. */
int sl_streams_wait(struct sl_stream *const *streams, uint32_t count, struct sl_stream *const *others,
                    uint32_t other_count);

/* To be called when a stream's handle has ended: runs what was deferred for it while its owner still knows the stream.
 * With no lock held; the caller holds a reference to the stream. */
void sl_deferred_end_stream(struct sl_stream *stream);

/* Tests what a GPU can do (enum sluice_device_ability); fills in all members but the size. */
int sl_device_selftest(const char *name, uint32_t can, struct sluice_device_trial *trial);

int sl_device_hold(struct sluice_device handle, struct sl_device **device);
int sl_event_hold(struct sluice_event handle, struct sl_event **event);

/* 0, or SLUICE_E_NOT_RECORDED. */
int sl_event_recorded(struct sl_event *event);

/* Opens `name` as a device of this kind. */
int sl_device_open_as(const struct sl_device_ops *ops, const char *name, struct sluice_device *device);

/* Closes a device without waiting for work: for callers that know that their own work is done. Ignores a handle of 0.
 */
void sl_device_drop(struct sluice_device device);

/* A new object of a device, without a handle yet. Keeps the device alive. */
int sl_device_object(struct sluice_device handle, enum sl_handle_kind kind, size_t size, void **object);

/* Gives the object a handle and lists it; on failure the object is dropped. `known` (or NULL) is called under the
 * device's lock: if it gives the handle of another object that already stands for the same native one, *id is that
 * handle and this object is dropped. */
int sl_device_adopt(struct sl_object *object, uint64_t (*known)(struct sl_object *object), uint64_t *id);

/* Ends the handle of a listed object, under the device's lock; the list's reference becomes the caller's.
 * False if the handle ended before. */
bool sl_device_disown(struct sl_object *object, enum sl_end how);

/* Ends the handle of an event or a graph that the program destroys, and clears it. */
int sl_device_end(uint64_t *id, enum sl_handle_kind kind);

/* 0, or SLUICE_E_CAPTURING, saying that `what` cannot be done: the stream is capturing, or shut. */
int sl_stream_not_capturing(struct sl_stream *stream, const char *what);

/* A new stream without a handle yet, and the handle of one that its kind has created, as sl_device_adopt. */
int sl_stream_new(struct sluice_device device, enum sluice_stream_kind kind, struct sl_stream **stream);
int sl_stream_adopt(struct sl_stream *stream, uint64_t (*known)(struct sl_object *object),
                    struct sluice_stream *handle);

/* A default stream, by its own handle or a wrapped one. */
static inline bool sl_stream_is_default(const struct sl_stream *stream)
{
    return stream->kind == SLUICE_STREAM_DEFAULT || (stream->kind == SLUICE_STREAM_BORROWED && stream->wrapped == 0);
}

/* The stream has joined or left the device's list (native_streams.c). Under the device's lock, as is the look-up: NULL
 * if the native stream has no handle. */
void sl_stream_listed(struct sl_stream *stream);
void sl_stream_unlisted(struct sl_stream *stream);
struct sl_stream *sl_stream_by_native(struct sl_device *device, uintptr_t native);

/* ---- graphs on host, and what their captures record (host_capture.c) ---- */

/* Runs, or ends without running. `run` returns a result; it is called by one thread at a time. */
struct sl_host_command {
    int (*run)(void *data);
    void (*drop)(void *data); /* NULL: there is nothing to free */
    void *data;
};

struct sl_host_edge {
    uint32_t from, to; /* the second command comes after the first */
};

struct sl_host_graph {
    uint32_t count, edge_count;
    struct sl_host_command *commands;
    struct sl_host_edge *edges;
};
void sl_host_graph_free(struct sl_host_graph *graph); /* NULL is allowed */

static inline bool sl_host_captures(const struct sl_stream *stream)
{
    return sl_load(&stream->part, relaxed) != 0;
}

/* Records a command, which then owns `data`, if the stream of "host" captures; SLUICE_NOT_READY if it does not: then
 * the caller runs it. SLUICE_E_NO_MEMORY. */
int sl_host_capture_add(struct sl_stream *stream, int (*run)(void *data), void (*drop)(void *data), void *data);

/* end: SLUICE_E_CAPTURE. */
int sl_host_capture_begin(struct sl_stream *stream);
int sl_host_capture_end(struct sl_stream *stream, struct sl_host_graph **graph);

/* ---- capture_errors.c ---- */

struct sl_names {
    uint32_t count;
    char text[160];
};
void sl_names_add(struct sl_names *names, uint64_t stream);

/* SLUICE_E_CAPTURE: the capture that began on `origin` cannot end, as nothing waits for these (or, none known, some).
 */
int sl_capture_unjoined(uint64_t origin, const struct sl_names *names);

/* May `stream`, which takes part in capture `part` (0: none), wait for work that belongs to capture `other` (0: none)?
 * SLUICE_E_CAPTURING. */
int sl_capture_may_wait(const struct sl_stream *stream, bool is_default, uint64_t part, uint64_t other);

/* How many native devices, streams and events exist now. Borrowed and default streams count. */
struct sl_device_counts {
    uint32_t devices, streams, events;
};
struct sl_device_counts sl_device_counts(void);
void sl_device_count(enum sl_handle_kind kind, int change);

/* ---- behind the public calls of sluice/device.h, which checks their pointers ---- */

int sl_device_open(struct sluice_device *device, const char *name);
int sl_device_name(struct sluice_device device, char *name, size_t size);
int sl_device_synchronize(struct sluice_device device);
int sl_device_reset(struct sluice_device device);
int sl_device_close(struct sluice_device *device);
int sl_device_host_alloc(struct sluice_device device, size_t size, void **memory);
int sl_device_host_free(void **memory);
int sl_stream_create(struct sluice_device device, const struct sluice_stream_params *params,
                     struct sluice_stream *stream);
int sl_stream_wrap(struct sluice_device device, uintptr_t native, void (*release)(void *user), void *user,
                   struct sluice_stream *stream);
int sl_stream_default(struct sluice_device device, struct sluice_stream *stream);
int sl_stream_native(struct sluice_stream stream, uintptr_t *native);
int sl_stream_wait_stream(struct sluice_stream stream, struct sluice_stream other);
int sl_stream_wait_event(struct sluice_stream stream, struct sluice_event event);
int sl_stream_query(struct sluice_stream stream);
int sl_stream_synchronize(struct sluice_stream stream);
int sl_stream_destroy(struct sluice_stream *stream);
int sl_stream_push_current(struct sluice_stream stream);
int sl_stream_pop_current(struct sluice_stream stream);
int sl_stream_current(struct sluice_stream *stream);
int sl_stream_info(struct sluice_stream stream, struct sluice_stream_info *info);
int sl_fork(struct sluice_stream parent, uint32_t count, struct sluice_stream *streams);
int sl_join(struct sluice_stream parent, uint32_t count, struct sluice_stream *streams);
int sl_event_create(struct sluice_device device, uint32_t flags, struct sluice_event *event);
int sl_event_record(struct sluice_event event, struct sluice_stream stream);
int sl_event_query(struct sluice_event event);
int sl_event_synchronize(struct sluice_event event);
int sl_event_elapsed(struct sluice_event start, struct sluice_event stop, double *milliseconds);
int sl_event_destroy(struct sluice_event *event);
int sl_gpu_count(uint32_t *count);
int sl_gpu_probe(uint32_t index, struct sluice_device_report *report);
int sl_gpu_selftest(uint32_t index, struct sluice_device_trial *trial);

#endif
