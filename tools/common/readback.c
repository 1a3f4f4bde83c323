/* SPDX-License-Identifier: MIT
 *
 * Copies of GPU frames in pinned host memory, which is reused. Each array has the same offset as in its slot.
 */
#include "readback.h"

#include <string.h>

static int alloc_memory(struct readback *readback, const char *device, uint64_t size)
{
    if (readback->memory && readback->size >= size && strcmp(readback->device, device) == 0)
        return SLUICE_OK;
    readback_close(readback);
    int result = sluice_device_open(&readback->handle, device);
    void *memory = NULL;
    if (result == SLUICE_OK)
        result = sluice_device_host_alloc(readback->handle, size, &memory);
    if (result)
        return result;
    memset(memory, 0, size); /* copies leave out the padding between rows */
    readback->memory = memory;
    readback->size = size;
    memcpy(readback->device, device, strlen(device) + 1);
    return SLUICE_OK;
}

static int copy_frame(struct readback *readback, sluice_reader *reader, const struct sluice_frame *frame,
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
        result = alloc_memory(readback, device, size);
    if (result)
        return result;
    readback->copied = true;
    for (uint32_t i = 0; i < frame->array_count; i++) {
        readback_map(readback, &arrays[i]);
        arrays[i].read_only = 0;
    }
    return sluice_reader_fetch(reader, frame, arrays, frame->array_count, SLUICE_ON_CPU, NULL);
}

int readback_fetch(struct readback *readback, sluice_reader *reader, const struct sluice_frame *frame)
{
    char device[sizeof readback->device];
    int result = sluice_frame_device(frame, device, sizeof device);
    readback->copied = false;
    if (result || strcmp(device, "host") == 0)
        return result;
    return copy_frame(readback, reader, frame, device);
}

void readback_map(const struct readback *readback, struct sluice_array *array)
{
    if (readback->copied)
        array->data = readback->memory + array->offset;
}

void readback_close(struct readback *readback)
{
    void *memory = readback->memory;
    sluice_device_host_free(&memory);
    sluice_device_close(&readback->handle);
    *readback = (struct readback){ .copied = false };
}
