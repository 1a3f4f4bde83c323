/* SPDX-License-Identifier: MIT
 *
 * EBML is a tree of elements: number, size, content. The reader stays within the bytes that it was given.
 */
#include "ebml.h"

#include <string.h>

enum {
    HEAD = 0x1A45DFA3,
    SEGMENT = 0x18538067,
    CLUSTER = 0x1F43B675,
    TRACKS = 0x1654AE6B,
    TRACK = 0xAE,
    TRACK_TYPE = 0x83,
    CODEC = 0x86,
    VIDEO = 0xE0,
    ALPHA_MODE = 0x53C0,
    COLOUR = 0x55B0,
    MATRIX = 0x55B1,
    RANGE = 0x55B9,
    TRANSFER = 0x55BA,
    PRIMARIES = 0x55BB,
};

struct span {
    const uint8_t *at, *end;
};

struct element {
    uint64_t id;
    struct span content; /* as far as it is there */
    bool whole;
};

static bool take_number(struct span *s, unsigned longest, bool keep_marker, uint64_t *value, unsigned *length)
{
    unsigned bytes = 1;
    if (s->at == s->end || *s->at == 0)
        return false;
    while (!(*s->at & (0x80 >> (bytes - 1))))
        bytes++;
    if (bytes > longest || (size_t)(s->end - s->at) < bytes)
        return false;
    *value = keep_marker ? *s->at : *s->at & (0x7Fu >> (bytes - 1));
    s->at++;
    for (unsigned i = 1; i < bytes; i++)
        *value = *value << 8 | *s->at++;
    *length = bytes;
    return true;
}

/* False at the end of what is there. */
static bool take_element(struct span *s, struct element *element)
{
    uint64_t size;
    unsigned length;
    if (!take_number(s, 4, true, &element->id, &length) || !take_number(s, 8, false, &size, &length))
        return false;
    uint64_t left = (uint64_t)(s->end - s->at);
    bool unknown = size == (UINT64_C(1) << (7 * length)) - 1; /* as live streams have it */
    element->whole = !unknown && size <= left;
    element->content = (struct span){ s->at, s->at + (element->whole ? size : left) };
    s->at = element->content.end;
    return true;
}

static uint8_t small_number(struct span s)
{
    uint64_t value = 0;
    for (int i = 0; i < 8 && s.at < s.end; i++)
        value = value << 8 | *s.at++;
    return value > 255 ? 0 : (uint8_t)value;
}

static void read_colour(struct span s, struct ebml_video *video)
{
    struct element e;
    while (take_element(&s, &e)) {
        if (e.id == MATRIX)
            video->matrix = small_number(e.content);
        else if (e.id == RANGE)
            video->range = small_number(e.content);
        else if (e.id == TRANSFER)
            video->transfer = small_number(e.content);
        else if (e.id == PRIMARIES)
            video->primaries = small_number(e.content);
    }
}

static void read_picture(struct span s, struct ebml_video *video)
{
    struct element e;
    while (take_element(&s, &e)) {
        if (e.id == ALPHA_MODE)
            video->alpha = small_number(e.content) == 1;
        else if (e.id == COLOUR)
            read_colour(e.content, video);
    }
}

/* True if the track is a video. */
static bool read_track(struct span s, struct ebml_video *video)
{
    struct element e;
    bool found = false;
    *video = (struct ebml_video){ .primaries = 2, .transfer = 2, .matrix = 2 };
    while (take_element(&s, &e)) {
        size_t size = (size_t)(e.content.end - e.content.at);
        if (e.id == TRACK_TYPE)
            found = small_number(e.content) == 1;
        else if (e.id == CODEC && size < sizeof video->codec)
            memcpy(video->codec, e.content.at, size);
        else if (e.id == VIDEO)
            read_picture(e.content, video);
    }
    return found;
}

enum ebml_result ebml_video(const uint8_t *bytes, size_t size, struct ebml_video *video)
{
    static const uint8_t magic[4] = { 0x1A, 0x45, 0xDF, 0xA3 };
    struct span s = { bytes, bytes + size };
    struct element e;
    if (memcmp(bytes, magic, size < 4 ? size : 4) != 0)
        return EBML_OTHER;
    while (take_element(&s, &e)) {
        if (e.id == SEGMENT)
            s.at = e.content.at; /* go on within it */
        else if (e.id == CLUSTER)
            return EBML_OTHER;
        else if (e.id != TRACKS)
            continue;
        else if (!e.whole)
            break;
        else
            for (s = e.content; take_element(&s, &e);)
                if (e.id == TRACK && read_track(e.content, video))
                    return EBML_DONE;
        if (e.id != SEGMENT)
            return EBML_OTHER;
    }
    return EBML_MORE;
}
