/* SPDX-License-Identifier: MIT
 *
 * Turns Python's arguments of a launch into the library's: frames and arrays in place, numbers, structs by value.
 */
#include "kernel.h"

#include <string.h>

#include "frame.h"

/* ---- messages ---- */

/* Adds the parameter's number to the exception, if its class takes a text. Returns -1. */
static int name_parameter(const struct call *call)
{
    PyObject *type, *value, *traceback;

    PyErr_Fetch(&type, &value, &traceback);
    if (value &&
        (PyErr_GivenExceptionMatches(type, PyExc_TypeError) || PyErr_GivenExceptionMatches(type, PyExc_ValueError) ||
         PyErr_GivenExceptionMatches(type, PyExc_BufferError) ||
         PyErr_GivenExceptionMatches(type, call->kernel->state->error))) {
        PyErr_Format(type, "kernel '%U': parameter %u: %S", call->kernel->name, call->count + 1, value);
        Py_XDECREF(type);
        Py_XDECREF(value);
        Py_XDECREF(traceback);
    } else {
        PyErr_Restore(type, value, traceback);
    }
    return -1;
}

static const char *number_name(struct sluice_dtype dtype)
{
    static const char *const names[3][4] = {
        [SLUICE_INT] = { "signed char", "short", "int", "long long" },
        [SLUICE_UINT] = { "unsigned char", "unsigned short", "unsigned int", "unsigned long long" },
        [SLUICE_FLOAT] = { NULL, "half", "float", "double" },
    };
    int width = dtype.bits == 8 ? 0 : dtype.bits == 16 ? 1 : dtype.bits == 32 ? 2 : dtype.bits == 64 ? 3 : -1;

    if (dtype.code == SLUICE_BOOL)
        return "bool";
    return dtype.code < 3 && width >= 0 ? names[dtype.code][width] : NULL;
}

/* "float", "float4"; Sluice's name for a type without a name in C. */
static PyObject *type_text(const struct state *state, struct sluice_dtype dtype)
{
    const char *name = number_name(dtype);

    if (!name)
        return dtype_text(state, dtype);
    return dtype.lanes > 1 ? PyUnicode_FromFormat("%s x%u", name, dtype.lanes) : PyUnicode_FromString(name);
}

PyObject *parameter_text(const struct state *state, const struct sluice_parameter *parameter)
{
    PyObject *type, *made;

    switch (parameter->kind) {
    case SLUICE_PARAMETER_NUMBER: return type_text(state, parameter->dtype);
    case SLUICE_PARAMETER_STRUCT: return PyUnicode_FromFormat("struct of %u bytes", parameter->bytes);
    case SLUICE_PARAMETER_IN: return PyUnicode_FromString("sluice_in");
    case SLUICE_PARAMETER_OUT: return PyUnicode_FromString("sluice_out");
    case SLUICE_PARAMETER_POINTER: break;
    default: return PyUnicode_FromFormat("%u bytes", parameter->bytes);
    }
    if (parameter->dtype.bits)
        type = type_text(state, parameter->dtype);
    else
        type = parameter->element ? PyUnicode_FromFormat("struct of %u bytes", parameter->element)
                                  : PyUnicode_FromString("void");
    made = type ? PyUnicode_FromFormat("%s%U *", parameter->constant ? "const " : "", type) : NULL;
    Py_XDECREF(type);
    return made;
}

/* ---- frames ---- */

static int check_device(const struct call *call, const char *device, const char *advice)
{
    if (device_ordinal(device) == call->kernel->device->ordinal)
        return 0;
    raise_as(call->kernel->state, ERROR_E_WRONG_DEVICE, "it is on \"%s\", and the kernel is on \"%s\": %s", device,
             call->kernel->device->name, advice);
    return -1;
}

/* Takes `lease` over. */
static int add_lease(struct call *call, struct lease *lease)
{
    if (call->frame_count == MOST_FRAMES)
        raise_as(call->kernel->state, ERROR_E_LIMIT, "there can be %d frames in one launch", MOST_FRAMES);
    else if (check_device(call, device_text(lease->device),
                          "load the kernels for the frame's device, or pass frame.numpy(), which is copied") == 0) {
        call->leases[call->frame_count++] = lease;
        return 0;
    }
    (void)lease_drop(lease);
    return -1;
}

