/* SPDX-License-Identifier: MIT
 *
 * Channels on the fake GPU.
 */
#ifndef GSTREAMER_GPU_KIT_H
#define GSTREAMER_GPU_KIT_H

#include "gstreamer/kit.h"

/* All processes of the test have the fake GPU from now on. Its work takes a while, so that what does not wait for it is
 * noticed. */
void use_fake_gpu(void);

/* The same; skips the test if the plug-in takes no frames on a GPU. */
void need_gpu(void);

/* As image_writer, image_commit, and the hash of a reader's next frame. */
sluice_writer *gpu_writer(const char *channel, uint32_t pixel_format, uint32_t width, uint32_t height,
                          uint32_t pitch_align);
uint64_t gpu_commit(sluice_writer *writer, uint32_t number);
uint64_t gpu_take(sluice_reader *reader);

#endif
