/* SPDX-License-Identifier: MIT
 *
 * sluice play: plays a file, a camera or a test picture into a channel.
 */
#include "play.h"

#include <inttypes.h>
#include <string.h>

#include "../common/args.h"
#include "../common/cipd.h"
#include "../common/per_system.h"
#include "../common/picture.h"
#include "../common/term.h"
#include "../common/text.h"

enum { LOOP, FPS, SIZE, FORMAT, DEVICE, SLOTS, WAIT, READERS, FRAMES, PATTERN, HASH, RETIME, QUIET };

static const struct args_option options[] = {
    [LOOP] = { 'l', "loop", NULL, "start again at the end" },
    [FPS] = { 'r', "fps", "N|max", "frames per second; default: the source's own" },
    [SIZE] = { 's', "size", "WxH", "scale to this size; default: the source's own" },
    [FORMAT] = { 'f', "format", "FORMAT", "pixel format: rgba (default), nv12, gray, ..." },
    [DEVICE] = { 'd', "device", "host|GPU", "memory of the frames: host (default) or cuda:0" },
    [SLOTS] = { 0, "slots", "N", "initial number of slots, 3 to 64; default 4" },
    [WAIT] = { 'w', "wait", NULL, "wait for slow in-order readers instead of dropping" },
    [READERS] = { 0, "readers", "N", "start when N readers are connected" },
    [FRAMES] = { 'n', "frames", "N", "stop after N frames" },
    [PATTERN] = { 0, "pattern", NULL, "test: draw the picture without ffmpeg" },
    [HASH] = { 0, "hash", NULL, "add each frame's hash to its metadata" },
    [RETIME] = { 0, "retime", NULL, "recording: set capture times to now" },
    [QUIET] = { 'q', "quiet", NULL, "print no progress and no summary" },
    { 0 },
};

static bool parse_option(struct play *play, const struct args *args, int option)
{
    uint32_t number;
    switch (option) {
    case LOOP: return play->loop = true;
    case FPS:
        if (strcmp(args->value, "max") != 0)
            return args_number(args, 0.01, 100000, &play->fps);
        play->fps = FPS_MAX;
        return true;
    case SIZE: return args_size(args, &play->source.width, &play->source.height);
    case FORMAT: return args_pixel_format(args, &play->format);
    case DEVICE: play->device = args->value; return true;
    case SLOTS: return args_u32(args, 3, SLUICE_MAX_SLOTS, &play->slots);
    case WAIT: return play->wait = true;
    case READERS: return args_u32(args, 1, SLUICE_MAX_READERS, &play->readers);
    case FRAMES:
        if (!args_u32(args, 1, UINT32_MAX, &number))
            return false;
        play->limit = number;
        return true;
    case PATTERN: return play->own_pattern = true;
    case HASH: return play->hash = true;
    case RETIME: return play->retime = true;
    case QUIET: return play->quiet = true;
    default: return false;
    }
}

/* Plays what the source turns out to be. Returns an exit code. */
static int play_source(struct play *play)
{
    struct source *source = &play->source;
    source->command = play->command;
    source->format = play->format;
    source->fps = play->fps > 0 ? play->fps : 0;
    source->loop = play->loop;
    int code = source_open(source);
    if (code != EXIT_DONE || stop_asked())
        return code;
    if (!source->recording)
        return play_video(play);
    FILE *file = source_recording(source);
    if (!file)
        return EXIT_FAILED;
    code = play_recording(play, file);
    fclose(file);
    return code;
}

static void print_summary(const struct play *play)
{
    double seconds = (double)(now_ns() - play->start_ns) / 1e9;
    progress_end();
    printf("played %" PRIu64 " frames, dropped %" PRIu64 ", %.1f fps\n", play->committed, play->dropped,
           seconds > 0 && play->committed ? (double)(play->committed - 1) / seconds : 0);
}

static int play_run(const struct command *command, int argc, char **argv)
{
    struct play play = { .command = command->name, .format = SLUICE_PIXEL_RGBA };
    struct args args;
    int option;
    args_begin(&args, command, argc, argv);
    while ((option = args_next(&args)) >= 0)
        if (!parse_option(&play, &args, option))
            return EXIT_USAGE;
    if (option != ARGS_END)
        return option == ARGS_HELP ? EXIT_DONE : EXIT_USAGE;
    play.source.path = args.rest[0];
    play.channel = args.rest[1];
    if (is_cipd(play.channel) && (play.wait || play.readers)) {
        say_error(command->name, "--wait and --readers do not work with a cipd: channel, whose readers are unknown.");
        return EXIT_USAGE;
    }
    if (is_cipd(play.channel) && !play.device)
        play.device = "cuda:0"; /* cipd: channels are on GPUs only */

    stop_on_signals();
    int code = play_source(&play);
    source_close(&play.source);
    if (play.writer) {
        if (play.start_ns && !play.quiet)
            print_summary(&play);
        upload_close(&play.upload);
        sluice_writer_close(&play.writer);
    }
    return code;
}

const struct command play_command = {
    .name = "play",
    .arguments = PER_SYSTEM("FILE|DEVICE|test CHANNEL", "test CHANNEL"),
    .summary = "play a file, a camera or a test picture into a channel",
    .details = PER_SYSTEM("FILE is a Sluice recording, played with its recorded timing, formats and metadata, or\n"
                          "anything that ffmpeg reads, including URLs such as rtsp://. DEVICE is a camera, such as\n"
                          "/dev/video0. 'test' is a moving picture. - is standard input, such as the output of\n"
                          "'sluice record CHANNEL -'. Frames have the times and colours of the source. Ctrl-C stops.\n",
                          "'test' is a moving picture. Nothing else is played on Windows so far. Ctrl-C stops.\n"),
    .examples = PER_SYSTEM("  sluice play test camera                       moving picture, 1280x720, 30 fps\n"
                           "  sluice play clip.mp4 camera --loop            a clip, repeated\n"
                           "  sluice play clip.mp4 camera --size 640x360 --format nv12\n"
                           "  sluice play /dev/video0 camera --size 1280x720\n"
                           "  sluice play clip.mp4 camera --device cuda:0   frames in a GPU's memory\n"
                           "  sluice play take.slr camera --fps max --wait  a recording as fast as possible\n",
                           "  sluice play test cipd:camera                  moving picture, 1280x720, 30 fps\n"
                           "  sluice play test \"cipd:cudalink_ipc_Python>>TD\" --format bgra --size 640x360\n"),
    .options = options,
    .min_arguments = 2,
    .max_arguments = 2,
    .run = play_run,
};
