/* SPDX-License-Identifier: MIT
 *
 * Channels on a GPU for tests beside captures: with any name, with a fixed number of slots, and with checks that do not
 * wait.
 */
#ifndef GPU_FRAMES_H
#define GPU_FRAMES_H

#include "gpu/channel.h"

/* With exactly `slots` slots, each for a frame of `words` words. */
sluice_writer *frames_writer(const char *name, int64_t words, uint32_t slots);
sluice_reader *frames_reader(const char *name, uint32_t hold);

/* An array of `words` words at an address of the program's, to send from or fetch into. */
struct sluice_array frames_array(uintptr_t at, int64_t words);

/* The count that gpu_compare has added up at `bad`, once the stream's work is done. Breaks no capture, unless the
 * stream is unusable. */
uint32_t frames_read(struct sl_cu_stream *stream, uint64_t bad);

/* How many frames the reader holds. Tries to acquire one on `stream`, which also checks its queued and deferred
 * releases. */
uint32_t frames_held(sluice_reader *reader, struct sluice_stream stream);

/* Ends a capture, whose graph must be whole and have no node of the library's. */
void frames_end_capture(struct sl_cu_stream *stream);

/* Launches each kernel once, so that none is loaded during a capture. */
void frames_warm_up(struct sl_cu_stream *stream);

#endif
