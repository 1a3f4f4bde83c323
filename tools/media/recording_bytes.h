/* SPDX-License-Identifier: MIT
 *
 * Sizes in a recording, and little-endian numbers; shared by writer and reader.
 */
#ifndef TOOLS_RECORDING_BYTES_H
#define TOOLS_RECORDING_BYTES_H

#include <stdint.h>

#include <sluice/sluice.h>

enum {
    FILE_HEAD = 112,  /* magic 8, version 4, size 4, realtime 8, monotonic 8, channel 72, hash 8 */
    BLOCK_HEAD = 32,  /* type 4, head bytes 4, data bytes 8, hash of the head 8, hash of these 8 */
    FORMAT_HEAD = 16, /* arrays 4, pitch alignment 4, slot bytes 8; array records */
    FRAME_HEAD = 64,  /* see docs/recording.md; metadata; array records */
    END_HEAD = 24,    /* frames 8, missed 8, realtime 8 */
    ARRAY_RECORD = 280,
    CHANNEL_BYTES = 72,
    HEAD_MAX = FRAME_HEAD + SLUICE_MAX_META + SLUICE_MAX_ARRAYS * ARRAY_RECORD,
};

static inline uint8_t *put_number(uint8_t *to, uint64_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++)
        to[i] = (uint8_t)(value >> (8 * i));
    return to + bytes;
}

static inline uint64_t get_number(const uint8_t **from, unsigned bytes)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < bytes; i++)
        value |= (uint64_t)(*from)[i] << (8 * i);
    *from += bytes;
    return value;
}

#endif
