/* SPDX-License-Identifier: MIT
 *
 * Conversions in GPU memory, many of them behind each other on one stream.
 */
#include "channel.h"

static struct sluice_device device;
static struct sluice_array from, to;
static struct sluice_convert how;

static void *gpu_bytes(uint64_t bytes)
{
    uint64_t address;
    CU(MemAlloc, &address, bytes);
    return (void *)(uintptr_t)address;
}

static struct sluice_array image(uint32_t format)
{
    struct sluice_format whole = SLUICE_FORMAT_INIT;
    check(sluice_format_add_image(&whole, "image", format, (uint32_t)job->width, (uint32_t)job->height), "an image");
    whole.arrays[0].data = gpu_bytes(whole.arrays[0].nbytes);
    return whole.arrays[0];
}

/* A square, half as high as the picture and at most 512. */
static struct sluice_array tensor(uint8_t bits)
{
    const int64_t side = job->height > 512 ? 512 : job->height / 2, shape[] = { 1, 3, side, side };
    struct sluice_array array;
    void *data = gpu_bytes((uint64_t)(3 * side * side) * bits / 8);
    check(sluice_array_wrap(&array, "tensor", data, (struct sluice_dtype){ SLUICE_FLOAT, bits, 1 }, 4, shape, NULL),
          "a tensor");
    return array;
}

/* In the order of CONVERSIONS in cases.py; a target of 16 or 32 bits is a tensor. */
static const struct conversion {
    uint32_t from, to;
    uint8_t bits;
} conversions[] = {
    { SLUICE_PIXEL_NV12, SLUICE_PIXEL_RGBA, 0 },
    { SLUICE_PIXEL_RGBA, SLUICE_PIXEL_NV12, 0 },
    { SLUICE_PIXEL_RGBA, SLUICE_PIXEL_BGRA, 0 },
    { SLUICE_PIXEL_RGBA, 0, 32 },
    { SLUICE_PIXEL_RGBA, 0, 16 },
    { SLUICE_PIXEL_NV12, 0, 32 },
    { SLUICE_PIXEL_NV12, 0, 16 },
};

static void convert(uint32_t round)
{
    (void)round;
    for (int i = 0; i < job->group; i++)
        check(sluice_convert(stream, &to, &from, &how, NULL), "a conversion");
    CU(StreamSynchronize, native);
}

void sluice_conversions(int index)
{
    const struct conversion *each = &conversions[job->conversion];
    (void)index;
    check(sluice_device_open(&device, "cuda:0"), "the device");
    check(sluice_stream_create(device, NULL, &stream), "a stream");
    native = channel_native(stream);
    from = image(each->from);
    to = each->bits ? tensor(each->bits) : image(each->to);
    how = (struct sluice_convert)SLUICE_CONVERT_INIT;
    for (int i = 0; i < 3; i++) {
        how.scale[i] = 2;
        how.bias[i] = -1;
    }
    measure_copies(convert);
    CU(MemFree, (uintptr_t)to.data);
    CU(MemFree, (uintptr_t)from.data);
    check(sluice_device_close(&device), "the device cannot be closed");
}
