/* SPDX-License-Identifier: MIT
 *
 * Checks arguments against parameters: converts numbers to the parameter's type, and refuses what does not fit.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "format/format.h"
#include "kernel/launch.h"
#include "util/result.h"

/* ---- messages ---- */

static const char *passed(const struct sluice_argument *argument)
{
    switch (argument->kind) {
    case SLUICE_ARGUMENT_BYTES: return "a value";
    case SLUICE_ARGUMENT_INTEGER: return "an integer";
    case SLUICE_ARGUMENT_REAL: return "a floating-point number";
    case SLUICE_ARGUMENT_MEMORY: return "a pointer";
    case SLUICE_ARGUMENT_ARRAY: return "an array";
    case SLUICE_ARGUMENT_FRAME: return "a frame";
    case SLUICE_ARGUMENT_HOST: return "a host array";
    default: return "something else";
    }
}

#define REFUSE(result, launching, at, format, ...) \
    sl_fail(result, "kernel '%s' (%s): parameter %" PRIu32 " " format, (launching)->kernel->name, \
            (launching)->kernel->module->name, (at) + 1, __VA_ARGS__)

static int wrong_kind(const struct sl_launching *launching, uint32_t at)
{
    char type[SL_TYPE_NAME];

    return REFUSE(SLUICE_E_INVALID, launching, at, "is %s %s; %s was passed",
                  strchr("aeiou", sl_parameter_type(&launching->kernel->parameters[at], type)[0]) ? "an" : "a", type,
                  passed(launching->arguments[at].given));
}

static int wrong_count(const struct sl_kernel *kernel, uint32_t count)
{
    char types[512] = "", type[SL_TYPE_NAME];
    size_t length = 0;

    for (uint32_t i = 0; i < kernel->count && length < sizeof types; i++)
        length += (size_t)snprintf(types + length, sizeof types - length, "%s%s", i ? ", " : " (",
                                   sl_parameter_type(&kernel->parameters[i], type));
    return sl_fail(SLUICE_E_INVALID, "kernel '%s' (%s) takes %" PRIu32 " argument%s%s%s; %" PRIu32 " %s passed",
                   kernel->name, kernel->module->name, kernel->count, kernel->count == 1 ? "" : "s", types,
                   length >= sizeof types ? "..."
                   : kernel->count        ? ")"
                                          : "",
                   count, count == 1 ? "was" : "were");
}

/* ---- numbers ---- */

static int put_integer(struct sl_launching *launching, uint32_t at, struct sluice_dtype type)
{
    int64_t value = launching->arguments[at].given->integer;
    union sl_slot *slot = &launching->slots[at];

    if (type.code == SLUICE_FLOAT) {
        if (type.bits == 32)
            slot->float32 = (float)value;
        else
            slot->float64 = (double)value;
        return 0;
    }
    int64_t top = type.bits < 64 ? (INT64_C(1) << (type.bits - (type.code == SLUICE_INT))) - 1 : INT64_MAX;
    if (type.code == SLUICE_BOOL)
        top = 1;
    if (value > top || value < (type.code == SLUICE_INT ? -top - 1 : 0)) {
        char name[SL_TYPE_NAME];
        return REFUSE(SLUICE_E_LIMIT, launching, at, "is '%s', which does not hold %" PRId64,
                      sl_parameter_type(&launching->kernel->parameters[at], name), value);
    }
    slot->integer = value; /* little-endian: the low bytes are the value */
    return 0;
}

static int put_real(struct sl_launching *launching, uint32_t at, struct sluice_dtype type)
{
    double value = launching->arguments[at].given->real;
    union sl_slot *slot = &launching->slots[at];

    if (type.code != SLUICE_FLOAT)
        return wrong_kind(launching, at);
    if (type.bits == 64) {
        slot->float64 = value;
        return 0;
    }
    slot->float32 = (float)value;
    if (isinf(slot->float32) && !isinf(value))
        return REFUSE(SLUICE_E_LIMIT, launching, at, "is 'float', which does not hold %g", value);
    return 0;
}

static int put_bytes(struct sl_launching *launching, uint32_t at, uint32_t size)
{
    const struct sluice_argument *given = launching->arguments[at].given;

    if (!given->data || given->bytes == 0 || (size > 0 && given->bytes != size))
        return REFUSE(SLUICE_E_INVALID, launching, at, "has %" PRIu32 " bytes; a value of %" PRIu64 " was passed", size,
                      given->data ? given->bytes : 0);
    launching->call.values[at] = (void *)given->data;
    return 0;
}

/* ---- memory ---- */

/* Elements of an array that a pointer may point to: the same type, or a vector of it. */
static bool dtype_fits(struct sluice_dtype parameter, struct sluice_dtype memory)
{
    if (parameter.bits == 0 || memory.bits == 0)
        return true;
    return parameter.code == memory.code && parameter.bits == memory.bits &&
           (parameter.lanes == memory.lanes || memory.lanes == 1);
}

