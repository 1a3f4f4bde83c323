/* SPDX-License-Identifier: MIT
 *
 * Encoding with ffmpeg and showing with ffplay: images are written to a pipe, for ffmpeg with their times.
 */
#include "media.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../common/term.h"
#include "pixels.h"

#define PAD_TO_EVEN    "pad=ceil(iw/2)*2:ceil(ih/2)*2" /* 4:2:0 needs even sizes */
#define TICKS          60000                           /* a second: 1/24, 1/25, 1/30, 1001/30000 s are whole numbers */
#define TICK           "1/60000"
#define PROBE_FRAMES   5               /* from which ffmpeg guesses the rate, for the file's header */
#define SILENCE        (2 * SLUICE_S)  /* of an encoder, until a sentence tells it */
#define CLOSE_TIMEOUT  (5 * SLUICE_S)  /* for ffplay after its window was closed */
#define ENCODE_TIMEOUT (60 * SLUICE_S) /* for the last frames */

/* ffplay 5 does not support RGBA of half and single floats; they are converted to 8 bits. */
static bool needs_conversion(uint32_t format)
{
    return format == SLUICE_PIXEL_RGBA_F16 || format == SLUICE_PIXEL_RGBA_F32;
}

static bool has_encoder(const char *name)
{
    char *const argv[] = { (char *)(uintptr_t)media_ffmpeg(), "-hide_banner", "-v", "error", "-encoders", NULL };
    struct child child;
    char *text = malloc(1 << 16);
    bool found = false;
    if (text && child_start(&child, argv, CHILD_READ | CHILD_STDERR | CHILD_KILL) == 0) {
        struct feed feed = { .fd = child.out, .deadline = now_ns() + 10 * SLUICE_S };
        text[feed_read(&feed, text, (1 << 16) - 1)] = 0;
        feed_free(&feed);
        found = child_finish(&child, SLUICE_S) && strstr(text, name);
        child_kill(&child);
    }
    free(text);
    return found;
}

/* ---- files ---- */

struct target {
    const char *encoder; /* NULL: ffmpeg's choice */
    const char *pixels;  /* NULL: likewise */
    bool mp4, alpha;
    unsigned bits;
};

static bool ends_in(const char *file, const char *const endings[])
{
    for (size_t i = 0; endings[i]; i++)
        if (text_ends_with(file, endings[i]))
            return true;
    return false;
}

bool media_has_times(const char *file)
{
    static const char *const endings[] = { ".mp4",  ".mov", ".m4v", ".mkv",  ".webm", ".nut", ".gif", ".apng",
                                           ".webp", ".ts",  ".mts", ".m2ts", ".flv",  ".3gp", NULL };
    return ends_in(file, endings);
}

/* H.264 for the usual file types, VP9 for WebM; for others ffmpeg's default. */
static struct target choose_target(const struct media_sink *sink, const struct raw_format *raw, bool alpha)
{
    static const char *const mp4[] = { ".mp4", ".mov", ".m4v", NULL };
    static const char *const h264_too[] = { ".mkv", ".ts", ".mts", ".m2ts", ".flv", ".3gp", NULL };
    struct target t = { .mp4 = ends_in(sink->file, mp4), .bits = 8 };
    if (t.mp4 || ends_in(sink->file, h264_too)) {
        bool h264 = has_encoder("libx264 ");
        t.encoder = h264 ? "libx264" : "mpeg4";
        t.bits = h264 && raw->bits > 8 ? 10 : 8;
        t.pixels = t.bits > 8 ? "yuv420p10le" : "yuv420p";
    } else if (text_ends_with(sink->file, ".webm") && has_encoder("libvpx-vp9 ")) {
        t.encoder = "libvpx-vp9";
        t.alpha = alpha;
        t.bits = !alpha && raw->bits > 8 ? 10 : 8;
        t.pixels = alpha ? "yuva420p" : t.bits > 8 ? "yuv420p10le" : "yuv420p";
    } else {
        t.alpha = true; /* ffmpeg keeps what the format has */
        t.bits = 16;
    }
    return t;
}

