/* SPDX-License-Identifier: MIT
 *
 * Frames made by the CPU, in host memory and for GPUs.
 */
#include "upload.h"

#include <string.h>

#define COPY_TIMEOUT (10 * SLUICE_S)
#define ALIGNMENT    512

int upload_open(struct upload *upload, sluice_writer *writer, const char *device)
{
    *upload = (struct upload){ .writer = writer };
    upload->on_gpu = device && strcmp(device, "host") != 0;
    return upload->on_gpu ? sluice_device_open(&upload->device, device) : SLUICE_OK;
}

/* ---- on a GPU ---- */

/* The memory can be reused once the last frame was copied out of it. */
static int wait_for_copy(struct upload *upload)
{
    if (!upload->ticket.id)
        return SLUICE_OK;
    int result = sluice_ticket_wait(upload->ticket, COPY_TIMEOUT);
    if (result == SLUICE_OK)
        upload->ticket.id = 0;
    return result == SLUICE_TIMEOUT ? SLUICE_E_DRIVER : result;
}

static int begin_on_gpu(struct upload *upload, struct sluice_frame *frame)
{
    struct sluice_format format = SLUICE_FORMAT_INIT;
    int result = wait_for_copy(upload);
    if (result == SLUICE_OK)
        result = sluice_writer_format(upload->writer, &format);
    if (result)
        return result;
    upload->count = format.array_count;
    memcpy(upload->arrays, format.arrays, sizeof upload->arrays);
    upload->laid_out = false;
    *frame = (struct sluice_frame){ .meta = upload->meta, .array_count = upload->count };
    return SLUICE_OK;
}

/* Points the arrays into the memory, one after the other; allocates more if needed. */
static int lay_out(struct upload *upload)
{
    uint64_t at[SLUICE_MAX_ARRAYS], size = 0;
    for (uint32_t i = 0; i < upload->count; i++) {
        at[i] = size;
        size = (size + upload->arrays[i].nbytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
    if (upload->size < size) {
        void *memory = upload->memory;
        sluice_device_host_free(&memory);
        upload->memory = NULL;
        upload->size = 0;
        int result = sluice_device_host_alloc(upload->device, size, &memory);
        if (result)
            return result;
        memset(memory, 0, size);
        upload->memory = memory;
        upload->size = size;
    }
    for (uint32_t i = 0; i < upload->count; i++)
        upload->arrays[i].data = upload->memory + at[i];
    upload->laid_out = true;
    return SLUICE_OK;
}

static struct sluice_array *find_array(struct upload *upload, const char *name)
{
    for (uint32_t i = 0; i < upload->count; i++)
        if (strcmp(upload->arrays[i].name, name) == 0)
            return &upload->arrays[i];
    return NULL;
}

/* ---- in host memory and on a GPU ---- */

int upload_begin(struct upload *upload, struct sluice_frame *frame)
{
    return upload->on_gpu ? begin_on_gpu(upload, frame) : sluice_writer_begin(upload->writer, SLUICE_DEFAULT, frame);
}

int upload_commit(struct upload *upload, struct sluice_frame *frame)
{
    if (!upload->on_gpu)
        return sluice_writer_commit(upload->writer, frame, SLUICE_ON_CPU);
    int result = upload->laid_out ? SLUICE_OK : lay_out(upload);
    return result ? result
                  : sluice_writer_send_frame(upload->writer, frame, upload->arrays, upload->count, SLUICE_ON_CPU,
                                             &upload->ticket);
}

void upload_cancel(struct upload *upload, struct sluice_frame *frame)
{
    if (!upload->on_gpu)
        sluice_writer_cancel(upload->writer, frame, SLUICE_ON_CPU);
}

int upload_array_at(struct upload *upload, const struct sluice_frame *frame, uint32_t index, struct sluice_array *array)
{
    if (!upload->on_gpu)
        return sluice_frame_array_at(frame, index, array);
    int result = upload->laid_out ? SLUICE_OK : lay_out(upload);
    if (result == SLUICE_OK && index >= upload->count)
        result = SLUICE_E_NOT_FOUND;
    if (result == SLUICE_OK)
        *array = upload->arrays[index];
    return result;
}

int upload_array(struct upload *upload, const struct sluice_frame *frame, const char *name, struct sluice_array *array)
{
    if (!upload->on_gpu)
        return sluice_frame_array(frame, name, array);
    const struct sluice_array *found = find_array(upload, name);
    return found ? upload_array_at(upload, frame, (uint32_t)(found - upload->arrays), array) : SLUICE_E_NOT_FOUND;
}

int upload_reshape(struct upload *upload, struct sluice_frame *frame, const struct sluice_array *want)
{
    struct sluice_array have, *mine = find_array(upload, want->name);
    size_t shape = (size_t)want->ndim * sizeof want->shape[0];
    if (upload->on_gpu) {
        if (!mine)
            return SLUICE_E_NOT_FOUND;
        *mine = *want;
        mine->read_only = 0;
        upload->laid_out = false;
        return SLUICE_OK;
    }
    int result = sluice_frame_array(frame, want->name, &have);
    if (result || (have.ndim == want->ndim && memcmp(have.shape, want->shape, shape) == 0))
        return result;
    return want->image.pixel_format ? sluice_frame_resize(frame, want->name, want->image.width, want->image.height)
                                    : sluice_frame_reshape(frame, want->name, want->ndim, want->shape);
}

void upload_close(struct upload *upload)
{
    void *memory = upload->memory;
    if (upload->on_gpu)
        (void)wait_for_copy(upload);
    sluice_device_host_free(&memory);
    sluice_device_close(&upload->device);
    *upload = (struct upload){ .writer = NULL };
}
