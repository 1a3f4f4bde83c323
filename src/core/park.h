/* SPDX-License-Identifier: MIT
 *
 * Streams of this process that wait on their GPU for frames that are not ready (a reader's option `ahead`).
 * Each such stream may hold up unrelated ones, so there are few at once, and each has a deadline: then, or
 * when the writer is gone, the service thread lets it run, and the frame is lost (protocol 3.2, third form:
 * the word is the reader's own, and who decides is a note that no GPU writes).
 */
#ifndef SL_CORE_PARK_H
#define SL_CORE_PARK_H

#include "core/reader.h"

/* Streams that wait, and lost frames that nobody was told of: for a quick look without the service lock. */
extern sl_word32 sl_park_used;

/* Before the wait is queued, on a stream that the caller holds; reader->now is the time. False if there is no room,
 * which lost frames of many readers take up until these are told: then the CPU waits. */
bool sl_park_begin(struct sluice_reader *reader, uint32_t slot, uint64_t sequence, const struct sl_stream *stream);

/* It was not queued after all. */
void sl_park_cancel(const struct sluice_reader *reader, uint32_t slot, uint64_t sequence);

/* Was this frame lost while a stream waited for it? Says so once. */
bool sl_park_was_lost(const struct sl_session *session, uint32_t slot, uint64_t sequence);

/* SLUICE_E_LOST with the sequences if frames were lost that nobody was told of; else 0. Where they are many, it says of some only
 * how many they are. */
int sl_park_tell_lost(struct sluice_reader *reader);
static inline int sl_park_tell(struct sluice_reader *reader)
{
    return sl_load(&reader->untold, relaxed) == 0 ? 0 : sl_park_tell_lost(reader);
}

/* Waits until no frame is waited for on this stream, nor on one that it comes behind by a wait that went through us
 * or by the rule for the default stream: what is published behind it must be whole (protocol 3.5). Waits that others
 * have queued we cannot know of. SLUICE_E_LOST if one was lost, until its reader has been told. */
int sl_park_check_all(struct sluice_stream stream);
static inline int sl_park_check(struct sluice_stream stream)
{
    return sl_load(&sl_park_used, relaxed) == 0 ? 0 : sl_park_check_all(stream);
}

/* The reader closes: waits until no stream waits for a frame of its, 2 s at most; from there on they are let go, and the frames
 * lost. Who unregistered their words before would wait for the streams, and nobody be left to let them go (protocol 3.6). With
 * no lock held. */
void sl_park_drain(struct sluice_reader *reader);

/* The session ends. Under the service lock. */
void sl_park_forget(const struct sl_session *session);

#endif