static void say_losses(const struct media_sink *sink, const struct target *t, const struct raw_format *raw, bool alpha,
                       const char *command)
{
    if (alpha && !t->alpha)
        say_error(command, "alpha is left out of %s; a .webm or .slr file keeps it.", sink->file);
    if (raw->bits > t->bits)
        say_error(command, "%s keeps %u of %u bits a sample; a .slr file keeps all.", sink->file, t->bits, raw->bits);
}

static void add_text(char *text, size_t size, const char *format, const char *value)
{
    size_t used = strlen(text);
    if (value)
        snprintf(text + used, size - used, format, value);
}

/* What the file's frames are: the channel's colours, or for RGB those of the conversion. */
static struct sluice_colour file_colour(const struct sluice_image *image, const struct raw_format *raw)
{
    struct sluice_colour colour = image->colour;
    if (raw->kind != RAW_YUV || !media_matrix_name(colour.matrix))
        colour.matrix = pixels_default_matrix(image->height);
    if (raw->kind != RAW_YUV || !colour.range)
        colour.range = SLUICE_RANGE_LIMITED;
    return colour;
}

static void make_filter(char *text, size_t size, const struct sluice_image *image, const struct raw_format *raw,
                        const struct target *t)
{
    struct sluice_colour to = file_colour(image, raw);
    const char *matrix = media_matrix_name(to.matrix);
    const char *scaled = to.matrix == 9 || to.matrix == 10 ? "bt2020" : matrix;
    const char *range = to.range == SLUICE_RANGE_FULL ? "full" : "limited";
    bool limited_in = image->colour.range == SLUICE_RANGE_LIMITED ||
                      (raw->kind == RAW_YUV && image->colour.range == SLUICE_RANGE_UNKNOWN);
    *text = 0;
    add_text(text, size, "%s,scale=flags=bicubic+accurate_rnd+full_chroma_int", PAD_TO_EVEN);
    if (raw->kind == RAW_YUV)
        add_text(text, size, ":in_color_matrix=%s", scaled);
    add_text(text, size, ":in_range=%s", limited_in ? "limited" : "full");
    add_text(text, size, ":out_color_matrix=%s", scaled);
    add_text(text, size, ":out_range=%s", range);
    if (!t->pixels)
        return;
    add_text(text, size, ",format=%s", t->pixels);
    add_text(text, size, ",setparams=range=%s", range);
    add_text(text, size, ":colorspace=%s", matrix);
    add_text(text, size, ":color_primaries=%s", media_primaries_name(to.primaries));
    add_text(text, size, ":color_trc=%s", media_transfer_name(to.transfer));
}

static void add_encoder(struct child_args *a, const struct media_sink *sink, const struct target *t, char crf[16])
{
    bool h264 = t->encoder && strcmp(t->encoder, "libx264") == 0;
    bool mpeg4 = t->encoder && strcmp(t->encoder, "mpeg4") == 0;
    if (t->encoder)
        child_add(a, "-c:v", t->encoder, NULL);
    if (sink->crf_set || h264 || mpeg4) {
        snprintf(crf, 16, "%u", sink->crf_set ? sink->crf : h264 ? 20u : 4u);
        child_add(a, mpeg4 ? "-q:v" : "-crf", crf, NULL);
    }
    if (h264) /* without B-frames the first frame's time is 0 in every container */
        child_add(a, "-preset", "veryfast", "-bf", "0", NULL);
    if (t->encoder && strcmp(t->encoder, "libvpx-vp9") == 0) {
        child_add(a, "-deadline", "realtime", "-cpu-used", "5", "-row-mt", "1", NULL);
        if (!sink->crf_set)
            child_add(a, "-crf", "20", NULL);
        child_add(a, "-b:v", "0", NULL);
        if (t->alpha)
            child_add(a, "-auto-alt-ref", "0", NULL);
    }
    if (t->mp4) /* readable up to the last second even if ffmpeg is killed */
        child_add(a, "-movflags", "+frag_keyframe+empty_moov+default_base_moof", NULL);
    if (h264 || mpeg4)
        child_add(a, "-g", "60", NULL);
}

