/* SPDX-License-Identifier: MIT
 *
 * Playing video: frames are read from ffmpeg's pipe directly into slots.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "../common/args.h"
#include "../common/term.h"
#include "../media/media.h"
#include "../media/pixels.h"
#include "pattern.h"
#include "play.h"

#define LONGEST_STEP (3600 * SLUICE_S) /* from one frame to the next; a longer one is taken for a mistake */
#define MANY_STILL   10

struct video {
    struct media_decoder decoder;
    struct pattern pattern; /* used without ffmpeg */
    struct sluice_image image;
    double rate;      /* of the pattern, frames per second */
    int64_t last_pts; /* of the source */
    int64_t due;      /* of the last frame */
    unsigned still;   /* steps of no time up to now */
    bool jump_reported;
    uint64_t index;
};

static bool is_fast_pattern(const struct play *play)
{
    return play->source.kind == SOURCE_TEST && (play->own_pattern || !child_find(media_ffmpeg(), NULL, 0));
}

/* Describes the pattern, as media_decode describes a video. */
static void choose_pattern(struct play *play, struct video *video)
{
    const struct raw_format *raw = raw_of_channel(play->format);
    bool yuv = raw && raw->kind == RAW_YUV, gray = raw && raw->kind == RAW_GRAY;
    play->own_pattern = true;
    video->rate = play->fps > 0 ? play->fps : 30;
    video->image.width = play->source.width ? play->source.width : 1280;
    video->image.height = play->source.height ? play->source.height : 720;
    video->image.pixel_format = play->format;
    video->image.colour.matrix = yuv ? pixels_default_matrix(video->image.height) : gray ? 0 : SLUICE_MATRIX_RGB;
    video->image.colour.range = yuv ? SLUICE_RANGE_LIMITED : SLUICE_RANGE_FULL;
}

static int open_channel(struct play *play, const struct sluice_image *image)
{
    struct sluice_format format = SLUICE_FORMAT_INIT;
    int result = sluice_format_add_image(&format, "image", play->format, image->width, image->height);
    if (result)
        return say_result(play->command, result, NULL);
    format.arrays[0].image.colour = image->colour;
    format.arrays[0].image.alpha = image->alpha;
    return play_open(play, &format);
}

/* False at the end of the source. NULL skips a frame. */
static bool fill_image(struct play *play, struct video *video, const struct sluice_array *image)
{
    if (!play->own_pattern)
        return media_pixels(&video->decoder, image);
    if (!image)
        return true;
    if (!video->pattern.background.data && !pattern_open(&video->pattern, image))
        return false;
    pattern_draw(&video->pattern, image, video->index);
    return true;
}

static void put_meta(struct play *play, const struct video *video, struct sluice_frame *frame, int64_t pts)
{
    const struct media_decoder *d = &video->decoder;
    char *at = frame->meta;
    at += snprintf(at, 128, "{\"pts_ns\":%" PRId64 ",\"index\":%" PRIu64, pts, video->index);
    if (d->aspect_x)
        at += snprintf(at, 64, ",\"pixel_aspect\":\"%u:%u\"", d->aspect_x, d->aspect_y);
    if (play->hash)
        at += snprintf(at, 64, ",\"hash\":\"%016" PRIx64 "\"", play_hash(play, frame));
    *at++ = '}';
    frame->meta_size = (uint32_t)(at - (char *)frame->meta);
}

/* When the next frame is due, and its time in the source. */
static int64_t due_time(const struct play *play, struct video *video, int64_t *pts)
{
    int64_t even = (int64_t)((double)video->index / (play->fps > 0 ? play->fps : video->rate) * 1e9), step;
    if (play->own_pattern) {
        *pts = (int64_t)((double)video->index / video->rate * 1e9);
        return even;
    }
    *pts = video->decoder.nut.pts_ns;
    bool first = video->index == 0;
    if (first || __builtin_sub_overflow(*pts, video->last_pts, &step))
        step = 0;
    /* ffmpeg makes a step of one unit of those that go back or nowhere; a few of them are but rounded times. */
    video->still = !first && step <= 1 ? video->still + 1 : 0;
    bool jumps = step > LONGEST_STEP;
    if ((jumps || video->still == MANY_STILL) && !video->jump_reported) {
        say_error(play->command, "the times of %s jump %s at frame %" PRIu64 "; it is played on without the jump.",
                  play->source.name, jumps ? "forward" : "back", video->index - (jumps ? 0 : MANY_STILL - 1));
        video->jump_reported = true;
    }
    video->last_pts = *pts;
    video->due += jumps || step < 0 ? 0 : step;
    return play->fps > 0 ? even : video->due;
}

/* Plays one frame. Returns an exit code; sets *end at the end of the source. */
static int play_frame(struct play *play, struct video *video, bool *end)
{
    struct sluice_frame frame;
    struct sluice_array image;
    int64_t pts;
    *end = !play->own_pattern && !media_next(&video->decoder);
    if (*end)
        return EXIT_DONE;
    int result = play_begin(play, &frame);
    if (result < 0)
        return say_result(play->command, result, NULL);
    if (result == SLUICE_NO_SLOT) {
        *end = stop_asked() || !fill_image(play, video, NULL);
    } else {
        result = upload_array(&play->upload, &frame, "image", &image);
        *end = result != SLUICE_OK || !fill_image(play, video, &image);
        if (*end)
            upload_cancel(&play->upload, &frame);
        if (result)
            return say_result(play->command, result, NULL);
    }
    if (*end)
        return EXIT_DONE;
    int64_t due = due_time(play, video, &pts);
    if (play->source.kind != SOURCE_CAMERA)
        play_pace(play, due);
    else if (play->start_ns == 0)
        play->start_ns = now_ns();
    if (result == SLUICE_OK) {
        put_meta(play, video, &frame, pts);
        frame.capture_ns = now_ns();
        if (play_commit(play, &frame) != EXIT_DONE)
            return EXIT_FAILED;
    }
    video->index++;
    return EXIT_DONE;
}

static int play_frames(struct play *play, struct video *video)
{
    bool end = false;
    int code = open_channel(play, &video->image);
    while (code == EXIT_DONE && !end && !play_is_done(play))
        code = play_frame(play, video, &end);
    return code;
}

int play_video(struct play *play)
{
    struct video *video = calloc(1, sizeof *video);
    int code = EXIT_DONE;
    if (!video) {
        say_error(play->command, "out of memory.");
        return EXIT_FAILED;
    }
    if (play->own_pattern && play->source.kind != SOURCE_TEST) {
        say_error(play->command, "--pattern works with 'test' only, not with %s.", play->source.name);
        code = EXIT_FAILED;
    } else if (is_fast_pattern(play)) {
        choose_pattern(play, video);
        code = play_frames(play, video);
    } else {
        code = media_decode(&video->decoder, &play->source);
        video->image = video->decoder.image;
        video->rate = play->fps > 0 ? play->fps : 1;
        if (code == EXIT_DONE && !stop_asked())
            code = play_frames(play, video);
        int ended = media_end(&video->decoder, code == EXIT_DONE && !play_is_done(play));
        code = code ? code : ended;
    }
    pattern_close(&video->pattern);
    free(video);
    return code;
}
