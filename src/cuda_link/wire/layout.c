/* SPDX-License-Identifier: MIT
 *
 * The layout of a segment. Data that other processes may be changing is loaded and stored
 * atomically, by words and bytes: a reader checks afterwards whether all of it belongs to one
 * session.
 */
#include <string.h>

#include "cuda_link/wire/layout.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "the wire is little-endian, and words are stored as they are");

enum {
    MAGIC = 0,
    VERSION = SL_CIPD_VERSION_AT,
    SLOTS = 12,
    INDEX = SL_CIPD_INDEX_AT,
    SLOT = 2 * SL_CIPD_HANDLE, /* bytes of one slot's handles */
    METADATA = 20,
};

typedef _Atomic unsigned char byte;

bool sl_cipd_layout(uint32_t slots, struct sl_cipd_layout *layout)
{
    if (slots < 1 || slots > SL_CIPD_MAX_SLOTS)
        return false;
    uint32_t end = SL_CIPD_HEADER + SLOT * slots;
    *layout = (struct sl_cipd_layout){
        .slots = slots,
        .shut = end,
        .metadata = end + 1,
        .time = end + 1 + METADATA,
        .total = end + 1 + METADATA + 8,
    };
    return true;
}

bool sl_cipd_zero(const unsigned char *bytes, size_t size)
{
    unsigned char any = 0;
    for (size_t i = 0; i < size; i++)
        any |= bytes[i];
    return any == 0;
}

/* ---- words and bytes ---- */

static sl_word32 *word_at(unsigned char *at, size_t offset)
{
    return (sl_word32 *)(void *)(at + offset);
}

static const sl_word32 *const_word_at(const unsigned char *at, size_t offset)
{
    return (const sl_word32 *)(const void *)(at + offset);
}

/* Acquire, so that a version loaded afterwards is not older. */
static void load_words(const unsigned char *at, size_t offset, unsigned char *to, size_t size)
{
    for (size_t i = 0; i < size; i += 4) {
        uint32_t word = sl_load(const_word_at(at, offset + i), acquire);
        memcpy(to + i, &word, 4);
    }
}

/* Release, so that a reader that sees one of them also sees the index 0 that was stored before. */
static void store_words(unsigned char *at, size_t offset, const unsigned char *from, size_t size)
{
    for (size_t i = 0; i < size; i += 4) {
        uint32_t word;
        memcpy(&word, from + i, 4);
        sl_store(word_at(at, offset + i), word, release);
    }
}

static void load_bytes(const unsigned char *at, size_t offset, unsigned char *to, size_t size)
{
    const byte *from = (const byte *)(at + offset);
    for (size_t i = 0; i < size; i++)
        to[i] = sl_load(&from[i], acquire);
}

static void store_bytes(unsigned char *at, size_t offset, const unsigned char *from, size_t size)
{
    byte *to = (byte *)(at + offset);
    for (size_t i = 0; i < size; i++)
        sl_store(&to[i], from[i], release);
}

/* Does the segment have these bytes there? They may be of different ages, as with load_words. */
static bool stands(const unsigned char *at, size_t offset, const unsigned char *from, size_t size)
{
    uint64_t other = 0, wide;
    size_t i = 0;
    for (; i + 8 <= size; i += 8) {
        memcpy(&wide, from + i, 8);
        other |= sl_load_wide(at + offset + i) ^ wide;
    }
    for (; i < size; i++)
        other |= sl_load((const byte *)(at + offset + i), acquire) ^ from[i];
    return other == 0;
}

/* ---- the header ---- */

uint32_t sl_cipd_load_magic(const unsigned char *at)
{
    return sl_load(const_word_at(at, MAGIC), acquire);
}

void sl_cipd_store_magic(unsigned char *at, uint32_t magic)
{
    sl_store(word_at(at, MAGIC), magic, release);
}

uint64_t sl_cipd_load_version(const unsigned char *at)
{
    return sl_load_wide(at + VERSION);
}

void sl_cipd_store_version(unsigned char *at, uint64_t version)
{
    sl_store_wide(at + VERSION, version);
}

uint32_t sl_cipd_load_slots(const unsigned char *at)
{
    return sl_load(const_word_at(at, SLOTS), acquire);
}

void sl_cipd_store_slots(unsigned char *at, uint32_t slots)
{
    sl_store(word_at(at, SLOTS), slots, release);
}

uint32_t sl_cipd_load_index(const unsigned char *at)
{
    return sl_load(const_word_at(at, INDEX), seq_cst);
}

void sl_cipd_store_index(unsigned char *at, uint32_t index)
{
    sl_store(word_at(at, INDEX), index, seq_cst);
}

uint32_t sl_cipd_swap_index(unsigned char *at, uint32_t index)
{
    return sl_exchange(word_at(at, INDEX), index);
}

const sl_word32 *sl_cipd_index_word(const unsigned char *at)
{
    return const_word_at(at, INDEX);
}

/* ---- handles ---- */

