/* SPDX-License-Identifier: MIT
 *
 * Writing recordings.
 */
#include "recording.h"

#include <string.h>
#include <time.h>

#include "../common/hash.h"
#include "../common/term.h"
#include "recording_bytes.h"

static int64_t realtime_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * SLUICE_S + t.tv_nsec;
}

static bool put(FILE *file, const void *bytes, size_t size)
{
    return fwrite(bytes, 1, size, file) == size;
}

bool recording_create(FILE *file, const char *channel)
{
    uint8_t head[FILE_HEAD] = { 0 }, *at = head + RECORDING_MAGIC_SIZE;
    memcpy(head, RECORDING_MAGIC, RECORDING_MAGIC_SIZE);
    at = put_number(at, RECORDING_VERSION, 4);
    at = put_number(at, FILE_HEAD, 4);
    at = put_number(at, (uint64_t)realtime_ns(), 8);
    at = put_number(at, (uint64_t)now_ns(), 8);
    snprintf((char *)at, CHANNEL_BYTES, "%s", channel);
    at += CHANNEL_BYTES;
    put_number(at, hash_of(head, FILE_HEAD - 8), 8);
    return put(file, head, sizeof head) && fflush(file) == 0;
}

static uint8_t *put_array(uint8_t *at, const struct sluice_array *array, uint64_t hash)
{
    const struct sluice_image *image = &array->image;
    memcpy(at, array->name, SLUICE_ARRAY_NAME);
    at += SLUICE_ARRAY_NAME;
    at = put_number(at, array->dtype.code, 1);
    at = put_number(at, array->dtype.bits, 1);
    at = put_number(at, array->dtype.lanes, 2);
    at = put_number(at, (uint64_t)array->ndim, 4);
    at = put_number(at, array->offset, 8);
    at = put_number(at, array->nbytes, 8);
    at = put_number(at, hash, 8);
    for (int i = 0; i < SLUICE_MAX_DIMS; i++)
        at = put_number(at, i < array->ndim ? (uint64_t)array->shape[i] : 0, 8);
    for (int i = 0; i < SLUICE_MAX_DIMS; i++)
        at = put_number(at, i < array->ndim ? (uint64_t)array->strides[i] : 0, 8);
    at = put_number(at, image->pixel_format, 4);
    at = put_number(at, image->width, 4);
    at = put_number(at, image->height, 4);
    at = put_number(at, image->plane_count, 4);
    for (uint32_t i = 0; i < SLUICE_MAX_PLANES; i++) {
        bool there = image->pixel_format && i < image->plane_count;
        at = put_number(at, there ? image->planes[i].offset : 0, 8);
        at = put_number(at, there ? image->planes[i].pitch : 0, 8);
    }
    at = put_number(at, image->colour.primaries, 1);
    at = put_number(at, image->colour.transfer, 1);
    at = put_number(at, image->colour.matrix, 1);
    at = put_number(at, image->colour.range, 1);
    at = put_number(at, image->row_order, 1);
    at = put_number(at, image->alpha, 1);
    return put_number(at, 0, 2);
}

static bool put_block(FILE *file, enum recording_block type, const uint8_t *head, size_t head_size, uint64_t data_size)
{
    uint8_t block[BLOCK_HEAD], *at = block;
    at = put_number(at, (uint64_t)type, 4);
    at = put_number(at, head_size, 4);
    at = put_number(at, data_size, 8);
    at = put_number(at, hash_of(head, head_size), 8);
    put_number(at, hash_of(block, BLOCK_HEAD - 8), 8);
    return put(file, block, sizeof block) && put(file, head, head_size);
}

bool recording_put_format(FILE *file, const struct sluice_format *format)
{
    uint8_t head[HEAD_MAX], *at = head;
    at = put_number(at, format->array_count, 4);
    at = put_number(at, format->pitch_align, 4);
    at = put_number(at, format->slot_bytes, 8);
    for (uint32_t i = 0; i < format->array_count; i++)
        at = put_array(at, &format->arrays[i], 0);
    return put_block(file, RECORDING_FORMAT, head, (size_t)(at - head), 0) && fflush(file) == 0;
}

bool recording_put_frame(FILE *file, const struct sluice_frame *frame, const struct sluice_array arrays[])
{
    uint8_t head[HEAD_MAX], *at = head;
    uint64_t data = 0;
    at = put_number(at, frame->sequence, 8);
    at = put_number(at, frame->session, 8);
    at = put_number(at, frame->missed, 8);
    at = put_number(at, (uint64_t)frame->capture_ns, 8);
    at = put_number(at, (uint64_t)frame->commit_ns, 8);
    at = put_number(at, frame->capture_clock, 4);
    at = put_number(at, frame->generation, 4);
    at = put_number(at, frame->flags, 4);
    at = put_number(at, frame->array_count, 4);
    at = put_number(at, frame->meta_size, 4);
    at = put_number(at, 0, 4);
    if (frame->meta_size)
        memcpy(at, frame->meta, frame->meta_size);
    at += frame->meta_size;
    for (uint32_t i = 0; i < frame->array_count; i++) {
        at = put_array(at, &arrays[i], hash_of(arrays[i].data, arrays[i].nbytes));
        data += arrays[i].nbytes;
    }
    bool done = put_block(file, RECORDING_FRAME, head, (size_t)(at - head), data);
    for (uint32_t i = 0; done && i < frame->array_count; i++)
        done = put(file, arrays[i].data, arrays[i].nbytes);
    return done && fflush(file) == 0;
}

bool recording_put_end(FILE *file, uint64_t frames, uint64_t missed)
{
    uint8_t head[END_HEAD], *at = head;
    at = put_number(at, frames, 8);
    at = put_number(at, missed, 8);
    put_number(at, (uint64_t)realtime_ns(), 8);
    return put_block(file, RECORDING_END, head, sizeof head, 0) && fflush(file) == 0;
}
