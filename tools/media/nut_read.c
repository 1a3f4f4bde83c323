/* SPDX-License-Identifier: MIT
 *
 * Reading NUT. Headers are read as whole packets, whose checksums are checked before their numbers are used.
 */
#include "nut.h"

#include <stdlib.h>
#include <string.h>

#define PACKET_MAX (1 << 20)
#define CRC_LIMIT  4096 /* longer packets have a checksum after their length, too */
#define FRAME_MAX  (UINT64_C(1) << 40)

uint32_t nut_checksum(uint32_t crc, const void *bytes, size_t size)
{
    for (const uint8_t *at = bytes, *end = at + size; at < end; at++) {
        crc ^= (uint32_t)*at << 24;
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 0x80000000u ? crc << 1 ^ 0x04C11DB7u : crc << 1;
    }
    return crc;
}

static enum nut_result bad(struct nut_reader *r, const char *problem)
{
    r->problem = problem;
    return NUT_BAD;
}

/* ---- bytes of the file; what passes is added to a checksum ---- */

struct input {
    struct nut_reader *reader;
    uint32_t crc;
    bool short_of; /* the file ended */
};

static uint8_t next_byte(struct input *in)
{
    uint8_t byte = 0;
    if (in->reader->read(in->reader->from, &byte, 1) != 1)
        in->short_of = true;
    in->crc = nut_checksum(in->crc, &byte, 1);
    return byte;
}

static uint64_t next_number(struct input *in)
{
    uint64_t value = 0;
    uint8_t byte;
    do {
        byte = next_byte(in);
        value = value << 7 | (byte & 127);
    } while (byte & 128 && !in->short_of);
    return value;
}

static uint64_t next_fixed(struct input *in, unsigned bytes)
{
    uint64_t value = 0;
    while (bytes--)
        value = value << 8 | next_byte(in);
    return value;
}

/* ---- the contents of a packet ---- */

struct packet {
    uint8_t *bytes;
    size_t at, size;
};

static uint64_t number(struct packet *p)
{
    uint64_t value = 0;
    while (p->at < p->size) {
        uint8_t byte = p->bytes[p->at++];
        value = value << 7 | (byte & 127);
        if (!(byte & 128))
            return value;
    }
    p->at = p->size + 1; /* too short */
    return 0;
}

static int64_t signed_number(struct packet *p)
{
    uint64_t value = number(p) + 1;
    return value & 1 ? -(int64_t)(value >> 1) : (int64_t)(value >> 1);
}

static bool is_short(const struct packet *p)
{
    return p->at > p->size;
}

/* Reads what follows a startcode. The caller frees packet->bytes. */
static enum nut_result read_packet(struct nut_reader *r, uint64_t startcode, struct packet *packet)
{
    struct input in = { .reader = r };
    uint8_t code[8];
    for (int i = 0; i < 8; i++)
        code[i] = (uint8_t)(startcode >> (56 - 8 * i));
    in.crc = nut_checksum(0, code, 8);
    uint64_t size = next_number(&in);
    if (size > CRC_LIMIT) {
        uint32_t crc = in.crc;
        if (next_fixed(&in, 4) != crc && !in.short_of)
            return bad(r, "the length of a packet is damaged");
    }
    if (in.short_of)
        return bad(r, "it ends within a packet");
    if (size < 4 || size > PACKET_MAX)
        return bad(r, "a packet has an impossible length");
    *packet = (struct packet){ .bytes = malloc(size), .size = size - 4 };
    if (!packet->bytes)
        return bad(r, "out of memory");
    if (r->read(r->from, packet->bytes, size) != size)
        bad(r, "it ends within a packet");
    else if (nut_checksum(0, packet->bytes, size) != 0)
        bad(r, "a packet is damaged");
    else
        return NUT_OK;
    free(packet->bytes);
    return NUT_BAD;
}

/* ---- headers ---- */

