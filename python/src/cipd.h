/* SPDX-License-Identifier: MIT
 *
 * What channels of cuda-link's protocol have besides what every channel has: parameters, and what is known of them.
 */
#ifndef SLUICE_PYTHON_CIPD_H
#define SLUICE_PYTHON_CIPD_H

#include <sluice/cipd.h>

#include "state.h"

/* enum sluice_cipd_order in words; ends in NULL. */
extern const char *const cipd_orders[];

/* Fills in what the mapping `given` has. -1 with an exception. *keeper keeps the texts: to be dropped when they are not needed
 * any more. */
int cipd_reader_params(PyObject *given, struct sluice_cipd_reader_params *params, PyObject **keeper);
int cipd_writer_params(PyObject *given, struct sluice_cipd_writer_params *params, PyObject **keeper);

/* cipd_info() of a Reader and of a Writer, and cipd_look() of the module. */
PyObject *cipd_reader_info(PyObject *reader, PyObject *none);
PyObject *cipd_writer_info(PyObject *writer, PyObject *none);
PyObject *cipd_look(PyObject *module, PyObject *args, PyObject *keywords);

int cipd_types_init(PyObject *module, struct state *state);

#endif
