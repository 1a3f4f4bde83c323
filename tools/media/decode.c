/* SPDX-License-Identifier: MIT
 *
 * Decoding: ffprobe describes a file or device, ffmpeg outputs raw frames.
 */
#include "media.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../common/term.h"

#define PROBE_TIME (20 * SLUICE_S)

static bool report_start_error(const char *command, const char *program, int error)
{
    if (error == ENOENT)
        say_error(command, "%s is not installed; on Debian: apt install ffmpeg.", program);
    else
        say_error(command, "cannot start %s: %s.", program, strerror(error));
    return false;
}

/* The numbers of ITU-T H.273 for ffprobe's names. */
static uint8_t colour_number(const char *word)
{
    static const struct {
        const char *word;
        uint8_t number;
    } words[] = { { "bt709", 1 },      { "bt470bg", 5 },    { "smpte170m", 6 },  { "smpte240m", 7 },
                  { "linear", 8 },     { "bt2020nc", 9 },   { "bt2020", 9 },     { "iec61966-2-1", 13 },
                  { "bt2020-10", 14 }, { "bt2020-12", 15 }, { "smpte2084", 16 }, { "arib-std-b67", 18 },
                  { "smpte432", 12 } };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(word, words[i].word) == 0)
            return words[i].number;
    return 0;
}

struct probed {
    unsigned width, height;
    double average, base; /* frames per second */
    bool rotated;         /* by 90 degrees */
    struct sluice_colour colour;
};

static double parse_ratio(const char *text)
{
    double a = 0, b = 1;
    if (sscanf(text, "%lf/%lf", &a, &b) < 1 || b <= 0 || a <= 0)
        return 0;
    return a / b;
}

static void parse_line(struct probed *probed, char *line)
{
    char *value = strchr(line, '=');
    if (!value)
        return;
    *value++ = 0;
    if (strcmp(line, "width") == 0)
        probed->width = (unsigned)strtoul(value, NULL, 10);
    else if (strcmp(line, "height") == 0)
        probed->height = (unsigned)strtoul(value, NULL, 10);
    else if (strcmp(line, "avg_frame_rate") == 0)
        probed->average = parse_ratio(value);
    else if (strcmp(line, "r_frame_rate") == 0)
        probed->base = parse_ratio(value);
    else if (strcmp(line, "rotation") == 0 || strcmp(line, "TAG:rotate") == 0)
        probed->rotated = abs(atoi(value)) % 180 == 90;
    else if (strcmp(line, "color_primaries") == 0)
        probed->colour.primaries = colour_number(value);
    else if (strcmp(line, "color_transfer") == 0)
        probed->colour.transfer = colour_number(value);
}

