/* SPDX-License-Identifier: MIT
 *
 * Kernels in Python: sluice._kernels.Kernels is a class over the functions of kernel.c, sluice.Kernel is a type of the
 * extension, sluice._graphs.Graph is a class over the functions of graph.c.
 */
#ifndef SLUICE_PYTHON_KERNEL_H
#define SLUICE_PYTHON_KERNEL_H

#include "source.h"
#include "stream_choice.h"

#define MOST_FRAMES 16 /* of one launch, the library's limit */

struct kernel {
    PyObject_HEAD struct state *state;
    PyObject *module; /* the capsule, which ends with its last kernel */
    PyObject *name;
    struct stream *stream; /* the stream of on(), or NULL */
    const struct opened *device;
    struct sluice_kernel handle;
    struct sluice_kernel_info info;
};

/* A number that an argument points to, in C's type. */
union number {
    uint64_t integer;
    unsigned char bytes[16];
};

/* A launch. It is large: only what is used is filled in. */
struct call {
    struct state *state;
    const struct opened *device;
    struct kernel *kernel; /* NULL: a conversion */
    PyObject *name;        /* the kernel's */
    struct user user;
    uint32_t count, source_count, frame_count;
    struct sluice_launch shape;
    struct sluice_argument arguments[SLUICE_MAX_PARAMETERS];
    union number numbers[SLUICE_MAX_PARAMETERS];
    struct source sources[SLUICE_MAX_PARAMETERS]; /* memory that is not a frame's */
    struct lease *leases[MOST_FRAMES];            /* with a reference to each */
    struct sluice_array arrays[MOST_FRAMES];      /* planes of images */
};

/* ---- kernel_argument.c: -1 with an exception ---- */

/* Adds the next argument. */
int argument_add(struct call *call, PyObject *object);

/* Reads over=, grid= and block= as numbers. */
int shape_parse(struct state *state, PyObject *object, const char *what, uint32_t shape[3]);

/* "const unsigned char *" */
PyObject *parameter_text(const struct state *state, const struct sluice_parameter *parameter);

/* ---- kernel_launch.c ---- */

PyObject *kernel_call(PyObject *self, PyObject *args, PyObject *keywords);

/* What the program named: `given`, `own` (NULL: none), or the thread's current stream. NULL in *out: nothing. */
int call_named_stream(struct state *state, PyObject *given, struct stream *own, const char *device,
                      struct stream **out);

/* The stream that the arguments suggest; NULL: none does. */
struct stream *call_found_stream(const struct call *call);

/* Orders the call with arrays of other streams, and uses the frames on its own. */
int call_order(struct call *call, struct stream_choice *choice);
int call_use_frames(struct call *call, const struct stream_choice *choice);

/* ---- convert.c ---- */

/* _convert(device, to, from, stream, numbers, crop, border, scale, bias) -> the area's numbers */
PyObject *convert(PyObject *module, PyObject *args);

/* ---- functions of the module ---- */

PyObject *module_load(PyObject *module, PyObject *args);
PyObject *module_unload(PyObject *module, PyObject *capsule);
PyObject *module_kernels(PyObject *module, PyObject *capsule);
PyObject *module_kernel(PyObject *module, PyObject *args);
PyObject *compile_log(PyObject *module, PyObject *none);
PyObject *nvrtc_folder(PyObject *module, PyObject *folder);

/* graph.c: a graph is an int, the library's handle; 0 is none. */
PyObject *capture_begin(PyObject *module, PyObject *stream);
PyObject *capture_end(PyObject *module, PyObject *args);
PyObject *graph_launch(PyObject *module, PyObject *args);
PyObject *graph_info(PyObject *module, PyObject *handle);
PyObject *graph_destroy(PyObject *module, PyObject *handle);
PyObject *branch_fork(PyObject *module, PyObject *stream);
PyObject *branch_join(PyObject *module, PyObject *args);

#endif
