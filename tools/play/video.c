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
#include "pattern.h"
#include "play.h"

struct video {
    struct media_source source;
    struct child ffmpeg;
    struct pattern pattern; /* used without ffmpeg */
    uint8_t *discard;       /* memory that dropped frames are read into */
    double rate;            /* frames per second */
    uint64_t index;
};

static bool is_device(const char *path)
{
    return strncmp(path, "/dev/video", 10) == 0;
}

static int choose_source(struct play *play, struct video *video)
{
    struct media_source *source = &video->source;
    source->path = play->source;
    source->width = play->width;
    source->height = play->height;
    source->format = play->format;
    source->loop = play->loop;
    source->kind = strcmp(play->source, "test") == 0 ? MEDIA_TEST : is_device(play->source) ? MEDIA_DEVICE : MEDIA_FILE;
    if (source->kind != MEDIA_FILE && play->fps > 0)
        source->fps = play->fps;
    if (!media_probe(source, play->command))
        return EXIT_FAILED;
    video->rate = play->fps > 0 ? play->fps : source->fps;
    if (source->kind == MEDIA_TEST && !play->own_pattern && !child_find("ffmpeg", NULL, 0))
        play->own_pattern = true;
    if (play->own_pattern && source->kind != MEDIA_TEST) {
        say_error(play->command, "--pattern works with 'test' only, not with %s.", play->source);
        return EXIT_USAGE;
    }
    return EXIT_DONE;
}

static int open_channel(struct play *play, const struct media_source *source)
{
    struct sluice_format format = SLUICE_FORMAT_INIT;
    int result = sluice_format_add_image(&format, "image", source->format, source->width, source->height);
    if (result)
        return say_result(play->command, result, NULL);
    format.arrays[0].image.colour = source->colour;
    if (source->format == SLUICE_PIXEL_RGBA || source->format == SLUICE_PIXEL_BGRA)
        format.arrays[0].image.alpha = SLUICE_ALPHA_STRAIGHT;
    return play_open(play, &format);
}

/* False at the end of the source. */
static bool fill_image(struct play *play, struct video *video, const struct sluice_array *image)
{
    if (!play->own_pattern)
        return child_read(&video->ffmpeg, image->data, image->nbytes) == image->nbytes;
    if (!video->pattern.background.data && !pattern_open(&video->pattern, image))
        return false;
    pattern_draw(&video->pattern, image, video->index);
    return true;
}

/* Reads a dropped frame out of the pipe. */
static bool skip_image(struct play *play, struct video *video, uint64_t nbytes)
{
    if (play->own_pattern)
        return true;
    if (!video->discard)
        video->discard = malloc(nbytes);
    return video->discard && child_read(&video->ffmpeg, video->discard, nbytes) == nbytes;
}

static void put_meta(struct play *play, struct sluice_frame *frame, uint64_t index, int64_t pts)
{
    int size = snprintf(frame->meta, SLUICE_MAX_META, "{\"pts_ns\":%" PRId64 ",\"index\":%" PRIu64, pts, index);
    char *at = (char *)frame->meta + size;
    if (play->hash)
        size += snprintf(at, 64, ",\"hash\":\"%016" PRIx64 "\"}", play_hash(play, frame));
    else
        size += snprintf(at, 64, "}");
    frame->meta_size = (uint32_t)size;
}

/* Plays one frame. Returns an exit code; sets *end at the end of the source. */
static int play_frame(struct play *play, struct video *video, uint64_t nbytes, bool *end)
{
    struct sluice_frame frame;
    struct sluice_array image;
    int64_t due = (int64_t)((double)video->index / video->rate * 1e9);
    int result = play_begin(play, &frame);
    if (result < 0)
        return say_result(play->command, result, NULL);
    if (result == SLUICE_NO_SLOT) {
        *end = stop_asked() || !skip_image(play, video, nbytes);
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
    if (video->source.kind != MEDIA_DEVICE)
        play_pace(play, due);
    else if (play->start_ns == 0)
        play->start_ns = now_ns();
    if (result == SLUICE_OK) {
        put_meta(play, &frame, video->index, (int64_t)((double)video->index / video->source.fps * 1e9));
        frame.capture_ns = now_ns();
        if (play_commit(play, &frame) != EXIT_DONE)
            return EXIT_FAILED;
    }
    video->index++;
    return EXIT_DONE;
}

/* At the end of the source: ffmpeg may have failed. */
static int end_ffmpeg(struct play *play, struct video *video)
{
    char reason[256];
    if (stop_asked() || play_is_done(play)) {
        child_kill(&video->ffmpeg);
        return EXIT_DONE;
    }
    bool success = child_finish(&video->ffmpeg, 5 * SLUICE_S);
    child_last_line(&video->ffmpeg, reason, sizeof reason);
    if (!success || play->committed + play->dropped == 0) {
        say_error(play->command, "ffmpeg cannot decode %s%s%s", play->source, reason[0] ? ": " : ".", reason);
        return EXIT_FAILED;
    }
    return EXIT_DONE;
}

int play_video(struct play *play)
{
    struct video video = { 0 };
    struct sluice_format format = SLUICE_FORMAT_INIT;
    bool end = false;
    int code = choose_source(play, &video);
    if (code == EXIT_FAILED && stop_asked())
        return EXIT_DONE; /* a signal interrupted ffprobe */
    if (code == EXIT_DONE)
        code = open_channel(play, &video.source);
    if (code != EXIT_DONE)
        return code;
    sluice_writer_format(play->writer, &format);
    if (!play->own_pattern && !media_decode(&video.source, &video.ffmpeg, play->command))
        code = EXIT_FAILED;
    while (code == EXIT_DONE && !end && !play_is_done(play))
        code = play_frame(play, &video, format.arrays[0].nbytes, &end);
    if (!play->own_pattern && video.ffmpeg.name) {
        int ended = code == EXIT_DONE ? end_ffmpeg(play, &video) : EXIT_DONE;
        child_kill(&video.ffmpeg);
        code = code ? code : ended;
    }
    pattern_close(&video.pattern);
    free(video.discard);
    return code;
}
