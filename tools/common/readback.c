/* SPDX-License-Identifier: MIT
 *
 * Frames of a GPU in host memory, each array at its offset in the slot. The memory is pinned, so that
 * copies go at full speed, and kept from frame to frame.
 */
#include "readback.h"

#include <string.h>

/* Makes room in memory that this device copies into at full speed. */
static int make_room(struct mirror *mirror, const char *device, uint64_t size)
{
    if (mirror->memory && mirror->size >= size && strcmp(mirror->device, device) == 0)
        return SLUICE_OK;
    mirror_close(mirror);
    int result = sluice_device_open(&mirror->handle, device);
    void *memory = NULL;
    if (result == SLUICE_OK)
        result = sluice_device_host_alloc(mirror->handle, size, &memory);
    if (result)
        return result;
    memset(memory, 0, size); /* no copy touches what lies between the rows */
    mirror->memory = memory;
    mirror->size = size;
    memcpy(mirror->device, device, strlen(device) + 1);
    return SLUICE_OK;
}

static int copy(struct mirror *mirror, sluice_reader *reader, const struct sluice_frame *frame,
                const char *device)
{
    struct sluice_array arrays[SLUICE_MAX_ARRAYS];
    uint64_t size = 1;
    int result = SLUICE_OK;
    for (uint32_t i = 0; i < frame->array_count && result == SLUICE_OK; i++) {
        result = sluice_frame_array_at(frame, i, &arrays[i]);
        uint64_t end = arrays[i].offset + arrays[i].nbytes;
        size = result == SLUICE_OK && end > size ? end : size;
    }
    if (result == SLUICE_OK)
        result = make_room(mirror, device, size);
    if (result)
        return result;
    mirror->copied = true;
    for (uint32_t i = 0; i < frame->array_count; i++) {
        mirror_point(mirror, &arrays[i]);
        arrays[i].read_only = 0;
    }
    return sluice_reader_fetch(reader, frame, arrays, frame->array_count, SLUICE_ON_CPU, NULL);
}

int mirror_take(struct mirror *mirror, sluice_reader *reader, const struct sluice_frame *frame)
{
    char device[sizeof mirror->device];
    int result = sluice_frame_device(frame, device, sizeof device);
    mirror->copied = false;
    if (result || strcmp(device, "host") == 0)
        return result;
    return copy(mirror, reader, frame, device);
}

void mirror_point(const struct mirror *mirror, struct sluice_array *array)
{
    if (mirror->copied)
        array->data = mirror->memory + array->offset;
}

void mirror_close(struct mirror *mirror)
{
    void *memory = mirror->memory;
    sluice_device_host_free(&memory);
    sluice_device_close(&mirror->handle);
    *mirror = (struct mirror){ .copied = false };
}
