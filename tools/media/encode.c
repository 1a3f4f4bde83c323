/* SPDX-License-Identifier: MIT
 *
 * Encoding with ffmpeg and showing with ffplay: images are written to a pipe.
 */
#include "media.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/term.h"
#include "pixels.h"

#define PAD_TO_EVEN    "pad=ceil(iw/2)*2:ceil(ih/2)*2" /* 4:2:0 needs even sizes */
#define CLOSE_TIMEOUT  (5 * SLUICE_S)                  /* for ffplay after its window was closed */
#define ENCODE_TIMEOUT (60 * SLUICE_S)                 /* for the last frames */

/* ffmpeg 5 does not support RGBA of half and single floats; they are converted to 8 bits. */
static bool needs_conversion(uint32_t format)
{
    return format == SLUICE_PIXEL_RGBA_F16 || format == SLUICE_PIXEL_RGBA_F32;
}

static bool has_encoder(const char *name)
{
    char *const argv[] = { "ffmpeg", "-hide_banner", "-v", "error", "-encoders", NULL };
    struct child child;
    char *text = malloc(1 << 16);
    bool found = false;
    if (text && child_start(&child, argv, CHILD_READ | CHILD_STDERR | CHILD_KILL) == 0) {
        size_t size = child_read(&child, text, (1 << 16) - 1);
        text[size] = 0;
        found = child_finish(&child, 10 * SLUICE_S) && strstr(text, name);
    }
    free(text);
    return found;
}

/* H.264 for the usual file types; for others ffmpeg's default. */
static void add_encoder(struct child_args *a, const struct media_sink *sink, char crf[16])
{
    bool mp4 =
        text_ends_with(sink->file, ".mp4") || text_ends_with(sink->file, ".mov") || text_ends_with(sink->file, ".m4v");
    if (mp4 || text_ends_with(sink->file, ".mkv")) {
        bool h264 = has_encoder("libx264 ");
        snprintf(crf, 16, "%u", sink->crf_set ? sink->crf : h264 ? 20u : 4u);
        child_add(a, "-c:v", h264 ? "libx264" : "mpeg4", NULL);
        if (h264)
            child_add(a, "-preset", "veryfast", "-crf", crf, NULL);
        else
            child_add(a, "-q:v", crf, NULL);
        child_add(a, "-pix_fmt", "yuv420p", NULL);
        if (mp4) /* readable up to the last second even if ffmpeg is killed */
            child_add(a, "-movflags", "+frag_keyframe+empty_moov+default_base_moof", NULL);
        child_add(a, "-g", "60", NULL);
    } else if (sink->crf_set) {
        snprintf(crf, 16, "%u", sink->crf);
        child_add(a, "-crf", crf, NULL);
    }
}

static const char *matrix_name(const struct sluice_image *image)
{
    switch (image->colour.matrix) {
    case 1: return "bt709";
    case 5:
    case 6: return "smpte170m";
    case 9: return "bt2020nc";
    default: return NULL;
    }
}

static void add_input(struct child_args *a, const struct media_sink *sink, char size[32], char rate[32])
{
    const struct sluice_image *image = &sink->image;
    bool screen = !sink->file;
    snprintf(size, 32, "%ux%u", image->width, image->height);
    snprintf(rate, 32, "%.6f", sink->fps);
    const char *format = sluice_pixel_format_name(image->pixel_format);
    child_add(a, "-f", "rawvideo", "-video_size", size, "-framerate", rate, NULL);
    child_add(a, "-pixel_format", needs_conversion(image->pixel_format) ? "rgba" : format, NULL);
    if (!screen && matrix_name(image))
        child_add(a, "-colorspace", matrix_name(image), NULL);
    if (!screen && image->colour.range && image->colour.matrix != SLUICE_MATRIX_RGB)
        child_add(a, "-color_range", image->colour.range == SLUICE_RANGE_FULL ? "pc" : "tv", NULL);
    child_add(a, "-i", "pipe:0", NULL);
}

