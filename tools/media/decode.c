/* SPDX-License-Identifier: MIT
 *
 * Decoding: the lines of commands for ffmpeg, and what its output means for the channel. docs/video.md has the reasons.
 */
#include "decode.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../common/args.h"
#include "../common/term.h"
#include "camera.h"
#include "pixels.h"

#define TIMES "-fps_mode", "passthrough", "-enc_time_base", "1/1000000000" /* each frame once, at its own time */
/* A pixel whose value changes with the frame's size: the frames themselves are scaled to the first one's. */
#define SIZES      "scale=1+mod(iw*7+ih*13\\,251):1:flags=neighbor,format=gray,lut=c0=w,crop=1:1"
#define END_TIME   (5 * SLUICE_S)
#define COMPLAINTS 8 /* that are repeated */

void media_say_start_error(const char *command, const char *program, int error)
{
    if (error == ENOENT && strchr(program, '/'))
        say_error(command, "there is no program %s; SLUICE_FFMPEG should name ffmpeg.", program);
    else if (error == ENOENT)
        say_error(command, "%s is not installed; on Debian: apt install ffmpeg; with pip: pip install imageio-ffmpeg.",
                  program);
    else
        say_error(command, "cannot start %s: %s.", program, strerror(error));
}

/* ---- lines of commands ---- */

struct line {
    struct child_args args;
    char rate[32], size[32], filter[RAW_FILTER_SIZE + 256], test[160], *input;
};

static void add_input(struct line *l, const struct source *s)
{
    struct child_args *a = &l->args;
    if (s->kind == SOURCE_CAMERA) {
        camera_ask(a, s, l->size, l->rate);
    } else if (s->kind == SOURCE_TEST) {
        snprintf(l->test, sizeof l->test, "testsrc2=size=%ux%u:rate=%.6f", s->width ? s->width : 1280,
                 s->height ? s->height : 720, s->fps > 0 ? s->fps : 30);
        child_add(a, "-f", "lavfi", "-i", l->test, NULL);
        return;
    }
    if (s->loop)
        child_add(a, "-stream_loop", "-1", NULL);
    if (s->decoder)
        child_add(a, "-c:v", s->decoder, NULL);
    child_add(a, "-i", l->input, NULL);
}

/* A name that ffmpeg does not mistake for an option, a protocol or a pattern of numbered pictures. */
static char *input_name(const struct source *s, bool as_input)
{
    char *name = NULL;
    if (s->kind == SOURCE_STREAM)
        return strdup("pipe:0");
    if (as_input)
        return strdup("file:/proc/self/fd/0");
    bool plain = s->kind == SOURCE_CAMERA || strstr(s->path, "://");
    return asprintf(&name, plain ? "%s" : "file:%s", s->path) < 0 ? NULL : name;
}

/* The descriptor that the decoder reads, or -1. */
static int open_input(struct media_decoder *d, const struct source *s, bool as_input)
{
    int ends[2];
    if (as_input)
        return open(s->path, O_RDONLY | O_CLOEXEC);
    if (s->kind != SOURCE_STREAM || pipe2(ends, O_CLOEXEC) < 0)
        return -1;
    int from = fcntl(s->head.fd, F_DUPFD_CLOEXEC, 0);
    int error = child_pump(&d->source_pump, s->head.bytes, s->head.size, from, ends[1]);
    if (!error)
        return ends[0];
    close(ends[0]);
    errno = error;
    return -1;
}

