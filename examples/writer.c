/* SPDX-License-Identifier: MIT
 *
 * The smallest writer: 150 gray pictures, 30 a second, drawn straight into the channel's memory.
 */
#include <stdio.h>
#include <string.h>
#include <threads.h>

#include <sluice/sluice.h>

int main(void)
{
    struct sluice_format format = SLUICE_FORMAT_INIT;
    struct sluice_writer_params params = SLUICE_WRITER_PARAMS_INIT;
    struct timespec pause = { .tv_nsec = 33 * SLUICE_MS };
    sluice_writer *writer;
    struct sluice_frame frame;
    struct sluice_array image;

    params.name = "gray";
    params.format = &format;
    if (sluice_format_add_image(&format, "image", SLUICE_PIXEL_GRAY8, 640, 480) < 0 ||
        sluice_writer_open(&writer, &params) < 0)
        return fprintf(stderr, "%s\n", sluice_last_error()), 1;

    for (int i = 0; i < 150; i++, thrd_sleep(&pause, NULL)) {
        if (sluice_writer_begin(writer, SLUICE_DEFAULT, &frame) != 0)
            continue; /* readers hold every slot: this frame is dropped */
        sluice_frame_array(&frame, "image", &image);
        memset(image.data, i, image.nbytes);
        sluice_writer_commit(writer, &frame, SLUICE_ON_CPU);
    }
    return sluice_writer_close(&writer);
}
