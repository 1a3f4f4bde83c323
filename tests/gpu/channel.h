/* SPDX-License-Identifier: MIT
 *
 * What tests of GPU channels share: channel "cam" on "cuda:0" with frames of one array of 32-bit words.
 */
#ifndef GPU_CHANNEL_H
#define GPU_CHANNEL_H

#include <sluice/sluice.h>

#include "gpu/kit.h"

#define CHANNEL_WORDS (256 * 1024)

struct sluice_format channel_format(int64_t words);
struct sluice_writer_params channel_writer_params(void); /* without a format */
struct sluice_reader_params channel_reader_params(uint32_t hold);
sluice_writer *channel_writer(void);
sluice_writer *channel_writer_of(uint32_t slots); /* that never grows */
sluice_reader *channel_reader(uint32_t hold);
sluice_reader *channel_reader_ahead(uint32_t hold, int64_t ahead_ns);

/* Where the words of a frame are. */
uint64_t channel_words(const struct sluice_frame *frame);

/* begin; behind a kernel that takes `ns`, fill with `value`; commit behind that. */
void channel_commit(sluice_writer *writer, struct sluice_stream stream, int64_t ns, uint32_t value);

/* The same without a kernel that takes time: the frame is ready when the gate is opened. */
void channel_commit_behind(struct gpu_gate *gate, sluice_writer *writer, struct sluice_stream stream, uint32_t value);

/* Frames that their writer's GPU never finished, as the reader counts them. */
uint64_t channel_lost(sluice_reader *reader);

/* Can a reader's descriptor be read, by then? */
bool channel_readable(int fd, int timeout_ms);

/* How many slots can be begun now. */
int channel_free_slots(sluice_writer *writer);

/* Does the whole frame say `value`, to a kernel on this stream? Waits for it. */
void channel_check(const struct sluice_frame *frame, struct sluice_stream stream, uint32_t value);

/* A writer and two streams of one process, on a GPU that is awake. */
struct scene {
    struct sluice_device device;
    struct sluice_stream writing, reading;
    sluice_writer *writer;
};
struct scene channel_scene(void);
void channel_end(struct scene *scene);

/* The writer's begin takes note of who waits ahead: from here on its frames are for them too. */
void channel_greet(struct scene *scene, sluice_reader *reader);

#endif
