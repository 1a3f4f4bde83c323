/* SPDX-License-Identifier: MIT
 *
 * Reading recordings, which may be cut short, damaged or malicious.
 */
#include "recording.h"

#include <string.h>
#include <sys/stat.h>

#include "../common/hash.h"
#include "pixels.h"
#include "recording_bytes.h"

#define BYTES_MAX (UINT64_C(1) << 40)

static enum recording_block bad(struct recording *r, const char *problem)
{
    r->problem = problem;
    return RECORDING_BAD;
}

static enum recording_block cut(struct recording *r)
{
    if (ferror(r->file))
        return bad(r, "read error");
    return RECORDING_CUT;
}

static bool read_bytes(struct recording *r, void *to, size_t size)
{
    size_t got = fread(to, 1, size, r->file);
    r->at += got;
    return got == size;
}

/* True if every element within the shape lies within nbytes. */
static bool strides_fit(const struct sluice_array *a)
{
    uint64_t end = sluice_dtype_size(a->dtype);
    for (int i = 0; i < a->ndim; i++) {
        if (a->shape[i] < 0 || a->strides[i] < 0)
            return false;
        if (a->shape[i] == 0)
            return true;
    }
    for (int i = 0; i < a->ndim; i++) {
        uint64_t steps = (uint64_t)a->shape[i] - 1, stride = (uint64_t)a->strides[i];
        if (stride && steps > BYTES_MAX / stride)
            return false;
        end += steps * stride;
        if (end > a->nbytes)
            return false;
    }
    return end <= a->nbytes;
}

static bool planes_fit(const struct sluice_array *a)
{
    const struct sluice_image *image = &a->image;
    uint64_t row, rows;
    if (image->width == 0 || image->width > 65536 || image->height == 0 || image->height > 65536 ||
        image->plane_count > SLUICE_MAX_PLANES)
        return false;
    for (uint32_t i = 0; i < image->plane_count; i++) {
        const struct sluice_plane *plane = &image->planes[i];
        if (!pixels_plane(image, i, &row, &rows) || rows == 0 || plane->offset > a->nbytes ||
            plane->pitch > BYTES_MAX || plane->pitch < row)
            return false;
        if ((rows - 1) * plane->pitch + row > a->nbytes - plane->offset)
            return false;
    }
    return image->plane_count > 0 && !pixels_plane(image, image->plane_count, &row, &rows);
}

static bool get_array(const uint8_t **at, struct sluice_array *a, uint64_t *hash)
{
    struct sluice_image *image = &a->image;
    *a = (struct sluice_array){ 0 };
    memcpy(a->name, *at, SLUICE_ARRAY_NAME);
    *at += SLUICE_ARRAY_NAME;
    a->dtype.code = (uint8_t)get_number(at, 1);
    a->dtype.bits = (uint8_t)get_number(at, 1);
    a->dtype.lanes = (uint16_t)get_number(at, 2);
    uint64_t ndim = get_number(at, 4);
    a->offset = get_number(at, 8);
    a->nbytes = get_number(at, 8);
    *hash = get_number(at, 8);
    for (int i = 0; i < SLUICE_MAX_DIMS; i++)
        a->shape[i] = (int64_t)get_number(at, 8);
    for (int i = 0; i < SLUICE_MAX_DIMS; i++)
        a->strides[i] = (int64_t)get_number(at, 8);
    image->pixel_format = (uint32_t)get_number(at, 4);
    image->width = (uint32_t)get_number(at, 4);
    image->height = (uint32_t)get_number(at, 4);
    image->plane_count = (uint32_t)get_number(at, 4);
    for (int i = 0; i < SLUICE_MAX_PLANES; i++) {
        image->planes[i].offset = get_number(at, 8);
        image->planes[i].pitch = get_number(at, 8);
    }
    image->colour.primaries = (uint8_t)get_number(at, 1);
    image->colour.transfer = (uint8_t)get_number(at, 1);
    image->colour.matrix = (uint8_t)get_number(at, 1);
    image->colour.range = (uint8_t)get_number(at, 1);
    image->row_order = (uint8_t)get_number(at, 1);
    image->alpha = (uint8_t)get_number(at, 1);
    *at += 2;
    if (ndim > SLUICE_MAX_DIMS || a->nbytes > BYTES_MAX || a->offset > BYTES_MAX ||
        !memchr(a->name, 0, sizeof a->name) || a->dtype.bits == 0 || a->dtype.bits % 8 || a->dtype.lanes == 0)
        return false;
    a->ndim = (int32_t)ndim;
    return strides_fit(a) && (image->pixel_format == SLUICE_PIXEL_NONE || planes_fit(a));
}