static int add_frame(struct call *call, PyObject *object, struct sluice_argument *argument)
{
    struct lease *lease = frame_lease((struct frame *)object);

    argument->kind = SLUICE_ARGUMENT_FRAME;
    argument->data = lease ? &lease->frame : NULL;
    return lease ? add_lease(call, lease) : -1;
}

/* Adds an array of a frame by its name, or a plane of an image as an array. */
static int add_array(struct call *call, PyObject *object, struct sluice_argument *argument)
{
    struct array *array = (struct array *)object;
    struct sluice_array whole;

    if (array_check(array) < 0 || add_lease(call, lease_keep(array->lease)) < 0)
        return -1;
    argument->kind = SLUICE_ARGUMENT_FRAME;
    argument->data = &array->lease->frame;
    argument->name = array->a.name;
    if (sluice_frame_array(&array->lease->frame, array->a.name, &whole) == 0 && whole.data == array->a.data &&
        whole.ndim == array->a.ndim && whole.image.pixel_format == array->a.image.pixel_format)
        return 0;
    call->arrays[call->frame_count - 1] = array->a;
    argument->kind = SLUICE_ARGUMENT_ARRAY;
    argument->data = &call->arrays[call->frame_count - 1];
    argument->name = NULL;
    return 0;
}

/* ---- other memory ---- */

static bool is_contiguous(const struct sluice_array *array)
{
    int64_t tight = sluice_dtype_size(array->dtype);

    for (int d = array->ndim - 1; d >= 0; d--) {
        if (array->shape[d] != 1 && array->strides[d] != tight)
            return array->nbytes == 0;
        tight *= array->shape[d];
    }
    return true;
}

static int check_source(const struct call *call, const struct source *source)
{
    char made[DEVICE_NAME];

    if (source->ordinal >= 0 &&
        check_device(call, device_numbered(source->ordinal, made), "copy it there, or load the kernels here") < 0)
        return -1;
    if (!source->odd && is_contiguous(&source->array))
        return 0;
    raise_as(call->kernel->state, ERROR_E_INVALID, "%s",
             source->framework == FRAMEWORK_TORCH
                 ? "the tensor is not contiguous, or yet to be conjugated or negated: pass x.contiguous(), or "
                   "x.resolve_conj().resolve_neg()"
                 : "the array is not contiguous, and kernels get its address only: pass a contiguous copy, by "
                   "numpy.ascontiguousarray() or cupy.ascontiguousarray()");
    return -1;
}

/* Adds the bytes of one or more structs. 1 without an exception if the object has no buffer, or one with gaps.
 */
static int open_bytes(PyObject *object, struct source *source)
{
    memset(source, 0, sizeof *source);
    source->ordinal = -1;
    if (!PyObject_CheckBuffer(object))
        return 1;
    if (PyObject_GetBuffer(object, &source->buffer, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT) == 0)
        return 0;
    source->buffer.obj = NULL;
    PyErr_Clear();
    return 1;
}

/* The same for a parameter that points to elements without a data type, or points to structs and gets records.
 */
static int open_untyped(PyObject *object, const struct sluice_parameter *parameter, struct source *source)
{
    bool typed = parameter->kind != SLUICE_PARAMETER_POINTER || parameter->dtype.bits != 0;

    if ((typed && parameter->element == 0) || open_bytes(object, source) != 0)
        return 1;
    const char *format = source->buffer.format;
    if (!typed || (format && *format == 'T' && source->buffer.itemsize == (Py_ssize_t)parameter->element))
        return 0;
    PyBuffer_Release(&source->buffer);
    return 1;
}

static void set_memory(const struct source *source, const void *data, uint64_t bytes, struct sluice_argument *argument)
{
    argument->kind = source->ordinal >= 0 ? SLUICE_ARGUMENT_MEMORY : SLUICE_ARGUMENT_HOST;
    argument->access = source->read_only ? SLUICE_ACCESS_IN : SLUICE_ACCESS_DEFAULT;
    argument->data = data;
    argument->bytes = bytes;
}

