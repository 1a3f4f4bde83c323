/* SPDX-License-Identifier: MIT
 *
 * The GPUs of the channels in sluice top. They are identified by UUID, since "cuda:0" of a writer may be any GPU.
 */
#include "top.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../common/term.h"

#define MAX_LINES 4

static bool has_gpu(const struct top_channel *channel)
{
    static const unsigned char none[16];
    return channel->answered && channel->entry.live && memcmp(channel->info.device_uuid, none, sizeof none) != 0;
}

static const struct top_gpu *find_gpu(const struct top_gpu *gpus, size_t count, const unsigned char uuid[16])
{
    for (size_t i = 0; i < count; i++)
        if (memcmp(gpus[i].uuid, uuid, sizeof gpus[i].uuid) == 0)
            return &gpus[i];
    return NULL;
}

void top_refresh_gpus(struct top *top)
{
    struct top_gpu gpus[TOP_GPUS];
    size_t count = 0;
    /* Reads the list and the GPUs without the lock: only this thread changes them. */
    for (size_t i = 0; i < top->count && count < TOP_GPUS; i++) {
        const unsigned char *uuid = top->list[i]->info.device_uuid;
        if (!has_gpu(top->list[i]) || find_gpu(gpus, count, uuid))
            continue;
        const struct top_gpu *old = find_gpu(top->gpus, top->gpu_count, uuid);
        struct top_gpu *gpu = &gpus[count];
        if (old) {
            *gpu = *old;
        } else {
            memcpy(gpu->uuid, uuid, sizeof gpu->uuid);
            (void)nvml_find(uuid, &gpu->now);
        }
        if (gpu->now.handle)
            nvml_read(&gpu->now);
        count++;
    }
    pthread_mutex_lock(&top->lock);
    memcpy(top->gpus, gpus, count * sizeof *gpus);
    top->gpu_count = count;
    pthread_mutex_unlock(&top->lock);
}

const struct nvml_gpu *top_gpu_of(const struct top *top, const struct top_channel *channel)
{
    const struct top_gpu *gpu = NULL;
    if (has_gpu(channel))
        gpu = find_gpu(top->gpus, top->gpu_count, channel->info.device_uuid);
    return gpu && gpu->now.handle ? &gpu->now : NULL;
}

/* ---- output ---- */

char *top_gpu_text(char text[TOP_GPU_TEXT], const struct nvml_gpu *gpu)
{
    char a[TERM_TEXT], b[TERM_TEXT];
    size_t capacity = TOP_GPU_TEXT;
    size_t used = (size_t)snprintf(text, capacity, "GPU %u, %s:", gpu->index, gpu->name);
    if (isfinite(gpu->load))
        used += (size_t)snprintf(text + used, capacity - used, " %.0f %% busy,", gpu->load);
    if (isfinite(gpu->memory_used))
        used += (size_t)snprintf(text + used, capacity - used, " %s of %s,", text_bytes(a, (uint64_t)gpu->memory_used),
                                 text_bytes(b, (uint64_t)gpu->memory_total));
    if (isfinite(gpu->watts))
        used += (size_t)snprintf(text + used, capacity - used, " %.0f W,", gpu->watts);
    if (isfinite(gpu->celsius))
        used += (size_t)snprintf(text + used, capacity - used, " %.0f C,", gpu->celsius);
    if (isfinite(gpu->pcie_in))
        used += (size_t)snprintf(text + used, capacity - used, " PCIe %s/s in, %s/s out,",
                                 text_bytes(a, (uint64_t)gpu->pcie_in), text_bytes(b, (uint64_t)gpu->pcie_out));
    text[used - 1] = 0; /* removes the last comma or colon */
    return text;
}

void top_draw_gpus(struct canvas *canvas, const struct top *top)
{
    char text[TOP_GPU_TEXT];
    size_t known = 0;
    for (size_t i = 0; i < top->gpu_count; i++) {
        if (!top->gpus[i].now.handle || ++known > MAX_LINES)
            continue;
        canvas_put(canvas, STYLE_PLAIN, "%s", top_gpu_text(text, &top->gpus[i].now));
        canvas_line(canvas);
    }
    if (known > MAX_LINES) {
        canvas_put(canvas, STYLE_DIM, "and %zu more GPUs; --once prints all", known - MAX_LINES);
        canvas_line(canvas);
    }
}

static void json_bytes(struct json *json, const char *key, double bytes)
{
    json_key(json, key);
    if (isfinite(bytes))
        json_uint(json, (uint64_t)bytes);
    else
        json_null(json);
}

void top_json_gpus(struct json *json, const struct top *top)
{
    json_key(json, "gpus");
    json_array(json);
    for (size_t i = 0; i < top->gpu_count; i++) {
        const struct nvml_gpu *gpu = &top->gpus[i].now;
        if (!gpu->handle)
            continue;
        json_object(json);
        json_pair_uint(json, "index", gpu->index);
        json_pair_string(json, "name", gpu->name);
        json_pair_string(json, "uuid", gpu->uuid);
        json_pair_double(json, "load_percent", gpu->load);
        json_bytes(json, "memory_used", gpu->memory_used);
        json_bytes(json, "memory_total", gpu->memory_total);
        json_pair_double(json, "power_w", gpu->watts);
        json_pair_double(json, "temperature_c", gpu->celsius);
        json_bytes(json, "pcie_in_per_s", gpu->pcie_in);
        json_bytes(json, "pcie_out_per_s", gpu->pcie_out);
        json_close(json);
    }
    json_close_array(json);
}
