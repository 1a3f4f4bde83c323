/* SPDX-License-Identifier: MIT
 *
 * Channels on the fake GPU.
 */
#include "gstreamer/gpu_kit.h"

#include <stdlib.h>
#include <string.h>

#include "gstreamer/hash.h"

void use_fake_gpu(void)
{
    setenv("SLUICE_CUDA_DRIVER", FAKE_DRIVER, 1);
    setenv("SLUICE_FAKE_FATAL", "1", 1);
    setenv("SLUICE_FAKE_DELAY", "200", 1);
    setenv("LD_LIBRARY_PATH", FAKE_PROGRAM, 1);
}

void need_gpu(void)
{
    test_dir();
#ifndef GST_SLUICE_CUDA
    SKIP("the plug-in was built without gstreamer-cuda-1.0 of GStreamer 1.24 or later");
#endif
    use_fake_gpu();
    need_element("cudaupload");
}

sluice_writer *gpu_writer(const char *channel, uint32_t pixel_format, uint32_t width, uint32_t height,
                          uint32_t pitch_align)
{
    struct sluice_format format = SLUICE_FORMAT_INIT;
    struct sluice_writer_params params = SLUICE_WRITER_PARAMS_INIT;
    sluice_writer *writer;

    format.pitch_align = pitch_align;
    CHECK_GE(sluice_format_add_image(&format, "image", (enum sluice_pixel_format)pixel_format, width, height), 0);
    params.name = channel;
    params.device = "cuda:0";
    params.format = &format;
    params.policy = SLUICE_WAIT;
    params.wait_ns = 20 * SLUICE_S;
    CHECK_OK(sluice_writer_open(&writer, &params));
    return writer;
}

uint64_t gpu_commit(sluice_writer *writer, uint32_t number)
{
    struct sluice_format format = { .size = sizeof format }, tight = SLUICE_FORMAT_INIT;
    struct sluice_array *array = &tight.arrays[0];

    CHECK_OK(sluice_writer_format(writer, &format));
    const struct sluice_image *image = &format.arrays[0].image;
    CHECK_GE(sluice_format_add_image(&tight, "image", (enum sluice_pixel_format)image->pixel_format, image->width,
                                     image->height),
             0);
    uint8_t *data = array->data = malloc(array->nbytes);
    for (uint64_t i = 0; i < array->nbytes; i++)
        data[i] = (uint8_t)(i * 7 + i / 251 + number * 31);
    uint64_t hash = hash_bytes(HASH_START, data, array->nbytes);
    CHECK_OK(sluice_writer_send(writer, array, 1, SLUICE_ON_CPU, NULL));
    free(data);
    return hash;
}

uint64_t gpu_take(sluice_reader *reader)
{
    struct sluice_format tight = SLUICE_FORMAT_INIT;
    struct sluice_frame frame;
    struct sluice_array array;
    char device[64];
    int r;

    do
        r = sluice_reader_acquire(reader, SLUICE_ON_CPU, 30 * SLUICE_S, &frame);
    while (r == SLUICE_NO_WRITER || r == SLUICE_AGAIN);
    CHECK_EQ(r, 0);
    CHECK_EQ(frame.missed, 0);
    CHECK_OK(sluice_frame_device(&frame, device, sizeof device));
    CHECK_HAS(device, "cuda:");
    CHECK_OK(sluice_frame_array(&frame, "image", &array));
    CHECK_GE(sluice_format_add_image(&tight, "image", (enum sluice_pixel_format)array.image.pixel_format,
                                     array.image.width, array.image.height),
             0);
    tight.arrays[0].data = malloc(tight.arrays[0].nbytes);
    CHECK_OK(sluice_reader_fetch(reader, &frame, tight.arrays, 1, SLUICE_ON_CPU, NULL));
    CHECK_OK(sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
    uint64_t hash = hash_bytes(HASH_START, tight.arrays[0].data, tight.arrays[0].nbytes);
    free(tight.arrays[0].data);
    return hash;
}
