/* SPDX-License-Identifier: MIT
 *
 * The smallest writer on a GPU: 150 gray pictures, 30 a second, made by the GPU in the channel's memory.
 */
#include <stdio.h>
#include <threads.h>

#include <cuda_runtime_api.h>
#include <sluice/sluice.h>

int main(void)
{
    struct sluice_format format = SLUICE_FORMAT_INIT;
    struct sluice_writer_params params = SLUICE_WRITER_PARAMS_INIT;
    struct timespec pause = { .tv_nsec = 33 * SLUICE_MS };
    struct sluice_device device;
    struct sluice_stream stream;
    sluice_writer *writer;
    struct sluice_frame frame;
    struct sluice_array image;
    uintptr_t native;
    int r = 0;

    params.name = "gray";
    params.device = "cuda:0";
    params.format = &format;
    if (sluice_format_add_image(&format, "image", SLUICE_PIXEL_GRAY8, 640, 480) < 0 ||
        sluice_device_open(&device, "cuda:0") < 0 || sluice_stream_create(device, NULL, &stream) < 0 ||
        sluice_stream_native(stream, &native) < 0 || sluice_writer_open(&writer, &params) < 0)
        return fprintf(stderr, "%s\n", sluice_last_error()), 1;

    for (int i = 0; i < 150 && r >= 0; i++, thrd_sleep(&pause, NULL)) {
        if ((r = sluice_writer_begin(writer, SLUICE_DEFAULT, &frame)) != 0)
            continue; /* readers hold every slot, or the GPU still works on them: this frame is dropped */
        sluice_frame_array(&frame, "image", &image);
        cudaMemsetAsync(image.data, i, image.nbytes, (cudaStream_t)native); /* your kernels */
        r = sluice_writer_commit(writer, &frame, stream);                   /* behind them */
    }
    if (r < 0)
        fprintf(stderr, "%s\n", sluice_last_error());
    sluice_writer_close(&writer);
    sluice_device_close(&device);
    return r < 0;
}
