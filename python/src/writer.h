/* SPDX-License-Identifier: MIT
 *
 * Inside sluice.Writer: writer_open.c opens, writer.c closes and lends slots, writer_send.c copies into them.
 */
#ifndef SLUICE_PYTHON_WRITER_H
#define SLUICE_PYTHON_WRITER_H

#include "lease.h"

struct writer {
    PyObject_HEAD struct state *state;
    struct channel *channel;
    int64_t wait_ns;   /* policy "wait": how long frame() and send() wait; 0: policy "drop" */
    struct kept *kept; /* arrays that running copies read (writer_send.c); under the channel's lock */
};

PyObject *writer_new(PyTypeObject *type, PyObject *args, PyObject *keywords);

/* The channel, entered; NULL with an exception. It lives as long as the writer. */
struct channel *writer_enter(struct writer *writer);

/* Waits for a free slot, in slices: 0, or SLUICE_NO_SLOT after the time-out. The channel is
 * entered on return, unless there is an exception. */
int writer_wait_for_slot(struct writer *writer, int64_t timeout_ns);

PyObject *writer_send(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords);

/* At the writer's end: waits for those copies. */
void writer_drop_kept(struct writer *writer);

#endif
