/* SPDX-License-Identifier: MIT
 *
 * What tests of GPU channels share: channel "cam" on "cuda:0", with frames of one array of 32-bit words.
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

/* The address of a frame's words. */
uint64_t channel_words(const struct sluice_frame *frame);

/* begin; after a kernel that takes `ns`, fill with `value`; commit after that. */
void channel_commit(sluice_writer *writer, struct sluice_stream stream, int64_t ns, uint32_t value);

/* The same without such a kernel: the frame is ready when the gate opens. */
void channel_commit_behind(struct gpu_gate *gate, sluice_writer *writer, struct sluice_stream stream, uint32_t value);

/* The reader's count of frames that their writer's GPU never finished. */
uint64_t channel_lost(sluice_reader *reader);

/* True if a reader's descriptor becomes readable in time. */
bool channel_readable(int fd, int timeout_ms);

/* How many slots can be begun now. */
int channel_free_slots(sluice_writer *writer);

/* Checks by a kernel on this stream that the whole frame holds `value`. Waits for it. */
void channel_check(const struct sluice_frame *frame, struct sluice_stream stream, uint32_t value);

/* A writer and two streams in one process, on a GPU that has run kernels. */
struct channel_fixture {
    struct sluice_device device;
    struct sluice_stream writing, reading;
    sluice_writer *writer;
};
struct channel_fixture channel_fixture(void);
void channel_end(struct channel_fixture *fixture);

/* The writer's begin notices readers that wait ahead: its frames from here on signal to them too. */
void channel_greet(struct channel_fixture *fixture, sluice_reader *reader);

#endif
