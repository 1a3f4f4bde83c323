/* SPDX-License-Identifier: MIT
 *
 * Conversions on host: what they need, refuse and record. Their numbers are compared with the definition in
 * python/tests/test_convert.py.
 */
#include <string.h>

#include <sluice/sluice.h>

#include "harness/test.h"

struct fixture {
    struct sluice_device device;
    struct sluice_stream stream;
    struct sluice_array from, to;
    unsigned char bytes[6 * 8 * 3];
    float numbers[3 * 4 * 5];
};

static void begin(struct fixture *f)
{
    const int64_t image[] = { 6, 8, 3 }, tensor[] = { 3, 4, 5 };

    memset(f, 0, sizeof *f);
    CHECK_OK(sluice_device_open(&f->device, "host"));
    CHECK_OK(sluice_stream_create(f->device, NULL, &f->stream));
    CHECK_OK(
        sluice_array_wrap(&f->from, "image", f->bytes, (struct sluice_dtype){ SLUICE_UINT, 8, 1 }, 3, image, NULL));
    CHECK_OK(
        sluice_array_wrap(&f->to, "tensor", f->numbers, (struct sluice_dtype){ SLUICE_FLOAT, 32, 1 }, 3, tensor, NULL));
    memset(f->bytes, 255, sizeof f->bytes);
}

static void end(struct fixture *f)
{
    CHECK_OK(sluice_device_close(&f->device));
}

TEST(an_image_becomes_a_tensor)
{
    struct sluice_convert how = SLUICE_CONVERT_INIT;
    struct sluice_area area;
    struct fixture f;

    begin(&f);
    for (int c = 0; c < 3; c++) {
        how.scale[c] = 2;
        how.bias[c] = -1;
    }
    how.fit = SLUICE_FIT_INSIDE;
    CHECK_OK(sluice_convert(f.stream, &f.to, &f.from, &how, &area));
    CHECK_NEAR(area.width, 5, 0);
    CHECK_NEAR(area.height, 4, 0);
    CHECK_NEAR(area.per_x, 1.6, 1e-12);
    CHECK_NEAR(f.numbers[0], 1, 1e-6);
    end(&f);
}

TEST(a_capture_records_it)
{
    struct sluice_graph graph = { 0 };
    struct fixture f;

    begin(&f);
    CHECK_OK(sluice_capture_begin(f.stream));
    CHECK_OK(sluice_convert(f.stream, &f.to, &f.from, NULL, NULL));
    CHECK_NEAR(f.numbers[0], 0, 0);
    CHECK_OK(sluice_capture_end(f.stream, &graph));
    CHECK_OK(sluice_graph_launch(graph, f.stream));
    CHECK_NEAR(f.numbers[0], 1, 1e-6);
    memset(f.bytes, 0, sizeof f.bytes);
    CHECK_OK(sluice_graph_launch(graph, f.stream));
    CHECK_NEAR(f.numbers[0], 0, 0);
    CHECK_OK(sluice_graph_destroy(&graph));
    end(&f);
}

TEST(what_does_not_fit_is_refused)
{
    struct sluice_convert how = SLUICE_CONVERT_INIT;
    struct fixture f;

    begin(&f);
    CHECK_SAYS(sluice_convert(f.stream, NULL, &f.from, NULL, NULL), SLUICE_E_INVALID, "to is NULL");
    CHECK_SAYS(sluice_convert((struct sluice_stream){ 0 }, &f.to, &f.from, NULL, NULL), SLUICE_E_INVALID, "stream");
    how.fit = 7;
    CHECK_SAYS(sluice_convert(f.stream, &f.to, &f.from, &how, NULL), SLUICE_E_INVALID, "sluice_convert.fit is 7");
    how.fit = 0;
    how.crop = (struct sluice_crop){ 7, 0, 2, 1 };
    CHECK_SAYS(sluice_convert(f.stream, &f.to, &f.from, &how, NULL), SLUICE_E_INVALID, "picture of 8 x 6");
    how.size = 0;
    CHECK_SAYS(sluice_convert(f.stream, &f.to, &f.from, &how, NULL), SLUICE_E_INVALID, "size");
    CHECK_OK(sluice_convert(f.stream, &f.to, &f.to, NULL, NULL)); /* pixels stay where they are */
    f.to.read_only = 1;
    CHECK_SAYS(sluice_convert(f.stream, &f.to, &f.from, NULL, NULL), SLUICE_E_INVALID, "read-only");
    end(&f);
}