/* A ctypes.c_void_p: an address of the kernel's device. */
static bool is_address(PyObject *object, const void **address)
{
    Py_buffer buffer;

    if (!PyObject_CheckBuffer(object))
        return false;
    if (PyObject_GetBuffer(object, &buffer, PyBUF_RECORDS_RO) < 0) {
        PyErr_Clear();
        return false;
    }
    size_t length = buffer.format ? strlen(buffer.format) : 0;
    bool is = buffer.ndim == 0 && buffer.itemsize == sizeof *address && length > 0 && buffer.format[length - 1] == 'P';
    if (is)
        memcpy(address, buffer.buf, sizeof *address);
    PyBuffer_Release(&buffer);
    return is;
}

static int add_memory(struct call *call, PyObject *object, const struct sluice_parameter *parameter,
                      struct sluice_argument *argument)
{
    struct source *source = &call->sources[call->source_count];

    if (parameter->kind == SLUICE_PARAMETER_POINTER && is_address(object, &argument->data)) {
        argument->kind = SLUICE_ARGUMENT_MEMORY;
        return 0;
    }
    if (open_untyped(object, parameter, source) == 0) {
        source->read_only = source->buffer.readonly;
        call->source_count++;
        set_memory(source, source->buffer.buf, (uint64_t)source->buffer.len, argument);
        return 0;
    }
    if (source_open(call->kernel->state, object, &call->user, source) < 0)
        return -1;
    call->source_count++;
    if (check_source(call, source) < 0)
        return -1;
    source->read_only = source->read_only || source->framework == FRAMEWORK_JAX;
    set_memory(source, source->array.data, source->array.nbytes, argument);
    argument->dtype = source->array.dtype;
    return 0;
}

/* ---- by value ---- */

/* Adds a number of NumPy or ctypes: a buffer without dimensions. 1 without an exception if it is not one. */
static int add_scalar(struct call *call, PyObject *object, bool known, struct sluice_argument *argument)
{
    union number *number = &call->numbers[call->count];
    struct sluice_dtype dtype;
    Py_buffer buffer;
    int r = 1;

    if (!PyObject_CheckBuffer(object))
        return 1;
    if (PyObject_GetBuffer(object, &buffer, PyBUF_RECORDS_RO) < 0) {
        PyErr_Clear();
        return 1;
    }
    if (buffer.ndim == 0 && buffer.itemsize <= (Py_ssize_t)sizeof number->bytes &&
        dtype_from_letter(buffer.format, buffer.itemsize, &dtype) == 0) {
        memset(number, 0, sizeof *number);
        memcpy(number->bytes, buffer.buf, (size_t)buffer.itemsize);
        argument->kind = SLUICE_ARGUMENT_BYTES;
        argument->data = number;
        argument->bytes = (uint64_t)buffer.itemsize;
        r = 0;
    }
    PyBuffer_Release(&buffer);
    if (r != 0 || !known)
        return r;
    if (dtype.code == SLUICE_FLOAT && dtype.bits >= 32) {
        float real;
        memcpy(&real, number->bytes, sizeof real);
        argument->kind = SLUICE_ARGUMENT_REAL;
        argument->real = real;
        if (dtype.bits == 64)
            memcpy(&argument->real, number->bytes, sizeof argument->real);
    } else if (dtype.code == SLUICE_INT || dtype.code == SLUICE_UINT || dtype.code == SLUICE_BOOL) {
        int shift = dtype.code == SLUICE_INT ? 64 - dtype.bits : 0; /* extends the sign */
        if (dtype.code == SLUICE_UINT && dtype.bits == 64 && number->integer > INT64_MAX)
            return 0; /* only a parameter of that size holds it */
        argument->kind = SLUICE_ARGUMENT_INTEGER;
        argument->integer = (int64_t)(number->integer << shift) >> shift;
    }
    return 0;
}

static int add_int(struct call *call, PyObject *object, const struct sluice_parameter *parameter,
                   struct sluice_argument *argument)
{
    int overflow;
    long long value = PyLong_AsLongLongAndOverflow(object, &overflow);

