/* SPDX-License-Identifier: MIT
 *
 * Recording video: ffmpeg gets a steady rate. A frame that comes late is written more than once, so
 * that the video keeps time through drops and restarts; none is left out.
 */
#include <math.h>
#include <string.h>

#include "../common/args.h"
#include "../common/cipd.h"
#include "../common/describe.h"
#include "../common/term.h"
#include "record.h"

#define MEASURE_TIME (300 * SLUICE_MS)
#define RATE_UNKNOWN 30
#define LATE         2.5 /* frames; less is only jitter */

/* Clocks and short measurements are a little off: a rate near a usual one is that. */
static double usual_rate(double rate)
{
    static const double usual[] = { 10, 12, 12.5, 15,  20,  24,  25, 30000.0 / 1001, 30, 48, 50,
                                    60, 72, 90,   100, 120, 144, 240 };
    double best = usual[0];
    for (size_t i = 1; i < sizeof usual / sizeof usual[0]; i++)
        if (fabs(rate - usual[i]) < fabs(rate - best))
            best = usual[i];
    if (fabs(rate - best) < best * 0.03)
        return best;
    return rate < 1 ? RATE_UNKNOWN : rate > 1000 ? 1000 : round(rate);
}

void record_measure(struct record *record)
{
    struct sluice_channel_info before = { .size = sizeof before }, after = { .size = sizeof after };
    int64_t end = now_ns() + record->timeout_ns;
    if (record->sink.fps > 0)
        return;
    record->sink.fps = RATE_UNKNOWN;
    while (sluice_channel_info(record->channel, WRITER_PATIENCE, &before, NULL, 0) != SLUICE_OK) {
        if (now_ns() >= end || stop_asked())
            return;
        progress("waiting for the channel '%s'", record->channel);
        sleep_until(now_ns() + 50 * SLUICE_MS);
    }
    sleep_until(now_ns() + MEASURE_TIME);
    if (sluice_channel_info(record->channel, WRITER_PATIENCE, &after, NULL, 0) != SLUICE_OK ||
        after.session != before.session || after.committed <= before.committed)
        return;
    double seconds = (double)(after.last_commit_ns - before.last_commit_ns) / 1e9;
    if (seconds > 0)
        record->sink.fps = usual_rate((double)(after.committed - before.committed) / seconds);
    if (record->every > 1)
        record->sink.fps /= record->every;
}

/* "take.mp4", then "take.2.mp4", ... */
static void name_segment(struct record *record)
{
    const char *slash = strrchr(record->path, '/');
    const char *dot = strrchr(slash ? slash : record->path, '.');
    int stem = (int)(dot ? (size_t)(dot - record->path) : strlen(record->path));
    record->segment++;
    if (record->segment == 1)
        snprintf(record->segment_path, sizeof record->segment_path, "%s", record->path);
    else
        snprintf(record->segment_path, sizeof record->segment_path, "%.*s.%u%s", stem, record->path,
                 record->segment, dot ? dot : "");
    record->sink.file = record->segment_path;
}

static int start_segment(struct record *record, const struct sluice_frame *frame,
                         const struct sluice_array *image)
{
    if (record->segment && !media_close(&record->sink, record->command))
        return EXIT_FAILED;
    name_segment(record);
    if (record->segment > 1)
        say_error(record->command, "the image is %ux%u now; going on in %s.", image->image.width,
                  image->image.height, record->segment_path);
    record->first_ns = frame->commit_ns;
    record->written = 0;
    return media_open(&record->sink, image, record->command) ? EXIT_DONE : EXIT_FAILED;
}

int record_video(struct record *record, const struct sluice_frame *frame)
{
    struct sluice_array image;
    int code = select_array(record->command, frame, record->array, &image);
    if (code != EXIT_DONE)
        return code;
    readback_map(&record->readback, &image);
    if (!image.image.pixel_format) {
        say_not_image(record->command, record->channel, &image, "record it to a .slr file");
        return EXIT_FAILED;
    }
    if (!record->segment || !media_fits(&record->sink, &image))
        code = start_segment(record, frame, &image);
    if (code != EXIT_DONE)
        return code;
    double due = (double)(frame->commit_ns - record->first_ns) * record->sink.fps / 1e9;
    bool late = due > (double)record->written + LATE;
    do {
        if (!media_write(&record->sink, &image)) {
            media_close(&record->sink, record->command);
            return EXIT_FAILED;
        }
        record->written++;
        record->repeated += late && (double)record->written < due;
    } while (late && (double)record->written < due && !stop_asked());
    return EXIT_DONE;
}