void sl_cipd_load_handles(const unsigned char *at, uint32_t slot, struct sl_cipd_handles *handles)
{
    size_t offset = SL_CIPD_HEADER + (size_t)SLOT * slot;
    load_words(at, offset, handles->memory, SL_CIPD_HANDLE);
    load_words(at, offset + SL_CIPD_HANDLE, handles->event, SL_CIPD_HANDLE);
}

bool sl_cipd_handles_stand(const unsigned char *at, uint32_t slot, const struct sl_cipd_handles *handles)
{
    size_t offset = SL_CIPD_HEADER + (size_t)SLOT * slot;
    return stands(at, offset, handles->memory, SL_CIPD_HANDLE) &&
           stands(at, offset + SL_CIPD_HANDLE, handles->event, SL_CIPD_HANDLE);
}

void sl_cipd_store_handles(unsigned char *at, uint32_t slot, const struct sl_cipd_handles *handles)
{
    size_t offset = SL_CIPD_HEADER + (size_t)SLOT * slot;
    store_words(at, offset, handles->memory, SL_CIPD_HANDLE);
    store_words(at, offset + SL_CIPD_HANDLE, handles->event, SL_CIPD_HANDLE);
}

/* ---- behind the handles ---- */

uint8_t sl_cipd_load_shut(const unsigned char *at, const struct sl_cipd_layout *layout)
{
    return sl_load((const byte *)(at + layout->shut), acquire);
}

void sl_cipd_store_shut(unsigned char *at, const struct sl_cipd_layout *layout, uint8_t shut)
{
    sl_store((byte *)(at + layout->shut), shut, release);
}

void sl_cipd_load_metadata(const unsigned char *at, const struct sl_cipd_layout *layout,
                           struct sl_cipd_metadata *metadata)
{
    unsigned char raw[METADATA];
    load_bytes(at, layout->metadata, raw, sizeof(raw));
    memcpy(&metadata->width, raw, 4);
    memcpy(&metadata->height, raw + 4, 4);
    memcpy(&metadata->components, raw + 8, 4);
    metadata->kind = raw[12];
    metadata->bits = raw[13];
    memcpy(&metadata->flags, raw + 14, 2);
    memcpy(&metadata->bytes, raw + 16, 4);
}

static void pack(const struct sl_cipd_metadata *metadata, unsigned char raw[METADATA])
{
    memcpy(raw, &metadata->width, 4);
    memcpy(raw + 4, &metadata->height, 4);
    memcpy(raw + 8, &metadata->components, 4);
    raw[12] = metadata->kind;
    raw[13] = metadata->bits;
    memcpy(raw + 14, &metadata->flags, 2);
    memcpy(raw + 16, &metadata->bytes, 4);
}

bool sl_cipd_metadata_stands(const unsigned char *at, const struct sl_cipd_layout *layout,
                             const struct sl_cipd_metadata *metadata)
{
    unsigned char raw[METADATA];
    pack(metadata, raw);
    return stands(at, layout->metadata, raw, METADATA);
}

void sl_cipd_store_metadata(unsigned char *at, const struct sl_cipd_layout *layout,
                            const struct sl_cipd_metadata *metadata)
{
    unsigned char raw[METADATA];
    pack(metadata, raw);
    store_bytes(at, layout->metadata, raw, sizeof(raw));
}

double sl_cipd_load_time(const unsigned char *at, const struct sl_cipd_layout *layout)
{
    uint64_t raw = sl_load_wide(at + layout->time);
    double seconds;
    memcpy(&seconds, &raw, sizeof(seconds));
    return seconds;
}

void sl_cipd_store_time(unsigned char *at, const struct sl_cipd_layout *layout, double seconds)
{
    uint64_t raw;
    memcpy(&raw, &seconds, sizeof(raw));
    sl_store_wide(at + layout->time, raw);
}

/* ---- the index ---- */

uint32_t sl_cipd_index_slot(uint32_t index, uint32_t slots)
{
    return (index - 1) % slots;
}

uint32_t sl_cipd_index_next_slot(uint32_t index, uint32_t slots)
{
    return index % slots;
}

uint32_t sl_cipd_index_next(uint32_t index, uint32_t slots)
{
    return index == UINT32_MAX ? index % slots + 1 : index + 1;
}

uint32_t sl_cipd_index_distance(uint32_t from, uint32_t to, uint32_t slots)
{
    uint32_t again = UINT32_MAX % slots + 1; /* the index after UINT32_MAX */
    if (to >= from || to < again)
        return to - from;
    return UINT32_MAX - from + 1 + (to - again);
}

bool sl_cipd_index_left(uint32_t index, uint32_t come, bool begun, uint32_t slots)
{
    /* ^ With a single slot a reader cannot know that the next frame is being written until it is
     * published. */
    uint32_t most = begun ? slots : slots > 1 ? slots - 1 : 1;
    return sl_cipd_index_distance(index, come, slots) < most;
}