/* Fills in the codes that one entry of the table stands for. False if it is impossible. */
static bool read_codes(struct nut_reader *r, struct packet *p, unsigned *next, struct nut_code *code)
{
    uint64_t flags = number(p), fields = number(p), count;
    if (fields > 0)
        code->pts_delta = (int16_t)signed_number(p);
    if (fields > 1)
        code->multiplier = (uint16_t)number(p);
    if (fields > 2)
        code->stream = (uint16_t)number(p);
    uint64_t size = fields > 3 ? number(p) : 0;
    code->reserved = (uint16_t)(fields > 4 ? number(p) : 0);
    count = fields > 5 ? number(p) : (uint64_t)code->multiplier - size;
    if (fields > 6)
        (void)number(p); /* match time */
    if (fields > 7)
        code->elided = (uint16_t)number(p);
    for (uint64_t i = 8; i < fields && !is_short(p); i++)
        (void)number(p);
    if (is_short(p) || count == 0 || count > 256 || size + count > UINT16_MAX || code->stream >= r->stream_count)
        return false;
    for (uint64_t i = 0; i < count && *next < 256; ++*next) {
        r->codes[*next] = *code;
        r->codes[*next].flags = *next == 'N' ? NUT_FLAG_INVALID : (uint16_t)flags;
        r->codes[*next].size = (uint16_t)(size + i);
        i += *next != 'N';
    }
    return true;
}

static bool read_elided(struct nut_reader *r, struct packet *p)
{
    uint64_t count = number(p);
    if (count >= NUT_MAX_ELIDED)
        return false;
    for (uint64_t i = 1; i <= count; i++) {
        uint64_t size = number(p);
        if (size == 0 || size > sizeof r->elided[i].bytes || is_short(p) || size > p->size - p->at)
            return false;
        r->elided[i].size = (uint16_t)size;
        memcpy(r->elided[i].bytes, p->bytes + p->at, size);
        p->at += size;
    }
    return true;
}

static enum nut_result read_main(struct nut_reader *r, struct packet *p)
{
    struct nut_code code = { .multiplier = 1 };
    uint64_t version = number(p);
    if (version > 3)
        (void)number(p); /* minor version */
    uint64_t streams = number(p);
    r->max_distance = number(p);
    uint64_t bases = number(p);
    if (version < 2 || version > 4)
        return bad(r, "it is of an unknown version of NUT");
    if (streams == 0 || streams > NUT_MAX_STREAMS || bases == 0 || bases > NUT_MAX_BASES)
        return bad(r, "it has no streams, or too many");
    r->version = (unsigned)version;
    r->stream_count = (unsigned)streams;
    r->base_count = (unsigned)bases;
    for (unsigned i = 0; i < bases; i++) {
        r->bases[i].num = number(p);
        r->bases[i].den = number(p);
        if (r->bases[i].num == 0 || r->bases[i].num > INT32_MAX || r->bases[i].den == 0 || r->bases[i].den > INT32_MAX)
            return bad(r, "it has an impossible time base");
    }
    for (unsigned next = 0; next < 256;)
        if (!read_codes(r, p, &next, &code))
            return bad(r, "its table of frame codes is wrong");
    if (!read_elided(r, p) || is_short(p))
        return bad(r, "its main header is too short");
    return NUT_OK;
}

static enum nut_result read_stream(struct nut_reader *r, struct packet *p)
{
    uint64_t id = number(p), class = number(p), size = number(p);
    uint32_t tag = 0;
    if (id >= r->stream_count || is_short(p) || size > p->size - p->at)
        return bad(r, "the header of a stream is wrong");
    for (uint64_t i = 0; i < size && i < 4; i++)
        tag |= (uint32_t)p->bytes[p->at + i] << (8 * i);
    p->at += size;
    uint64_t base = number(p), shift = number(p);
    (void)number(p); /* max_pts_distance */
    (void)number(p); /* decode_delay */
    (void)number(p); /* flags */
    uint64_t extra = number(p);
    if (base >= r->base_count || shift > 62 || is_short(p) || extra > p->size - p->at)
        return bad(r, "the header of a stream is wrong");
    p->at += extra;
    r->streams[id].base = (unsigned)base;
    r->streams[id].shift = (unsigned)shift;
    r->streams[id].described = true;
    if (class != 0 || r->video.width)
        return NUT_OK; /* no video, or not the first one */
    uint64_t width = number(p), height = number(p), aspect_x = number(p), aspect_y = number(p), colours = number(p);
    if (is_short(p) || width == 0 || width > 65536 || height == 0 || height > 65536)
        return bad(r, "its video has an impossible size");
    if (aspect_x > INT32_MAX || aspect_y > INT32_MAX || !aspect_x || !aspect_y)
        aspect_x = aspect_y = 0;
    r->stream = (unsigned)id;
    r->video = (struct nut_video){ tag,
                                   (uint32_t)width,
                                   (uint32_t)height,
                                   (uint32_t)aspect_x,
                                   (uint32_t)aspect_y,
                                   colours <= 18 ? (unsigned)colours : 0 };
    return NUT_OK;
}

