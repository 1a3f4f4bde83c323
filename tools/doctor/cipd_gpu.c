/* SPDX-License-Identifier: MIT
 *
 * The doctor looks whether a GPU's memory gets to another process by handles, as channels of cuda-link's protocol need.
 */
#include "doctor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../common/child.h"
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

/* Has the file at its end what was sent? */
static bool is_right(const char *path)
{
    uint8_t pixels[BYTES];
    FILE *file = fopen(path, "rbe");
    bool right = file && fseek(file, -(long)BYTES, SEEK_END) == 0 && fread(pixels, 1, BYTES, file) == BYTES;
    if (file)
        fclose(file);
    for (unsigned i = 0; right && i < BYTES; i++)
        right = pixels[i] == pixel(i);
    return right;
}

/* This program, as a reader in a process of its own. */
static bool read_frame(const char *channel, const char *path, char *said, size_t size)
{
    struct child_args line = { .count = 0 };
    struct child child;
    char *name = strdup(channel), *out = strdup(path);
    bool right = false;
    if (name && out) {
        child_add(&line, "/proc/self/exe", "snap", name, out, "--timeout", "10", NULL);
        int error = child_start(&child, line.list, CHILD_STDERR | CHILD_KILL);
        if (error) {
            snprintf(said, size, "no second process: %s", strerror(error));
        } else {
            bool done = child_finish(&child, 30 * SLUICE_S);
            child_last_line(&child, said, size);
            right = done && is_right(path);
            if (done && !right)
                snprintf(said, size, "other pixels came than were sent");
        }
    }
    free(name);
    free(out);
    return right;
}

static void check_one(struct report *report, const struct gpu *gpu, bool quick)
{
    struct scratch scratch;
    sluice_writer *writer = NULL;
    char channel[64], path[300], said[512] = "", text[TERM_TEXT];
    if (!(gpu->report.can & SLUICE_CAN_SHARE_EVENTS)) {
        report_add(report, "cuda-link", FINDING_NOTE, "",
             "memory and events cannot be handed over by handles (legacy CUDA IPC): no cipd: channels on this GPU");
        return;
    }
    if (quick || !gpu->tried || !scratch_enter(&scratch))
        return;
    snprintf(channel, sizeof channel, "cipd:doctor-%ld", (long)getpid());
    snprintf(path, sizeof path, "%.255s/frame.npy", scratch.folder);
    int64_t start = now_ns();
    int result = send_frame(report->device, channel, &writer);
    if (result)
        snprintf(said, sizeof said, "%.400s", result < 0 ? sluice_last_error() : sluice_result_text(result));
    bool right = result == SLUICE_OK && read_frame(channel, path, said, sizeof said);
    int64_t time = now_ns() - start;
    sluice_writer_close(&writer);
    scratch_leave(&scratch);
    if (right)
        report_add(report, "cuda-link", FINDING_OK, "",
             "a second process opened its memory by a handle (legacy CUDA IPC) and read a frame, all pixels right: cipd: "
             "channels work; %s with that process's start",
             text_duration(text, time));
    else
        report_add(report, "cuda-link", FINDING_NOTE,
             report->system.pid_namespace ? "run writer and readers in one PID namespace, with one /dev/shm"
                                          : "the line may say why; channels of Sluice's own work",
             "a second process got no frame by handles (legacy CUDA IPC), so cipd: channels do not work: %.400s", said);
}

void check_cipd_gpus(struct report *report, bool quick)
{
    char name[16];
    for (unsigned i = 0; i < report->gpu_count; i++) {
        snprintf(name, sizeof name, "cuda:%u", i);
        report->device = name;
        check_one(report, &report->gpus[i], quick);
    }
    report->device = NULL;
}