static bool start_decoder(struct media_decoder *d)
{
    const struct source *s = d->source;
    const char *program = media_ffmpeg();
    bool as_input = s->kind == SOURCE_FILE && (strchr(s->path, '%') || strcmp(s->path, "/proc/self/fd/0") == 0) &&
                    !strstr(s->path, "://");
    struct line l = { .input = input_name(s, as_input) };
    int input = open_input(d, s, as_input);
    child_add(&l.args, program, "-nostdin", "-hide_banner", "-v", "error", "-copyts", NULL);
    add_input(&l, s);
    raw_filter(l.filter);
    char *list = l.filter, part[sizeof l.filter + 64];
    snprintf(part, sizeof part, "%s,crop=min(iw\\,16):min(ih\\,16)", list);
    if (s->kind == SOURCE_TEST)
        snprintf(part, sizeof part, "format=gray,crop=16:16");
    /* The first frame's description, in the container that has one for colours; then the sizes. */
    child_add(&l.args, "-map", "0:v:0", "-frames:v", "1", "-vf", part, "-c:v", "rawvideo", NULL);
    child_add(&l.args, "-allow_raw_vfw", "1", "-flush_packets", "1", "-f", "matroska", "pipe:3", NULL);
    child_add(&l.args, "-map", "0:v:0", "-vf", SIZES, "-c:v", "rawvideo", TIMES, NULL);
    child_add(&l.args, "-flush_packets", "1", "-f", "nut", "pipe:4", NULL);
    char test_filter[160];
    const struct raw_format *to = raw_of_channel(s->format);
    if (s->kind == SOURCE_TEST)
        snprintf(test_filter, sizeof test_filter, "scale=out_color_matrix=%s:out_range=%s,format=%s",
                 media_matrix_name(pixels_default_matrix(s->height ? s->height : 720)),
                 to->kind == RAW_YUV ? "limited" : "full", to->name);
    child_add(&l.args, "-map", "0:v:0", "-vf", s->kind == SOURCE_TEST ? test_filter : list, "-c:v", "rawvideo", NULL);
    child_add(&l.args, TIMES, "-flush_packets", "1", "-f", "nut", "pipe:1", NULL);
    int error =
        l.input ? child_start_from(&d->decoder, l.args.list, CHILD_READ | CHILD_MORE | CHILD_STDERR | CHILD_KILL, input)
                : ENOMEM;
    d->decoder.name = program;
    free(l.input);
    if (error)
        media_say_start_error(s->command, program, error);
    return error == 0;
}

static void add_matrix(char *text, size_t size, const char *end, const struct sluice_colour *colour)
{
    size_t used = strlen(text);
    if (colour->matrix && colour->matrix != SLUICE_MATRIX_RGB && media_matrix_name(colour->matrix))
        used += (size_t)snprintf(text + used, size - used, ":%s_color_matrix=%s", end,
                                 colour->matrix == 9 || colour->matrix == 10 ? "bt2020"
                                                                             : media_matrix_name(colour->matrix));
    snprintf(text + used, size - used, ":%s_range=%s", end, colour->range == SLUICE_RANGE_FULL ? "full" : "limited");
}

static bool start_converter(struct media_decoder *d, const struct sluice_colour *from, const struct raw_format *to)
{
    const struct source *s = d->source;
    const char *program = media_ffmpeg();
    struct line l = { .input = NULL };
    int ends[2];
    bool crops = !s->width && (d->image.width != d->nut.video.width || d->image.height != d->nut.video.height);
    if (crops)
        snprintf(l.filter, sizeof l.filter, "crop=%u:%u:0:0:exact=1,", d->image.width, d->image.height);
    size_t used = strlen(l.filter);
    snprintf(l.filter + used, sizeof l.filter - used, "scale=%u:%u", d->image.width, d->image.height);
    add_matrix(l.filter, sizeof l.filter, "in", from);
    add_matrix(l.filter, sizeof l.filter, "out", &d->image.colour);
    used = strlen(l.filter);
    snprintf(l.filter + used, sizeof l.filter - used, ",format=%s", to->name);
    child_add(&l.args, program, "-nostdin", "-hide_banner", "-v", "error", "-copyts", NULL);
    child_add(&l.args, "-probesize", "32", "-analyzeduration", "0", "-f", "nut", "-i", "pipe:0", NULL);
    child_add(&l.args, "-map", "0:v:0", "-vf", l.filter, "-c:v", "rawvideo", TIMES, NULL);
    child_add(&l.args, "-flush_packets", "1", "-f", "nut", "pipe:1", NULL);
    int error = pipe2(ends, O_CLOEXEC) < 0 ? errno : 0;
    if (!error) {
        fcntl(ends[1], F_SETPIPE_SZ, 1 << 20); /* may fail */
        error = child_pump(&d->frame_pump, d->frames.bytes, d->frames.size, d->decoder.out, ends[1]);
        d->decoder.out = -1;
        if (!error)
            error = child_start_from(&d->converter, l.args.list, CHILD_READ | CHILD_STDERR | CHILD_KILL, ends[0]);
    }
    if (error)
        media_say_start_error(s->command, program, error);
    return error == 0;
}

/* ---- opening ---- */

static void feed_from(struct feed *feed, int fd, const struct source *s, int64_t deadline)
{
    *feed = (struct feed){ .fd = fd, .command = s->command, .name = s->name, .deadline = deadline, .keep = true };
}

/* Repeats what a child said since the last call. */
static void report_complaints(struct media_decoder *d, struct child *child)
{
    char line[400];
    while (child->name && child_next_line(child, line, sizeof line)) {
        if (d->complaints < COMPLAINTS)
            say_error(d->source->command, "%s: ffmpeg says: %s", d->source->name, line);
        d->complaints++;
    }
}

