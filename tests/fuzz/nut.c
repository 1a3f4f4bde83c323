/* SPDX-License-Identifier: MIT
 *
 * NUT from anywhere. If the last byte is odd, the checksums of the input's packets are corrected first, else nothing
 * would pass them. What nut_write writes must read back as it was.
 */
#include "fuzz.h"

#include "../../tools/media/nut.h"

#define FRAMES_MAX 8

static size_t read_input(void *from, void *to, size_t size)
{
    struct input *input = from;
    size_t part = size < input->left ? size : input->left;
    take(input, to, part);
    return part;
}

/* Corrects the checksums of the packet at `packet`. Returns its end. */
static uint8_t *repair_packet(uint8_t *packet, uint8_t *end)
{
    uint8_t *at = packet + 8;
    uint64_t size = 0;
    for (bool more = true; more && at < end; at++) {
        size = size << 7 | (*at & 127);
        more = *at & 128;
    }
    if (size > 4096 && end - at >= 4) {
        uint32_t crc = nut_checksum(0, packet, (size_t)(at - packet));
        for (int i = 0; i < 4; i++)
            *at++ = (uint8_t)(crc >> (24 - 8 * i));
    }
    if (size < 4 || size > (uint64_t)(end - at))
        return packet + 8;
    uint32_t crc = nut_checksum(0, at, size - 4);
    for (uint64_t i = 0; i < 4; i++)
        at[size - 4 + i] = (uint8_t)(crc >> (24 - 8 * i));
    return at + size;
}

static void repair(uint8_t *bytes, size_t size)
{
    static const uint64_t codes[] = { NUT_MAIN, NUT_STREAM, NUT_SYNCPOINT, NUT_INDEX, NUT_INFO };
    uint8_t *end = bytes + size;
    for (uint8_t *at = bytes; end - at >= 9;) {
        uint64_t code = 0;
        bool found = false;
        for (int i = 0; i < 8; i++)
            code = code << 8 | at[i];
        for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++)
            found |= code == codes[i];
        at = found ? repair_packet(at, end) : at + 1;
    }
}

static void read_all(const uint8_t *bytes, size_t size)
{
    struct input input = { bytes, size };
    struct nut_reader *reader = calloc(1, sizeof *reader);
    uint8_t part[300];
    REQUIRE(reader);
    reader->read = read_input;
    reader->from = &input;
    enum nut_result result = nut_open(reader);
    while (result == NUT_OK) {
        size_t before = input.left;
        REQUIRE(reader->video.width && reader->video.width <= 65536);
        REQUIRE(reader->video.height && reader->video.height <= 65536);
        REQUIRE(!reader->video.aspect_x == !reader->video.aspect_y);
        result = nut_next(reader);
        if (result == NUT_OK && reader->left)
            (void)nut_read(reader, part, reader->left < sizeof part ? reader->left : sizeof part);
        REQUIRE(result != NUT_OK || input.left < before);
    }
    REQUIRE(result != NUT_BAD || reader->problem);
    free(reader);
}

static bool append(void *to, const void *bytes, size_t size)
{
    return fwrite(bytes, 1, size, to) == size;
}

static void round_trip(struct input choice)
{
    struct nut_video video = { .tag = take_u32(&choice), .width = 1 + take_u32(&choice) % 65536 };
    int64_t times[FRAMES_MAX];
    uint64_t sizes[FRAMES_MAX];
    uint8_t data[200] = { 'N' }, back[sizeof data];
    unsigned count = 1 + take_byte(&choice) % FRAMES_MAX;
    char *out = NULL;
    size_t length = 0;
    FILE *file = open_memstream(&out, &length);
    struct nut_writer writer = { .write = append, .to = file };
    video.height = 1 + take_byte(&choice);
    video.colours = take_byte(&choice) % 19;
    REQUIRE(file && nut_write_head(&writer, &video));
    for (unsigned i = 0; i < count; i++) {
        times[i] = (i ? times[i - 1] : -1) + 1 + (int64_t)(take_u64(&choice) % (UINT64_C(1) << 57));
        sizes[i] = take_byte(&choice) % sizeof data;
        REQUIRE(nut_write_frame(&writer, times[i], sizes[i]) && nut_write(&writer, data, sizes[i]));
    }
    REQUIRE(nut_write_end(&writer));
    nut_free(&writer);
    fclose(file);

    struct input input = { (uint8_t *)out, length };
    struct nut_reader *reader = calloc(1, sizeof *reader);
    REQUIRE(reader);
    reader->read = read_input;
    reader->from = &input;
    REQUIRE(nut_open(reader) == NUT_OK);
    REQUIRE(memcmp(&reader->video, &video, sizeof video) == 0);
    for (unsigned i = 0; i < count; i++) {
        REQUIRE(nut_next(reader) == NUT_OK);
        REQUIRE(reader->pts_ns == times[i] && reader->left == sizes[i]);
        REQUIRE(nut_read(reader, back, sizes[i]) && memcmp(back, data, sizes[i]) == 0);
    }
    REQUIRE(nut_next(reader) == NUT_END);
    free(reader);
    free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *bytes = malloc(size + 1);
    REQUIRE(bytes);
    if (size)
        memcpy(bytes, data, size);
    round_trip((struct input){ bytes, size });
    if (size && bytes[--size] & 1)
        repair(bytes, size);
    read_all(bytes, size);
    free(bytes);
    return 0;
}
