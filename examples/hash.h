/* SPDX-License-Identifier: MIT
 *
 * How the filters check frames: the hash that `sluice play --hash` puts into the metadata.
 */
#ifndef EXAMPLES_HASH_H
#define EXAMPLES_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint64_t step(uint64_t lane, uint64_t word)
{
    lane = (lane ^ word) * UINT64_C(0x9E3779B97F4A7C15);
    return lane << 29 | lane >> 35;
}

/* The 64-bit hash of docs/recording.md. */
static inline uint64_t hash_of(const void *data, size_t size)
{
    uint64_t lane[4], word[4], hash = size;
    for (uint64_t i = 0; i < 4; i++)
        lane[i] = UINT64_C(0x9E3779B97F4A7C15) * (i + 1);
    for (size_t at = 0; at < size; at += 32) {
        memset(word, 0, sizeof word);
        memcpy(word, (const uint8_t *)data + at, size - at < 32 ? size - at : 32);
        for (int i = 0; i < 4; i++)
            lane[i] = step(lane[i], word[i]);
    }
    for (int i = 0; i < 4; i++) {
        hash = (hash ^ lane[i]) * UINT64_C(0x9E3779B97F4A7C15);
        hash ^= hash >> 32;
    }
    return hash;
}

/* The value after "key": in the metadata, which is JSON made by `sluice play`. */
static inline const char *find_key(const char *meta, const char *key)
{
    const char *at = strstr(meta, key);
    return at ? at + strlen(key) : NULL;
}

#endif
