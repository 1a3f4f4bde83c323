/* SPDX-License-Identifier: MIT
 *
 * The 64-bit hash of recordings and of the demo, defined in docs/recording.md: fast, to detect damaged and mixed-up
 * frames. Not cryptographic.
 */
#ifndef TOOLS_HASH_H
#define TOOLS_HASH_H

#include <stddef.h>
#include <stdint.h>

struct hash {
    uint64_t lane[4];
    uint64_t bytes;
};

void hash_begin(struct hash *hash);

/* `size` must be a multiple of 32, except in the last call before hash_end. */
void hash_add(struct hash *hash, const void *data, size_t size);
uint64_t hash_end(const struct hash *hash);

uint64_t hash_of(const void *data, size_t size);

#endif
