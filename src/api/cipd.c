/* SPDX-License-Identifier: MIT
 *
 * The public calls of sluice/cipd.h: what only channels of cuda-link's protocol have.
 */
#include <sluice/cipd.h>

#include "channel/channel.h"
#include "cuda_link/cuda_link.h"
#include "util/params.h"
#include "util/result.h"

#define LEAST_INFO offsetof(struct sluice_cipd_info, published)

static int check_kind(const struct sl_channel_ops *ops, const char *name)
{
    if (ops == &sl_channel_cuda_link)
        return 0;
    return sl_fail(SLUICE_E_UNSUPPORTED, "channel '%s' is no \"cipd:\" channel", name);
}

static int hold_reader(sluice_reader *handle, struct sl_cipd_reader **reader)
{
    struct sluice_reader *base;
    int r = sl_reader_hold(handle, &base);

    if (r != 0)
        return r;
    if ((r = check_kind(base->ops, base->name)) != 0)
        sl_object_drop(&base->object);
    *reader = sl_cipd_reader_of(base);
    return r;
}

static int give_info(struct sluice_cipd_info *caller, const struct sluice_cipd_info *info)
{
    return sl_params_store(caller, info, sizeof *info, LEAST_INFO, "struct sluice_cipd_info");
}

/* ---- observing ---- */

int sluice_cipd_writer_info(sluice_writer *handle, struct sluice_cipd_info *caller)
{
    struct sluice_cipd_info info = { .size = sizeof info };
    struct sluice_writer *base;
    int r = sl_writer_hold(handle, &base);

    if (r != 0)
        return r;
    if ((r = check_kind(base->ops, base->name)) == 0)
        sl_cipd_writer_info(sl_cipd_writer_of(base), &info);
    sl_object_drop(&base->object);
    return r == 0 ? give_info(caller, &info) : r;
}

int sluice_cipd_reader_info(sluice_reader *handle, struct sluice_cipd_info *caller)
{
    struct sluice_cipd_info info = { .size = sizeof info };
    struct sl_cipd_reader *reader;
    int r = hold_reader(handle, &reader);

    if (r != 0)
        return r;
    sl_cipd_reader_info(reader, &info);
    sl_object_drop(&reader->base.object);
    return give_info(caller, &info);
}

int sluice_cipd_look(const char *name, struct sluice_cipd_info *caller)
{
    struct sluice_cipd_info info = { .size = sizeof info };

    if (!name)
        return sl_fail(SLUICE_E_NAME, "sluice_cipd_look: name is NULL");
    int r = sl_cipd_inspect(name, &info);
    return r == 0 ? give_info(caller, &info) : r;
}

int sluice_cipd_list(int (*each)(void *user, const char *name), void *user)
{
    if (!each)
        return sl_fail(SLUICE_E_INVALID, "sluice_cipd_list: each is NULL");
    return sl_cipd_list(each, user);
}

int sluice_cipd_left(uint32_t *count)
{
    if (!count)
        return sl_fail(SLUICE_E_INVALID, "sluice_cipd_left: count is NULL");
    return sl_cipd_link_names_sweep(false, count);
}

int sluice_cipd_barrier_look(const char *name, int64_t stale_ns, struct sluice_cipd_barrier_info *info)
{
    if (!info)
        return sl_fail(SLUICE_E_INVALID, "sluice_cipd_barrier_look: info is NULL");
    if (stale_ns < 0)
        return sl_fail(SLUICE_E_INVALID, "sluice_cipd_barrier_look: stale_ns is %lld, and must be 0 or more",
                       (long long)stale_ns);
    return sl_cipd_barrier_info(name, stale_ns, info);
}

/* ---- settings ---- */

int sluice_cipd_environment(struct sluice_cipd_writer_params *writer, struct sluice_cipd_reader_params *reader)
{
    return sl_cipd_environment(writer, reader);
}

int sluice_cipd_variables(struct sluice_cipd_variable *variables, size_t capacity, size_t *count)
{
    if (!count || (!variables && capacity))
        return sl_fail(SLUICE_E_INVALID, "sluice_cipd_variables: %s is NULL", count ? "variables" : "count");
    sl_cipd_list_variables(variables, capacity, count);
    return 0;
}

int sluice_cipd_set_slots(sluice_writer *handle, uint32_t slots)
{
    struct sluice_writer *base;
    int r = sl_writer_enter(handle, &base);

    if (r != 0)
        return r;
    if ((r = check_kind(base->ops, base->name)) == 0)
        r = sl_cipd_writer_set_slots(sl_cipd_writer_of(base), slots);
    sl_writer_leave(base);
    return r;
}

int sluice_cipd_retry(sluice_reader *handle)
{
    struct sl_cipd_reader *reader;
    int r = hold_reader(handle, &reader);

    if (r != 0)
        return r;
    sl_cipd_reader_retry(reader);
    sl_object_drop(&reader->base.object);
    return 0;
}

/* ---- marks ---- */

int sluice_cipd_mark(sluice_reader *handle, const struct sluice_frame *frame, struct sluice_stream stream)
{
    struct sl_cipd_reader *reader;
    int r = hold_reader(handle, &reader);

    if (r != 0)
        return r;
    r = frame ? sl_cipd_mark(reader, frame, stream) : sl_fail(SLUICE_E_INVALID, "sluice_cipd_mark: frame is NULL");
    sl_object_drop(&reader->base.object);
    return r;
}

int sluice_cipd_check_mark(sluice_reader *handle, const struct sluice_frame *frame)
{
    struct sl_cipd_reader *reader;
    int r = hold_reader(handle, &reader);

    if (r != 0)
        return r;
    r = frame ? sl_cipd_check_mark(reader, frame) : sl_fail(SLUICE_E_INVALID, "sluice_cipd_check_mark: frame is NULL");
    sl_object_drop(&reader->base.object);
    return r;
}
