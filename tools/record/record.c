/* SPDX-License-Identifier: MIT
 *
 * sluice record: writes every frame of a channel into a Sluice recording or a video.
 */
#include "record.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "../common/args.h"
#include "../common/cipd.h"
#include "../common/describe.h"
#include "../common/picture.h"
#include "../common/term.h"
#include "../media/recording.h"

#define ACQUIRE_TIMEOUT (100 * SLUICE_MS) /* how long a signal to stop may go unnoticed */
#define REOPEN_INTERVAL (20 * SLUICE_MS)  /* between attempts to acquire from a closed channel */

enum { FRAMES, SECONDS, DEPTH, EVERY, FPS, CRF, ARRAY, AS, RAW, FOLLOW, TIMEOUT, UNDECLARED, QUIET };

static const struct args_option options[] = {
    [FRAMES] = { 'n', "frames", "N", "stop after N frames" },
    [SECONDS] = { 's', "seconds", "S", "stop after S seconds" },
    [DEPTH] = { 'd', "depth", "N", "unread frames that the writer keeps; default: as many as fit" },
    [EVERY] = { 'e', "every", "N", "record every N-th frame only" },
    [FPS] = { 'r', "fps", "N", "video: round times to N frames a second; default: as published" },
    [CRF] = { 0, "crf", "N", "video: quality from 0 (best) to 51; default 20" },
    [ARRAY] = { 'a', "array", "ARRAY", "video: the array to record; default: the first image" },
    [AS] = AS_OPTION,
    [RAW] = { 0, "raw", NULL, "write a Sluice recording, whatever the file name" },
    [FOLLOW] = { 'F', "follow", NULL, "wait for the next writer when the channel closes" },
    [TIMEOUT] = { 't', "timeout", "S", "wait up to S seconds for the channel; default 0" },
    [UNDECLARED] = UNDECLARED_OPTION,
    [QUIET] = { 'q', "quiet", NULL, "print no progress and no summary" },
    { 0 },
};

/* ---- Sluice recordings ---- */

static int report_write_error(const struct record *record)
{
    say_error(record->command, "cannot write to %s: %s.", record->path, strerror(errno));
    return EXIT_FAILED;
}

static int create_recording(struct record *record)
{
    record->file = record->to_output ? stdout : fopen(record->path, "wbe");
    if (record->file && recording_create(record->file, record->channel))
        return EXIT_DONE;
    int code = report_write_error(record);
    if (record->file)
        fclose(record->file);
    return code;
}

/* Reports errno, and cuts off what follows `end`, the end of the last whole frame. */
static int abort_recording(struct record *record, off_t end)
{
    say_error(record->command, "cannot write to %s: %s. It has the %" PRIu64 " frames before.", record->path,
              strerror(errno), record->frames);
    clearerr(record->file);
    if (ftruncate(fileno(record->file), end) == 0)
        fseeko(record->file, end, SEEK_SET);
    return EXIT_FAILED;
}

static bool write_format_if_changed(struct record *record, const struct sluice_frame *frame)
{
    struct sluice_format format = SLUICE_FORMAT_INIT;
    bool first = record->format.array_count == 0;
    if (!first && !(frame->flags & (SLUICE_FRAME_NEW_FORMAT | SLUICE_FRAME_NEW_SESSION)))
        return true;
    if (sluice_reader_format(record->reader, &format) != SLUICE_OK)
        return true;
    if (same_format(&format, &record->format))
        return true;
    record->format = format;
    return recording_put_format(record->file, &format);
}

static int write_raw_frame(struct record *record, const struct sluice_frame *frame)
{
    struct sluice_array arrays[SLUICE_MAX_ARRAYS];
    for (uint32_t i = 0; i < frame->array_count; i++) {
        int result = sluice_frame_array_at(frame, i, &arrays[i]);
        if (result)
            return say_result(record->command, result, NULL);
        readback_map(&record->readback, &arrays[i]);
    }
    off_t end = ftello(record->file);
    if (!write_format_if_changed(record, frame) || !recording_put_frame(record->file, frame, arrays))
        return abort_recording(record, end);
    return EXIT_DONE;
}