enum nut_result nut_open(struct nut_reader *r)
{
    uint8_t id[sizeof NUT_ID];
    struct packet packet;
    if (r->read(r->from, id, sizeof id) != sizeof id || memcmp(id, NUT_ID, sizeof id) != 0)
        return bad(r, "it is not NUT");
    for (;;) {
        struct input in = { .reader = r };
        uint64_t startcode = next_fixed(&in, 8);
        if (in.short_of)
            return r->video.width ? NUT_END : bad(r, "it ends before its first frame");
        if (startcode == NUT_SYNCPOINT)
            break;
        if (startcode >> 56 != 'N')
            return bad(r, "a frame comes before the first syncpoint");
        enum nut_result result = read_packet(r, startcode, &packet);
        if (result != NUT_OK)
            return result;
        if (startcode == NUT_MAIN && !r->stream_count)
            result = read_main(r, &packet);
        else if (startcode == NUT_STREAM && r->stream_count)
            result = read_stream(r, &packet);
        free(packet.bytes);
        if (result != NUT_OK)
            return result;
    }
    r->at_syncpoint = true;
    return r->video.width ? NUT_OK : bad(r, "it has no video");
}

/* ---- frames ---- */

__extension__ typedef __int128 wide; /* products of three numbers of a file */

static int64_t rescale(const struct nut_reader *r, int64_t ticks, unsigned from, unsigned to)
{
    wide n = (wide)ticks * (int64_t)r->bases[from].num * (int64_t)r->bases[to].den;
    wide d = (wide)r->bases[from].den * r->bases[to].num;
    wide q = n / d;
    return (int64_t)(n % d < 0 ? q - 1 : q);
}

static int64_t to_ns(const struct nut_reader *r, int64_t ticks, unsigned base)
{
    wide n = (wide)ticks * (int64_t)r->bases[base].num * 1000000000;
    wide d = (wide)r->bases[base].den;
    n = (n + (n < 0 ? -d : d) / 2) / d;
    return n > INT64_MAX ? INT64_MAX : n < INT64_MIN ? INT64_MIN : (int64_t)n;
}

static enum nut_result read_syncpoint(struct nut_reader *r)
{
    struct packet packet;
    enum nut_result result = read_packet(r, NUT_SYNCPOINT, &packet);
    if (result != NUT_OK)
        return result;
    uint64_t value = number(&packet);
    unsigned base = (unsigned)(value % r->base_count);
    int64_t ticks = (int64_t)(value / r->base_count);
    if (ticks < 0 || ticks > INT64_MAX / 4)
        result = bad(r, "a syncpoint has an impossible time");
    for (unsigned i = 0; result == NUT_OK && i < r->stream_count; i++)
        if (r->streams[i].described)
            r->streams[i].pts = rescale(r, ticks, base, r->streams[i].base);
    free(packet.bytes);
    return result;
}

static int64_t coded_pts(struct nut_reader *r, unsigned stream, uint64_t coded)
{
    unsigned shift = r->streams[stream].shift;
    uint64_t mask = (UINT64_C(1) << shift) - 1;
    if (coded > mask)
        return (int64_t)(coded - mask - 1);
    uint64_t delta = (uint64_t)r->streams[stream].pts - mask / 2;
    return (int64_t)(((coded - delta) & mask) + delta);
}