static enum recording_block get_format(struct recording *r, const uint8_t *at, uint64_t size, uint64_t data)
{
    struct sluice_format format = SLUICE_FORMAT_INIT;
    uint64_t no_hash;
    if (size < FORMAT_HEAD || data)
        return bad(r, "a format block has the wrong size");
    format.array_count = (uint32_t)get_number(&at, 4);
    format.pitch_align = (uint32_t)get_number(&at, 4);
    at += 8; /* slot_bytes follows from the arrays */
    if (format.array_count == 0 || format.array_count > SLUICE_MAX_ARRAYS ||
        size != FORMAT_HEAD + (uint64_t)format.array_count * ARRAY_RECORD)
        return bad(r, "a format block has the wrong size");
    for (uint32_t i = 0; i < format.array_count; i++)
        if (!get_array(&at, &format.arrays[i], &no_hash))
            return bad(r, "a format block describes an impossible array");
    r->format = format;
    return RECORDING_FORMAT;
}

static enum recording_block get_frame(struct recording *r, const uint8_t *at, uint64_t size, uint64_t data)
{
    struct recording_frame *f = &r->frame;
    if (size < FRAME_HEAD)
        return bad(r, "a frame block has the wrong size");
    f->sequence = get_number(&at, 8);
    f->session = get_number(&at, 8);
    f->missed = get_number(&at, 8);
    f->capture_ns = (int64_t)get_number(&at, 8);
    f->commit_ns = (int64_t)get_number(&at, 8);
    f->capture_clock = (uint32_t)get_number(&at, 4);
    f->generation = (uint32_t)get_number(&at, 4);
    f->flags = (uint32_t)get_number(&at, 4);
    uint32_t arrays = (uint32_t)get_number(&at, 4);
    f->meta_size = (uint32_t)get_number(&at, 4);
    at += 4;
    f->array_count = 0; /* until all arrays are checked */
    if (arrays == 0 || arrays > SLUICE_MAX_ARRAYS || f->meta_size > SLUICE_MAX_META ||
        size != FRAME_HEAD + (uint64_t)f->meta_size + (uint64_t)arrays * ARRAY_RECORD)
        return bad(r, "a frame block has the wrong size");
    memcpy(f->meta, at, f->meta_size);
    at += f->meta_size;
    for (uint32_t i = 0; i < arrays; i++) {
        if (!get_array(&at, &f->arrays[i], &f->hashes[i]))
            return bad(r, "a frame block describes an impossible array");
        if (f->arrays[i].nbytes > data)
            return bad(r, "a frame block has less data than its arrays need");
        data -= f->arrays[i].nbytes;
    }
    if (data)
        return bad(r, "a frame block has more data than its arrays");
    f->array_count = arrays;
    r->data_next = 0;
    return RECORDING_FRAME;
}

