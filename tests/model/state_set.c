/* SPDX-License-Identifier: MIT
 *
 * The known states, as 64 bits of a hash each.
 */
#include "model/state_set.h"

#include <stdlib.h>
#include <string.h>

#include "harness/test.h"

static uint64_t *seen;
static size_t seen_room, seen_count;

#define LANES 4 /* processed by the CPU at once */

static uint64_t stir(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * UINT64_C(0x9FB21C651E98DF25);
    return hash ^ hash >> 29;
}

uint64_t state_hash(uint64_t hash, const void *data, size_t size)
{
    uint64_t lanes[LANES] = { hash, hash + 1, hash + 2, hash + 3 }, words[LANES];
    const char *bytes = data;

    for (; size >= sizeof words; size -= sizeof words, bytes += sizeof words) {
        memcpy(words, bytes, sizeof words);
        for (int i = 0; i < LANES; i++)
            lanes[i] = stir(lanes[i], words[i]);
    }
    memset(words, 0, sizeof words);
    memcpy(words, bytes, size);
    for (int i = 0; i < LANES; i++)
        hash = stir(hash, stir(lanes[i], words[i]));
    return hash;
}

static bool put(uint64_t *table, size_t room, uint64_t hash)
{
    size_t at = hash & (room - 1);
    while (table[at] && table[at] != hash)
        at = (at + 1) & (room - 1);
    if (table[at])
        return false;
    table[at] = hash;
    return true;
}

bool state_set_add(uint64_t hash)
{
    if ((seen_count + 1) * 3 > seen_room * 2) {
        size_t room = seen_room ? seen_room * 2 : 1 << 16;
        uint64_t *table = calloc(room, sizeof *table);
        if (!table)
            FAIL("no memory for %zu states", room);
        for (size_t i = 0; i < seen_room; i++)
            if (seen[i])
                put(table, room, seen[i]);
        free(seen);
        seen = table;
        seen_room = room;
    }
    bool fresh = put(seen, seen_room, hash);
    seen_count += fresh;
    return fresh;
}

void state_set_clear(void)
{
    free(seen);
    seen = NULL;
    seen_room = seen_count = 0;
}
