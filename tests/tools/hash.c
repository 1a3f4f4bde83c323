/* SPDX-License-Identifier: MIT
 *
 * tools/common/hash.c: the examples of docs/recording.md, in parts or at once; any change alters the hash.
 */
#include "harness/test.h"

#include "tools/common/hash.h"

/* The definition, taken literally. */
static uint64_t by_the_book(const uint8_t *data, size_t size)
{
    const uint64_t factor = UINT64_C(0x9E3779B97F4A7C15);
    uint64_t lane[4] = { factor, factor * 2, factor * 3, factor * 4 };
    for (size_t word = 0; word < (size + 31) / 32 * 4; word++) {
        uint64_t value = 0;
        for (size_t i = 0; i < 8; i++)
            if (word * 8 + i < size)
                value += (uint64_t)data[word * 8 + i] << (8 * i);
        uint64_t x = (lane[word % 4] ^ value) * factor;
        lane[word % 4] = x << 29 | x >> 35;
    }
    uint64_t hash = size;
    for (int i = 0; i < 4; i++) {
        hash = (hash ^ lane[i]) * factor;
        hash ^= hash >> 32;
    }
    return hash;
}

TEST(hash_is_as_defined)
{
    uint8_t data[200];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(i * 37 + 11);
    for (size_t size = 0; size <= sizeof data; size++)
        CHECK(hash_of(data, size) == by_the_book(data, size));
}

TEST(hash_in_pieces_is_the_same)
{
    uint8_t data[1000];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(i * i);
    struct hash hash;
    hash_begin(&hash);
    hash_add(&hash, data, 320);
    hash_add(&hash, data + 320, 32);
    hash_add(&hash, data + 352, sizeof data - 352);
    CHECK(hash_end(&hash) == hash_of(data, sizeof data));
}

TEST(hash_sees_each_bit_and_each_length)
{
    uint8_t data[96] = { 0 };
    uint64_t whole = hash_of(data, sizeof data);
    for (size_t bit = 0; bit < sizeof data * 8; bit++) {
        data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        CHECK(hash_of(data, sizeof data) != whole);
        data[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    CHECK(hash_of(data, 95) != whole);
    CHECK(hash_of(data, 0) != hash_of(data, 1));
}
