/* SPDX-License-Identifier: MIT
 *
 * The bases of sluice.cuda_link's Importer and Exporter. An importer's call returns the newest frame as the tensor of
 * its slot, which is made once, and holds the frame until the call that returns the next one.
 */
#ifndef SLUICE_PYTHON_LINK_H
#define SLUICE_PYTHON_LINK_H

#include "framework.h"
#include "reader.h"
#include "writer.h"

#define LINK_SLOTS 128 /* numbers of slots that a session has */

/* Return codes besides the library's results, which are less than 100 and more than -1000. */
enum link_code {
    LINK_RAISED = -1000, /* there is an exception */
    LINK_RENEWED = 100,  /* a new session, or a new format: all arrays are new ones */
};

/* What was made for a slot: a framework's array, and the result that contains it. */
struct slot_result {
    PyObject *view, *result;
};

/* Host memory that frames are copied into, and the result with the array over it. */
struct host_copy {
    PyObject *result;
    struct sluice_array to;
    struct lease *lease; /* of the frame that is being copied */
    struct sluice_ticket ticket;
    bool marked; /* a mark is queued behind the copy */
};

struct link {
    PyObject_HEAD _Atomic bool busy; /* a thread is in a call */
    struct reader *reader;           /* NULL: never opened. From here on all is of one opening */
    _Atomic bool open;
    bool foreign; /* its channel is of cuda-link's protocol */
    bool copies;  /* frames are given as copies: their memory must not be written */
    int pageable; /* pageable memory will do for get_frame_numpy() */
    bool pinned;  /* the memory of the last copy is pinned */
    int pipelined;
    int gpu_wait;    /* torch: the current stream waits, not the CPU */
    bool reported;   /* the end of the last session was reported */
    bool unreported; /* that `pending` is of another session is not reported yet */
    uint32_t window, threshold, window_frames, window_sleeps; /* when gpu_wait switches on by itself; 0: never */
    int64_t timeout_ns;                                       /* for a published frame to be finished */
    int64_t spin_ns;                                          /* waits up to this long count as spun */
    uint64_t session;                                         /* of the last frame; 0: none yet */
    uint32_t generation;
    struct lease *held;    /* the frame that the program uses */
    struct lease *pending; /* acquired, not returned yet */
    PyObject *result;      /* a callable: makes a result from an array */
    PyObject *none;        /* the result without a frame */
    struct slot_result slot_results[2][LINK_SLOTS];
    struct host_copy host_copies[2];
    unsigned last_copy; /* the one filled last */
    uint64_t frames, missed, overruns, timeouts, renewals, spin_hits, sleep_hits, latched;
    bool markless; /* its frames cannot be marked */
    uint64_t spun_ns, slept_ns;
    int64_t latency_ns; /* of the last frame, from its commit */
};

struct link_writer {
    PyObject_HEAD struct writer *writer; /* NULL: never opened */
    struct sluice_array array;           /* of the format, at no address */
    struct stream *marked;               /* by mark(): its work makes the next frame */
    struct stream *usual;                /* the default stream; NULL until it is used */
    bool settles;                        /* without a named stream send() waits for the copy */
    PyObject *outcome;                   /* the result for a published frame */
    bool in_c;                           /* export() itself handles usual frames, else Python does each */
    bool unnamed;                        /* frames without a stream are usual */
    unsigned long long published;        /* by export() alone */
};

/* ---- importers ---- */

/* _attach(reader, result=..., ...), and _detach(), which closes the reader. */
PyObject *link_attach(PyObject *self, PyObject *args, PyObject *keywords);
PyObject *link_detach(PyObject *self, PyObject *none);
void link_dealloc(PyObject *self);

/* _counts() */
PyObject *link_counts(PyObject *self, PyObject *none);

/* Only one thread at a time between the two. -1 with an exception. */
int link_enter(struct link *link);
void link_leave(struct link *link);

/* Acquires a frame for work of this framework; FRAMEWORK_NONE: the CPU waits for it. `given`: the stream that will use
 * it, or NULL. 0 with *lease; a result of the library, or enum link_code, without. */
int link_acquire(struct link *link, struct channel *channel, enum framework framework, PyObject *given,
                 struct lease **lease);

/* Holds the program's next frame, and releases the one before. */
void link_hold(struct link *link, struct lease *lease);

/* What calls return for a code of link_acquire(): link->none, a number, or NULL with an exception. */
PyObject *link_without(const struct link *link, int code);

/* Between link_enter() and link_leave(): the newest frame as a framework's array, in a result, or as link_without().
 * `given`: a stream or NULL. */
PyObject *link_show(struct link *link, struct channel *channel, enum framework framework, PyObject *given);

/* The same in host memory. */
PyObject *link_numpy(struct link *link, struct channel *channel);

/* _wait(ns): is there a frame, or news, within the time? */
PyObject *link_wait(PyObject *self, PyObject *ns);

/* Drops all that was made for a session. */
void link_forget(struct link *link);
void link_forget_copies(struct link *link);

/* ---- exporters ---- */

/* _attach(writer, settles), and _detach(), which drops its streams: the caller closes the writer. */
PyObject *link_writer_attach(PyObject *self, PyObject *args);
PyObject *link_writer_detach(PyObject *self, PyObject *none);
void link_writer_dealloc(PyObject *self);

/* _mark(stream): its work so far makes the next frame */
PyObject *link_mark(PyObject *self, PyObject *given);

/* Publishes the frame at `address`, made by the stream `given` (Py_None: see stream_for). 0; SLUICE_NO_SLOT;
 * SLUICE_NOT_READY if the GPU has not finished the last frames; SLUICE_E_CAPTURING; LINK_RAISED. */
int link_send(struct link_writer *link, uintptr_t address, PyObject *given);

/* ---- of both ---- */

/* A stream that a program passes; an int is a native one. */
struct stream *link_stream(struct state *state, PyObject *given, const char *device);

/* The number of a native stream. -1 with an exception. */
int link_native(PyObject *given, size_t *native);

#endif
