/* SPDX-License-Identifier: MIT
 *
 * One conversion: planned, then done on host or queued on a GPU.
 */
#include "convert/convert.h"

#include <stdlib.h>
#include <string.h>

#include "kernel/kernel.h"
#include "util/result.h"

/* ---- on host ---- */

static int run_recorded(void *data)
{
    return sl_convert_host(data);
}

static int on_host(const struct sl_job *job, struct sl_stream *stream)
{
    if (!sl_host_captures(stream))
        return sl_convert_host(job);
    struct sl_job *recorded = malloc(sizeof *recorded);
    if (!recorded)
        return sl_fail(SLUICE_E_NO_MEMORY, "no memory to record a conversion");
    *recorded = *job;
    int r = sl_host_capture_add(stream, run_recorded, free, recorded);
    if (r != 0)
        free(recorded);
    return r == SLUICE_NOT_READY ? sl_convert_host(job) : r;
}

/* ---- the call ---- */

static int queue(const struct sl_job *job, struct sluice_stream handle, struct sl_stream *stream)
{
    return strcmp(stream->object.device->ops->name, "host") == 0 ? on_host(job, stream)
                                                                 : sl_convert_cuda(job, handle, stream);
}

/* With SLUICE_CHECK=streams, if nothing orders it behind earlier work, it is not queued. */
static int queue_checked(const struct sl_job *job, struct sluice_stream handle, struct sl_stream *stream,
                         const struct sluice_array *to, const struct sluice_array *from)
{
    uint64_t number = 0;

    sl_check_start();
    int r = sl_checks_streams() ? sl_check_convert(stream, to, from, &number) : 0;
    if (r != 0)
        return r;
    r = queue(job, handle, stream);
    sl_check_converted(number, r);
    return r;
}

int sl_convert(struct sluice_stream handle, const struct sluice_array *to, const struct sluice_array *from,
               const struct sluice_convert *how, struct sluice_area *area)
{
    struct sl_stream *stream;
    struct sluice_area found;
    struct sl_job job;
    int r = sl_convert_plan(to, from, how, &job, &found);

    if (r == 0)
        r = sl_stream_hold(handle, &stream);
    if (r != 0)
        return r;
    if ((r = sl_memory_used(to->data, handle)) == 0)
        r = sl_memory_used(from->data, handle);
    if (r == 0)
        r = queue_checked(&job, handle, stream, to, from);
    sl_object_drop(&stream->object);
    if (r == 0 && area)
        *area = found;
    return r;
}
