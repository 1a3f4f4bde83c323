/* SPDX-License-Identifier: MIT
 *
 * The smallest reader: looks at the newest picture, in place, until the writer closes the channel.
 */
#include <stdio.h>

#include <sluice/sluice.h>

int main(void)
{
    struct sluice_reader_params params = SLUICE_READER_PARAMS_INIT;
    sluice_reader *reader;
    struct sluice_frame frame;
    struct sluice_array image;
    int r;

    params.name = "gray";
    params.open_timeout_ns = 10 * SLUICE_S; /* the writer may start later */
    if (sluice_reader_open(&reader, &params) != 0)
        return fprintf(stderr, "%s\n", sluice_last_error()), 1;

    while ((r = sluice_reader_acquire(reader, SLUICE_ON_CPU, SLUICE_DEFAULT, &frame)) >= 0 && r != SLUICE_CLOSED) {
        if (r != 0)
            continue; /* nothing new within a second, or the writer is being restarted */
        sluice_frame_array(&frame, "image", &image);
        printf("frame %llu is %u, %llu missed\n", (unsigned long long)frame.sequence, *(unsigned char *)image.data,
               (unsigned long long)frame.missed);
        sluice_reader_release(reader, &frame, SLUICE_ON_CPU);
    }
    if (r < 0)
        fprintf(stderr, "%s\n", sluice_last_error());
    sluice_reader_close(&reader);
    return r < 0;
}
