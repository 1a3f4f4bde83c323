/* SPDX-License-Identifier: MIT
 *
 * A reader of a channel of cuda-link's protocol: docs/cuda-link.md.
 */
#include <stdio.h>
#include <stdlib.h>

#include <sluice/sluice.h>

int main(int argc, char **argv)
{
    struct sluice_reader_params params = SLUICE_READER_PARAMS_INIT;
    struct sluice_cipd_reader_params cipd = SLUICE_CIPD_READER_PARAMS_INIT;
    sluice_reader *reader;
    struct sluice_frame frame;
    struct sluice_array image;
    int r;

    params.name = argc > 1 ? argv[1] : "cipd:gray";
    params.open_timeout_ns = 10 * SLUICE_S; /* the writer may start later */
    params.cipd = &cipd;
    cipd.copy = 1; /* whole frames only: its writer waits for nobody */
    if (sluice_reader_open(&reader, &params) != 0)
        return fprintf(stderr, "%s\n", sluice_last_error()), 1;

    while ((r = sluice_reader_acquire(reader, SLUICE_ON_CPU, SLUICE_DEFAULT, &frame)) >= 0 && r != SLUICE_CLOSED) {
        if (r != 0)
            continue;                             /* nothing new within a second, or the writer is being restarted */
        sluice_frame_array_at(&frame, 0, &image); /* image.data is an address on the GPU */
        image.data = malloc(image.nbytes);
        image.read_only = 0;
        r = sluice_reader_fetch(reader, &frame, &image, 1, SLUICE_ON_CPU, NULL);
        if (r == 0)
            printf("frame %llu is %u, %llu missed\n", (unsigned long long)frame.sequence, *(unsigned char *)image.data,
                   (unsigned long long)frame.missed);
        free(image.data);
        sluice_reader_release(reader, &frame, SLUICE_ON_CPU);
    }
    if (r < 0)
        fprintf(stderr, "%s\n", sluice_last_error());
    sluice_reader_close(&reader);
    return r < 0;
}
