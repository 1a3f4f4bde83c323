/* SPDX-License-Identifier: MIT
 *
 * Inside: devices, streams and events, and the table that a kind of device fills.
 *
 * The layer in front checks everything once (handles, owners, capture, timing, "never recorded",
 * the current streams) before it calls a kind, so a kind gets live objects of its own only.
 * device.c is the one file that lists the kinds.
 *
 * Whoever is inside an object holds it: an object that ends meanwhile loses its name at once and
 * its native half when the last holder drops it. So no lock is held while a kind works, and nothing
 * is destroyed under a thread that uses it.
 */
#ifndef SL_DEVICE_DEVICE_H
#define SL_DEVICE_DEVICE_H

#include <stdbool.h>

#include <sluice/device.h>

#include "device/object.h"
#include "os/os.h"

#define SL_DEVICE_NAME 64
#define SL_DEVICE_UUID 16

struct sl_device {
    struct sl_object object;
    const struct sl_device_ops *ops;
    void *state; /* the kind's own */
    char name[SL_DEVICE_NAME];

    sl_mutex lock; /* guards what follows, and which objects the device lists */
    bool open;
    struct sl_object *objects; /* its streams and events: a name ends exactly when it leaves here */
    uint64_t default_stream;   /* its handle, 0 until it is asked for */
};

struct sl_stream {
    struct sl_object object;
    uintptr_t native;
    enum sluice_stream_kind kind;
    int32_t priority;
    bool blocking;
    void (*release)(void *user); /* of a borrowed stream */
    void *user;
    unsigned current; /* on how many threads' stacks, and how often; the device's lock */
};

struct sl_event {
    struct sl_object object;
    uintptr_t native;
    bool timing;
    _Atomic bool recorded;
    _Atomic uint64_t capture; /* the kind's: the capture that it was last recorded in, 0 for none */
};

/* A stream and the capture of a graph. */
enum sl_capture {
    SL_CAPTURE_NONE,
    SL_CAPTURE_ACTIVE, /* it captures, or did until something broke that */
    SL_CAPTURE_SHUT,   /* another stream's capture keeps everybody off this one */
};

/* Where a stream's work is queued. Two handles may name one place. */
struct sl_stream_place {
    const void *context; /* the kind's; NULL: nothing is queued there */
    uintptr_t native;    /* 0: the context's default stream, by whichever name */
    bool blocking;
};

/* A kind of device. Every function is there; they may run on any thread at any time, several at
 * once. Those that return int say a sluice_result and set the sentence. What is marked "quick" is
 * called under a lock and must not wait for anything. */
struct sl_device_ops {
    const char *name;

    /* Which piece of hardware goes by this name here: the same bytes in every process. Zeros: the
     * machine's memory. Makes no context. And the other way round: a name that opens it. */
    int (*identify)(const char *name, unsigned char uuid[SL_DEVICE_UUID]);
    void (*name_of)(const unsigned char uuid[SL_DEVICE_UUID], char name[SL_DEVICE_NAME]);

    int (*open)(struct sl_device *device); /* by device->name; sets ->state */
    void (*close)(struct sl_device *device);
    int (*synchronize)(struct sl_device *device);

    /* Host memory that it copies at full speed, page-aligned. `keeper` is the kind's own; with it the
     * memory is freed, also when the device has been closed long since. */
    int (*host_alloc)(struct sl_device *device, size_t size, void **memory, void **keeper);
    int (*host_free)(void *memory, void *keeper);

    /* By ->priority and ->blocking; wrap by `native`, which it checks. They set ->native. */
    int (*stream_create)(struct sl_stream *stream);
    int (*stream_wrap)(struct sl_stream *stream, uintptr_t native);
    int (*stream_default)(struct sl_stream *stream);
    /* Waits for nothing; queued work still runs. Leaves a native stream that is not owned. */
    void (*stream_destroy)(struct sl_stream *stream);
    /* Quick. None also where the driver does not answer: then whatever follows fails by itself. */
    enum sl_capture (*stream_capture)(struct sl_stream *stream);
    /* Quick. */
    void (*stream_place)(const struct sl_stream *stream, struct sl_stream_place *place);
    int (*stream_query)(struct sl_stream *stream); /* 0 or SLUICE_NOT_READY */
    int (*stream_synchronize)(struct sl_stream *stream);

    /* `other` and `event` may be of another device of this kind. */
    int (*stream_wait_stream)(struct sl_stream *stream, struct sl_stream *other);
    int (*stream_wait_event)(struct sl_stream *stream, struct sl_event *event);

    int (*event_create)(struct sl_event *event); /* by ->timing; sets ->native */
    void (*event_destroy)(struct sl_event *event);
    int (*event_record)(struct sl_event *event, struct sl_stream *stream);
    int (*event_query)(struct sl_event *event); /* 0 or SLUICE_NOT_READY */
    int (*event_synchronize)(struct sl_event *event);
    int (*event_elapsed)(struct sl_event *start, struct sl_event *stop, double *milliseconds);
};

