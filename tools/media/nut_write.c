/* SPDX-License-Identifier: MIT
 *
 * Writing NUT: every frame follows a syncpoint, so that a reader can begin at any of them.
 */
#include "nut.h"

#include <stdlib.h>

#define SHIFT     7    /* pts are written in full: they count from 1 << SHIFT */
#define CODE      1    /* the frame code that is used */
#define CRC_LIMIT 4096 /* longer packets have a checksum after their length, too */
#define FLAGS     (NUT_FLAG_KEY | NUT_FLAG_PTS | NUT_FLAG_SIZE | NUT_FLAG_CHECKSUM)

struct bytes {
    uint8_t *bytes;
    size_t size, capacity;
};

#define BYTES(array) \
    { \
        (array), 0, sizeof(array) \
    }

static void add_byte(struct bytes *b, uint8_t byte)
{
    if (b->size < b->capacity)
        b->bytes[b->size++] = byte;
}

static void add_fixed(struct bytes *b, uint64_t value, unsigned bytes)
{
    while (bytes--)
        add_byte(b, (uint8_t)(value >> (8 * bytes)));
}

static void add_number(struct bytes *b, uint64_t value)
{
    unsigned groups = 1;
    for (uint64_t rest = value >> 7; rest; rest >>= 7)
        groups++;
    while (groups--)
        add_byte(b, (uint8_t)((value >> (7 * groups) & 127) | (groups ? 128 : 0)));
}

bool nut_write(struct nut_writer *w, const void *bytes, size_t size)
{
    w->at += size;
    return w->write(w->to, bytes, size);
}

static void add_head(struct bytes *head, uint64_t startcode, uint64_t size)
{
    add_fixed(head, startcode, 8);
    add_number(head, size);
    if (size > CRC_LIMIT)
        add_fixed(head, nut_checksum(0, head->bytes, head->size), 4);
}

static bool write_packet(struct nut_writer *w, uint64_t startcode, struct bytes *content)
{
    uint8_t start[32];
    struct bytes head = BYTES(start);
    add_head(&head, startcode, content->size + 4);
    add_fixed(content, nut_checksum(0, content->bytes, content->size), 4);
    return nut_write(w, head.bytes, head.size) && nut_write(w, content->bytes, content->size);
}

/* An entry of the table of frame codes, for the next `count` of them. */
static void add_codes(struct bytes *b, uint64_t flags, uint64_t count)
{
    const uint64_t fields[] = { flags, 6, 0, 1, 0, 0, 0, count }; /* pts, multiplier, stream, size, reserved */
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        add_number(b, fields[i]);
}

static uint32_t ticks_of(const struct nut_writer *w)
{
    return w->ticks ? w->ticks : 1000000000;
}

static bool write_main(struct nut_writer *w)
{
    uint8_t content[128];
    struct bytes b = BYTES(content);
    add_number(&b, 3);     /* version */
    add_number(&b, 1);     /* streams */
    add_number(&b, 65536); /* max_distance */
    add_number(&b, 1);     /* time bases */
    add_number(&b, 1);
    add_number(&b, ticks_of(w));
    add_codes(&b, NUT_FLAG_INVALID, CODE);
    add_codes(&b, FLAGS, 1);
    add_codes(&b, NUT_FLAG_INVALID, 256 - CODE - 2); /* 'N' is none */
    add_number(&b, 0);                               /* no elided headers */
    return write_packet(w, NUT_MAIN, &b);
}

static bool write_stream(struct nut_writer *w, const struct nut_video *video)
{
    uint8_t content[128];
    struct bytes b = BYTES(content);
    add_number(&b, 0); /* stream */
    add_number(&b, 0); /* video */
    add_number(&b, 4);
    for (int i = 0; i < 4; i++)
        add_byte(&b, (uint8_t)(video->tag >> (8 * i)));
    add_number(&b, 0); /* time base */
    add_number(&b, SHIFT);
    add_number(&b, (uint64_t)1 << 40); /* max_pts_distance */
    add_number(&b, 0);                 /* decode_delay */
    add_number(&b, 0);                 /* flags: times are not even */
    add_number(&b, 0);                 /* codec data */
    add_number(&b, video->width);
    add_number(&b, video->height);
    add_number(&b, video->aspect_x);
    add_number(&b, video->aspect_y);
    add_number(&b, video->colours);
    return write_packet(w, NUT_STREAM, &b);
}

bool nut_write_head(struct nut_writer *w, const struct nut_video *video)
{
    return nut_write(w, NUT_ID, sizeof NUT_ID) && write_main(w) && write_stream(w, video);
}

/* Without memory the file has no index. */
static void remember(struct nut_writer *w, uint64_t pts)
{
    if (w->count == w->capacity) {
        size_t capacity = w->capacity ? 2 * w->capacity : 1024;
        struct nut_syncpoint *more = realloc(w->syncpoints, capacity * sizeof *more);
        if (!more)
            return;
        w->syncpoints = more;
        w->capacity = capacity;
    }
    w->syncpoints[w->count++] = (struct nut_syncpoint){ w->at, pts };
}

bool nut_write_frame(struct nut_writer *w, int64_t pts_ns, uint64_t size)
{
    uint8_t syncpoint_bytes[32], frame_bytes[32];
    struct bytes syncpoint = BYTES(syncpoint_bytes), frame = BYTES(frame_bytes);
    uint64_t ns = (uint64_t)pts_ns, second = 1000000000;
    uint64_t pts = ns / second * ticks_of(w) + (ns % second * ticks_of(w) + second / 2) / second;
    if (pts < w->next_pts)
        pts = w->next_pts;
    w->next_pts = pts + 1;
    add_number(&syncpoint, pts);
    add_number(&syncpoint, w->count ? (w->at - w->syncpoints[w->count - 1].at) / 16 : 0);
    remember(w, pts);
    add_byte(&frame, CODE);
    add_number(&frame, pts + (1u << SHIFT));
    add_number(&frame, size);
    add_fixed(&frame, nut_checksum(0, frame.bytes, frame.size), 4);
    return write_packet(w, NUT_SYNCPOINT, &syncpoint) && nut_write(w, frame.bytes, frame.size);
}

bool nut_write_end(struct nut_writer *w)
{
    struct bytes b = { .capacity = w->count * 20 + 64 };
    uint8_t start[32];
    struct bytes head = BYTES(start);
    uint64_t last_at = 0;
    uint64_t next = 0; /* differences count from -1, and from the last one */
    if (w->count == 0 || !(b.bytes = malloc(b.capacity)))
        return true;
    add_number(&b, w->syncpoints[w->count - 1].pts);
    add_number(&b, w->count);
    for (size_t i = 0; i < w->count; i++) {
        add_number(&b, w->syncpoints[i].at / 16 - last_at);
        last_at = w->syncpoints[i].at / 16;
    }
    /* Frames are listed with the syncpoint after them: none before the first one, then one before each. */
    add_number(&b, 3);
    if (w->count > 1)
        add_number(&b, (uint64_t)(w->count - 1) << 2 | 3);
    for (size_t i = 0; i + 1 < w->count; i++) {
        add_number(&b, w->syncpoints[i].pts + 1 - next);
        next = w->syncpoints[i].pts + 1;
    }
    add_head(&head, NUT_INDEX, b.size + 12); /* to know how long it is */
    add_fixed(&b, head.size + b.size + 12, 8);
    bool done = write_packet(w, NUT_INDEX, &b);
    free(b.bytes);
    return done;
}

void nut_free(struct nut_writer *w)
{
    free(w->syncpoints);
    *w = (struct nut_writer){ .write = NULL };
}
