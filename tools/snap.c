/* SPDX-License-Identifier: MIT
 *
 * sluice snap: the newest frame as a picture or as an array.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sluice/sluice.h>

#include "common/args.h"
#include "common/cipd.h"
#include "common/describe.h"
#include "common/readback.h"
#include "common/term.h"
#include "media/npy.h"
#include "media/pixels.h"
#include "media/png.h"

enum { ARRAY, UNDECLARED, TIMEOUT };

static const struct args_option options[] = {
    [ARRAY] = { 'a', "array", "ARRAY", "this array; default: the first image, else the first" },
    [UNDECLARED] = UNDECLARED_OPTION,
    [TIMEOUT] = { 't', "timeout", "S",
                  "wait so long for channel and frame; default: 2, for a frame" },
    { 0 },
};

static bool write_png(const char *path, const char *channel, FILE *out, const struct sluice_array *array)
{
    struct pixels pixels;
    struct png png;
    if (!pixels_open(&pixels, array)) {
        say_not_image("snap", channel, array, "a name that ends in .npy takes it");
        return false;
    }
    uint8_t *row = malloc((size_t)pixels.width * pixels.channels * (pixels.bits / 8));
    if (!row) {
        say_error("snap", "there is no memory for a row of %u pixels.", pixels.width);
        return false;
    }
    png_begin(&png, out, pixels.width, pixels.height, pixels.channels, pixels.bits);
    for (uint32_t y = 0; y < pixels.height; y++) {
        pixels_row(&pixels, y, row);
        png_row(&png, row);
    }
    free(row);
    if (png_end(&png))
        return true;
    say_error("snap", "%s could not be written: %s.", path, strerror(errno));
    return false;
}

static bool write_npy(const char *path, FILE *out, const struct sluice_array *array)
{
    bool exact;
    if (!npy_write(out, array, &exact)) {
        say_error("snap", "%s could not be written: %s.", path, strerror(errno));
        return false;
    }
    char type[32] = "this type";
    sluice_dtype_format(array->dtype, type, sizeof type);
    if (!exact)
        fprintf(stderr, "sluice: snap: NumPy has no %s; %s holds its bits as uint%u.\n", type, path,
                array->dtype.bits);
    return true;
}

static int write_file(const char *path, const char *channel, const struct sluice_array *array)
{
    struct stat status;
    bool standard = strcmp(path, "-") == 0;
    bool png =
        standard ? array->image.pixel_format != SLUICE_PIXEL_NONE : text_ends_with(path, ".png");
    FILE *out = standard ? stdout : fopen(path, "wbe");
    if (!out) {
        say_error("snap", "%s cannot be written: %s.", path, strerror(errno));
        return EXIT_FAILED;
    }
    bool done = png ? write_png(path, channel, out, array) : write_npy(path, out, array);
    if (standard)
        return done ? EXIT_DONE : EXIT_FAILED;
    bool plain = fstat(fileno(out), &status) == 0 && S_ISREG(status.st_mode);
    if (fclose(out) != 0 && done) {
        say_error("snap", "%s could not be written: %s.", path, strerror(errno));
        done = false;
    }
    if (!done && plain)
        unlink(path); /* half a picture is none */
    return done ? EXIT_DONE : EXIT_FAILED;
}

static int snap(sluice_reader *reader, const char *channel, const char *path, const char *name,
                int64_t timeout)
{
    struct readback readback = { 0 };
    struct sluice_frame frame;
    struct sluice_array array;
    int64_t end = now_ns() + timeout, left = timeout;
    int result = sluice_reader_acquire(reader, SLUICE_ON_CPU, timeout, &frame);
    while (result == SLUICE_E_LOST && (left = end - now_ns()) > 0) /* its GPU was late with it; the next one may do */
        result = sluice_reader_acquire(reader, SLUICE_ON_CPU, left, &frame);
    if (result == SLUICE_TIMEOUT) {
        say_error("snap", "no frame came from '%s' in %.1f s.", channel, (double)timeout / 1e9);
        return EXIT_TIMED_OUT;
    }
    if (result)
        return say_result("snap", result, channel);
    int code = select_array("snap", &frame, name, &array);
    if (code == EXIT_DONE && (result = readback_fetch(&readback, reader, &frame)) != 0)
        code = say_result("snap", result, NULL);
    readback_map(&readback, &array);
    if (code == EXIT_DONE)
        code = write_file(path, channel, &array);
    readback_close(&readback);
    result = sluice_reader_release(reader, &frame, SLUICE_ON_CPU);
    if (result && code == EXIT_DONE)
        code = say_result("snap", result, channel);
    return code;
}

static int run(const struct command *command, int argc, char **argv)
{
    struct sluice_reader_params params = SLUICE_READER_PARAMS_INIT;
    struct sluice_cipd_reader_params cipd;
    uint32_t undeclared = 0;
    sluice_reader *reader = NULL;
    const char *name = NULL;
    int64_t timeout = -1;
    struct args args;
    int option;
    args_begin(&args, command, argc, argv);
    while ((option = args_next(&args)) >= 0) {
        if (option == ARRAY)
            name = args.value;
        else if (option == UNDECLARED ? !cipd_parse_order(&args, &undeclared) : !args_duration(&args, &timeout))
            return EXIT_USAGE;
    }
    if (option != ARGS_END)
        return option == ARGS_HELP ? EXIT_DONE : EXIT_USAGE;
    const char *path = args.rest[1];
    if (strcmp(path, "-") != 0 && !text_ends_with(path, ".png") && !text_ends_with(path, ".npy")) {
        say_error(command->name, "%s has to end in .png or .npy (or be - for standard output).",
                  path);
        return EXIT_USAGE;
    }
    stop_on_signals();
    params.name = args.rest[0];
    int code = cipd_init_reader(command->name, &params, &cipd, undeclared);
    if (code == EXIT_DONE)
        code = open_reader(command->name, &params, timeout < 0 ? 0 : timeout, &reader);
    if (code != EXIT_DONE)
        return code;
    code = snap(reader, params.name, path, name, timeout < 0 ? 2 * SLUICE_S : timeout);
    sluice_reader_close(&reader);
    return code;
}

const struct command snap_command = {
    .name = "snap",
    .arguments = "CHANNEL OUT.png|OUT.npy",
    .summary = "write the newest frame as a picture or a NumPy array",
    .details =
        "PNG takes every pixel format: YUV by the frame's matrix and range, Bayer with simple\n"
        "colours, floats from 0 to 1; GRAY16 and 16-bit Bayer as 16 bits, all else as 8. The\n"
        "array goes to .npy as it is, bit for bit. - is standard output.\n",
    .examples = "  sluice snap camera now.png\n"
                "  sluice snap camera depth.npy --array depth\n"
                "  sluice snap camera - | feh -\n",
    .options = options,
    .min_arguments = 2,
    .max_arguments = 2,
    .run = run,
};
