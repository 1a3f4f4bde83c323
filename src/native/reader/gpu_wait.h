/* SPDX-License-Identifier: MIT
 *
 * Streams of this process that wait on their GPU for frames that are not ready (a reader's option `ahead`), called parked
 * here. A parked stream may block unrelated ones, so only a few are parked at once, and each has a deadline: then, or
 * when the writer is gone, the service thread lets it run, and the frame is lost (protocol 3.2, third form:
 * the word is the reader's own, and whether a frame is lost is decided by a note that no GPU writes).
 */
#ifndef SL_NATIVE_READER_GPU_WAIT_H
#define SL_NATIVE_READER_GPU_WAIT_H

#include "native/reader/reader.h"

/* Parked streams, and lost frames that were not reported yet: for a quick check without the service lock. */
extern sl_word32 sl_park_used;

/* Before the wait is queued, on a stream that the caller holds; reader->now is the time. False if there is no room, as lost
 * frames of many readers take up room until they are reported: then the CPU waits. */
bool sl_park_begin(struct sluice_reader *reader, uint32_t slot, uint64_t sequence, const struct sl_stream *stream);

/* It was not queued after all. */
void sl_park_cancel(const struct sluice_reader *reader, uint32_t slot, uint64_t sequence);

/* Was this frame lost while a stream waited for it? True only once. */
bool sl_park_was_lost(const struct sl_session *session, uint32_t slot, uint64_t sequence);

/* SLUICE_E_LOST if frames were lost that were not reported yet, with their sequences, or if they are many with the number of
 * some; else 0. */
int sl_park_tell_lost(struct sluice_reader *reader);
static inline int sl_park_tell(struct sluice_reader *reader)
{
    return sl_load(&reader->untold, relaxed) == 0 ? 0 : sl_park_tell_lost(reader);
}

/* Waits until this stream is not parked, nor any other that it is ordered behind, by a wait through Sluice
 * or by the rule for the default stream: what is published behind it must be whole (protocol 3.5). Waits that the program
 * queues by itself are not known. SLUICE_E_LOST if such a frame was lost, until that has been reported. */
int sl_park_check_all(struct sluice_stream stream);
static inline int sl_park_check(struct sluice_stream stream)
{
    return sl_load(&sl_park_used, relaxed) == 0 ? 0 : sl_park_check_all(stream);
}

/* The reader closes: waits until no stream waits for one of its frames, 2 s at most; then the streams are let go, and the frames
 * are lost. This must come before their words are unregistered: that waits for the streams, and would leave nobody to let them
 * go (protocol 3.6). With no lock held. */
void sl_park_drain(struct sluice_reader *reader);

/* The session ends. Under the service lock. */
void sl_park_forget(const struct sl_session *session);

#endif
