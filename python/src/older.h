/* SPDX-License-Identifier: MIT
 *
 * What CPython 3.9 and 3.10 lack of what the extension uses. Their wheels are built without the limited API.
 */
#ifndef SLUICE_PYTHON_OLDER_H
#define SLUICE_PYTHON_OLDER_H

#include <Python.h>

#if PY_VERSION_HEX < 0x030a0000
static inline PyObject *Py_NewRef(PyObject *object)
{
    Py_INCREF(object);
    return object;
}

static inline PyObject *Py_XNewRef(PyObject *object)
{
    Py_XINCREF(object);
    return object;
}

/* A bit that 3.9 does not use: forbid_instances() looks at it. */
#define Py_TPFLAGS_DISALLOW_INSTANTIATION (1UL << 7)

static inline void forbid_instances(PyTypeObject *type)
{
    if (type->tp_flags & Py_TPFLAGS_DISALLOW_INSTANTIATION)
        type->tp_new = NULL;
}
#else
static inline void forbid_instances(PyTypeObject *Py_UNUSED(type))
{
}
#endif

#if PY_VERSION_HEX < 0x030b0000
#define Py_Version PY_VERSION_HEX
#endif

#endif