static int cannot_open(struct media_decoder *d, const char *problem)
{
    const struct source *s = d->source;
    char end[64];
    if (stop_asked())
        return EXIT_DONE;
    bool late = d->colours.timed_out || d->frames.timed_out;
    if (late) {
        report_complaints(d, &d->decoder);
        say_error(s->command, "%s gave no frame within %d s; check that it is running, and its address.", s->name,
                  (int)(MEDIA_OPEN_TIME / SLUICE_S));
        return EXIT_FAILED;
    }
    bool success = child_finish(&d->decoder, 2 * SLUICE_S);
    report_complaints(d, &d->decoder);
    if (success)
        say_error(s->command, "%s has no frame that ffmpeg can decode%s%s.", s->name, problem ? ": " : "",
                  problem ? problem : "");
    else
        say_error(s->command, "ffmpeg found no video in %s that it can decode (it %s); 'ffmpeg -i' shows what it is.",
                  s->name, child_end(&d->decoder, end));
    return EXIT_FAILED;
}

/* What the decoder says of the colours. */
static bool read_colours(struct media_decoder *d, struct ebml_video *said)
{
    enum ebml_result result;
    *said = (struct ebml_video){ .primaries = 2, .transfer = 2, .matrix = 2 };
    do {
        if (!feed_more(&d->colours, &d->frames))
            return false;
        result = ebml_video(d->colours.bytes, d->colours.size, said);
    } while (result == EBML_MORE && d->colours.size < FEED_BYTES);
    return result == EBML_DONE;
}

/* Starts the second ffmpeg, unless the first one's frames are the channel's. */
static int convert(struct media_decoder *d, const struct raw_format *raw, const struct ebml_video *said)
{
    const struct source *s = d->source;
    const struct raw_format *to = raw_of_channel(s->format);
    struct sluice_colour from = media_describe(d, raw, said);
    d->converts = raw->tag != to->tag || d->image.width != d->nut.video.width || d->image.height != d->nut.video.height;
    if (!d->converts)
        return EXIT_DONE;
    int64_t deadline = d->frames.deadline;
    if (!start_converter(d, &from, to))
        return EXIT_FAILED;
    feed_free(&d->frames);
    feed_from(&d->frames, d->converter.out, s, deadline);
    d->nut = (struct nut_reader){ .read = feed_read, .from = &d->frames };
    enum nut_result result = nut_open(&d->nut);
    if (result != NUT_OK)
        return cannot_open(d, d->nut.problem);
    if (d->nut.video.tag != to->tag || d->nut.video.width != d->image.width || d->nut.video.height != d->image.height)
        return cannot_open(d, "ffmpeg did not convert it as it was asked to");
    return EXIT_DONE;
}

int media_decode(struct media_decoder *d, const struct source *s)
{
    struct ebml_video said;
    *d = (struct media_decoder){ .source = s };
    if (!raw_of_channel(s->format) || strncmp(raw_of_channel(s->format)->name, "bayer", 5) == 0) {
        say_error(s->command, "ffmpeg does not make %s; use another --format, or --pattern.",
                  sluice_pixel_format_name(s->format));
        return EXIT_USAGE;
    }
    if (!start_decoder(d))
        return EXIT_FAILED;
    if (s->empty) {
        say_error(s->command, "%s is empty.", s->name);
        return EXIT_FAILED;
    }
    int64_t deadline = now_ns() + MEDIA_OPEN_TIME;
    feed_from(&d->colours, d->decoder.more[0], s, deadline);
    feed_from(&d->frames, d->decoder.out, s, deadline);
    d->sizes = (struct feed){ .fd = d->decoder.more[1] };
    d->nut = (struct nut_reader){ .read = feed_read, .from = &d->frames };
    if (!read_colours(d, &said) || nut_open(&d->nut) != NUT_OK)
        return cannot_open(d, d->nut.problem);
    const struct raw_format *raw = raw_find(d->nut.video.tag);
    if (!raw)
        return cannot_open(d, "its pixel format is unknown");
    if (s->kind == SOURCE_TEST)
        said.matrix = raw->kind == RAW_YUV ? pixels_default_matrix(d->nut.video.height) : 2;
    int code = convert(d, raw, &said);
    if (code != EXIT_DONE || stop_asked())
        return code;
    d->frames.keep = false;
    d->frames.deadline = 0;
    d->image.pixel_format = s->format;
    d->raw_bytes = raw_size(&d->image);
    if (!raw_is_same(&d->image) && !(d->raw = malloc(d->raw_bytes))) {
        say_error(s->command, "out of memory for a frame of %ux%u.", d->image.width, d->image.height);
        return EXIT_FAILED;
    }
    return EXIT_DONE;
}

