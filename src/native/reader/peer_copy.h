/* SPDX-License-Identifier: MIT
 *
 * How frames reach a reader's device: mapped where they are, or copied to a GPU that cannot access them.
 */
#ifndef SL_NATIVE_READER_PEER_COPY_H
#define SL_NATIVE_READER_PEER_COPY_H

#include "native/reader/held.h"

/* Decides how frames get to this reader's device, by the session's `owner` and `device`, and the reader's option
 * `staged`. */
int sl_peer_copy_choose(const struct sl_reader *reader, struct sl_session *session);

/* Makes words for copies of as many frames as the reader may hold; none if frames are not copied. Once the device is
 * attached. */
int sl_peer_copy_open(const struct sl_reader *reader, struct sl_session *session);
void sl_peer_copy_close(struct sl_session *session);

/* Frees the copy buffers: at the reader's end, after its sessions. */
void sl_peer_copy_free_buffers(struct sl_reader *reader);

/* Copies the frame of an entry, and makes the entry one of the copy. SLUICE_E_LOST if that takes too long: then
 * the entry is SL_HELD_QUEUED until the copy ends. The lease is still the caller's to end. */
int sl_peer_copy_frame(struct sl_reader *reader, struct sl_held *entry);

/* Is a copy still under way that was not waited for to the end? */
bool sl_peer_copy_is_busy(const struct sl_reader *reader, const struct sl_held *entry);

/* The memory of a held copy, kept until sl_mem_drop. */
struct sl_mem_shared *sl_peer_copy_pin(const struct sl_reader *reader, const struct sl_held *entry);

#endif
