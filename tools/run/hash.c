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

static uint64_t hash_of_frame(const struct sluice_frame *frame)
{
    struct sluice_array array;
    return sluice_frame_array(frame, NULL, &array) == SLUICE_OK ? hash_of(array.data, array.nbytes) : 0;
}

void run_hash_input(struct run_worker *worker)
{
    if (worker->run->hash && worker->run->from_count)
        worker->input_hash = hash_of_frame(&worker->inputs[0].frame);
}

static uint64_t meta_number(const char *meta, const char *key, int base, uint64_t without)
{
    const char *at = strstr(meta, key);
    return at ? strtoull(at + strlen(key), NULL, base) : without;
}

void run_hash_output(struct run_worker *worker, const struct sluice_array *out, struct sluice_frame *frame)
{
    const struct run_input *input = &worker->inputs[0];
    struct sluice_reader_stats stats = { .size = sizeof stats };
    char meta[SLUICE_MAX_META + 1] = "";
    if (!worker->run->hash)
        return;
    if (input->held) {
        uint64_t hash = hash_of_frame(&input->frame);
        memcpy(meta, input->frame.meta, input->frame.meta_size);
        worker->torn += hash != worker->input_hash || meta_number(meta, "\"hash\":\"", 16, hash) != hash;
        (void)sluice_reader_stats(input->reader, &stats);
    }
    frame->meta_size = (uint32_t)snprintf(frame->meta, SLUICE_MAX_META,
                                          "{\"index\":%" PRIu64 ",\"hash\":\"%016" PRIx64 "\",\"torn\":%" PRIu64
                                          ",\"latency_ns\":%" PRIu64 "}",
                                          meta_number(meta, "\"index\":", 10, worker->frames),
                                          hash_of(out->data, out->nbytes), worker->torn, stats.latency_ns);
}
