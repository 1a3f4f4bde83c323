/* SPDX-License-Identifier: MIT
 *
 * Hashes of frames in their metadata, by which `sluice demo` finds torn ones. The CPU reads all pixels.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/hash.h"
#include "worker.h"

static uint64_t meta_number(const char *meta, const char *key, int base, uint64_t without)
{
    const char *at = strstr(meta, key);
    return at ? strtoull(at + strlen(key), NULL, base) : without;
}

uint32_t run_hash(struct run_worker *worker, const struct sluice_array *out, char meta[SLUICE_MAX_META])
{
    const struct run_input *input = &worker->inputs[0];
    struct sluice_reader_stats stats = { .size = sizeof stats };
    struct sluice_array in;
    char old[SLUICE_MAX_META + 1] = "";
    if (input->held && sluice_frame_array(&input->frame, NULL, &in) == SLUICE_OK) {
        uint64_t hash = hash_of(in.data, in.nbytes);
        memcpy(old, input->frame.meta, input->frame.meta_size);
        worker->torn += meta_number(old, "\"hash\":\"", 16, hash) != hash;
        (void)sluice_reader_stats(input->reader, &stats);
    }
    return (uint32_t)snprintf(meta, SLUICE_MAX_META,
                              "{\"index\":%" PRIu64 ",\"hash\":\"%016" PRIx64 "\",\"torn\":%" PRIu64
                              ",\"latency_ns\":%" PRIu64 "}",
                              meta_number(old, "\"index\":", 10, worker->frames), hash_of(out->data, out->nbytes),
                              worker->torn, stats.latency_ns);
}