/* The alpha that a file can have: straight. */
static bool has_alpha(const struct sluice_image *image, const struct raw_format *raw)
{
    return raw->alpha && image->alpha != SLUICE_ALPHA_OPAQUE;
}

/* Waits for an encoder that is slow, and says so when it takes nothing at all. False if it has ended, or does not
 * answer after stop_asked(). */
static bool write_to_child(void *to, const void *bytes, size_t size)
{
    struct media_sink *sink = to;
    int64_t last = now_ns();
    bool said = false;
    while (size) {
        struct pollfd in = { .fd = sink->child.in, .events = POLLOUT };
        ssize_t put = poll(&in, 1, 100) > 0 ? write(in.fd, bytes, size) : 0;
        if (put < 0 && errno != EINTR && errno != EAGAIN)
            return false;
        if (put > 0) {
            bytes = (const char *)bytes + put;
            size -= (size_t)put;
            last = now_ns();
            continue;
        }
        bool silent = now_ns() - last >= SILENCE;
        if (silent && stop_asked())
            return false;
        if (silent && !said)
            say_error(sink->command, "ffmpeg has taken nothing of %s for 2 s; still waiting.", sink->file);
        said |= silent;
    }
    return true;
}

static bool write_to_output(void *to, const void *bytes, size_t size)
{
    (void)to;
    return fwrite(bytes, 1, size, stdout) == size;
}

static bool write_head(struct media_sink *sink, const struct raw_format *raw)
{
    const struct sluice_image *image = &sink->image;
    struct nut_video video = { .tag = raw->tag, .width = image->width, .height = image->height };
    if (raw->alpha && raw->bits == 8 && sink->alpha == SLUICE_ALPHA_OPAQUE)
        video.tag &= 0xFFFFFF; /* RGB0 and BGR0: the fourth byte has no meaning */
    if (raw->kind == RAW_YUV) {
        unsigned matrix = image->colour.matrix ? image->colour.matrix : pixels_default_matrix(image->height);
        video.colours = matrix == 1 ? NUT_BT709 : matrix == 5 || matrix == 6 ? NUT_BT601 : NUT_COLOURS_UNKNOWN;
        if (video.colours && image->colour.range == SLUICE_RANGE_FULL)
            video.colours |= NUT_FULL_RANGE;
    }
    sink->nut = (struct nut_writer){ .write = write_to_child, .to = sink, .ticks = TICKS };
    if (strcmp(sink->file, "-") == 0)
        sink->nut = (struct nut_writer){ .write = write_to_output };
    return nut_write_head(&sink->nut, &video);
}

static int start_encoder(struct media_sink *sink, const struct raw_format *raw, const struct target *target,
                         const char *command)
{
    struct child_args a = { 0 };
    char crf[16], rate[32], probe[32], frames[8], filter[768], *output = NULL;
    bool alpha = has_alpha(&sink->image, raw);
    struct target t = *target;
    if (asprintf(&output, strstr(sink->file, "://") ? "%s" : "file:%s", sink->file) < 0)
        return ENOMEM;
    say_losses(sink, &t, raw, alpha && sink->image.alpha != SLUICE_ALPHA_UNKNOWN, command);
    make_filter(filter, sizeof filter, &sink->image, raw, &t);
    child_add(&a, media_ffmpeg(), "-nostats", "-hide_banner", "-v", "error", "-y", NULL);
    snprintf(probe, sizeof probe, "%llu",
             (unsigned long long)((PROBE_FRAMES + 1) * (raw_size(&sink->image) + 128) + 4096));
    snprintf(frames, sizeof frames, "%d", PROBE_FRAMES);
    child_add(&a, "-fpsprobesize", frames, "-probesize", probe, "-f", "nut", "-i", "pipe:0", "-vf", filter, NULL);
    add_encoder(&a, sink, &t, crf);
    if (media_has_times(sink->file)) {
        child_add(&a, "-fps_mode", "passthrough", "-enc_time_base", TICK, NULL);
    } else {
        snprintf(rate, sizeof rate, "%.6f", sink->fps);
        child_add(&a, "-fps_mode", "cfr", "-r", rate, NULL);
    }
    child_add(&a, "-update", "1", NULL);
    child_add(&a, output, NULL);
    /* If this process is killed, the encoder reaches the end of the pipe and finishes the file. */
    int error = child_start(&sink->child, a.list, CHILD_WRITE | CHILD_STDERR);
    if (!error)
        fcntl(sink->child.in, F_SETFL, O_NONBLOCK);
    sink->command = command;
    free(output);
    return error;
}

