/* SPDX-License-Identifier: MIT
 *
 * Streams that a channel cannot use.
 */
#ifndef SL_CORE_REFUSED_H
#define SL_CORE_REFUSED_H

/* After a check of a stream, or a call with one, with its `result`, which this returns: if the stream is another device's, the
 * message names the channel, too. */
int sl_stream_refused(const char *channel, int result);

#endif
