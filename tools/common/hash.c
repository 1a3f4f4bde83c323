/* SPDX-License-Identifier: MIT
 *
 * Four lanes, each of every fourth 64-bit word. A change of one word always changes its lane.
 */
#include "hash.h"

#include <string.h>

#define FACTOR UINT64_C(0x9E3779B97F4A7C15)

static uint64_t rotate(uint64_t value, unsigned bits)
{
    return value << bits | value >> (64 - bits);
}

void hash_begin(struct hash *hash)
{
    for (uint64_t i = 0; i < 4; i++)
        hash->lane[i] = FACTOR * (i + 1);
    hash->bytes = 0;
}

static void stripe(uint64_t lane[4], const uint8_t bytes[32])
{
    for (size_t i = 0; i < 4; i++) {
        uint64_t word = 0;
        for (unsigned b = 0; b < 8; b++) /* little-endian; compiles to one load */
            word |= (uint64_t)bytes[8 * i + b] << (8 * b);
        lane[i] = rotate((lane[i] ^ word) * FACTOR, 29);
    }
}

void hash_add(struct hash *hash, const void *data, size_t size)
{
    const uint8_t *bytes = data;
    uint64_t lane[4];
    memcpy(lane, hash->lane, sizeof lane);
    size_t whole = size / 32 * 32;
    for (size_t at = 0; at < whole; at += 32)
        stripe(lane, bytes + at);
    if (whole < size) {
        uint8_t last[32] = { 0 };
        memcpy(last, bytes + whole, size - whole);
        stripe(lane, last);
    }
    memcpy(hash->lane, lane, sizeof lane);
    hash->bytes += size;
}

uint64_t hash_end(const struct hash *hash)
{
    uint64_t x = hash->bytes;
    for (unsigned i = 0; i < 4; i++) {
        x = (x ^ hash->lane[i]) * FACTOR;
        x ^= x >> 32;
    }
    return x;
}

uint64_t hash_of(const void *data, size_t size)
{
    struct hash hash;
    hash_begin(&hash);
    hash_add(&hash, data, size);
    return hash_end(&hash);
}
