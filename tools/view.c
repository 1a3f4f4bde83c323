/* SPDX-License-Identifier: MIT
 *
 * sluice view: shows a channel in a window of ffplay, or in the terminal.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <sluice/sluice.h>

#include "common/args.h"
#include "common/cipd.h"
#include "common/describe.h"
#include "common/picture.h"
#include "common/readback.h"
#include "common/term.h"
#include "media/media.h"
#include "media/pixels.h"

enum { FRAMES, ARRAY, AS, ASCII, UNDECLARED, TIMEOUT };

static const struct args_option options[] = {
    [FRAMES] = { 'n', "frames", "N", "stop after N frames" },
    [ARRAY] = { 'a', "array", "ARRAY", "the array to show; default: the first image" },
    [AS] = AS_OPTION,
    [ASCII] = { 0, "ascii", NULL, "draw in the terminal, without a display" },
    [UNDECLARED] = UNDECLARED_OPTION,
    [TIMEOUT] = { 't', "timeout", "S", "wait up to S seconds for the channel; default 0" },
    { 0 },
};

struct view {
    const char *channel, *array;
    uint64_t limit, frames;
    uint32_t as;
    bool ascii, opened;
    struct media_sink sink;
    struct readback readback;
};

/* Each character is two pixels: an upper half block with the colours of both. */
static int draw_blocks(const struct sluice_array *image)
{
    uint32_t width = image->image.width, height = image->image.height;
    struct sluice_array small = { 0 };
    struct winsize window = { .ws_row = 24, .ws_col = 80 };
    ioctl(STDOUT_FILENO, TIOCGWINSZ, &window);
    uint32_t columns = window.ws_col ? window.ws_col : 80;
    uint32_t rows = (window.ws_row > 1 ? window.ws_row - 1u : 23) * 2;
    /* Keep the aspect ratio: a half block is about square. */
    if ((uint64_t)columns * height > (uint64_t)rows * width)
        columns = (uint32_t)((uint64_t)rows * width / height);
    else
        rows = (uint32_t)((uint64_t)columns * height / width) & ~1u;
    columns = columns ? columns : 1;
    rows = rows ? rows : 2;
    int result = pixels_alloc(&small, SLUICE_PIXEL_RGB24, columns, rows);
    if (result == SLUICE_OK)
        result = pixels_convert(&small, image);
    if (result) {
        free(small.data);
        return say_result("view", result, NULL);
    }
    printf("\033[H");
    for (uint32_t y = 0; y + 1 < rows; y += 2) {
        for (uint32_t x = 0; x < columns; x++) {
            const uint8_t *upper = (const uint8_t *)small.data + y * small.image.planes[0].pitch + 3 * (size_t)x;
            const uint8_t *lower = upper + small.image.planes[0].pitch;
            printf("\033[38;2;%d;%d;%dm\033[48;2;%d;%d;%dm\u2580", upper[0], upper[1], upper[2], lower[0], lower[1],
                   lower[2]);
        }
        printf("\033[0m\033[K\n");
    }
    fflush(stdout);
    free(small.data);
    return EXIT_DONE;
}

static int show_frame(struct view *view, sluice_reader *reader, const struct sluice_frame *frame, bool *end)
{
    struct sluice_array image;
    int code = select_array("view", frame, view->array, &image);
    int result = code == EXIT_DONE ? readback_fetch(&view->readback, reader, frame) : SLUICE_OK;
    if (result)
        code = say_result("view", result, NULL);
    if (code != EXIT_DONE)
        return code;
    readback_map(&view->readback, &image);
    if ((code = picture_take_as("view", &image, view->as)) != EXIT_DONE)
        return code;
    if (!pixels_channels(&image.image)) {
        say_not_image("view", view->channel, &image, "'sluice snap' can write it to a .npy file");
        return EXIT_FAILED;
    }
    if (view->ascii)
        return draw_blocks(&image);
    if (view->opened && !media_fits(&view->sink, &image)) {
        child_kill(&view->sink.child);
        view->opened = false;
    }
    if (!view->opened && !media_open(&view->sink, &image, "view"))
        return EXIT_FAILED;
    view->opened = true;
    *end = !media_write(&view->sink, &image, 0); /* fails once the window is closed */
    return EXIT_DONE;
}

