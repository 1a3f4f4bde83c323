/* SPDX-License-Identifier: MIT
 *
 * Checks whether another process can open a GPU's memory by IPC handles, as channels of cuda-link need.
 */
#include "doctor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../common/per_system.h"
#include "../common/scratch.h"
#include "../common/term.h"

#define WIDTH  64
#define HEIGHT 32
#define BYTES  (WIDTH * HEIGHT * 4)

static uint8_t pixel(unsigned at)
{
    return (uint8_t)(at * 7 + at / 251);
}

static int send_frame(const char *device, const char *channel, sluice_writer **writer)
{
    static uint8_t pixels[BYTES];
    struct sluice_format format = SLUICE_FORMAT_INIT;
    struct sluice_writer_params params = SLUICE_WRITER_PARAMS_INIT;
    struct sluice_cipd_writer_params cipd = SLUICE_CIPD_WRITER_PARAMS_INIT;
    int result = sluice_format_add_image(&format, "image", SLUICE_PIXEL_RGBA, WIDTH, HEIGHT);
    if (result)
        return result;
    for (unsigned i = 0; i < BYTES; i++)
        pixels[i] = pixel(i);
    params.name = channel;
    params.device = device;
    params.format = &format;
    params.cipd = &cipd;
    cipd.barrier = SLUICE_CIPD_OFF;
    cipd.block = 1;
    if ((result = sluice_writer_open(writer, &params)) != 0)
        return result;
    format.arrays[0].data = pixels;
    return sluice_writer_send(*writer, format.arrays, 1, SLUICE_ON_CPU, NULL);
}

/* The pixels are at the end of the .npy file. */
static bool file_is_intact(const char *path)
{
    uint8_t pixels[BYTES];
    FILE *file = fopen(path, "rbe");
    bool intact = file && fseek(file, -(long)BYTES, SEEK_END) == 0 && fread(pixels, 1, BYTES, file) == BYTES;
    if (file)
        fclose(file);
    for (unsigned i = 0; intact && i < BYTES; i++)
        intact = pixels[i] == pixel(i);
    return intact;
}

/* False with the reason in `error` if the frame did not arrive intact in a second process. */
static bool read_frame(const char *channel, const char *path, char *error, size_t size)
{
    bool done = second_snap(channel, path, error, size), intact = done && file_is_intact(path);
    if (done && !intact)
        snprintf(error, size, "its pixels differ from what was sent");
    return intact;
}

static void check_cipd_gpu(struct report *report, const struct gpu *gpu, bool quick)
{
    struct scratch scratch;
    sluice_writer *writer = NULL;
    char channel[64], path[300], error[512] = "", text[TERM_TEXT];
    if (!(gpu->report.can & SLUICE_CAN_SHARE_EVENTS)) {
        report_add(
            report, "cuda-link", FINDING_NOTE, "",
            "memory and events cannot be shared by IPC handles (legacy CUDA IPC): no cipd: channels on this GPU");
        return;
    }
    if (quick || !gpu->tried || !scratch_enter(&scratch))
        return;
    snprintf(channel, sizeof channel, "cipd:doctor-%ld", (long)getpid());
    snprintf(path, sizeof path, "%.255s/frame.npy", scratch.folder);
    int64_t start = now_ns();
    int result = send_frame(report->device, channel, &writer);
    if (result)
        snprintf(error, sizeof error, "%.400s", result < 0 ? sluice_last_error() : sluice_result_text(result));
    bool intact = result == SLUICE_OK && read_frame(channel, path, error, sizeof error);
    int64_t time = now_ns() - start;
    sluice_writer_close(&writer);
    scratch_leave(&scratch);
    if (intact)
        report_add(
            report, "cuda-link", FINDING_OK, "",
            "cipd: channels work: a second process opened a frame by its IPC handle (legacy CUDA IPC), with all pixels "
            "intact, within %s of its start",
            text_duration(text, time));
    else
        report_add(
            report, "cuda-link", FINDING_NOTE,
            report->system.pid_namespace ? "run writer and readers in one PID namespace, with one /dev/shm"
                                         : PER_SYSTEM("use channels of Sluice's own protocol",
                                                      "another driver, or TCC (nvidia-smi -dm 1) where the GPU has it"),
            "cipd: channels do not work: a second process could not open a frame by its IPC handle (legacy CUDA IPC): "
            "%.400s",
            error);
}

void check_cipd_gpus(struct report *report, bool quick)
{
    char name[16];
    for (unsigned i = 0; i < report->gpu_count; i++) {
        snprintf(name, sizeof name, "cuda:%u", i);
        report->device = name;
        check_cipd_gpu(report, &report->gpus[i], quick);
    }
    report->device = NULL;
}
