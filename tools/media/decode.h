/* SPDX-License-Identifier: MIT
 *
 * Inside decoding.
 */
#ifndef TOOLS_DECODE_H
#define TOOLS_DECODE_H

#include "ebml.h"
#include "media.h"

/* Fills in what the channel's images are, and says what they lose. Returns the colours of the source, with the rule for
 * those that it does not say. */
struct sluice_colour media_describe(struct media_decoder *decoder, const struct raw_format *raw,
                                    const struct ebml_video *said);

#endif