static int check_memory(const struct sl_launching *launching, uint32_t at, struct sluice_dtype memory)
{
    const struct sluice_parameter *parameter = &launching->kernel->parameters[at];
    const struct sl_argument *argument = &launching->arguments[at];
    char type[SL_TYPE_NAME], name[32];

    if (!dtype_fits(parameter->dtype, memory)) {
        if (sl_dtype_format(memory, name, sizeof name) != 0)
            snprintf(name, sizeof name, "another type");
        return REFUSE(SLUICE_E_INVALID, launching, at, "is '%s'; %s of %s was passed",
                      sl_parameter_type(parameter, type), passed(argument->given), name);
    }
    bool writes = parameter->kind == SLUICE_PARAMETER_OUT ||
                  (parameter->kind == SLUICE_PARAMETER_POINTER && !parameter->constant);
    if (!writes || !argument->read_only)
        return 0;
    if (argument->channel)
        return REFUSE(SLUICE_E_INVALID, launching, at,
                      "is '%s', which it may write; the frame of channel '%s' is read-only: declare it const, or write "
                      "into another frame",
                      sl_parameter_type(parameter, type), argument->channel);
    return REFUSE(SLUICE_E_INVALID, launching, at,
                  "is '%s', which it may write; read-only memory was passed: declare it const, or pass other memory",
                  sl_parameter_type(parameter, type));
}

static int put_picture(struct sl_launching *launching, uint32_t at)
{
    const struct sl_argument *argument = &launching->arguments[at];

    if (!argument->array)
        return wrong_kind(launching, at);
    if (argument->array->image.pixel_format == SLUICE_PIXEL_NONE)
        return REFUSE(SLUICE_E_INVALID, launching, at, "is a picture; array '%s' is not: it has no pixel format",
                      argument->array->name);
    struct sluice_dtype any = { .bits = 0 };
    int r = check_memory(launching, at, any);
    if (r == 0) {
        sl_picture_of(argument->array, &launching->pictures[at]);
        launching->call.values[at] = &launching->pictures[at];
    }
    return r;
}

static int put_pointer(struct sl_launching *launching, uint32_t at)
{
    const struct sl_argument *argument = &launching->arguments[at];
    const struct sluice_argument *given = argument->given;

    if (given->kind == SLUICE_ARGUMENT_HOST && (!given->data || given->bytes == 0))
        return REFUSE(SLUICE_E_INVALID, launching, at, "gets a host array of %" PRIu64 " bytes at %p", given->bytes,
                      given->data);
    launching->any_host = launching->any_host || given->kind == SLUICE_ARGUMENT_HOST;
    launching->slots[at].pointer = argument->array ? argument->array->data : (void *)given->data;
    return check_memory(launching, at, argument->array ? argument->array->dtype : given->dtype);
}

/* ---- all of them ---- */

static bool is_memory(uint32_t kind)
{
    return kind >= SLUICE_ARGUMENT_MEMORY && kind <= SLUICE_ARGUMENT_HOST;
}

/* For PTX and binaries only the sizes of parameters are known. */
static int put_unknown(struct sl_launching *launching, uint32_t at, uint32_t size)
{
    const struct sluice_argument *given = launching->arguments[at].given;

    if (is_memory(given->kind) && (size == 0 || size == sizeof(void *)))
        return put_pointer(launching, at);
    if (given->kind == SLUICE_ARGUMENT_BYTES)
        return put_bytes(launching, at, size);
    if (is_memory(given->kind))
        return REFUSE(SLUICE_E_INVALID, launching, at, "has %" PRIu32 " bytes; %s was passed", size, passed(given));
    return REFUSE(SLUICE_E_INVALID, launching, at,
                  "has a type that compiled code does not say; pass a variable of that type (SLUICE_VALUE; in Python "
                  "a NumPy scalar), not %s",
                  passed(given));
}

static int put(struct sl_launching *launching, uint32_t at)
{
    static const struct sluice_parameter unknown;
    const struct sl_kernel *kernel = launching->kernel;
    const struct sluice_parameter *parameter = kernel->count == UINT32_MAX ? &unknown : &kernel->parameters[at];
    uint32_t kind = launching->arguments[at].given->kind;

    launching->call.values[at] = &launching->slots[at];
    switch (parameter->kind) {
    case SLUICE_PARAMETER_UNKNOWN: return put_unknown(launching, at, parameter->bytes);
    case SLUICE_PARAMETER_NUMBER:
        if (kind == SLUICE_ARGUMENT_INTEGER)
            return put_integer(launching, at, parameter->dtype);
        if (kind == SLUICE_ARGUMENT_REAL)
            return put_real(launching, at, parameter->dtype);
        return kind == SLUICE_ARGUMENT_BYTES ? put_bytes(launching, at, parameter->bytes) : wrong_kind(launching, at);
    case SLUICE_PARAMETER_STRUCT:
        return kind == SLUICE_ARGUMENT_BYTES ? put_bytes(launching, at, parameter->bytes) : wrong_kind(launching, at);
    case SLUICE_PARAMETER_POINTER: return is_memory(kind) ? put_pointer(launching, at) : wrong_kind(launching, at);
    default: return put_picture(launching, at);
    }
}

int sl_arguments_check(struct sl_launching *launching)
{
    const struct sl_kernel *kernel = launching->kernel;
    uint32_t count = launching->call.count;
    int r = 0;

    if (kernel->count != UINT32_MAX && count != kernel->count)
        return wrong_count(kernel, count);
    for (uint32_t i = 0; i < count && r == 0; i++)
        r = put(launching, i);
    return r;
}