static int start_file(struct media_sink *sink, const char *command)
{
    uint32_t format = sink->image.pixel_format;
    const struct raw_format *raw = raw_of_channel(format);
    if (!raw) {
        say_error(command, "%s cannot go into a video; record it to a .slr file.",
                  sluice_pixel_format_name((enum sluice_pixel_format)format));
        return -1;
    }
    bool to_output = strcmp(sink->file, "-") == 0;
    struct target target = { .alpha = true };
    if (!to_output)
        target = choose_target(sink, raw, has_alpha(&sink->image, raw));
    /* Without alpha, premultiplied colours are those over black. */
    sink->alpha = target.alpha ? sink->image.alpha : SLUICE_ALPHA_OPAQUE;
    struct sluice_image image = sink->image;
    image.alpha = sink->alpha;
    if (!raw_is_same(&image) && !(sink->converted = malloc(raw_size(&sink->image))))
        return ENOMEM;
    int error = to_output ? 0 : start_encoder(sink, raw, &target, command);
    if (!error)
        (void)write_head(sink, raw); /* the first frame reports an error */
    return error;
}

/* ---- windows ---- */

static int start_window(struct media_sink *sink)
{
    struct child_args a = { 0 };
    const struct sluice_image *image = &sink->image;
    bool converts = needs_conversion(image->pixel_format);
    char size[32], rate[32];
    snprintf(size, sizeof size, "%ux%u", image->width, image->height);
    snprintf(rate, sizeof rate, "%.6f", sink->fps);
    child_add(&a, "ffplay", "-v", "error", "-autoexit", "-fflags", "nobuffer", "-flags", "low_delay", NULL);
    child_add(&a, "-framedrop", "-window_title", sink->title, NULL);
    if (image->row_order == SLUICE_BOTTOM_UP)
        child_add(&a, "-vf", "vflip", NULL);
    child_add(&a, "-f", "rawvideo", "-video_size", size, "-framerate", rate, "-pixel_format", NULL);
    child_add(&a, converts ? "rgba" : sluice_pixel_format_name((enum sluice_pixel_format)image->pixel_format), NULL);
    child_add(&a, "-i", "pipe:0", NULL);
    return child_start(&sink->child, a.list, CHILD_WRITE | CHILD_STDERR | CHILD_TERM);
}

/* ---- both ---- */

bool media_open(struct media_sink *sink, const struct sluice_array *image, const char *command)
{
    const char *program = sink->file ? media_ffmpeg() : "ffplay";
    sink->image = image->image;
    free(sink->converted);
    sink->converted = NULL;
    int error = sink->file ? start_file(sink, command) : start_window(sink);
    if (error == ENOMEM)
        say_error(command, "out of memory for an image of %ux%u.", image->image.width, image->image.height);
    else if (error > 0)
        media_say_start_error(command, program, error);
    return error == 0;
}

bool media_fits(const struct media_sink *sink, const struct sluice_array *image)
{
    const struct sluice_image *a = &sink->image, *b = &image->image;
    return a->width == b->width && a->height == b->height && a->pixel_format == b->pixel_format &&
           a->row_order == b->row_order && a->alpha == b->alpha &&
           memcmp(&a->colour, &b->colour, sizeof a->colour) == 0;
}

static bool write_bytes(struct media_sink *sink, const void *bytes, uint64_t size)
{
    return sink->file ? nut_write(&sink->nut, bytes, size) : child_write(&sink->child, bytes, size);
}

