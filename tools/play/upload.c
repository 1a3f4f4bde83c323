/* SPDX-License-Identifier: MIT
 *
 * Frames made by the CPU, for channels in host memory and on GPUs.
 */
#include "upload.h"

#include <string.h>

#define PATIENCE (10 * SLUICE_S) /* for the copy of the frame before */
#define ALIGNED  512

int upload_open(struct upload *upload, sluice_writer *writer, const char *device)
{
    *upload = (struct upload){ .writer = writer };
    upload->away = device && strcmp(device, "host") != 0;
    return upload->away ? sluice_device_open(&upload->device, device) : SLUICE_OK;
}

/* ---- on a GPU ---- */

/* The frame before this one has left the memory. */
static int wait_for_copy(struct upload *upload)
{
    if (!upload->ticket.id)
        return SLUICE_OK;
    int result = sluice_ticket_wait(upload->ticket, PATIENCE);
    if (result == SLUICE_OK)
        upload->ticket.id = 0;
    return result == SLUICE_TIMEOUT ? SLUICE_E_DRIVER : result;
}

static int begin_away(struct upload *upload, struct sluice_frame *frame)
{
    struct sluice_format format = SLUICE_FORMAT_INIT;
    int result = wait_for_copy(upload);
    if (result == SLUICE_OK)
        result = sluice_writer_format(upload->writer, &format);
    if (result)
        return result;
    upload->count = format.array_count;
    memcpy(upload->arrays, format.arrays, sizeof upload->arrays);
    upload->placed = false;
    *frame = (struct sluice_frame){ .meta = upload->meta, .array_count = upload->count };
    return SLUICE_OK;
}

/* All arrays, one behind the other. */
static int place(struct upload *upload)
{
    uint64_t at[SLUICE_MAX_ARRAYS], size = 0;
    for (uint32_t i = 0; i < upload->count; i++) {
        at[i] = size;
        size = (size + upload->arrays[i].nbytes + ALIGNED - 1) / ALIGNED * ALIGNED;
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
    upload->placed = true;
    return SLUICE_OK;
}

static struct sluice_array *find(struct upload *upload, const char *name)
{
    for (uint32_t i = 0; i < upload->count; i++)
        if (strcmp(upload->arrays[i].name, name) == 0)
            return &upload->arrays[i];
    return NULL;
}

/* ---- both ---- */

int upload_begin(struct upload *upload, struct sluice_frame *frame)
{
    return upload->away ? begin_away(upload, frame)
                       : sluice_writer_begin(upload->writer, SLUICE_DEFAULT, frame);
}

int upload_commit(struct upload *upload, struct sluice_frame *frame)
{
    if (!upload->away)
        return sluice_writer_commit(upload->writer, frame, SLUICE_ON_CPU);
    int result = upload->placed ? SLUICE_OK : place(upload);
    return result ? result
                  : sluice_writer_send_frame(upload->writer, frame, upload->arrays, upload->count,
                                             SLUICE_ON_CPU, &upload->ticket);
}

void upload_cancel(struct upload *upload, struct sluice_frame *frame)
{
    if (!upload->away)
        sluice_writer_cancel(upload->writer, frame, SLUICE_ON_CPU);
}

int upload_array_at(struct upload *upload, const struct sluice_frame *frame, uint32_t index,
                   struct sluice_array *array)
{
    if (!upload->away)
        return sluice_frame_array_at(frame, index, array);
    int result = upload->placed ? SLUICE_OK : place(upload);
    if (result == SLUICE_OK && index >= upload->count)
        result = SLUICE_E_NOT_FOUND;
    if (result == SLUICE_OK)
        *array = upload->arrays[index];
    return result;
}

int upload_array(struct upload *upload, const struct sluice_frame *frame, const char *name,
                struct sluice_array *array)
{
    if (!upload->away)
        return sluice_frame_array(frame, name, array);
    const struct sluice_array *found = find(upload, name);
    return found ? upload_array_at(upload, frame, (uint32_t)(found - upload->arrays), array)
                 : SLUICE_E_NOT_FOUND;
}

int upload_reshape(struct upload *upload, struct sluice_frame *frame, const struct sluice_array *want)
{
    struct sluice_array have, *mine = find(upload, want->name);
    size_t shape = (size_t)want->ndim * sizeof want->shape[0];
    if (upload->away) {
        if (!mine)
            return SLUICE_E_NOT_FOUND;
        *mine = *want;
        mine->read_only = 0;
        upload->placed = false;
        return SLUICE_OK;
    }
    int result = sluice_frame_array(frame, want->name, &have);
    if (result || (have.ndim == want->ndim && memcmp(have.shape, want->shape, shape) == 0))
        return result;
    return want->image.pixel_format
               ? sluice_frame_resize(frame, want->name, want->image.width, want->image.height)
               : sluice_frame_reshape(frame, want->name, want->ndim, want->shape);
}

void upload_close(struct upload *upload)
{
    void *memory = upload->memory;
    if (upload->away)
        (void)wait_for_copy(upload);
    sluice_device_host_free(&memory);
    sluice_device_close(&upload->device);
    *upload = (struct upload){ .writer = NULL };
}