static int finish_recording(struct record *record, int code)
{
    if (code == EXIT_DONE && !recording_put_end(record->file, record->frames, record->missed))
        code = report_write_error(record);
    if (fclose(record->file) != 0 && code == EXIT_DONE)
        code = report_write_error(record);
    return code;
}

/* ---- frames ---- */

static bool is_done(const struct record *record)
{
    return stop_asked() || (record->max_frames && record->frames >= record->max_frames) || now_ns() >= record->end_ns;
}

static int write_frame(struct record *record, const struct sluice_frame *frame)
{
    int result = readback_fetch(&record->readback, record->reader, frame);
    if (result)
        return say_result(record->command, result, NULL);
    int code = record->file ? write_raw_frame(record, frame) : record_video(record, frame);
    if (code != EXIT_DONE)
        return code;
    record->frames++;
    record->missed += frame->missed;
    record->sessions += frame->session != record->session;
    record->session = frame->session;
    if (!record->quiet)
        progress("recording '%s': %" PRIu64 " frames, %" PRIu64 " missed", record->channel, record->frames,
                 record->missed);
    return EXIT_DONE;
}

static int write_and_release(struct record *record, struct sluice_frame *frame)
{
    int code = write_frame(record, frame);
    int result = sluice_reader_release(record->reader, frame, SLUICE_ON_CPU);
    if (result && code == EXIT_DONE)
        return say_result(record->command, result, record->channel);
    return code;
}

/* Deals with an acquire that returned no frame. */
static int handle_no_frame(struct record *record, int result)
{
    if (result == SLUICE_E_LOST) {
        say_error(record->command, "%s Recording continues.", sluice_last_error());
        return EXIT_DONE;
    }
    if (result < 0)
        return say_result(record->command, result, record->channel);
    if (result == SLUICE_CLOSED)
        sleep_until(now_ns() + REOPEN_INTERVAL);
    if (!record->quiet)
        progress("recording '%s': %" PRIu64 " frames, waiting: %s", record->channel, record->frames,
                 sluice_result_text(result));
    return EXIT_DONE;
}

static int record_frames(struct record *record)
{
    int code = EXIT_DONE;
    while (code == EXIT_DONE && !is_done(record)) {
        struct sluice_frame frame;
        int result = sluice_reader_acquire(record->reader, SLUICE_ON_CPU, ACQUIRE_TIMEOUT, &frame);
        if (result == SLUICE_CLOSED && !record->follow)
            break;
        if (result == SLUICE_OK)
            code = write_and_release(record, &frame);
        else
            code = handle_no_frame(record, result);
    }
    return code;
}

/* ---- the command ---- */

static bool parse_option(struct record *record, const struct args *args, int option)
{
    switch (option) {
    case FRAMES: return args_u32(args, 1, UINT32_MAX, &record->max_frames);
    case SECONDS: return args_duration(args, &record->duration_ns);
    case DEPTH: return args_u32(args, 1, SLUICE_MAX_SLOTS, &record->depth);
    case EVERY: return args_u32(args, 1, 1000000, &record->every);
    case FPS: return args_number(args, 0.01, 1000, &record->sink.fps);
    case CRF: record->sink.crf_set = true; return args_u32(args, 0, 51, &record->sink.crf);
    case ARRAY: record->array = args->value; return true;
    case AS: return args_pixel_format(args, &record->as);
    case RAW: record->raw = true; return true;
    case FOLLOW: record->follow = true; return true;
    case TIMEOUT: return args_duration(args, &record->open_timeout_ns);
    case UNDECLARED: return cipd_parse_order(args, &record->undeclared);
    case QUIET: record->quiet = true; return true;
    default: return false;
    }
}

static int open_channel(struct record *record)
{
    struct sluice_reader_params params = SLUICE_READER_PARAMS_INIT;
    struct sluice_cipd_reader_params cipd;
    params.name = record->channel;
    params.mode = SLUICE_IN_ORDER;
    params.depth = record->depth;
    params.every = record->every;
    int code = cipd_init_reader(record->command, &params, &cipd, record->undeclared);
    if (code != EXIT_DONE)
        return code;
    return open_reader(record->command, &params, record->open_timeout_ns, &record->reader);
}

