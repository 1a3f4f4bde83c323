/* SPDX-License-Identifier: MIT
 *
 * sluice record: every frame of a channel, in order, into a Sluice recording.
 */
#include "record.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "../common/args.h"
#include "../common/cipd.h"
#include "../common/describe.h"
#include "../common/term.h"
#include "../media/recording.h"

enum { FRAMES, SECONDS, DEPTH, EVERY, FPS, CRF, ARRAY, RAW, FOLLOW, TIMEOUT, UNDECLARED, QUIET };

static const struct args_option options[] = {
    [FRAMES] = { 'n', "frames", "N", "stop after N frames" },
    [SECONDS] = { 's', "seconds", "S", "stop after S seconds" },
    [DEPTH] = { 'd', "depth", "N", "unread frames kept for it; default: what there is" },
    [EVERY] = { 'e', "every", "N", "record each N-th frame only" },
    [FPS] = { 'r', "fps", "N", "video: frames a second; default: as measured" },
    [CRF] = { 0, "crf", "N", "video: quality, 0 (best) to 51; default 20" },
    [ARRAY] = { 'a', "array", "ARRAY", "video: this array; default: the first image" },
    [RAW] = { 0, "raw", NULL, "a Sluice recording, whatever the file's name" },
    [FOLLOW] = { 'F', "follow", NULL, "go on when the writer closes, for the next one" },
    [TIMEOUT] = { 't', "timeout", "S", "wait so long for the channel; default 0" },
    [UNDECLARED] = UNDECLARED_OPTION,
    [QUIET] = { 'q', "quiet", NULL, "no progress, no summary" },
    { 0 },
};

/* A file that takes no more ends with its last whole frame. */
static int give_up(struct record *record, off_t whole)
{
    int error = errno;
    say_error(record->command, "%s takes no more: %s. It keeps the %" PRIu64 " frames before.",
              record->path, strerror(error), record->frames);
    clearerr(record->file);
    if (whole >= 0 && ftruncate(fileno(record->file), whole) == 0)
        fseeko(record->file, whole, SEEK_SET);
    return EXIT_FAILED;
}

static int put_raw(struct record *record, const struct sluice_frame *frame)
{
    struct sluice_array arrays[SLUICE_MAX_ARRAYS];
    struct sluice_format format = SLUICE_FORMAT_INIT;
    off_t whole = ftello(record->file);
    for (uint32_t i = 0; i < frame->array_count; i++) {
        int result = sluice_frame_array_at(frame, i, &arrays[i]);
        if (result)
            return say_result(record->command, result, NULL);
        readback_map(&record->readback, &arrays[i]);
    }
    bool changed = frame->flags & (SLUICE_FRAME_NEW_FORMAT | SLUICE_FRAME_NEW_SESSION);
    if ((changed || record->format.array_count == 0) &&
        sluice_reader_format(record->reader, &format) == SLUICE_OK &&
        !same_format(&format, &record->format)) {
        if (!recording_put_format(record->file, &format))
            return give_up(record, whole);
        record->format = format;
        whole = ftello(record->file);
    }
    return recording_put_frame(record->file, frame, arrays) ? EXIT_DONE : give_up(record, whole);
}

/* One frame into the file. */
static int put_frame(struct record *record, const struct sluice_frame *frame)
{
    int result = readback_fetch(&record->readback, record->reader, frame);
    if (result)
        return say_result(record->command, result, NULL);
    int code = record->file ? put_raw(record, frame) : record_video(record, frame);
    if (code != EXIT_DONE)
        return code;
    record->frames++;
    record->missed += frame->missed;
    record->sessions += frame->session != record->session;
    record->session = frame->session;
    if (!record->quiet)
        progress("recording '%s': %" PRIu64 " frames, %" PRIu64 " missed", record->channel,
                 record->frames, record->missed);
    return EXIT_DONE;
}

static bool over(const struct record *record)
{
    return stop_asked() || (record->limit && record->frames >= record->limit) ||
           now_ns() >= record->end_ns;
}

/* Takes frames until it is time to end. */
static int take_frames(struct record *record)
{
    int code = EXIT_DONE;
    while (code == EXIT_DONE && !over(record)) {
        struct sluice_frame frame;
        int result = sluice_reader_acquire(record->reader, SLUICE_ON_CPU, 100 * SLUICE_MS, &frame);
        if (result == SLUICE_OK) {
            code = put_frame(record, &frame);
            result = sluice_reader_release(record->reader, &frame, SLUICE_ON_CPU);
            if (result && code == EXIT_DONE)
                code = say_result(record->command, result, record->channel);
        } else if (result == SLUICE_CLOSED && !record->follow) {
            break;
        } else if (result == SLUICE_CLOSED) {
            sleep_until(now_ns() + 20 * SLUICE_MS);
        } else if (result == SLUICE_E_LOST) {
            say_error(record->command, "%s Going on.", sluice_last_error());
        } else if (result < 0) {
            code = say_result(record->command, result, record->channel);
        }
        if (result > 0 && !record->quiet)
            progress("recording '%s': %" PRIu64 " frames, waiting: %s", record->channel,
                     record->frames, sluice_result_text(result));
    }
    return code;
}

