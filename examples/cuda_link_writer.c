/* SPDX-License-Identifier: MIT
 *
 * A writer of a channel of cuda-link's protocol: docs/cuda-link.md.
 */
#include <stdio.h>
#include <string.h>
#include <threads.h>

#include <sluice/sluice.h>

int main(int argc, char **argv)
{
    static unsigned char pixels[480 * 640];
    struct sluice_format format = SLUICE_FORMAT_INIT;
    struct sluice_writer_params params = SLUICE_WRITER_PARAMS_INIT;
    struct timespec pause = { .tv_nsec = 33 * SLUICE_MS };
    sluice_writer *writer;
    int r = 0;

    params.name = argc > 1 ? argv[1] : "cipd:gray";
    params.device = "cuda:0";
    params.format = &format;
    if (sluice_format_add_image(&format, "image", SLUICE_PIXEL_GRAY8, 640, 480) < 0 ||
        sluice_writer_open(&writer, &params) < 0)
        return fprintf(stderr, "%s\n", sluice_last_error()), 1;

    format.arrays[0].data = pixels; /* the program's own memory: here the CPU's, or that of a GPU */
    for (int i = 0; i < 150 && r >= 0; i++, thrd_sleep(&pause, NULL)) {
        memset(pixels, i, sizeof pixels);
        r = sluice_writer_send(writer, format.arrays, 1, SLUICE_ON_CPU, NULL); /* or behind the stream that made it */
    }
    if (r < 0)
        fprintf(stderr, "%s\n", sluice_last_error());
    sluice_writer_close(&writer);
    return r < 0;
}
