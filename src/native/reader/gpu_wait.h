/* SPDX-License-Identifier: MIT
 *
 * Streams of this process that wait on their GPU for frames that are not ready (a reader's option `ahead`). A waiting
 * stream may block unrelated ones, so only a few wait at once, and each has a deadline: then, or when the writer is
 * gone, the service thread lets it continue, and the frame is lost (protocol 3.2, third form: the word is the reader's
 * own, and whether a frame is lost is decided by a note that no GPU writes).
 */
#ifndef SL_NATIVE_READER_GPU_WAIT_H
#define SL_NATIVE_READER_GPU_WAIT_H

#include "native/reader/reader.h"

/* Before the wait is queued, on a stream that the caller holds; reader->now is the time. False if there is no room, as
 * lost frames of many readers take up room until they are reported: then the CPU waits. */
bool sl_gpu_wait_begin(struct sl_reader *reader, uint32_t slot, uint64_t sequence, const struct sl_stream *stream);

/* It was not queued after all. */
void sl_gpu_wait_cancel(const struct sl_reader *reader, uint32_t slot, uint64_t sequence);

/* Was this frame lost while a stream waited for it? True only once. */
bool sl_gpu_wait_was_lost(const struct sl_session *session, uint32_t slot, uint64_t sequence);

/* SLUICE_E_LOST if frames were lost that were not reported yet, with their sequences, or if they are many with the
 * number of some; else 0. */
int sl_gpu_wait_report_all(struct sl_reader *reader);
static inline int sl_gpu_wait_report(struct sl_reader *reader)
{
    return sl_load(&reader->unreported, relaxed) == 0 ? 0 : sl_gpu_wait_report_all(reader);
}

/* The reader closes: waits until no stream waits for one of its frames, 2 s at most; then lets the streams continue,
 * and the frames are lost. This must come before their words are unregistered: that waits for the streams, and would
 * leave nobody to let them continue (protocol 3.6). With no lock held. */
void sl_gpu_wait_drain(struct sl_reader *reader);

/* The session ends. Under the service lock. */
void sl_gpu_wait_forget(const struct sl_session *session);

#endif