extern const struct sl_device_ops sl_device_host;
extern const struct sl_device_ops sl_device_cuda;

/* ---- for the core ---- */

/* The kind of a device's name, e.g. "host" or "cuda:0"; NULL if it is no device's name. */
const struct sl_device_ops *sl_device_kind(const char *name);

/* The same by the kind's own name, e.g. "cuda". */
const struct sl_device_ops *sl_device_of_kind(const char *kind);

/* May `stream` order frames that live on a device of this kind (NULL: of any)? SLUICE_ON_CPU may.
 * 0; SLUICE_E_INVALID for no stream; SLUICE_E_HANDLE; SLUICE_E_CLOSED; SLUICE_E_STALE; SLUICE_E_WRONG_DEVICE. */
int sl_stream_check_handle(struct sluice_stream stream, const struct sl_device_ops *kind);

static inline int sl_stream_check(struct sluice_stream stream, const struct sl_device_ops *kind)
{
    return stream.id == SLUICE_ON_CPU.id ? 0 : sl_stream_check_handle(stream, kind);
}

/* The stream behind a handle, kept alive until sl_object_drop(&stream->object). */
int sl_stream_hold(struct sluice_stream handle, struct sl_stream **stream);

/* Is there a stream of this name, as far as is known without a hold on it? For callers that hold something else, so
 * that they know they are no forked child. */
bool sl_stream_lives(struct sluice_stream handle);

/* False, and nowhere, if there is no such stream. Sets no sentence. */
bool sl_stream_place(struct sluice_stream stream, struct sl_stream_place *place);

/* Does what is queued on one come behind what was queued on the other, though nobody asked for it? */
bool sl_stream_ordered(const struct sl_stream_place *a, const struct sl_stream_place *b);

/* Called, if it is set, before something is queued: what comes behind `to` from then on comes behind `from` as well.
 * Both are handles, of streams or events; `anew`: and behind nothing else any more. It may be called on any thread,
 * and holds no lock of this layer. */
extern void (*_Atomic sl_stream_hand_on)(uint64_t from, uint64_t to, bool anew);

/* Something that waits until a stream captures no more. `run` is called on any thread, one at a time, and must not
 * touch it any more once it is done; false: not yet. */
struct sl_after {
    struct sl_after *next;
    struct sl_stream *stream; /* held for it, and dropped when it is done */
    bool (*run)(struct sl_after *after);
    bool listed;
};

void sl_after_begin(struct sl_after *after);

/* Runs it, unless that is done. */
void sl_after_try(struct sl_after *after);

/* ---- between the files of this layer, and for tests ---- */

/* Calls sl_stream_hand_on, if it is set. */
void sl_stream_follows(uint64_t from, uint64_t to, bool anew);

/* A stream's name has ended: whatever waits for it gets its turn while its owner still knows the stream. With no lock
 * held, on the caller's hold of the stream. */
void sl_after_ending(struct sl_stream *stream);


/* Tries what a GPU can do (enum sluice_device_ability); fills in all but the size. */
int sl_device_try(const char *name, uint32_t can, struct sluice_device_trial *trial);

int sl_device_hold(struct sluice_device handle, struct sl_device **device);
int sl_event_hold(struct sluice_event handle, struct sl_event **event);

/* 0, or SLUICE_E_NOT_RECORDED. */
int sl_event_recorded(struct sl_event *event);

/* Opens `name` as a device of this kind. */
int sl_device_open_as(const struct sl_device_ops *ops, const char *name,
                      struct sluice_device *device);

/* Closes it without waiting for any work: for whoever knows that its own is done. Zero is done already. */
void sl_device_drop(struct sluice_device device);

/* A new object of a device, without a name yet. Keeps the device alive. */
int sl_device_object(struct sluice_device handle, enum sl_handle_kind kind, size_t size,
                     void **object);

/* Gives it its name and lists it; on failure the object is dropped. With `only`, a word of the
 * device: if another object has its name there already, that name is the answer and this object is
 * dropped. */
int sl_device_adopt(struct sl_object *object, uint64_t *only, uint64_t *id);

/* Ends the name of a listed object, under the device's lock; the list's hold becomes the caller's.
 * False if its name ended before. */
bool sl_device_disown(struct sl_object *object, enum sl_end how);

/* 0, or SLUICE_E_CAPTURING, saying that `what` cannot be done: the stream captures or is shut. */
int sl_stream_not_capturing(struct sl_stream *stream, const char *what);

/* How many native devices, streams and events exist now. Borrowed and default streams count. */
struct sl_device_counts {
    uint32_t devices, streams, events;
};
struct sl_device_counts sl_device_counts(void);
void sl_device_count(enum sl_handle_kind kind, int change);

#endif
