/* SPDX-License-Identifier: MIT
 *
 * One row for each pixel format, nothing else. docs/formats.md shows the same for users;
 * tests/unit/image.c compares every row with numbers calculated by hand.
 */
#include "format/format.h"

/* clang-format off */
#define U8 { SLUICE_UINT, 8, 1 }
#define U16 { SLUICE_UINT, 16, 1 }
#define F16 { SLUICE_FLOAT, 16, 1 }
#define F32 { SLUICE_FLOAT, 32, 1 }
/* clang-format on */

/* dtype, channels, half_rows, log2_w, log2_h, plane_count, planes { bytes, log2_w, log2_h } */
const struct sl_pixel_rule sl_pixel_rules[] = {
    [SLUICE_PIXEL_RGBA] = { U8, 4, 2, 0, 0, 1, { { 4, 0, 0 } } },
    [SLUICE_PIXEL_BGRA] = { U8, 4, 2, 0, 0, 1, { { 4, 0, 0 } } },
    [SLUICE_PIXEL_RGB24] = { U8, 3, 2, 0, 0, 1, { { 3, 0, 0 } } },
    [SLUICE_PIXEL_BGR24] = { U8, 3, 2, 0, 0, 1, { { 3, 0, 0 } } },
    [SLUICE_PIXEL_GRAY8] = { U8, 0, 2, 0, 0, 1, { { 1, 0, 0 } } },
    [SLUICE_PIXEL_GRAY16] = { U16, 0, 2, 0, 0, 1, { { 2, 0, 0 } } },
    [SLUICE_PIXEL_YUYV] = { U8, 2, 2, 1, 0, 1, { { 2, 0, 0 } } },
    [SLUICE_PIXEL_UYVY] = { U8, 2, 2, 1, 0, 1, { { 2, 0, 0 } } },
    [SLUICE_PIXEL_NV12] = { U8, 0, 3, 1, 1, 2, { { 1, 0, 0 }, { 2, 1, 1 } } },
    [SLUICE_PIXEL_YUV420P] = { U8, 0, 3, 1, 1, 3, { { 1, 0, 0 }, { 1, 1, 1 }, { 1, 1, 1 } } },
    [SLUICE_PIXEL_P010] = { U16, 0, 3, 1, 1, 2, { { 2, 0, 0 }, { 4, 1, 1 } } },
    [SLUICE_PIXEL_BAYER_RGGB8] = { U8, 0, 2, 0, 0, 1, { { 1, 0, 0 } } },
    [SLUICE_PIXEL_BAYER_BGGR8] = { U8, 0, 2, 0, 0, 1, { { 1, 0, 0 } } },
    [SLUICE_PIXEL_BAYER_GRBG8] = { U8, 0, 2, 0, 0, 1, { { 1, 0, 0 } } },
    [SLUICE_PIXEL_BAYER_GBRG8] = { U8, 0, 2, 0, 0, 1, { { 1, 0, 0 } } },
    [SLUICE_PIXEL_BAYER_RGGB16] = { U16, 0, 2, 0, 0, 1, { { 2, 0, 0 } } },
    [SLUICE_PIXEL_BAYER_BGGR16] = { U16, 0, 2, 0, 0, 1, { { 2, 0, 0 } } },
    [SLUICE_PIXEL_BAYER_GRBG16] = { U16, 0, 2, 0, 0, 1, { { 2, 0, 0 } } },
    [SLUICE_PIXEL_BAYER_GBRG16] = { U16, 0, 2, 0, 0, 1, { { 2, 0, 0 } } },
    [SLUICE_PIXEL_RGBA_F16] = { F16, 4, 2, 0, 0, 1, { { 8, 0, 0 } } },
    [SLUICE_PIXEL_RGBA_F32] = { F32, 4, 2, 0, 0, 1, { { 16, 0, 0 } } },
    [SLUICE_PIXEL_YUV444P] = { U8, 0, 6, 0, 0, 3, { { 1, 0, 0 }, { 1, 0, 0 }, { 1, 0, 0 } } },
    [SLUICE_PIXEL_GRAY_F32] = { F32, 0, 2, 0, 0, 1, { { 4, 0, 0 } } },
    [SLUICE_PIXEL_YUV422P] = { U8, 0, 4, 1, 0, 3, { { 1, 0, 0 }, { 1, 1, 0 }, { 1, 1, 0 } } },
    [SLUICE_PIXEL_YUV422P10] = { U16, 0, 4, 1, 0, 3, { { 2, 0, 0 }, { 2, 1, 0 }, { 2, 1, 0 } } },
    [SLUICE_PIXEL_RGBA64] = { U16, 4, 2, 0, 0, 1, { { 8, 0, 0 } } },
};
