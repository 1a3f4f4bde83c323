/* SPDX-License-Identifier: MIT
 *
 * Converts one picture into another in one pass: crop, size, flip, pixel format, colour, and image to tensor and back.
 *
 *     struct sluice_convert how = SLUICE_CONVERT_INIT;
 *     how.fit = SLUICE_FIT_INSIDE;
 *     sluice_convert(stream, &tensor, &frame_array, &how, &area);
 *
 * docs/convert.md shows what each setting does.
 */
#ifndef SLUICE_CONVERT_H
#define SLUICE_CONVERT_H

#include <sluice/base.h>
#include <sluice/device.h>
#include <sluice/format.h>

#ifdef __cplusplus
extern "C" {
#endif

enum sluice_fit {
    SLUICE_FIT_STRETCH = 0, /* fills the target; the proportions may change */
    SLUICE_FIT_INSIDE = 1,  /* all of the picture, with a border ("letterbox") */
    SLUICE_FIT_COVER = 2,   /* fills the target; what is too much at the sides is cut off */
};

/* How pixels are resized. Pixels have their centres at +0.5. */
enum sluice_filter {
    SLUICE_FILTER_SMOOTH = 0, /* a triangle that grows as the picture shrinks: torch's antialias=True, PIL's BILINEAR */
    SLUICE_FILTER_LINEAR = 1, /* between four pixels: OpenCV's INTER_LINEAR */
    SLUICE_FILTER_NEAREST = 2, /* the nearest pixel: torch's "nearest-exact" */
};

enum sluice_flip { SLUICE_FLIP_HORIZONTAL = 1, SLUICE_FLIP_VERTICAL = 2 }; /* bits; both: a half turn */

/* Where the chroma of formats that share it among pixels lies. */
enum sluice_chroma {
    SLUICE_CHROMA_LEFT = 0,     /* H.264, HEVC */
    SLUICE_CHROMA_CENTRE = 1,   /* JPEG */
    SLUICE_CHROMA_TOP_LEFT = 2, /* BT.2020 */
    SLUICE_CHROMA_REPEAT = 3,   /* all pixels that share it have the same, as OpenCV and libyuv do it */
};

/* The order of a tensor's dimensions, where its shape does not tell. In four dimensions the first is 1. */
enum sluice_layout {
    SLUICE_LAYOUT_ANY = 0, /* the channels must be where the shape has 1, 3 or 4 */
    SLUICE_LAYOUT_CHW = 1, /* channels, rows, columns */
    SLUICE_LAYOUT_HWC = 2,
};

enum sluice_order { SLUICE_ORDER_RGB = 0, SLUICE_ORDER_BGR = 1 }; /* of a tensor's channels; a fourth one is alpha */

struct sluice_crop {
    uint32_t x, y, width, height; /* pixels of `from`, x and y from its top left; width and height 0: all of it */
};

struct sluice_convert {
    uint32_t size;
    uint32_t fit;    /* enum sluice_fit */
    uint32_t filter; /* enum sluice_filter */
    uint32_t flip;   /* of enum sluice_flip, after the crop */
    uint32_t chroma; /* enum sluice_chroma, of `to` and `from` */
    uint32_t layout; /* enum sluice_layout, of tensors */
    uint32_t order;  /* enum sluice_order, of tensors */
    uint32_t reserved;
    struct sluice_crop crop;
    float border[4]; /* R G B A, 0 to 1 */
    /* An element of a float tensor is component * scale + bias, for each channel R G B A (gray: the first), with
     * components 0 to 1. They are those of `to`; of `from` if `to` is no float tensor. All scales 0: 1. */
    float scale[4], bias[4];
};

/* Sets everything to its default: struct sluice_convert how = SLUICE_CONVERT_INIT; The border is black. */
#ifdef __cplusplus
} /* extern "C" */
static inline struct sluice_convert sluice_convert_init(void)
{
    struct sluice_convert how {
    };
    how.size = static_cast<uint32_t>(sizeof how);
    how.border[3] = 1;
    return how;
}
#define SLUICE_CONVERT_INIT sluice_convert_init()
extern "C" {
#else
#define SLUICE_CONVERT_INIT \
    { \
        .size = (uint32_t)sizeof(struct sluice_convert), .border = { 0, 0, 0, 1 } \
    }
#endif

/* Where the picture lies in the target, and the way back: the point x, y of the target (0.5, 0.5 is the middle of its
 * first pixel) shows the point from_x + x * per_x, from_y + y * per_y of the source. A picture that covers the target
 * begins before it. */
struct sluice_area {
    double x, y, width, height; /* pixels of the target */
    double from_x, from_y, per_x, per_y;
};

/* Queues the conversion of `from` to `to` on a stream of their device; on "host" it is done when the call returns. Each
 * is an image, or a tensor of 1, 3 or 4 channels of uint8, float16 or float32. On a stream that captures it becomes a
 * node of the graph. It does not count as a use of a frame: sluice_frame_used_on does. SLUICE_CHECK=streams sees
 * it as a launch that reads `from` and writes `to`.
 *
 * What an image does not name is: matrix BT.709 from 720 rows on, else BT.601; the limited range for YUV, else the full
 * one. Numbers are stored rounded and clamped to what the format holds; floats are not clamped. Filters work on the
 * stored values, with alpha applied where both sides have it; a target without alpha gets the colours as if it were
 * opaque. If both name straight and premultiplied alpha, one is converted to the other. Gray is the luma of the matrix
 * that the target names, else of the source's.
 * `how` may be NULL: the defaults. `area` may be NULL.
 * Thread: any, also while another one captures. Blocks: on "host", until it is done; on a GPU its first call loads the
 * code.
 * Returns: 0; SLUICE_E_UNSUPPORTED for Bayer patterns, a matrix other than H.273's 1, 4, 5, 6, 7, 9 and RGB, transfers
 * or primaries that both name and that differ, and other element types: the message says which library does it;
 * SLUICE_E_FORMAT for a shape that is no picture, or that may be CHW and HWC; SLUICE_E_INVALID for a crop outside, a
 * read-only target, memory that overlaps or that the GPU cannot reach, and settings that do not exist;
 * SLUICE_E_WRONG_DEVICE, SLUICE_E_CAPTURING, SLUICE_E_DRIVER; SLUICE_E_ORDER under SLUICE_CHECK=streams. */
SLUICE_API int sluice_convert(struct sluice_stream stream, const struct sluice_array *to,
                              const struct sluice_array *from, const struct sluice_convert *how,
                              struct sluice_area *area);

#ifdef __cplusplus
}
#endif
#endif