static bool run_ffprobe(const struct media_source *source, const char *input, struct probed *probed,
                        const char *command)
{
    struct child_args a = { 0 };
    struct child child;
    char answer[8192], reason[256];
    child_add(&a, "ffprobe", "-v", "error", NULL);
    if (source->kind == MEDIA_DEVICE)
        child_add(&a, "-f", "v4l2", NULL);
    child_add(&a, "-select_streams", "v:0", "-show_entries", NULL);
    child_add(&a,
              "stream=width,height,r_frame_rate,avg_frame_rate,color_primaries,color_transfer"
              ":stream_side_data=rotation:stream_tags=rotate",
              NULL);
    child_add(&a, "-of", "default=noprint_wrappers=1", "-i", input, NULL);
    int error = child_start(&child, a.list, CHILD_READ | CHILD_STDERR | CHILD_KILL);
    if (error)
        return report_start_error(command, "ffprobe", error);
    size_t size = child_read(&child, answer, sizeof answer - 1);
    answer[size] = 0;
    if (!child_finish(&child, stop_asked() ? 0 : PROBE_TIME)) {
        if (!stop_asked())
            say_error(command, "ffprobe cannot read %s: %s", source->path,
                      child_last_line(&child, reason, sizeof reason));
        return false;
    }
    char *rest = NULL;
    for (char *line = strtok_r(answer, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        parse_line(probed, line);
    if (!probed->width || !probed->height) {
        say_error(command, "%s contains no video.", source->path);
        return false;
    }
    return true;
}

/* A name that ffmpeg does not mistake for an option or a protocol. */
static char *input_name(const struct media_source *source)
{
    char *name = NULL;
    bool plain = source->kind == MEDIA_DEVICE || strstr(source->path, "://");
    if (asprintf(&name, plain ? "%s" : "file:%s", source->path) < 0)
        return NULL;
    return name;
}

static bool check_readable(const struct media_source *source, const char *command)
{
    if (strstr(source->path, "://") || access(source->path, R_OK) == 0)
        return true;
    if (errno == EACCES && source->kind == MEDIA_DEVICE)
        say_error(command, "no permission to read %s; join its group (often 'video').", source->path);
    else if (errno == ENOENT)
        say_error(command, "there is no file %s.", source->path);
    else
        say_error(command, "cannot read %s: %s.", source->path, strerror(errno));
    return false;
}

static bool halves_chroma(enum sluice_pixel_format format)
{
    return format == SLUICE_PIXEL_NV12 || format == SLUICE_PIXEL_YUV420P || format == SLUICE_PIXEL_P010 ||
           format == SLUICE_PIXEL_YUYV || format == SLUICE_PIXEL_UYVY;
}

static bool is_yuv(enum sluice_pixel_format format)
{
    return halves_chroma(format) || format == SLUICE_PIXEL_YUV444P;
}

bool media_probe(struct media_source *source, const char *command)
{
    struct probed probed = { 0 };
    if (source->kind == MEDIA_TEST) {
        probed.width = 1280, probed.height = 720, probed.average = 30;
    } else {
        if (!check_readable(source, command))
            return false;
        char *input = input_name(source);
        bool found = input && run_ffprobe(source, input, &probed, command);
        free(input);
        if (!found)
            return false;
    }
    if (!source->width) {
        source->width = probed.rotated ? probed.height : probed.width;
        source->height = probed.rotated ? probed.width : probed.height;
        if (halves_chroma(source->format)) {
            source->width &= ~1u;
            source->height &= ~1u;
        }
    }
    if (source->fps <= 0)
        source->fps = probed.average > 0 ? probed.average : probed.base > 0 ? probed.base : 25;
    if (source->fps > 1000)
        source->fps = 1000;
    source->colour = probed.colour;
    source->colour.matrix = is_yuv(source->format) ? 1 : SLUICE_MATRIX_RGB;
    source->colour.range = is_yuv(source->format) ? SLUICE_RANGE_LIMITED : SLUICE_RANGE_FULL;
    return true;
}

bool media_decode(const struct media_source *source, struct child *child, const char *command)
{
    struct child_args a = { 0 };
    char test[96], filter[160], rate[32], size[32];
    char *input = source->kind == MEDIA_TEST ? NULL : input_name(source);

    snprintf(test, sizeof test, "testsrc2=size=%ux%u:rate=%.6f", source->width, source->height, source->fps);
    snprintf(rate, sizeof rate, "%.6f", source->fps);
    snprintf(size, sizeof size, "%ux%u", source->width, source->height);
    snprintf(filter, sizeof filter, "scale=%u:%u%s", source->width, source->height,
             is_yuv(source->format) ? ":out_color_matrix=bt709:out_range=limited" : "");

    child_add(&a, "ffmpeg", "-nostdin", "-hide_banner", "-v", "error", NULL);
    switch (source->kind) {
    case MEDIA_TEST: child_add(&a, "-f", "lavfi", "-i", test, NULL); break;
    case MEDIA_DEVICE: child_add(&a, "-f", "v4l2", "-framerate", rate, "-i", input ? input : source->path, NULL); break;
    case MEDIA_FILE:
        if (source->loop)
            child_add(&a, "-stream_loop", "-1", NULL);
        child_add(&a, "-i", input ? input : source->path, NULL);
        break;
    }
    child_add(&a, "-map", "0:v:0", "-vf", filter, NULL);
    /* A constant frame rate, also for files with a variable one; `play` paces the frames. */
    child_add(&a, "-r", rate, "-f", "rawvideo", "-pix_fmt", NULL);
    child_add(&a, sluice_pixel_format_name(source->format), "pipe:1", NULL);

    int error = child_start(child, a.list, CHILD_READ | CHILD_STDERR | CHILD_KILL);
    free(input);
    return error ? report_start_error(command, "ffmpeg", error) : true;
}
