/* SPDX-License-Identifier: MIT
 *
 * Recording a video: every frame at the time when it was published, so that the video keeps time across pauses, drops,
 * restarts and changes of the rate. With --fps times are rounded.
 */
#include <math.h>
#include <string.h>

#include "../common/args.h"
#include "../common/cipd.h"
#include "../common/describe.h"
#include "../common/picture.h"
#include "../common/term.h"
#include "record.h"

#define MEASURE_TIME  (300 * SLUICE_MS)
#define POLL_INTERVAL (50 * SLUICE_MS)
#define DEFAULT_RATE  30

/* Rounds a measured rate to a common one, or else to a whole number. */
static double round_rate(double rate)
{
    static const double common[] = { 10, 12, 12.5, 15,  20,  24,  25, 30000.0 / 1001, 30, 48, 50,
                                     60, 72, 90,   100, 120, 144, 240 };
    double nearest = common[0];
    for (size_t i = 1; i < sizeof common / sizeof common[0]; i++)
        if (fabs(rate - common[i]) < fabs(rate - nearest))
            nearest = common[i];
    if (fabs(rate - nearest) < nearest * 0.03)
        return nearest;
    return rate < 1 ? DEFAULT_RATE : rate > 1000 ? 1000 : round(rate);
}

void record_measure_rate(struct record *record)
{
    struct sluice_channel_info before = { .size = sizeof before }, after = { .size = sizeof after };
    int64_t end = now_ns() + record->open_timeout_ns;
    record->even = record->sink.fps > 0;
    if (record->even)
        return;
    record->sink.fps = DEFAULT_RATE;
    if (record->to_output || media_has_times(record->path))
        return;
    while (sluice_channel_info(record->channel, WRITER_TIMEOUT, &before, NULL, 0) != SLUICE_OK) {
        if (now_ns() >= end || stop_asked())
            return;
        progress("waiting for the channel '%s'", record->channel);
        sleep_until(now_ns() + POLL_INTERVAL);
    }
    sleep_until(now_ns() + MEASURE_TIME);
    if (sluice_channel_info(record->channel, WRITER_TIMEOUT, &after, NULL, 0) != SLUICE_OK ||
        after.session != before.session || after.committed <= before.committed)
        return;
    double seconds = (double)(after.last_commit_ns - before.last_commit_ns) / 1e9;
    if (seconds > 0)
        record->sink.fps = round_rate((double)(after.committed - before.committed) / seconds);
    if (record->every > 1)
        record->sink.fps /= record->every;
}

/* "take.mp4", "take.2.mp4", "take.3.mp4", ... */
static void name_segment(struct record *record)
{
    const char *slash = strrchr(record->path, '/');
    const char *dot = strrchr(slash ? slash : record->path, '.');
    int stem = (int)(dot ? (size_t)(dot - record->path) : strlen(record->path));
    record->segment++;
    if (record->segment == 1)
        snprintf(record->segment_path, sizeof record->segment_path, "%s", record->path);
    else
        snprintf(record->segment_path, sizeof record->segment_path, "%.*s.%u%s", stem, record->path, record->segment,
                 dot ? dot : "");
    record->sink.file = record->segment_path;
}

static int start_segment(struct record *record, const struct sluice_frame *frame, const struct sluice_array *image)
{
    if (record->segment && record->to_output) {
        say_error(record->command, "the images of '%s' changed, and a stream cannot: recording ends.", record->channel);
        return EXIT_FAILED;
    }
    if (record->segment && !media_close(&record->sink, record->command))
        return EXIT_FAILED;
    name_segment(record);
    if (record->segment > 1)
        say_error(record->command, "the images changed to %ux%u %s, or in their colours; continuing in %s.",
                  image->image.width, image->image.height,
                  sluice_pixel_format_name((enum sluice_pixel_format)image->image.pixel_format), record->segment_path);
    record->segment_start_ns = frame->commit_ns;
    record->last_pts_ns = -1;
    return media_open(&record->sink, image, record->command) ? EXIT_DONE : EXIT_FAILED;
}

/* The frame's time in the video. */
static int64_t frame_time(const struct record *record, const struct sluice_frame *frame)
{
    int64_t pts = frame->commit_ns - record->segment_start_ns;
    if (record->even) /* to the nearest whole frame */
        pts = (int64_t)(round((double)pts * record->sink.fps / 1e9) / record->sink.fps * 1e9);
    return pts;
}

static int write_at_its_time(struct record *record, const struct sluice_frame *frame, const struct sluice_array *image)
{
    int64_t pts = frame_time(record, frame);
    if (record->even && pts <= record->last_pts_ns) {
        record->left_out++;
        return EXIT_DONE;
    }
    if (pts < 0)
        pts = 0; /* of another writer, whose clock is behind */
    record->last_pts_ns = pts;
    if (media_write(&record->sink, image, pts))
        return EXIT_DONE;
    media_close(&record->sink, record->command);
    return EXIT_FAILED;
}

int record_video(struct record *record, const struct sluice_frame *frame)
{
    struct sluice_array image;
    int code = select_array(record->command, frame, record->array, &image);
    if (code != EXIT_DONE)
        return code;
    readback_map(&record->readback, &image);
    if ((code = picture_take_as(record->command, &image, record->as)) != EXIT_DONE)
        return code;
    if (!image.image.pixel_format) {
        say_not_image(record->command, record->channel, &image, "record it to a .slr file");
        return EXIT_FAILED;
    }
    if (!record->segment || !media_fits(&record->sink, &image))
        code = start_segment(record, frame, &image);
    if (code != EXIT_DONE)
        return code;
    return write_at_its_time(record, frame, &image);
}
