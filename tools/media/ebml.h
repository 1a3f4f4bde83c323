/* SPDX-License-Identifier: MIT
 *
 * What the head of a Matroska or WebM file says of its first video track: its codec, alpha and colours.
 */
#ifndef TOOLS_EBML_H
#define TOOLS_EBML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ebml_video {
    char codec[32];                             /* such as V_VP9 */
    bool alpha;                                 /* its frames come with alpha */
    uint8_t primaries, transfer, matrix, range; /* numbers of H.273, 2: unspecified; range as in Matroska */
};

enum ebml_result { EBML_OTHER, EBML_MORE, EBML_DONE };

/* EBML_OTHER: not such a file, or it has no video. EBML_MORE: the track has not come yet. */
enum ebml_result ebml_video(const uint8_t *bytes, size_t size, struct ebml_video *video);

#endif
