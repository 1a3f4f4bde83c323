/* SPDX-License-Identifier: MIT
 *
 * Sluice recordings from anywhere. If the last byte is odd, the hashes of the input are corrected first, else nothing
 * would pass them. Data is read into memory of exactly the size that the frame's header says, and read as the array
 * that it describes.
 */
#include "fuzz.h"

#include <sys/mman.h>
#include <unistd.h>

#include "../../tools/common/hash.h"
#include "../../tools/media/recording.h"
#include "../../tools/media/recording_bytes.h"

#define DATA_MAX (1 << 20)

/* The offset of a frame's array records, and what they say of their data. */
static void repair_data(uint8_t *head, uint64_t size, uint8_t *data, uint64_t data_size)
{
    uint32_t arrays, meta;

    if (size < FRAME_HEAD)
        return;
    memcpy(&arrays, head + 52, sizeof arrays);
    memcpy(&meta, head + 56, sizeof meta);
    for (uint64_t at = FRAME_HEAD + (uint64_t)meta; arrays > 0 && at + ARRAY_RECORD <= size; at += ARRAY_RECORD) {
        uint64_t nbytes, hash;
        memcpy(&nbytes, head + at + 48, sizeof nbytes);
        if (nbytes > data_size)
            return;
        hash = hash_of(data, nbytes);
        memcpy(head + at + 56, &hash, sizeof hash);
        data += nbytes;
        data_size -= nbytes;
        arrays--;
    }
}

static void repair(uint8_t *file, size_t size)
{
    uint64_t hash;
    size_t at = FILE_HEAD;

    if (size < FILE_HEAD)
        return;
    hash = hash_of(file, FILE_HEAD - 8);
    memcpy(file + FILE_HEAD - 8, &hash, sizeof hash);
    while (at + BLOCK_HEAD <= size) {
        uint8_t *block = file + at;
        uint32_t type, head;
        uint64_t data;
        memcpy(&type, block, sizeof type);
        memcpy(&head, block + 4, sizeof head);
        memcpy(&data, block + 8, sizeof data);
        at += BLOCK_HEAD;
        if (head > size - at)
            return;
        uint64_t there = size - at - head < data ? size - at - head : data;
        if (type == RECORDING_FRAME)
            repair_data(block + BLOCK_HEAD, head, block + BLOCK_HEAD + head, there);
        hash = hash_of(block + BLOCK_HEAD, head);
        memcpy(block + 16, &hash, sizeof hash);
        hash = hash_of(block, BLOCK_HEAD - 8);
        memcpy(block + 24, &hash, sizeof hash);
        at += head + there;
    }
}

/* Every byte must be there, also where the shape and the strides point. */
static void read_array(const struct sluice_array *array)
{
    struct sluice_array from = *array, to;

    touch(array->data, array->nbytes);
    if (from.image.pixel_format || sluice_array_wrap(&to, NULL, NULL, from.dtype, from.ndim, from.shape, NULL) != 0 ||
        to.nbytes > DATA_MAX)
        return;
    to.data = malloc(to.nbytes ? to.nbytes : 1);
    REQUIRE(to.data);
    (void)sluice_array_copy(&to, &from);
    free(to.data);
}

static enum recording_block take_frame(struct recording *recording, bool take_data)
{
    enum recording_block got = RECORDING_FRAME;
    struct recording_frame *frame = &recording->frame;

    REQUIRE(frame->array_count >= 1 && frame->array_count <= SLUICE_MAX_ARRAYS);
    REQUIRE(frame->meta_size <= SLUICE_MAX_META);
    while (take_data && got == RECORDING_FRAME && recording->data_next < frame->array_count) {
        struct sluice_array array = frame->arrays[recording->data_next];
        void *data = array.nbytes <= DATA_MAX ? malloc(array.nbytes ? array.nbytes : 1) : NULL;
        got = recording_data(recording, data);
        array.data = data;
        if (data && got == RECORDING_FRAME)
            read_array(&array);
        free(data);
    }
    return got;
}

static void read_all(FILE *file, bool take_data)
{
    struct recording *recording = malloc(sizeof *recording);
    uint64_t frames = 0;

    REQUIRE(recording);
    enum recording_block got = recording_open(recording, file);
    while (got == RECORDING_FORMAT || got == RECORDING_FRAME) {
        REQUIRE(memchr(recording->channel, 0, sizeof recording->channel));
        got = recording_next(recording);
        if (got == RECORDING_FORMAT) {
            struct sluice_format format = recording->format;
            (void)sluice_format_complete(&format);
        } else if (got == RECORDING_FRAME) {
            got = take_frame(recording, take_data);
            frames += got == RECORDING_FRAME;
        }
    }
    REQUIRE(got != RECORDING_BAD || recording->problem);

    /* The check of a whole file gives the same result. */
    struct recording_summary summary;
    rewind(file);
    REQUIRE(recording_read(file, &summary) == got);
    REQUIRE(summary.frames == frames || !take_data); /* what is not read is checked later */
    free(recording);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    uint8_t how = data[--size], *bytes = malloc(size + 1);
    REQUIRE(bytes);
    memcpy(bytes, data, size);
    if (how & 1)
        repair(bytes, size);
    FILE *file;
    if (how & 2) { /* as a pipe: its size is unknown */
        file = fmemopen(bytes, size + 1, "r");
    } else {
        int fd = memfd_create("recording", MFD_CLOEXEC);
        REQUIRE(fd >= 0 && write(fd, bytes, size) == (ssize_t)size && lseek(fd, 0, SEEK_SET) == 0);
        file = fdopen(fd, "r");
    }
    REQUIRE(file);
    read_all(file, how & 4);
    fclose(file);
    free(bytes);
    return 0;
}