/* Reads a frame's head after its code. */
static enum nut_result read_frame(struct nut_reader *r, uint8_t first, unsigned *stream)
{
    struct input in = { .reader = r };
    const struct nut_code *code = &r->codes[first];
    uint64_t flags = code->flags, id = code->stream, size = code->size, elided = code->elided, coded = 0;
    uint64_t reserved = code->reserved;
    in.crc = nut_checksum(0, &first, 1);
    if (flags & NUT_FLAG_INVALID)
        return bad(r, "a frame has an invalid code");
    if (flags & NUT_FLAG_CODED)
        flags ^= next_number(&in);
    if (flags & NUT_FLAG_STREAM)
        id = next_number(&in);
    if (id >= r->stream_count || !r->streams[id].described)
        return bad(r, "a frame is of an unknown stream");
    int64_t pts = (int64_t)((uint64_t)r->streams[id].pts + (uint64_t)(int64_t)code->pts_delta);
    if (flags & NUT_FLAG_PTS)
        pts = coded_pts(r, (unsigned)id, (coded = next_number(&in)));
    if (flags & NUT_FLAG_SIZE)
        size += next_number(&in) * code->multiplier;
    if (flags & NUT_FLAG_MATCH_TIME)
        (void)next_number(&in);
    if (flags & NUT_FLAG_ELIDED)
        elided = next_number(&in);
    if (flags & NUT_FLAG_RESERVED)
        reserved = next_number(&in);
    for (uint64_t i = 0; i < reserved && !in.short_of; i++)
        (void)next_number(&in);
    uint32_t crc = in.crc;
    if (flags & NUT_FLAG_CHECKSUM && next_fixed(&in, 4) != crc && !in.short_of)
        return bad(r, "the head of a frame is damaged");
    if (in.short_of)
        return bad(r, "it ends within a frame");
    if (elided >= NUT_MAX_ELIDED || size < r->elided[elided].size || size > FRAME_MAX)
        return bad(r, "a frame has an impossible size");
    if (flags & NUT_FLAG_SIDE_DATA)
        return bad(r, "its frames have side data, which is not supported");
    r->streams[id].pts = pts;
    r->pts_ns = to_ns(r, pts, r->streams[id].base);
    r->left = size;
    r->prefix = r->elided[elided].bytes;
    r->prefix_left = r->elided[elided].size;
    *stream = (unsigned)id;
    return NUT_OK;
}

bool nut_read(struct nut_reader *r, void *to, uint64_t size)
{
    uint8_t *at = to, unused[4096];
    if (size > r->left)
        return false;
    r->left -= size;
    if (r->prefix_left) {
        uint64_t first = size < r->prefix_left ? size : r->prefix_left;
        if (at) {
            memcpy(at, r->prefix, first);
            at += first;
        }
        r->prefix += first;
        r->prefix_left -= first;
        size -= first;
    }
    if (at)
        return r->read(r->from, at, size) == size;
    for (uint64_t part; size; size -= part) {
        part = size < sizeof unused ? size : sizeof unused;
        if (r->read(r->from, unused, part) != part)
            return false;
    }
    return true;
}

static enum nut_result read_startcode(struct nut_reader *r)
{
    struct input in = { .reader = r };
    struct packet packet;
    uint64_t startcode = (uint64_t)'N' << 56 | next_fixed(&in, 7);
    if (in.short_of)
        return bad(r, "it ends within a packet");
    if (startcode == NUT_SYNCPOINT)
        return read_syncpoint(r);
    if (startcode == NUT_INDEX)
        return NUT_END;                                          /* nothing of interest follows */
    enum nut_result result = read_packet(r, startcode, &packet); /* a repeated header */
    if (result == NUT_OK)
        free(packet.bytes);
    return result;
}

enum nut_result nut_next(struct nut_reader *r)
{
    enum nut_result result = NUT_OK;
    uint8_t code;
    unsigned stream;
    if (r->at_syncpoint)
        result = read_syncpoint(r);
    r->at_syncpoint = false;
    while (result == NUT_OK) {
        if (!nut_read(r, NULL, r->left))
            return bad(r, "it ends within a frame");
        if (r->read(r->from, &code, 1) != 1)
            return NUT_END;
        if (code == 'N') {
            result = read_startcode(r);
            continue;
        }
        result = read_frame(r, code, &stream);
        if (result == NUT_OK && stream == r->stream)
            break;
    }
    return result;
}