enum recording_block recording_open(struct recording *r, FILE *file)
{
    uint8_t head[FILE_HEAD];
    const uint8_t *at = head + RECORDING_MAGIC_SIZE;
    struct stat status;
    memset(r, 0, sizeof *r);
    r->file = file;
    r->size = UINT64_MAX;
    if (fileno(file) >= 0 && fstat(fileno(file), &status) == 0 && S_ISREG(status.st_mode))
        r->size = (uint64_t)status.st_size;
    if (!read_bytes(r, head, sizeof head))
        return cut(r);
    if (memcmp(head, RECORDING_MAGIC, RECORDING_MAGIC_SIZE) != 0)
        return bad(r, "not a Sluice recording");
    if (get_number(&at, 4) != RECORDING_VERSION || get_number(&at, 4) != FILE_HEAD)
        return bad(r, "this release does not support its version");
    r->created_ns = (int64_t)get_number(&at, 8);
    at += 8;
    memcpy(r->channel, at, sizeof r->channel - 1);
    at += CHANNEL_BYTES;
    if (get_number(&at, 8) != hash_of(head, FILE_HEAD - 8))
        return bad(r, "its header is damaged");
    return RECORDING_FORMAT;
}

/* Reads and checks the data that the caller did not read. */
static enum recording_block skip_data(struct recording *r)
{
    while (r->data_next < r->frame.array_count) {
        enum recording_block got = recording_data(r, NULL);
        if (got != RECORDING_FRAME)
            return got;
    }
    return RECORDING_FRAME;
}

enum recording_block recording_next(struct recording *r)
{
    uint8_t block[BLOCK_HEAD], head[HEAD_MAX];
    const uint8_t *at = block;
    enum recording_block skipped = skip_data(r);
    if (skipped != RECORDING_FRAME)
        return skipped;
    r->frame.array_count = 0;
    if (!read_bytes(r, block, sizeof block))
        return cut(r);
    uint64_t type = get_number(&at, 4), size = get_number(&at, 4), data = get_number(&at, 8);
    uint64_t hash = get_number(&at, 8);
    if (get_number(&at, 8) != hash_of(block, BLOCK_HEAD - 8) || size > HEAD_MAX)
        return bad(r, "a block's head is damaged");
    if (!read_bytes(r, head, size))
        return cut(r);
    if (hash != hash_of(head, size))
        return bad(r, "a block's description is damaged");
    if (r->size != UINT64_MAX && data > r->size - (r->at < r->size ? r->at : r->size))
        return RECORDING_CUT;
    switch (type) {
    case RECORDING_FORMAT: return get_format(r, head, size, data);
    case RECORDING_FRAME: return get_frame(r, head, size, data);
    case RECORDING_END: return size == END_HEAD && data == 0 ? RECORDING_END : bad(r, "the end block is damaged");
    default: return bad(r, "it has a block of an unknown kind");
    }
}

enum recording_block recording_data(struct recording *r, void *to)
{
    uint32_t index = r->data_next;
    uint64_t left = r->frame.arrays[index].nbytes;
    uint8_t part[16384];
    struct hash hash;
    hash_begin(&hash);
    r->data_next++;
    if (to) {
        if (!read_bytes(r, to, left))
            return cut(r);
        hash_add(&hash, to, left);
        left = 0;
    }
    while (left) {
        size_t size = left < sizeof part ? (size_t)left : sizeof part;
        if (!read_bytes(r, part, size))
            return cut(r);
        hash_add(&hash, part, size);
        left -= size;
    }
    if (hash_end(&hash) != r->frame.hashes[index])
        return bad(r, "a frame's data is damaged");
    return RECORDING_FRAME;
}

enum recording_block recording_read(FILE *file, struct recording_summary *summary)
{
    struct recording r;
    *summary = (struct recording_summary){ 0 };
    enum recording_block got = recording_open(&r, file);
    while (got == RECORDING_FORMAT || got == RECORDING_FRAME) {
        got = recording_next(&r);
        if (got == RECORDING_FRAME)
            got = skip_data(&r);
        summary->formats += got == RECORDING_FORMAT;
        summary->frames += got == RECORDING_FRAME;
    }
    summary->bytes = r.at;
    return got;
}
