/* SPDX-License-Identifier: MIT
 *
 * What Python.h asks of a system, for the limited API of CPython on 64-bit Windows and mingw.
 */
#ifndef SLUICE_PYCONFIG_H
#define SLUICE_PYCONFIG_H

#define MS_WINDOWS
#define MS_WIN32
#define MS_WIN64
#define NT_THREADS
#define WITH_THREAD

#define SIZEOF_SHORT     2
#define SIZEOF_INT       4
#define SIZEOF_LONG      4
#define SIZEOF_LONG_LONG 8
#define SIZEOF_VOID_P    8
#define SIZEOF_SIZE_T    8
#define SIZEOF_TIME_T    8
#define SIZEOF_WCHAR_T   2
#define ALIGNOF_SIZE_T   8

#define HAVE_STDDEF_H    1
#define HAVE_ERRNO_H     1
#define HAVE_STDINT_H    1
#define HAVE_INTTYPES_H  1
#define HAVE_SYS_TYPES_H 1
#define HAVE_SYS_STAT_H  1
#define HAVE_WCHAR_H     1
#define HAVE_SSIZE_T     1
#define HAVE_PROTOTYPES  1
#define STDC_HEADERS     1

#define PY_FORMAT_SIZE_T "z"

/* Functions by thunks, so that their addresses are constants; data by the import table. */
#define PyAPI_FUNC(type) type
#define PyAPI_DATA(type) extern __declspec(dllimport) type
#define PyMODINIT_FUNC   __declspec(dllexport) PyObject *

#endif
