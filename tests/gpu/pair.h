/* SPDX-License-Identifier: MIT
 *
 * What tests of several GPUs share: channel "cam" on "cuda:0", and a reader of the same process on "cuda:1".
 */
#ifndef GPU_PAIR_H
#define GPU_PAIR_H

#include "gpu/channel.h"

/* "GPU-...", as CUDA_VISIBLE_DEVICES takes it. */
const char *gpu_uuid(int device, char text[48]);

struct pair {
    struct channel_fixture fixture; /* of "cuda:0" */
    struct sluice_device device;
    struct sluice_stream stream;
    sluice_reader *reader;
};

/* Skips the test without them. */
void pair_need_peers(void);

/* Needs peers. */
struct pair pair_open(uint32_t hold, uint32_t staged, uint32_t ahead);
void pair_close(struct pair *pair);

/* For tests that need two GPUs of the fake driver. */
void pair_need_fake(void);

/* On the pair's streams. */
void pair_commit(struct pair *pair, int64_t ns, uint32_t value);
void pair_take(struct pair *pair, struct sluice_frame *frame);
void pair_check(struct pair *pair, const struct sluice_frame *frame, uint32_t value);
void pair_give_back(struct pair *pair, struct sluice_frame *frame);

/* The channel's one reader, as observers see it. */
struct sluice_reader_info pair_info(void);

/* Its path must be "how GPU-" followed by the beginning of GPU 1's UUID. */
void pair_check_path(const char *how);

#endif
