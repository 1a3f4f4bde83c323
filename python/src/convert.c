/* SPDX-License-Identifier: MIT
 *
 * sluice.convert, behind sluice/_convert.py: pictures of frames and arrays, on the stream that a launch would use
 * (docs/python-send-fetch.md#on-which-stream).
 */
#include <sluice/convert.h>

#include <string.h>

#include "frame.h"
#include "kernel.h"
#include "stream_object.h"

/* ---- pictures ---- */

/* Takes `lease` over. */
static int add_lease(struct call *call, struct lease *lease)
{
    call->leases[call->frame_count++] = lease;
    return 0;
}

static int add_foreign(struct call *call, PyObject *object, const char *role, struct sluice_array *out)
{
    struct source *source = &call->sources[call->source_count];

    if (source_open(call->state, object, &call->user, source) < 0)
        return -1;
    call->source_count++;
    *out = source->array;
    out->read_only = out->read_only || source->read_only || source->framework == FRAMEWORK_JAX;
    if (source->framework != FRAMEWORK_TORCH || !source->odd)
        return 0;
    raise_as(call->state, ERROR_E_INVALID,
             "convert: `%s` is yet to be conjugated or negated, or has strides that are not in its memory: pass "
             "x.contiguous(), or x.resolve_conj().resolve_neg()",
             role);
    return -1;
}

static int add(struct call *call, PyObject *object, const char *role, struct sluice_array *out)
{
    struct state *state = call->state;
    struct lease *lease;
    const char *device;

    if (Py_IS_TYPE(object, state->frame) || Py_IS_TYPE(object, state->writer_frame)) {
        if (!(lease = frame_lease((struct frame *)object)) || add_lease(call, lease) < 0 ||
            array_find(state, lease, NULL, out) < 0)
            return -1;
        device = device_text(lease->device);
    } else if (Py_IS_TYPE(object, state->array)) {
        struct array *array = (struct array *)object;
        if (array_check(array) < 0 || add_lease(call, lease_keep(array->lease)) < 0)
            return -1;
        *out = array->a;
        device = device_text(array->lease->device);
    } else {
        char made[DEVICE_NAME];
        if (add_foreign(call, object, role, out) < 0)
            return -1;
        int ordinal = call->sources[call->source_count - 1].ordinal;
        if (ordinal == call->device->ordinal)
            return 0;
        device = ordinal < 0 ? "host" : device_numbered(ordinal, made);
        raise_as(state, ERROR_E_WRONG_DEVICE,
                 "convert: `%s` is on \"%s\", and the other side on \"%s\": both must be on one device", role, device,
                 call->device->name);
        return -1;
    }
    if (device_ordinal(device) == call->device->ordinal)
        return 0;
    raise_as(state, ERROR_E_WRONG_DEVICE,
             "convert: `%s` is on \"%s\", and the other side on \"%s\": both must be on one device", role, device,
             call->device->name);
    return -1;
}

/* ---- the call ---- */

static PyObject *area_of(const struct sluice_area *area)
{
    return Py_BuildValue("(dddddddd)", area->x, area->y, area->width, area->height, area->from_x, area->from_y,
                         area->per_x, area->per_y);
}

static PyObject *run(struct call *call, PyObject *to, PyObject *from, bool named, const struct sluice_convert *how)
{
    struct sluice_array target, source;
    struct stream_choice choice = { .stream = NULL };
    struct sluice_area area;
    PyObject *made = NULL;
    int r;

    if (add(call, from, "from", &source) < 0)
        return NULL;
    call->user.writes = true;
    if (add(call, to, "to", &target) < 0)
        return NULL;
    if (named || !(choice.stream = call_found_stream(call)))
        choice.stream = stream_keep(call->user.consumer);
    if (call_order(call, &choice) == 0 && call_use_frames(call, &choice) == 0) {
        struct sluice_stream stream = choice_handle(&choice);
        Py_BEGIN_ALLOW_THREADS r = sluice_convert(stream, &target, &source, how, &area);
        if (r == 0 && (choice_hold_sources(&choice, call->sources, call->source_count) != 0 || choice.lasting))
            r = sluice_stream_synchronize(stream);
        Py_END_ALLOW_THREADS made = r == 0 ? area_of(&area) : raise_handle(call->state, r);
    }
    choice_drop(&choice);
    return made;
}

PyObject *convert(PyObject *module, PyObject *args)
{
    struct state *state = PyModule_GetState(module);
    struct sluice_convert how = SLUICE_CONVERT_INIT;
    PyObject *to, *from, *given, *made = NULL;
    struct stream *named = NULL;
    struct call call; /* large: only what is used is filled in */
    const char *device;

    if (!PyArg_ParseTuple(args, "sOOO(IIIIII)(IIII)(ffff)(ffff)(ffff):convert", &device, &to, &from, &given, &how.fit,
                          &how.filter, &how.flip, &how.chroma, &how.layout, &how.order, &how.crop.x, &how.crop.y,
                          &how.crop.width, &how.crop.height, &how.border[0], &how.border[1], &how.border[2],
                          &how.border[3], &how.scale[0], &how.scale[1], &how.scale[2], &how.scale[3], &how.bias[0],
                          &how.bias[1], &how.bias[2], &how.bias[3]))
        return NULL;
    call.state = state;
    call.kernel = NULL;
    call.count = call.source_count = call.frame_count = 0;
    if (!(call.name = PyUnicode_FromString("sluice.convert")))
        return NULL;
    call.device = device_open(state, device);
    if (call.device &&
        call_named_stream(state, given == Py_None ? NULL : given, NULL, call.device->name, &named) == 0) {
        struct stream *behind = named ? named : stream_of_native(state, 0, call.device->name);
        call.user = (struct user){ NULL, call.device->name, false, behind };
        if (behind)
            made = run(&call, to, from, named != NULL, &how);
        for (uint32_t i = 0; i < call.source_count; i++)
            source_close(&call.sources[i]);
        for (uint32_t i = 0; i < call.frame_count; i++)
            (void)lease_drop(call.leases[i]);
        stream_drop(behind);
    }
    Py_DECREF(call.name);
    return made;
}