static int start_program(struct media_sink *sink)
{
    struct child_args a = { 0 };
    char size[32], rate[32], crf[16], *output = NULL;
    bool flip = sink->image.row_order == SLUICE_BOTTOM_UP;
    if (sink->file) {
        if (asprintf(&output, strstr(sink->file, "://") ? "%s" : "file:%s", sink->file) < 0)
            return ENOMEM;
        child_add(&a, "ffmpeg", "-nostats", "-hide_banner", "-v", "error", "-y", NULL);
        add_input(&a, sink, size, rate);
        child_add(&a, "-vf", flip ? "vflip," PAD_TO_EVEN : PAD_TO_EVEN, NULL);
        add_encoder(&a, sink, crf);
        child_add(&a, output, NULL);
    } else {
        child_add(&a, "ffplay", "-v", "error", "-autoexit", "-fflags", "nobuffer", "-flags", "low_delay", NULL);
        child_add(&a, "-framedrop", "-window_title", sink->title, NULL);
        if (flip)
            child_add(&a, "-vf", "vflip", NULL);
        add_input(&a, sink, size, rate);
    }
    /* If this process is killed, the encoder reaches the end of the pipe and finishes the file. */
    int error = child_start(&sink->child, a.list, CHILD_WRITE | CHILD_STDERR | (sink->file ? 0 : CHILD_TERM));
    free(output);
    return error;
}

bool media_open(struct media_sink *sink, const struct sluice_array *image, const char *command)
{
    const char *program = sink->file ? "ffmpeg" : "ffplay";
    sink->image = image->image;
    free(sink->converted);
    sink->converted = NULL;
    if (needs_conversion(image->image.pixel_format)) {
        sink->converted = malloc((size_t)image->image.width * 4);
        if (!sink->converted) {
            say_error(command, "out of memory for a row of %u pixels.", image->image.width);
            return false;
        }
    }
    int error = start_program(sink);
    if (error == ENOENT)
        say_error(command, "%s is not installed; on Debian: apt install ffmpeg.%s", program,
                  sink->file ? " Recording to a .slr file works without it." : "");
    else if (error)
        say_error(command, "cannot start %s: %s.", program, strerror(error));
    return error == 0;
}

bool media_fits(const struct media_sink *sink, const struct sluice_array *image)
{
    const struct sluice_image *a = &sink->image, *b = &image->image;
    return a->width == b->width && a->height == b->height && a->pixel_format == b->pixel_format &&
           a->row_order == b->row_order;
}

static bool write_converted(struct media_sink *sink, const struct sluice_array *image)
{
    struct pixels pixels;
    if (!pixels_open(&pixels, image))
        return false;
    pixels.channels = 4;
    pixels.bottom_up = false; /* ffmpeg flips the image */
    for (uint32_t y = 0; y < pixels.height; y++) {
        pixels_row(&pixels, y, sink->converted);
        if (!child_write(&sink->child, sink->converted, (size_t)pixels.width * 4))
            return false;
    }
    return true;
}

bool media_write(struct media_sink *sink, const struct sluice_array *image)
{
    if (sink->converted)
        return write_converted(sink, image);
    for (uint32_t i = 0; i < image->image.plane_count; i++) {
        const struct sluice_plane *plane = &image->image.planes[i];
        const uint8_t *at = (const uint8_t *)image->data + plane->offset;
        uint64_t row, rows;
        if (!pixels_plane(&image->image, i, &row, &rows))
            return false;
        if (plane->pitch == row) {
            if (!child_write(&sink->child, at, row * rows))
                return false;
            continue;
        }
        for (uint64_t y = 0; y < rows; y++)
            if (!child_write(&sink->child, at + y * plane->pitch, row))
                return false;
    }
    return true;
}

bool media_close(struct media_sink *sink, const char *command)
{
    char reason[256];
    const char *program = sink->file ? "ffmpeg" : "ffplay";
    /* ffplay that is still running succeeded; if it ended by itself, its exit status tells. */
    int64_t timeout = child_closed_input(&sink->child) ? CLOSE_TIMEOUT : SLUICE_S / 10;
    bool open_window = !sink->file && !child_wait(&sink->child, timeout);
    bool done = child_finish(&sink->child, sink->file ? ENCODE_TIMEOUT : 2 * SLUICE_S) || open_window;
    if (!done) {
        child_last_line(&sink->child, reason, sizeof reason);
        if (sink->file &&
            child_printed(&sink->child, "suitable output format")) /* its last line does not name the cause */
            say_error(
                command,
                "ffmpeg does not support the file type of %s; use .mp4, .mkv or .webm, or .slr for a Sluice recording.",
                sink->file);
        else if (reason[0])
            say_error(command, "%s failed: %s", program, reason);
        else
            say_error(command, "%s failed without a message.", program);
    }
    free(sink->converted);
    sink->converted = NULL;
    sink->child = (struct child){ 0 };
    return done;
}