static int finish(struct record *record, int code)
{
    if (record->file) {
        if (code == EXIT_DONE && !recording_put_end(record->file, record->frames, record->missed))
            code = give_up(record, -1);
        if (fclose(record->file) != 0 && code == EXIT_DONE) {
            say_error(record->command, "%s could not be written: %s.", record->path,
                      strerror(errno));
            code = EXIT_FAILED;
        }
    } else if (!media_close(&record->sink, record->command)) {
        code = code ? code : EXIT_FAILED;
    }
    progress_end();
    if (!record->quiet) {
        printf("recorded %" PRIu64 " frames, missed %" PRIu64, record->frames, record->missed);
        if (record->sessions > 1)
            printf(", over %u sessions of the writer", record->sessions);
        if (record->repeated)
            printf(", %" PRIu64 " repeated to keep time", record->repeated);
        if (record->segment > 1)
            printf(", in %u files", record->segment);
        printf("\n");
    }
    if (code == EXIT_DONE && record->frames == 0 && !stop_asked()) {
        say_error(record->command, "no frame came from '%s'.", record->channel);
        return EXIT_TIMED_OUT;
    }
    return code;
}

static bool take_option(struct record *record, const struct args *args, int option)
{
    uint32_t number;
    int64_t time;
    switch (option) {
    case FRAMES:
        if (!args_u32(args, 1, UINT32_MAX, &number))
            return false;
        record->limit = number;
        return true;
    case SECONDS:
        if (!args_duration(args, &time))
            return false;
        record->seconds_ns = time;
        return true;
    case DEPTH: return args_u32(args, 1, SLUICE_MAX_SLOTS, &record->depth);
    case EVERY: return args_u32(args, 1, 1000000, &record->every);
    case FPS: return args_number(args, 0.01, 1000, &record->sink.fps);
    case CRF: record->sink.crf_set = true; return args_u32(args, 0, 51, &record->sink.crf);
    case ARRAY: record->array = args->value; return true;
    case RAW: return record->raw = true;
    case FOLLOW: return record->follow = true;
    case TIMEOUT: return args_duration(args, &record->timeout_ns);
    case UNDECLARED: return cipd_parse_order(args, &record->undeclared);
    case QUIET: return record->quiet = true;
    default: return false;
    }
}

static int run(const struct command *command, int argc, char **argv)
{
    struct record record = { .command = command->name };
    struct sluice_reader_params params = SLUICE_READER_PARAMS_INIT;
    struct sluice_cipd_reader_params cipd;
    struct args args;
    int option;
    args_begin(&args, command, argc, argv);
    while ((option = args_next(&args)) >= 0)
        if (!take_option(&record, &args, option))
            return EXIT_USAGE;
    if (option != ARGS_END)
        return option == ARGS_HELP ? EXIT_DONE : EXIT_USAGE;
    record.channel = args.rest[0];
    record.path = args.rest[1];
    record.raw = record.raw || text_ends_with(record.path, ".slr");

    stop_on_signals();
    if (!record.raw)
        record_measure(&record);
    params.name = record.channel;
    params.mode = SLUICE_IN_ORDER;
    params.depth = record.depth;
    params.every = record.every;
    int code = cipd_init_reader(command->name, &params, &cipd, record.undeclared);
    if (code == EXIT_DONE)
        code = open_reader(command->name, &params, record.timeout_ns, &record.reader);
    if (code != EXIT_DONE)
        return code;
    if (record.raw) {
        record.file = fopen(record.path, "wbe");
        if (!record.file || !recording_create(record.file, record.channel)) {
            say_error(command->name, "%s cannot be written: %s.", record.path, strerror(errno));
            if (record.file)
                fclose(record.file);
            sluice_reader_close(&record.reader);
            return EXIT_FAILED;
        }
    }
    record.end_ns = record.seconds_ns ? now_ns() + record.seconds_ns : INT64_MAX;
    code = take_frames(&record);
    readback_close(&record.readback);
    sluice_reader_close(&record.reader);
    return finish(&record, code);
}

const struct command record_command = {
    .name = "record",
    .arguments = "CHANNEL FILE",
    .summary = "record every frame of a channel",
    .details =
        "A FILE that ends in .slr becomes a Sluice recording: frames bit for bit, with their\n"
        "timing, formats and metadata, which 'play' plays again. Any other is encoded by ffmpeg\n"
        "as its name says. Recording goes on when the writer is killed and comes back, and ends\n"
        "when it closes (or see --follow), or with Ctrl-C. An existing FILE is replaced. Video\n"
        "that changes its size goes on in FILE with .2, .3 and so on before its ending.\n",
    .examples = "  sluice record camera take.slr\n"
                "  sluice record camera take.mp4 --seconds 10 --crf 18\n"
                "  sluice record camera take.slr --frames 100 --depth 8\n",
    .options = options,
    .min_arguments = 2,
    .max_arguments = 2,
    .run = run,
};