static int show_frames(struct view *view, sluice_reader *reader)
{
    int code = EXIT_DONE;
    bool end = false;
    while (code == EXIT_DONE && !end && !stop_asked()) {
        struct sluice_frame frame;
        int result = sluice_reader_acquire(reader, SLUICE_ON_CPU, 100 * SLUICE_MS, &frame);
        if (result == SLUICE_OK) {
            code = show_frame(view, reader, &frame, &end);
            sluice_reader_release(reader, &frame, SLUICE_ON_CPU);
            end = end || ++view->frames == view->limit;
        } else if (result == SLUICE_CLOSED) {
            sleep_until(now_ns() + 50 * SLUICE_MS);
        } else if (result < 0 && result != SLUICE_E_LOST) {
            code = say_result("view", result, view->channel);
        }
        end = end || (view->opened && child_wait(&view->sink.child, 0));
    }
    if (view->opened && !media_close(&view->sink, "view"))
        code = EXIT_FAILED;
    if (view->ascii && view->frames)
        printf("\033[0m");
    return code;
}

static bool has_display(void)
{
    const char *x = getenv("DISPLAY"), *wayland = getenv("WAYLAND_DISPLAY");
    return (x && x[0]) || (wayland && wayland[0]);
}

static int view_run(const struct command *command, int argc, char **argv)
{
    struct view view = { 0 };
    struct sluice_reader_params params = SLUICE_READER_PARAMS_INIT;
    sluice_reader *reader = NULL;
    int64_t timeout = 0;
    struct args args;
    struct sluice_cipd_reader_params cipd;
    uint32_t number = 0, undeclared = 0;
    int option;
    args_begin(&args, command, argc, argv);
    while ((option = args_next(&args)) >= 0) {
        if (option == ARRAY)
            view.array = args.value;
        else if (option == ASCII)
            view.ascii = true;
        else if (option == FRAMES       ? !args_u32(&args, 1, UINT32_MAX, &number)
                 : option == AS         ? !args_pixel_format(&args, &view.as)
                 : option == UNDECLARED ? !cipd_parse_order(&args, &undeclared)
                                        : !args_duration(&args, &timeout))
            return EXIT_USAGE;
    }
    if (option != ARGS_END)
        return option == ARGS_HELP ? EXIT_DONE : EXIT_USAGE;
    view.limit = number;
    view.channel = args.rest[0];
    if (!view.ascii && !has_display()) {
        say_error(command->name,
                  "no display: neither DISPLAY nor WAYLAND_DISPLAY is set; try --ascii, "
                  "sluice snap %s now.png, or sluice record %s take.mp4.",
                  view.channel, view.channel);
        return EXIT_FAILED;
    }
    stop_on_signals();
    params.name = view.channel;
    int code = cipd_init_reader(command->name, &params, &cipd, undeclared);
    if (code == EXIT_DONE)
        code = open_reader(command->name, &params, timeout, &reader);
    if (code != EXIT_DONE)
        return code;
    view.sink.title = view.channel;
    view.sink.fps = 60; /* the most that ffplay will show */
    if (view.ascii)
        printf("\033[2J");
    code = show_frames(&view, reader);
    readback_close(&view.readback);
    sluice_reader_close(&reader);
    return code;
}

const struct command view_command = {
    .name = "view",
    .arguments = "CHANNEL",
    .summary = "show a channel in a window, or in the terminal",
    .details = "The window is ffplay's and needs a display; --ascii works in any terminal with 24-bit\n"
               "colours. View shows the newest frame and skips frames when it is slow. Close the window\n"
               "or press Ctrl-C to stop.\n",
    .examples = "  sluice view camera\n"
                "  sluice view camera --ascii\n",
    .options = options,
    .min_arguments = 1,
    .max_arguments = 1,
    .run = view_run,
};
