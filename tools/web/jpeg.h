/* SPDX-License-Identifier: MIT
 *
 * JPEG, by libturbojpeg.
 */
#ifndef TOOLS_WEB_JPEG_H
#define TOOLS_WEB_JPEG_H

#include <stdint.h>

#include <sluice/sluice.h>

#include "stream.h"

#define WEB_BOUNDARY "sluice"
/* What comes before the first part. */
#define WEB_PART_HEAD "--" WEB_BOUNDARY "\r\nContent-Type: image/jpeg\r\n\r\n"

/* libturbojpeg's name for the pixels of a web_picture. */
int web_jpeg_pixels(uint32_t format);

/* Initialise with zeros. */
struct web_jpeg {
    void *compressor;
    unsigned char *buffer;
    unsigned long size;
};

/* Encodes a picture as a part of a multipart stream: the JPEG, and then at once the boundary and the headers of the
 * next part, since browsers show a part when they have read those. So no header can say how long a part is. NULL if
 * that is not possible. */
struct web_part *web_jpeg_encode(struct web_jpeg *jpeg, const struct sluice_array *image, uint32_t quality);

void web_jpeg_free(struct web_jpeg *jpeg);

#endif
