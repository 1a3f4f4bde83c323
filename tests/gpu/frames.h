/* SPDX-License-Identifier: MIT
 *
 * Channels on a GPU for tests beside captures: of any name, with slots that are counted, and with checks
 * that wait for nothing.
 */
#ifndef GPU_FRAMES_H
#define GPU_FRAMES_H

#include "gpu/channel.h"

/* With so many slots and no more, in which frames of so many words fit. */
sluice_writer *frames_writer(const char *name, int64_t words, uint32_t slots);
sluice_reader *frames_reader(const char *name, uint32_t hold);

/* So many words at an address of the program's, to send from or fetch into. */
struct sluice_array frames_array(uintptr_t at, int64_t words);

/* What gpu_compare has added up at `bad`, when the stream's work is done. Harms no capture, unless the
 * stream is shut. */
uint32_t frames_read(struct sl_cu_stream *stream, uint64_t bad);

/* Launches each kernel once, so that none is loaded in a capture. */
void frames_warm_up(struct sl_cu_stream *stream);

#endif