/* ---- frames ---- */

/* Takes a frame out of what was read of the sizes. False if it has not come as a whole yet. */
static bool take_size(struct media_decoder *d, uint8_t *size)
{
    struct feed_bytes bytes = { d->sizes.bytes + d->sizes.at, d->sizes.size - d->sizes.at };
    struct nut_reader before = d->size_nut;
    d->size_nut.read = feed_read_bytes;
    d->size_nut.from = &bytes;
    if ((d->size_nut.video.width || nut_open(&d->size_nut) == NUT_OK) && nut_next(&d->size_nut) == NUT_OK &&
        nut_read(&d->size_nut, size, 1)) {
        d->sizes.at = d->sizes.size - bytes.left;
        return true;
    }
    d->size_nut = before;
    return false;
}

/* Reads what is there of the frames' sizes, and says once when they change. Never waits: the decoder may be waiting for
 * its frames to be read. */
static void watch_sizes(struct media_decoder *d)
{
    struct pollfd poll_fd = { .fd = d->decoder.more[1], .events = POLLIN };
    uint8_t size;
    while (!d->sizes.ended && poll(&poll_fd, 1, 0) > 0 && feed_more(&d->sizes, NULL))
        while (take_size(d, &size)) {
            if (d->sizes_read++ == 0)
                d->first_size = size;
            if (size == d->first_size || d->size_reported)
                continue;
            say_error(d->source->command,
                      "%s changes its size at frame %llu; from there it is scaled to %ux%u. Cut it there to play each "
                      "part in its own size.",
                      d->source->name, (unsigned long long)d->sizes_read - 1, d->image.width, d->image.height);
            d->size_reported = true;
        }
}

bool media_next(struct media_decoder *d)
{
    report_complaints(d, &d->decoder);
    watch_sizes(d);
    if (nut_next(&d->nut) != NUT_OK)
        return false;
    if (d->nut.left != d->raw_bytes) {
        d->nut.problem = "a frame has another size than the first one";
        return false;
    }
    d->count++;
    return true;
}

bool media_pixels(struct media_decoder *d, const struct sluice_array *image)
{
    if (!image || raw_is_same(&d->image))
        return nut_read(&d->nut, image ? image->data : NULL, d->raw_bytes);
    if (!nut_read(&d->nut, d->raw, d->raw_bytes))
        return false;
    raw_to_image(d->raw, image);
    return true;
}

/* Reads what follows the last frame, so that nobody fails to write it. */
static void drain(struct media_decoder *d)
{
    d->frames.deadline = now_ns() + END_TIME;
    do
        d->frames.at = d->frames.size;
    while (feed_more(&d->frames, NULL));
    (void)child_wait(&d->decoder, END_TIME);
    watch_sizes(d);
}

/* Ends the children of a source that was read to its end. */
static int finish(struct media_decoder *d)
{
    struct child *children[] = { &d->decoder, &d->converter }; /* what the second one says may follow from the first */
    const char *plural = d->count == 1 ? "" : "s";
    char end[64];
    drain(d);
    for (size_t i = 0; i < 2; i++) {
        bool success = child_finish(children[i], END_TIME);
        report_complaints(d, children[i]);
        if (success)
            continue;
        say_error(d->source->command, "ffmpeg %s; the %llu frame%s that it decoded of %s %s played.",
                  child_end(children[i], end), (unsigned long long)d->count, plural, d->source->name,
                  *plural ? "were" : "was");
        return EXIT_DAMAGED;
    }
    if (!d->complaints && !d->decoder.said_more)
        return EXIT_DONE;
    if (d->complaints > COMPLAINTS)
        say_error(d->source->command, "%s: ffmpeg said %u lines more.", d->source->name, d->complaints - COMPLAINTS);
    say_error(d->source->command, "%s is damaged or cut short; the %llu frame%s that ffmpeg decoded %s played.",
              d->source->name, (unsigned long long)d->count, plural, *plural ? "were" : "was");
    return EXIT_DAMAGED;
}

int media_end(struct media_decoder *d, bool whole)
{
    int code = whole && d->raw_bytes ? finish(d) : EXIT_DONE;
    if (d->decoder.name)
        report_complaints(d, &d->decoder);
    child_kill(&d->converter);
    child_kill(&d->decoder);
    child_kill(&d->frame_pump);
    child_kill(&d->source_pump);
    feed_free(&d->colours);
    feed_free(&d->sizes);
    feed_free(&d->frames);
    free(d->raw);
    d->raw = NULL;
    return code;
}
