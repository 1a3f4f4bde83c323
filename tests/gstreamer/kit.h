/* SPDX-License-Identifier: MIT
 *
 * Pipelines as processes of their own, and pictures whose bytes are known.
 *
 * The role "pipeline" runs a description as gst-launch-1.0 does, with GStreamer's leak tracer. Of its elements, `look`
 * tells what arrives there, and at `gate` each buffer waits for a line "next". It says
 *
 *     caps CAPS                       what `look` gets, each time it changes
 *     buffer OFFSET PTS FLAGS HASH    each buffer there; d: discontinuity, c: corrupted; of the picture without padding
 *     data TEXT                       before it, if it has metadata
 *     error TEXT, warning TEXT, eos
 *     dropped                         a QoS message
 *
 * and answers
 *
 *     stats NAME     "stats ..." of an element
 *     latency        "latency MIN" in ns, of what is before `look`; "latency none" if it is not live
 *     keep N         keeps the next N buffers at `look`
 *     kept           "kept HASH" for each of them, as it is by now
 *     drop           drops them
 *     fork           "forked STATUS" of a child that drops what was kept
 *     fork stay      "forked PID" of one that goes on living
 *     pause, play    "paused", "plays", once it does
 *     cycle N        stops and starts again N times: "cycled"
 *     again          plays again after an error or an end
 *     eos            sends an end of stream
 *
 * The end of its input stops it.
 */
#ifndef GSTREAMER_KIT_H
#define GSTREAMER_KIT_H

#include <sluice/sluice.h>

#include "harness/test.h"

/* The plug-in of this build, and GStreamer's leak tracer, for processes that are started from now on. */
void gstreamer_environment(void);

/* Starts the pipeline. Skips the test if an element is missing in it. */
struct child pipeline_start(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The rest of the next line that begins with `word` and a blank; other lines are skipped, but an error fails the test
 * unless it is waited for. Valid until the next line. */
const char *pipeline_says(struct child *pipeline, const char *word);

/* One number of an element's statistics. */
uint64_t pipeline_stat(struct child *pipeline, const char *element, const char *name);

/* Stops and starts it so many times. */
void pipeline_cycle(struct child *pipeline, long times);

/* Stops it; nothing may have leaked. */
void pipeline_stop(struct child *pipeline);

/* Skips the test if GStreamer lacks the element. */
void need_element(const char *name);

/* A page of docs/. */
FILE *page_open(const char *name);

/* Its next line that runs gst-launch-1.0 and has `part`; NULL at its end. */
char *page_command(FILE *page, const char *part, char line[2048]);

/* The first line of docs/gstreamer.md that has `part`, which may be its end: "...\n". */
void page_line(const char *part, char line[2048]);

/* A channel of one image. */
sluice_writer *image_writer(const char *channel, uint32_t pixel_format, uint32_t width, uint32_t height,
                            uint32_t pitch_align);

/* Commits a frame of this number; its hash is returned. */
uint64_t image_commit(sluice_writer *writer, uint32_t number);

/* The hash of a frame's picture, without padding. */
uint64_t image_hash(const struct sluice_array *array);

/* A reader of every frame. */
sluice_reader *image_reader(const char *channel);

/* How many readers the channel has. */
uint32_t reader_count(const char *channel);

/* A path in the test's folder; four at a time. */
const char *in_dir(const char *name);

#endif
