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
    struct scene scene; /* of "cuda:0" */
    struct sluice_device device;
    struct sluice_stream stream;
    sluice_reader *reader;
};

/* Else the test is skipped. */
void pair_need_peers(void);

/* Needs peers. */
struct pair pair_open(uint32_t hold, uint32_t staged, uint32_t ahead);
void pair_close(struct pair *pair);

/* For tests that want two GPUs of the fake driver. */
void pair_need_fake(void);

/* On the streams that the pair has for it. */
void pair_commit(struct pair *pair, int64_t ns, uint32_t value);
void pair_take(struct pair *pair, struct sluice_frame *frame);
void pair_check(struct pair *pair, const struct sluice_frame *frame, uint32_t value);
void pair_give_back(struct pair *pair, struct sluice_frame *frame);

/* What observers see of the channel's one reader. */
struct sluice_reader_info pair_info(void);

/* Is its path "how GPU-" and the beginning of GPU 1's UUID? */
void pair_check_path(const char *how);

#endif
