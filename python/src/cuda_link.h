/* SPDX-License-Identifier: MIT
 *
 * The C half of sluice.cuda_link: readers and writers as programs of cuda-link use them. A reader's
 * call gives the newest frame as the tensor of its slot, which is made once, and holds it until the
 * call that gives the next one: one call of Python's for each frame.
 */
#ifndef SLUICE_PYTHON_LINK_H
#define SLUICE_PYTHON_LINK_H

#include "framework.h"
#include "reader.h"
#include "writer.h"

#define LINK_SLOTS 128 /* numbers of slots that a session has */

/* What a call says besides the library's results, which are less than 100 and more than -1000. */
enum link_code {
    LINK_RENEWED = 100, /* a new session, or a new format: all arrays are new ones */
};

/* What was made for a slot: an array in a framework's form, and the result that has it. */
struct shown {
    PyObject *view, *result;
};

/* Host memory that frames are copied into, and the array of it that the program gets. */
struct landing {
    PyObject *result;
    struct sluice_array to;
    struct lease *lease; /* of the frame that is being copied */
    struct sluice_ticket ticket;
    bool marked; /* behind the copy */
};

struct link {
    PyObject_HEAD struct reader *reader;
    _Atomic bool busy;    /* a thread is in a call */
    bool foreign;         /* its channel is of cuda-link's protocol */
    bool copies;          /* frames are given as copies: their memory must not be written */
    bool pageable;        /* numpy() may do without pinned memory */
    bool pinned;          /* what it copied into last is */
    bool pipelined;
    bool gpu_wait;        /* torch: the current stream waits, not the CPU */
    bool told;            /* that what the program had is no more */
    bool news;            /* that `pending` is of another session is yet to be told */
    uint32_t window, threshold, window_frames, window_sleeps; /* gpu_wait comes on by itself; 0: never */
    int64_t timeout_ns;   /* for a frame that was published */
    int64_t spin_ns;      /* waits that take no longer count as spun */
    uint64_t session;     /* of the frame given last; 0: none yet */
    uint32_t generation;
    struct lease *held;    /* the frame that the program looks at */
    struct lease *pending; /* one that was taken and not given yet */
    PyObject *result;      /* makes a result of an array */
    PyObject *none;        /* the result that has none */
    struct shown shown[2][LINK_SLOTS];
    struct landing landings[2];
    unsigned landing; /* that was filled last */
    uint64_t frames, missed, overruns, timeouts, renewals, spin_hits, sleep_hits, latched;
    bool markless; /* its frames cannot be marked */
    uint64_t spun_ns, slept_ns;
    int64_t latency_ns; /* of the frame given last: from its commit */
};

struct link_writer {
    PyObject_HEAD struct writer *writer;
    struct sluice_array array; /* of the format, at no address */
    struct stream *marked;     /* whose work makes the next frame, as the program said */
    struct stream *usual;      /* the default one; NULL until it is named */
    bool settles;              /* send() returns when the GPU has made the copy, where no stream was named */
};

/* Takes a frame for work of this framework; FRAMEWORK_NONE: the CPU waits for it. `given`: the
 * stream that will use it, as the program names it, or NULL. 0 with *lease; a result of the library,
 * or LINK_RENEWED, without; -1000 with an exception. */
#define LINK_RAISED (-1000)
int link_take(struct link *link, struct channel *channel, enum framework framework,
              PyObject *given, struct lease **lease);

/* The program's next frame: the one before ends. */
void link_hold(struct link *link, struct lease *lease);

/* The newest frame as an array of its framework, in what `result` made of it; a stream may be `given` or NULL. `none`, or a
 * number, as link_code has them, if there is none; NULL with an exception. */
PyObject *link_show(struct link *link, enum framework framework, PyObject *given);

/* The same in host memory. */
PyObject *link_numpy(struct link *link);

/* wait(ns): is there something to take, before the time is over? */
PyObject *link_wait(PyObject *self, PyObject *ns);

/* Publishes the frame at `address`, which the stream `given` makes (Py_None: see cuda_link_writer.c): 0; SLUICE_NO_SLOT;
 * SLUICE_NOT_READY if the GPU is behind; SLUICE_E_CAPTURING; LINK_RAISED. */
int link_send(struct link_writer *link, uintptr_t address, PyObject *given);

/* A stream that a program names: an int is a native one. */
struct stream *link_stream(struct state *state, PyObject *given, const char *device);

/* The number of a native stream. -1 with an exception. */
int link_native(PyObject *given, size_t *native);

/* Lets go of all that was made of a session. */
void link_forget(struct link *link);
void link_forget_landings(struct link *link);

/* Only one thread at a time between the two. -1 with an exception. */
int link_enter(struct link *link);
void link_leave(struct link *link);

int link_types_init(PyObject *module, struct state *state);
int link_writer_type_init(PyObject *module, struct state *state);
int link_call_types_init(PyObject *module, struct state *state);

#endif