/* As 8 bits, in the image's own row order: ffplay flips it. */
static bool write_bytes_of_floats(struct media_sink *sink, const struct sluice_array *image)
{
    struct sluice_array bytes;
    int result = pixels_alloc(&bytes, SLUICE_PIXEL_RGBA, image->image.width, image->image.height);
    if (result)
        return false;
    bytes.image.row_order = image->image.row_order;
    bool done = pixels_convert(&bytes, image) == SLUICE_OK && child_write(&sink->child, bytes.data, bytes.nbytes);
    free(bytes.data);
    return done;
}

static bool write_planes(struct media_sink *sink, const struct sluice_array *image)
{
    for (uint32_t i = 0; i < image->image.plane_count; i++) {
        const struct sluice_plane *plane = &image->image.planes[i];
        const uint8_t *at = (const uint8_t *)image->data + plane->offset;
        uint64_t row, rows;
        if (!pixels_plane(&image->image, i, &row, &rows))
            return false;
        bool flips = sink->file && image->image.row_order == SLUICE_BOTTOM_UP; /* ffplay does it itself */
        if (plane->pitch == row && !flips) {
            if (!write_bytes(sink, at, row * rows))
                return false;
            continue;
        }
        for (uint64_t y = 0; y < rows; y++)
            if (!write_bytes(sink, at + (flips ? rows - 1 - y : y) * plane->pitch, row))
                return false;
    }
    return true;
}

bool media_write(struct media_sink *sink, const struct sluice_array *image, int64_t pts_ns)
{
    if (!sink->file)
        return needs_conversion(image->image.pixel_format) ? write_bytes_of_floats(sink, image)
                                                           : write_planes(sink, image);
    uint64_t size = raw_size(&image->image);
    if (!nut_write_frame(&sink->nut, pts_ns, size))
        return false;
    if (sink->converted) {
        struct sluice_array array = *image;
        array.image.alpha = sink->alpha;
        if (!raw_from_image(sink->converted, &array) || !write_bytes(sink, sink->converted, size))
            return false;
    } else if (!write_planes(sink, image)) {
        return false;
    }
    return strcmp(sink->file, "-") != 0 || fflush(stdout) == 0;
}

static bool is_empty_file(const char *path)
{
    struct stat status;
    return stat(path, &status) < 0 || (S_ISREG(status.st_mode) && status.st_size == 0);
}

bool media_close(struct media_sink *sink, const char *command)
{
    char reason[256], end[64];
    const char *program = sink->file ? "ffmpeg" : "ffplay";
    /* ffplay that is still running succeeded; if it ended by itself, its exit status tells. */
    int64_t timeout = sink->child.name && child_closed_input(&sink->child) ? CLOSE_TIMEOUT : SLUICE_S / 10;
    bool to_output = sink->file && strcmp(sink->file, "-") == 0, ended = true;
    if (sink->nut.write)
        ended = nut_write_end(&sink->nut) && (!to_output || fflush(stdout) == 0);
    nut_free(&sink->nut);
    if (to_output && !ended)
        say_error(command, "cannot write to standard output: %s.", strerror(errno));
    bool open_window = !sink->file && !child_wait(&sink->child, timeout);
    bool done = child_finish(&sink->child, sink->file ? ENCODE_TIMEOUT : 2 * SLUICE_S) || open_window;
    if (!done) {
        child_last_line(&sink->child, reason, sizeof reason);
        if (sink->file && is_empty_file(sink->file))
            say_error(command,
                      "ffmpeg cannot write %s%s%s; it chooses the file type by the name: use .mp4, .mkv or .webm, or "
                      ".slr for a Sluice recording.",
                      sink->file, reason[0] ? ": " : "", reason);
        else if (reason[0])
            say_error(command, "%s failed: %s", program, reason);
        else
            say_error(command, "%s %s, without a message.", program, child_end(&sink->child, end));
    }
    free(sink->converted);
    sink->converted = NULL;
    sink->child = (struct child){ 0 };
    return done && (ended || !to_output);
}
