/* SPDX-License-Identifier: MIT
 *
 * Converts the NV12 frames of a channel to BGRA with libyuv, from slot to slot. It ends when it has passed COUNT
 * frames.
 *
 *     libyuv_filter IN OUT COUNT
 */
#include <stdio.h>
#include <stdlib.h>

#include <libyuv.h>
#include <sluice/sluice.h>

static int fail(const char *what)
{
    fprintf(stderr, "libyuv_filter: %s: %s\n", what, sluice_last_error());
    return 1;
}

/* libyuv's ARGB is BGRA in memory. Its numbers are those of sluice_convert with SLUICE_CHROMA_REPEAT, to 2 of 255. */
static int convert(const struct sluice_array *to, const struct sluice_array *from)
{
    const struct sluice_plane *y = &from->image.planes[0], *uv = &from->image.planes[1], *bgra = &to->image.planes[0];
    const uint8_t *in = from->data;
    return NV12ToARGB(in + y->offset, (int)y->pitch, in + uv->offset, (int)uv->pitch,
                      (uint8_t *)to->data + bgra->offset, (int)bgra->pitch, (int)to->image.width,
                      (int)to->image.height);
}

static int open_writer(const char *name, const struct sluice_image *image, sluice_writer **writer)
{
    struct sluice_writer_params params = SLUICE_WRITER_PARAMS_INIT;
    struct sluice_format format = SLUICE_FORMAT_INIT;
    if (image->pixel_format != SLUICE_PIXEL_NV12) {
        fprintf(stderr, "libyuv_filter: it takes nv12, not %s\n", sluice_pixel_format_name(image->pixel_format));
        return 1;
    }
    if (sluice_format_add_image(&format, "image", SLUICE_PIXEL_BGRA, image->width, image->height))
        return fail("format");
    params.name = name;
    params.format = &format;
    return sluice_writer_open(writer, &params) ? fail(name) : 0;
}

static int pass(const char *name, sluice_writer **writer, const struct sluice_frame *frame)
{
    struct sluice_frame out;
    struct sluice_array from, to;
    if (sluice_frame_array(frame, NULL, &from))
        return fail("frame");
    if (!*writer && open_writer(name, &from.image, writer))
        return 1;
    if (sluice_writer_begin(*writer, SLUICE_DEFAULT, &out) || sluice_frame_array(&out, NULL, &to))
        return fail("begin");
    sluice_frame_inherit(&out, frame);
    if (convert(&to, &from)) {
        fprintf(stderr, "libyuv_filter: libyuv refused the frame\n");
        return 1;
    }
    return sluice_writer_commit(*writer, &out, SLUICE_ON_CPU) ? fail("commit") : 0;
}

int main(int argc, char **argv)
{
    struct sluice_reader_params params = SLUICE_READER_PARAMS_INIT;
    struct sluice_frame frame;
    sluice_reader *reader;
    sluice_writer *writer = NULL;
    int failed = 0;
    if (argc != 4) {
        fprintf(stderr, "usage: libyuv_filter IN OUT COUNT\n");
        return 2;
    }
    params.name = argv[1];
    if (sluice_reader_open(&reader, &params))
        return fail(argv[1]);
    for (long left = atol(argv[3]); left > 0 && !failed; left--) {
        if (sluice_reader_acquire(reader, SLUICE_ON_CPU, 10 * SLUICE_S, &frame) != SLUICE_OK) {
            failed = fail("acquire");
        } else {
            failed = pass(argv[2], &writer, &frame);
            sluice_reader_release(reader, &frame, SLUICE_ON_CPU);
        }
    }
    sluice_writer_close(&writer);
    sluice_reader_close(&reader);
    return failed;
}
