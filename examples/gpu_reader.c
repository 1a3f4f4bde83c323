/* SPDX-License-Identifier: MIT
 *
 * The smallest reader on a GPU: lets the GPU look at the newest picture, in place, until the writer closes the
 * channel.
 */
#include <stdio.h>

#include <cuda_runtime_api.h>
#include <sluice/sluice.h>

int main(void)
{
    struct sluice_reader_params params = SLUICE_READER_PARAMS_INIT;
    struct sluice_device device;
    struct sluice_stream stream;
    sluice_reader *reader;
    struct sluice_frame frame;
    struct sluice_array image;
    unsigned char *gray;
    uintptr_t native;
    int r;

    params.name = "gray";
    params.open_timeout_ns = 10 * SLUICE_S; /* the writer may start later */
    if (sluice_device_open(&device, "cuda:0") < 0 || sluice_stream_create(device, NULL, &stream) < 0 ||
        sluice_stream_native(stream, &native) < 0 || sluice_reader_open(&reader, &params) != 0)
        return fprintf(stderr, "%s\n", sluice_last_error()), 1;
    if (cudaMallocHost((void **)&gray, 1) != cudaSuccess)
        return 1;

    while ((r = sluice_reader_acquire(reader, stream, SLUICE_DEFAULT, &frame)) >= 0 && r != SLUICE_CLOSED) {
        if (r != 0)
            continue; /* nothing ready within a second, or the writer is being restarted */
        sluice_frame_array(&frame, "image", &image);
        cudaMemcpyAsync(gray, image.data, 1, cudaMemcpyDeviceToHost, (cudaStream_t)native); /* your kernels */
        sluice_reader_release(reader, &frame, stream);                                      /* behind them */
        cudaStreamSynchronize((cudaStream_t)native); /* for the line below; Sluice needs none */
        printf("frame %llu is %u, %llu missed\n", (unsigned long long)frame.sequence, *gray,
               (unsigned long long)frame.missed);
    }
    if (r < 0)
        fprintf(stderr, "%s\n", sluice_last_error());
    cudaFreeHost(gray);
    sluice_reader_close(&reader);
    sluice_device_close(&device);
    return r < 0;
}
