/* SPDX-License-Identifier: MIT
 *
 * Compresses into a buffer that is reused, then copies to a part of the right size.
 */
#include "jpeg.h"

#include <string.h>

#include <turbojpeg.h>

#define SMALL 65536 /* pixels */

int web_jpeg_pixels(uint32_t format)
{
    switch (format) {
    case SLUICE_PIXEL_RGBA: return TJPF_RGBX;
    case SLUICE_PIXEL_BGRA: return TJPF_BGRX;
    case SLUICE_PIXEL_BGR24: return TJPF_BGR;
    case SLUICE_PIXEL_GRAY8: return TJPF_GRAY;
    default: return TJPF_RGB;
    }
}

static bool compress(struct web_jpeg *jpeg, const struct sluice_array *image, uint32_t quality, unsigned long *size)
{
    const struct sluice_plane *plane = &image->image.planes[0];
    int width = (int)image->image.width, height = (int)image->image.height,
        format = web_jpeg_pixels(image->image.pixel_format);
    /* Of a small picture each pixel counts. */
    int sampling = format == TJPF_GRAY ? TJSAMP_GRAY : width * height <= SMALL ? TJSAMP_444 : TJSAMP_420;
    unsigned long most = tjBufSize(width, height, sampling);
    if (!jpeg->compressor && !(jpeg->compressor = tjInitCompress()))
        return false;
    if (jpeg->size < most) {
        tjFree(jpeg->buffer);
        jpeg->buffer = tjAlloc((int)most);
        jpeg->size = jpeg->buffer ? most : 0;
    }
    int flags = TJFLAG_NOREALLOC | (image->image.row_order == SLUICE_BOTTOM_UP ? TJFLAG_BOTTOMUP : 0);
    *size = jpeg->size;
    return jpeg->buffer &&
           tjCompress2(jpeg->compressor, (const unsigned char *)image->data + plane->offset, width, (int)plane->pitch,
                       height, format, &jpeg->buffer, size, sampling, (int)quality, flags) == 0;
}

struct web_part *web_jpeg_encode(struct web_jpeg *jpeg, const struct sluice_array *image, uint32_t quality)
{
    static const char next[] = "\r\n" WEB_PART_HEAD;
    unsigned long size;
    if (!compress(jpeg, image, quality, &size))
        return NULL;
    struct web_part *part = web_part_new(size + sizeof next - 1);
    if (!part)
        return NULL;
    memcpy(part->bytes, jpeg->buffer, size);
    memcpy(part->bytes + size, next, sizeof next - 1);
    part->body_size = size;
    return part;
}

void web_jpeg_free(struct web_jpeg *jpeg)
{
    if (jpeg->compressor)
        tjDestroy(jpeg->compressor);
    tjFree(jpeg->buffer);
    *jpeg = (struct web_jpeg){ .size = 0 };
}
