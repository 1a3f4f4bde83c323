/* SPDX-License-Identifier: MIT
 *
 * Writers and readers of bare channels: their handles.
 */
#include "channel/channel.h"

#include <stdio.h>
#include <string.h>

#include "native/reader/reader.h"
#include "native/writer/writer.h"
#include "util/result.h"

extern const struct sl_bare_ops sl_bare_cipd;

static const struct sl_bare_ops *const kinds[] = { &sl_bare_cipd };

const struct sl_bare_ops *sl_bare_of(const struct sl_wire_ops *wire)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i]->scheme, wire->scheme) == 0)
            return kinds[i];
    return NULL;
}

/* ---- writers ---- */

static void finish_writer(struct sl_object *object)
{
    struct sluice_writer *writer = (struct sluice_writer *)object;

    if (writer->state)
        writer->bare->writer_close(writer->state);
    writer->state = NULL;
    sl_apart_await(writer->name);
    sl_trace_close();
}

int sl_bare_writer_open(sluice_writer **out, const struct sl_bare_ops *ops, const char *name,
                        const struct sluice_writer_params *params)
{
    struct sluice_writer *writer = (struct sluice_writer *)sl_object_new(SL_HANDLE_WRITER, sizeof *writer);
    uint64_t handle;

    if (!writer)
        return SLUICE_E_NO_MEMORY;
    writer->object.finish = finish_writer;
    writer->bare = ops;
    snprintf(writer->name, sizeof writer->name, "%s", name);
    sl_trace_open();
    SL_STAGE_BEGIN(OPEN);
    int r = ops->writer_open(name, params, &writer->object, &writer->state);
    if (r == 0)
        r = sl_object_name(&writer->object, &handle);
    SL_STAGE_END(OPEN);
    if (r != 0) {
        sl_object_drop(&writer->object);
        return r;
    }
    *out = (sluice_writer *)(uintptr_t)handle;
    return 0;
}

static int check_kind(const struct sl_bare_ops *found, const struct sl_bare_ops *wanted, const char *name)
{
    if (found == wanted)
        return 0;
    return sl_fail(SLUICE_E_UNSUPPORTED, "channel '%s' is no \"%s:\" channel", name, wanted->scheme);
}

int sl_bare_writer_state(sluice_writer *handle, const struct sl_bare_ops *ops, struct sl_object **object, void **state)
{
    struct sluice_writer *writer;
    int r = sl_writer_hold(handle, &writer);

    if (r != 0)
        return r;
    *object = &writer->object;
    *state = writer->state;
    if ((r = check_kind(writer->bare, ops, writer->name)) != 0)
        sl_object_drop(*object);
    return r;
}

int sl_bare_writer_enter(sluice_writer *handle, const struct sl_bare_ops *ops, struct sluice_writer **writer, void **state)
{
    int r = sl_writer_enter(handle, writer);

    if (r != 0)
        return r;
    *state = (*writer)->state;
    if ((r = check_kind((*writer)->bare, ops, (*writer)->name)) != 0)
        sl_writer_leave(*writer);
    return r;
}

void sl_bare_writer_leave(struct sluice_writer *writer) { sl_writer_leave(writer); }

/* ---- readers ---- */

static void finish_reader(struct sl_object *object)
{
    struct sluice_reader *reader = (struct sluice_reader *)object;

    (void)sl_fetch_end(reader, false);
    if (reader->state)
        reader->bare->reader_close(reader->state);
    reader->state = NULL;
    sl_apart_await(reader->name);
    sl_trace_close();
}

int sl_bare_reader_open(sluice_reader **out, const struct sl_bare_ops *ops, const char *name,
                        const struct sluice_reader_params *params)
{
    struct sluice_reader *reader = (struct sluice_reader *)sl_object_new(SL_HANDLE_READER, sizeof *reader);
    uint64_t handle;

    if (!reader)
        return SLUICE_E_NO_MEMORY;
    reader->gate = reader->note = -1;
    reader->object.finish = finish_reader;
    reader->bare = ops;
    sl_mutex_init(&reader->copier_lock);
    snprintf(reader->name, sizeof reader->name, "%s", name);
    sl_trace_open();
    SL_STAGE_BEGIN(OPEN);
    int r = ops->reader_open(name, params, &reader->object, &reader->state);
    if (r == 0)
        r = sl_object_name(&reader->object, &handle);
    SL_STAGE_END(OPEN);
    if (r != 0) {
        sl_object_drop(&reader->object);
        return r;
    }
    *out = (sluice_reader *)(uintptr_t)handle;
    return 0;
}

int sl_bare_reader_state(sluice_reader *handle, const struct sl_bare_ops *ops, struct sl_object **object, void **state)
{
    struct sluice_reader *reader;
    int r = sl_reader_hold(handle, &reader);

    if (r != 0)
        return r;
    *object = &reader->object;
    *state = reader->state;
    if ((r = check_kind(reader->bare, ops, reader->name)) != 0)
        sl_object_drop(*object);
    return r;
}
