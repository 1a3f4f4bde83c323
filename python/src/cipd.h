/* SPDX-License-Identifier: MIT
 *
 * Channels of cuda-link's protocol: their parameters, and what is known of them.
 */
#ifndef SLUICE_PYTHON_CIPD_H
#define SLUICE_PYTHON_CIPD_H

#include <sluice/cipd.h>

#include "state.h"

/* From a tuple of values in C's order. -1 with an exception. Texts are those of the tuple. */
int cipd_reader_params(PyObject *values, struct sluice_cipd_reader_params *params);
int cipd_writer_params(PyObject *values, struct sluice_cipd_writer_params *params);

/* _cipd_info() of a reader and of a writer, and _cipd_look() of the module: such a tuple. */
PyObject *cipd_reader_info(PyObject *reader, PyObject *none);
PyObject *cipd_writer_info(PyObject *writer, PyObject *none);
PyObject *cipd_look(PyObject *module, PyObject *args);

#endif