    argument->kind = SLUICE_ARGUMENT_INTEGER;
    argument->integer = value;
    if (!overflow)
        return value == -1 && PyErr_Occurred() ? -1 : 0;
    if (parameter->kind == SLUICE_PARAMETER_NUMBER && parameter->dtype.code == SLUICE_UINT &&
        parameter->dtype.bits == 64 && overflow > 0) {
        union number *number = &call->numbers[call->count];
        number->integer = PyLong_AsUnsignedLongLong(object);
        argument->kind = SLUICE_ARGUMENT_BYTES;
        argument->data = number;
        argument->bytes = sizeof number->integer;
        if (!PyErr_Occurred())
            return 0;
        PyErr_Clear();
    }
    PyErr_Format(PyExc_OverflowError, "kernel '%U': parameter %u: %R does not fit into 64 bits", call->kernel->name,
                 call->count + 1, object);
    return -1;
}

static int add_struct(struct call *call, PyObject *object, struct sluice_argument *argument)
{
    struct source *source = &call->sources[call->source_count];

    if (open_bytes(object, source) != 0) {
        PyErr_Format(PyExc_TypeError,
                     "%R is not a struct: pass bytes, a ctypes.Structure, or a NumPy record of the kernel's type",
                     (PyObject *)Py_TYPE(object));
        return -1;
    }
    call->source_count++;
    argument->kind = SLUICE_ARGUMENT_BYTES;
    argument->data = source->buffer.buf;
    argument->bytes = (uint64_t)source->buffer.len;
    return 0;
}

/* ---- all of them ---- */

static bool takes_value(const struct sluice_parameter *parameter)
{
    return parameter->kind == SLUICE_PARAMETER_NUMBER || parameter->kind == SLUICE_PARAMETER_UNKNOWN;
}

static int add(struct call *call, PyObject *object, const struct sluice_parameter *parameter,
               struct sluice_argument *argument)
{
    struct state *state = call->kernel->state;
    int r;

    if (Py_IS_TYPE(object, state->frame) || Py_IS_TYPE(object, state->writer_frame))
        return add_frame(call, object, argument);
    if (Py_IS_TYPE(object, state->array))
        return add_array(call, object, argument);
    if (PyLong_Check(object))
        return add_int(call, object, parameter, argument);
    if (PyFloat_Check(object) && parameter->kind != SLUICE_PARAMETER_UNKNOWN) {
        argument->kind = SLUICE_ARGUMENT_REAL;
        argument->real = PyFloat_AsDouble(object);
        return 0;
    }
    if (parameter->kind == SLUICE_PARAMETER_STRUCT ||
        (takes_value(parameter) && (PyBytes_Check(object) || PyByteArray_Check(object))))
        return add_struct(call, object, argument);
    if (takes_value(parameter) &&
        (r = add_scalar(call, object, parameter->kind == SLUICE_PARAMETER_NUMBER, argument)) != 1)
        return r;
    if (PyFloat_Check(object)) {
        argument->kind = SLUICE_ARGUMENT_REAL;
        return 0; /* the library refuses it */
    }
    if (parameter->kind == SLUICE_PARAMETER_NUMBER && !PyObject_CheckBuffer(object) &&
        framework_of(state, object) == FRAMEWORK_NONE) {
        PyErr_Format(PyExc_TypeError, "the kernel takes a number, and %R is not one", (PyObject *)Py_TYPE(object));
        return -1;
    }
    return add_memory(call, object, parameter, argument);
}

int argument_add(struct call *call, PyObject *object)
{
    static const struct sluice_parameter unknown;
    const struct sluice_kernel_info *info = &call->kernel->info;
    bool known = info->parameter_count != UINT32_MAX && call->count < info->parameter_count;
    struct sluice_argument *argument = &call->arguments[call->count];

    memset(argument, 0, sizeof *argument);
    if (add(call, object, known ? &info->parameters[call->count] : &unknown, argument) < 0)
        return PyErr_ExceptionMatches(PyExc_OverflowError) ? -1 : name_parameter(call);
    call->count++;
    return 0;
}