static void print_summary(const struct record *record)
{
    FILE *out = record->to_output ? stderr : stdout;
    fprintf(out, "recorded %" PRIu64 " frames, missed %" PRIu64, record->frames, record->missed);
    if (record->sessions > 1)
        fprintf(out, ", over %u sessions of the writer", record->sessions);
    if (record->left_out)
        fprintf(out, ", %" PRIu64 " left out to keep to --fps", record->left_out);
    if (record->segment > 1)
        fprintf(out, ", in %u files", record->segment);
    fprintf(out, "\n");
}

static int finish_file(struct record *record, int code)
{
    if (record->file)
        code = finish_recording(record, code);
    else if (!media_close(&record->sink, record->command) && code == EXIT_DONE)
        code = EXIT_FAILED;
    progress_end();
    if (!record->quiet)
        print_summary(record);
    if (code == EXIT_DONE && record->frames == 0 && !stop_asked()) {
        say_error(record->command, "no frame arrived from '%s'.", record->channel);
        return EXIT_TIMED_OUT;
    }
    return code;
}

static int record_run(const struct command *command, int argc, char **argv)
{
    struct record record = { .command = command->name };
    struct args args;
    int option;
    args_begin(&args, command, argc, argv);
    while ((option = args_next(&args)) >= 0)
        if (!parse_option(&record, &args, option))
            return EXIT_USAGE;
    if (option != ARGS_END)
        return option == ARGS_HELP ? EXIT_DONE : EXIT_USAGE;
    record.channel = args.rest[0];
    record.path = args.rest[1];
    record.raw = record.raw || text_ends_with(record.path, ".slr");
    record.to_output = strcmp(record.path, "-") == 0;
    if (record.raw && record.as) {
        say_error(command->name, "--as is for videos: a Sluice recording keeps arrays as they are.");
        return EXIT_USAGE;
    }
    if (record.to_output && isatty(STDOUT_FILENO)) {
        say_error(command->name,
                  "standard output is a terminal; send it somewhere, as in: sluice record %s - | ffplay -",
                  record.channel);
        return EXIT_USAGE;
    }

    stop_on_signals();
    signal(SIGPIPE, SIG_IGN); /* writing to a program that ended fails instead */
    if (!record.raw)
        record_measure_rate(&record);
    int code = open_channel(&record);
    if (code == EXIT_DONE && record.raw)
        code = create_recording(&record);
    bool started = code == EXIT_DONE;
    if (started) {
        record.end_ns = record.duration_ns ? now_ns() + record.duration_ns : INT64_MAX;
        code = record_frames(&record);
    }
    readback_close(&record.readback);
    sluice_reader_close(&record.reader); /* first: an open reader may hold up its writer */
    return started ? finish_file(&record, code) : code;
}

const struct command record_command = {
    .name = "record",
    .arguments = "CHANNEL FILE",
    .summary = "record every frame of a channel",
    .details = "If FILE ends in .slr, it becomes a Sluice recording: every frame bit for bit, with its\n"
               "timing, format and metadata, for 'sluice play'. Any other FILE is a video, encoded by\n"
               "ffmpeg in the format of its name. If the writer is killed, recording continues when it\n"
               "restarts. Recording ends when the writer closes (see --follow), or with Ctrl-C. An\n"
               "existing FILE is replaced. When a video changes its size or colours, it continues in a new\n"
               "file with .2, .3 and so on before the ending. - is standard output: raw video with times,\n"
               "as NUT.\n",
    .examples = "  sluice record camera take.slr\n"
                "  sluice record camera take.mp4 --seconds 10 --crf 18\n"
                "  sluice record camera take.slr --frames 100 --depth 8\n"
                "  sluice record camera - | ffmpeg -f nut -i - take.webm\n",
    .options = options,
    .min_arguments = 2,
    .max_arguments = 2,
    .run = record_run,
};
