/* SPDX-License-Identifier: MIT
 *
 * Writes pictures that show when they were made: the first row of blocks is the wall clock in units of 0.1 ms, 32 bits,
 * the highest first, white for 1. usage: clock CHANNEL WIDTHxHEIGHT FPS     FPS 0: one frame
 *
 * tests/web/age.js reads the blocks back. Below them a gradient moves, so that each frame differs. Two more arrays
 * never change: `depth`, an image of floats, and `tensor`; each element is its own index.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <threads.h>
#include <time.h>

#include <sluice/sluice.h>

#define BITS 32

static volatile sig_atomic_t stop;

static void on_signal(int number)
{
    (void)number;
    stop = 1;
}

static uint32_t wall_clock(void)
{
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    return (uint32_t)((uint64_t)now.tv_sec * 10000 + (uint64_t)now.tv_nsec / 100000);
}

static void draw(const struct sluice_array *image, unsigned frame)
{
    uint32_t width = image->image.width, height = image->image.height, block = width / BITS;
    for (uint32_t y = block; y < height; y++) {
        uint32_t *row = (uint32_t *)((char *)image->data + y * image->image.planes[0].pitch);
        uint32_t green = (y * 255 / height) << 8;
        for (uint32_t x = 0; x < width; x++)
            row[x] = 0xff000000u | ((x + 4 * frame) * 127 / width & 255) << 16 | green | ((x ^ y) >> 3 & 63);
    }
    uint32_t now = wall_clock();
    for (uint32_t y = 0; y < block && y < height; y++) {
        uint32_t *row = (uint32_t *)((char *)image->data + y * image->image.planes[0].pitch);
        for (uint32_t x = 0; x < width; x++)
            row[x] = x / block < BITS && now >> (BITS - 1 - x / block) & 1 ? 0xffffffffu : 0xff000000u;
    }
}

/* Elements that are their own index. */
static void number(const struct sluice_array *array)
{
    for (uint64_t i = 0; i < array->nbytes / sizeof(float); i++)
        ((float *)array->data)[i] = (float)i;
}

static int add_arrays(struct sluice_format *format, unsigned width, unsigned height)
{
    const struct sluice_dtype floats = { SLUICE_FLOAT, 32, 1 };
    int r = sluice_format_add_image(format, "image", SLUICE_PIXEL_RGBA, width, height);
    if (r >= 0)
        r = sluice_format_add_image(format, "depth", SLUICE_PIXEL_GRAY_F32, 64, 48);
    return r < 0 ? r : sluice_format_add_tensor(format, "tensor", floats, 3, (const int64_t[]){ 2, 16, 24 });
}

static void write_frame(sluice_writer *writer, unsigned count)
{
    struct sluice_frame frame;
    struct sluice_array image, depth, tensor;
    if (sluice_writer_begin(writer, SLUICE_DEFAULT, &frame) != 0)
        return;
    sluice_frame_array(&frame, "image", &image);
    sluice_frame_array(&frame, "depth", &depth);
    sluice_frame_array(&frame, "tensor", &tensor);
    draw(&image, count);
    number(&depth);
    number(&tensor);
    sluice_writer_commit(writer, &frame, SLUICE_ON_CPU);
}

int main(int argc, char **argv)
{
    struct sluice_format format = SLUICE_FORMAT_INIT;
    struct sluice_writer_params params = SLUICE_WRITER_PARAMS_INIT;
    sluice_writer *writer;
    unsigned width, height;
    if (argc != 4 || sscanf(argv[2], "%ux%u", &width, &height) != 2 || atof(argv[3]) < 0)
        return fprintf(stderr, "usage: clock CHANNEL WIDTHxHEIGHT FPS\n"), 2;
    signal(SIGTERM, on_signal);
    params.name = argv[1];
    params.format = &format;
    if (add_arrays(&format, width, height) < 0 || sluice_writer_open(&writer, &params) < 0)
        return fprintf(stderr, "%s\n", sluice_last_error()), 1;
    double fps = atof(argv[3]);
    struct timespec pause = { .tv_nsec = fps > 1 ? (long)(1e9 / fps) : 100000000 };
    for (unsigned i = 0; !stop; i++, thrd_sleep(&pause, NULL))
        if (fps > 0 || i == 0)
            write_frame(writer, i);
    return sluice_writer_close(&writer) < 0;
}
