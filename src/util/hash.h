/* SPDX-License-Identifier: MIT
 *
 * A hash of bytes, to find or compare what is not secret. It takes words, not bytes, so that a large binary does not
 * take long.
 */
#ifndef SL_UTIL_HASH_H
#define SL_UTIL_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint64_t sl_hash(uint64_t seed, const void *bytes, size_t size)
{
    const char *at = bytes;

    for (; size >= sizeof seed; at += sizeof seed, size -= sizeof seed) {
        uint64_t word;
        memcpy(&word, at, sizeof word);
        seed = (seed ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        seed ^= seed >> 32;
    }
    for (; size > 0; at++, size--)
        seed = (seed ^ (unsigned char)*at) * UINT64_C(0x100000001b3);
    return seed;
}

#endif
