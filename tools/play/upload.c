/* SPDX-License-Identifier: MIT
 *
 * Frames made by the CPU, for channels in host memory and on GPUs.
 */
#include "upload.h"

#include <string.h>

#define PATIENCE (10 * SLUICE_S) /* for the copy of the frame before */
#define ALIGNED  512

int slate_open(struct slate *slate, sluice_writer *writer, const char *device)
{
    *slate = (struct slate){ .writer = writer };
    slate->away = device && strcmp(device, "host") != 0;
    return slate->away ? sluice_device_open(&slate->device, device) : SLUICE_OK;
}

/* ---- on a GPU ---- */

/* The frame before this one has left the memory. */
static int wait_for_copy(struct slate *slate)
{
    if (!slate->ticket.id)
        return SLUICE_OK;
    int result = sluice_ticket_wait(slate->ticket, PATIENCE);
    if (result == SLUICE_OK)
        slate->ticket.id = 0;
    return result == SLUICE_TIMEOUT ? SLUICE_E_DRIVER : result;
}

static int begin_away(struct slate *slate, struct sluice_frame *frame)
{
    struct sluice_format format = SLUICE_FORMAT_INIT;
    int result = wait_for_copy(slate);
    if (result == SLUICE_OK)
        result = sluice_writer_format(slate->writer, &format);
    if (result)
        return result;
    slate->count = format.array_count;
    memcpy(slate->arrays, format.arrays, sizeof slate->arrays);
    slate->placed = false;
    *frame = (struct sluice_frame){ .meta = slate->meta, .array_count = slate->count };
    return SLUICE_OK;
}

/* All arrays, one behind the other. */
static int place(struct slate *slate)
{
    uint64_t at[SLUICE_MAX_ARRAYS], size = 0;
    for (uint32_t i = 0; i < slate->count; i++) {
        at[i] = size;
        size = (size + slate->arrays[i].nbytes + ALIGNED - 1) / ALIGNED * ALIGNED;
    }
    if (slate->size < size) {
        void *memory = slate->memory;
        sluice_device_host_free(&memory);
        slate->memory = NULL;
        slate->size = 0;
        int result = sluice_device_host_alloc(slate->device, size, &memory);
        if (result)
            return result;
        memset(memory, 0, size);
        slate->memory = memory;
        slate->size = size;
    }
    for (uint32_t i = 0; i < slate->count; i++)
        slate->arrays[i].data = slate->memory + at[i];
    slate->placed = true;
    return SLUICE_OK;
}

static struct sluice_array *find(struct slate *slate, const char *name)
{
    for (uint32_t i = 0; i < slate->count; i++)
        if (strcmp(slate->arrays[i].name, name) == 0)
            return &slate->arrays[i];
    return NULL;
}

/* ---- both ---- */

int slate_begin(struct slate *slate, struct sluice_frame *frame)
{
    return slate->away ? begin_away(slate, frame)
                       : sluice_writer_begin(slate->writer, SLUICE_DEFAULT, frame);
}

int slate_commit(struct slate *slate, struct sluice_frame *frame)
{
    if (!slate->away)
        return sluice_writer_commit(slate->writer, frame, SLUICE_ON_CPU);
    int result = slate->placed ? SLUICE_OK : place(slate);
    return result ? result
                  : sluice_writer_send_frame(slate->writer, frame, slate->arrays, slate->count,
                                             SLUICE_ON_CPU, &slate->ticket);
}

void slate_cancel(struct slate *slate, struct sluice_frame *frame)
{
    if (!slate->away)
        sluice_writer_cancel(slate->writer, frame, SLUICE_ON_CPU);
}

int slate_array_at(struct slate *slate, const struct sluice_frame *frame, uint32_t index,
                   struct sluice_array *array)
{
    if (!slate->away)
        return sluice_frame_array_at(frame, index, array);
    int result = slate->placed ? SLUICE_OK : place(slate);
    if (result == SLUICE_OK && index >= slate->count)
        result = SLUICE_E_NOT_FOUND;
    if (result == SLUICE_OK)
        *array = slate->arrays[index];
    return result;
}

int slate_array(struct slate *slate, const struct sluice_frame *frame, const char *name,
                struct sluice_array *array)
{
    if (!slate->away)
        return sluice_frame_array(frame, name, array);
    const struct sluice_array *found = find(slate, name);
    return found ? slate_array_at(slate, frame, (uint32_t)(found - slate->arrays), array)
                 : SLUICE_E_NOT_FOUND;
}

int slate_shape(struct slate *slate, struct sluice_frame *frame, const struct sluice_array *want)
{
    struct sluice_array have, *mine = find(slate, want->name);
    size_t shape = (size_t)want->ndim * sizeof want->shape[0];
    if (slate->away) {
        if (!mine)
            return SLUICE_E_NOT_FOUND;
        *mine = *want;
        mine->read_only = 0;
        slate->placed = false;
        return SLUICE_OK;
    }
    int result = sluice_frame_array(frame, want->name, &have);
    if (result || (have.ndim == want->ndim && memcmp(have.shape, want->shape, shape) == 0))
        return result;
    return want->image.pixel_format
               ? sluice_frame_resize(frame, want->name, want->image.width, want->image.height)
               : sluice_frame_reshape(frame, want->name, want->ndim, want->shape);
}

void slate_close(struct slate *slate)
{
    void *memory = slate->memory;
    if (slate->away)
        (void)wait_for_copy(slate);
    sluice_device_host_free(&memory);
    sluice_device_close(&slate->device);
    *slate = (struct slate){ .writer = NULL };
}
