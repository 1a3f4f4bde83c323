/* SPDX-License-Identifier: MIT
 *
 * Channels of words on a GPU, for tests of frames.
 */
#ifndef GPU_FRAMES_H
#define GPU_FRAMES_H

#include <sluice/sluice.h>

#include "gpu/kit.h"

/* Frames of one array of so many 32-bit words. */
struct sluice_format words_format(int64_t words);

/* A writer on cuda:0 with so many slots and no more; it drops. */
sluice_writer *words_writer(const char *name, int64_t words, uint32_t slots);
sluice_reader *words_reader(const char *name, uint32_t hold);

/* Where a frame's words are. */
uint64_t words_of(const struct sluice_frame *frame);

/* What gpu_compare has added up at `bad`, when the stream's work is done. Harms no capture, unless the stream is shut. */
uint32_t words_read(struct sl_cu_stream *stream, uint64_t bad);

/* Launches each kernel once, so that none is loaded in a capture. */
void words_warm_up(struct sl_cu_stream *stream);

#endif
