/* SPDX-License-Identifier: MIT
 *
 * NUT, a container with times, as far as one stream of raw video needs it: ffmpeg and GStreamer read and write it to
 * pipes. The reader takes any valid file of version 3 or 4; what it says is checked, since it may come from anywhere.
 */
#ifndef TOOLS_NUT_H
#define TOOLS_NUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NUT_MAX_STREAMS 16
#define NUT_MAX_BASES   16
#define NUT_MAX_ELIDED  64 /* headers that are left out of frames */

enum nut_colours { NUT_COLOURS_UNKNOWN = 0, NUT_BT601 = 1, NUT_BT709 = 2, NUT_FULL_RANGE = 16 /* added */ };

struct nut_video {
    uint32_t tag; /* the pixel format: four letters, the first one in the lowest byte */
    uint32_t width, height;
    uint32_t aspect_x, aspect_y; /* of a pixel; 0: unknown */
    unsigned colours;            /* of enum nut_colours */
};

/* ---- reading ---- */

enum nut_result { NUT_OK, NUT_END, NUT_BAD };

/* Reads `size` bytes, or fewer at the end. */
typedef size_t nut_read_fn(void *from, void *to, size_t size);

struct nut_code {
    uint16_t flags;
    uint16_t stream, multiplier, size, reserved, elided;
    int16_t pts_delta;
};

struct nut_reader {
    nut_read_fn *read;
    void *from;
    struct nut_video video;
    const char *problem; /* after NUT_BAD */

    /* the frame that nut_next found */
    int64_t pts_ns;
    uint64_t left; /* its bytes that were not read yet */

    unsigned version;
    unsigned stream_count, base_count, stream; /* `stream` is that of the video */
    uint64_t max_distance;
    struct {
        uint64_t num, den;
    } bases[NUT_MAX_BASES];
    struct {
        unsigned base, shift;
        int64_t pts;
        bool described;
    } streams[NUT_MAX_STREAMS];
    struct nut_code codes[256];
    struct {
        uint16_t size;
        uint8_t bytes[256];
    } elided[NUT_MAX_ELIDED];
    const uint8_t *prefix; /* elided bytes that come first */
    uint64_t prefix_left;
    bool at_syncpoint; /* its startcode was read */
};

/* Reads the headers, up to the first frame. `reader` has `read` and `from`. */
enum nut_result nut_open(struct nut_reader *reader);

/* Goes to the next frame of the video; what was not read of the last one is skipped. */
enum nut_result nut_next(struct nut_reader *reader);

/* Reads bytes of the frame; false if there are fewer. `to` NULL skips them. */
bool nut_read(struct nut_reader *reader, void *to, uint64_t size);

/* ---- writing ---- */

/* False if the bytes cannot be written. */
typedef bool nut_write_fn(void *to, const void *bytes, size_t size);

struct nut_writer {
    nut_write_fn *write;
    void *to;
    uint32_t ticks; /* a second, the unit of its times; 0: nanoseconds */
    uint64_t at;    /* bytes so far */
    struct nut_syncpoint {
        uint64_t at;
        uint64_t pts; /* in ticks */
    } * syncpoints;   /* one for each frame: the index */
    size_t count, capacity;
    uint64_t next_pts;
};

/* Times are in nanoseconds, and none is before 0. One that is not later than the last one by a tick is moved there.
 * `writer` has `write` and `to`, and may have `ticks`. */
bool nut_write_head(struct nut_writer *writer, const struct nut_video *video);

/* Begins a frame; its `size` bytes follow with nut_write. */
bool nut_write_frame(struct nut_writer *writer, int64_t pts_ns, uint64_t size);
bool nut_write(struct nut_writer *writer, const void *bytes, size_t size);

/* Writes the index, with which a file can be searched, and frees it. */
bool nut_write_end(struct nut_writer *writer);
void nut_free(struct nut_writer *writer);

/* ---- both ---- */

#define NUT_ID        "nut/multimedia container"
#define NUT_MAIN      UINT64_C(0x4E4D7A561F5F04AD)
#define NUT_STREAM    UINT64_C(0x4E5311405BF2F9DB)
#define NUT_SYNCPOINT UINT64_C(0x4E4BE4ADEECA4569)
#define NUT_INDEX     UINT64_C(0x4E58DD672F23E64E)
#define NUT_INFO      UINT64_C(0x4E49AB68B596BA78)

enum nut_flags {
    NUT_FLAG_KEY = 1,
    NUT_FLAG_PTS = 8,
    NUT_FLAG_STREAM = 16,
    NUT_FLAG_SIZE = 32,
    NUT_FLAG_CHECKSUM = 64,
    NUT_FLAG_RESERVED = 128,
    NUT_FLAG_SIDE_DATA = 256,
    NUT_FLAG_ELIDED = 1024,
    NUT_FLAG_MATCH_TIME = 2048,
    NUT_FLAG_CODED = 4096,
    NUT_FLAG_INVALID = 8192,
};

/* CRC-32 of the polynomial 0x04C11DB7, highest bit first, continued from `crc` (at first 0). */
uint32_t nut_checksum(uint32_t crc, const void *bytes, size_t size);

#endif
