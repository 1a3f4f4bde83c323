/* SPDX-License-Identifier: MIT
 *
 * The code of docs/formats.md.
 */
#include <stdio.h>

#include <sluice/format.h>

#include "harness/test.h"

TEST(formats_doc_format)
{
    struct sluice_format format = SLUICE_FORMAT_INIT;
    int64_t boxes[] = { 100, 4 };
    struct sluice_dtype float32 = { SLUICE_FLOAT, 32, 1 };

    if (sluice_format_add_image(&format, "view", SLUICE_PIXEL_NV12, 1920, 1080) < 0 ||
        sluice_format_add_tensor(&format, "boxes", float32, 2, boxes) < 0)
        fprintf(stderr, "%s\n", sluice_last_error());

    CHECK_EQ(format.array_count, 2);
    CHECK_EQ(format.slot_bytes, 1920 * 1080 * 3 / 2 + 2048); /* 3,110,400 is a multiple of 512 */
}

TEST(formats_doc_own_memory)
{
    static uint8_t pixels[480 * 640 * 3], flipped[480 * 640 * 3];
    struct sluice_dtype uint8 = { SLUICE_UINT, 8, 1 };
    int64_t shape[] = { 480, 640, 3 }, backwards[] = { -640 * 3, 3, -1 };
    struct sluice_array from, to;

    for (size_t i = 0; i < sizeof pixels; i++)
        pixels[i] = (uint8_t)(i % 251);

    sluice_array_wrap(&from, NULL, pixels + sizeof pixels - 640 * 3 + 2, uint8, 3, shape, backwards);
    sluice_array_wrap(&to, NULL, flipped, uint8, 3, shape, NULL);
    if (sluice_array_copy(&to, &from) < 0)
        fprintf(stderr, "%s\n", sluice_last_error());

    for (size_t row = 0; row < 480; row++) {
        for (size_t i = 0; i < 640 * 3; i += 3) {
            const uint8_t *rgb = &pixels[(479 - row) * 640 * 3 + i], *bgr = &flipped[row * 640 * 3 + i];
            CHECK(bgr[0] == rgb[2] && bgr[1] == rgb[1] && bgr[2] == rgb[0]);
        }
    }
}
