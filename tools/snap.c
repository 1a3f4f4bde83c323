/* SPDX-License-Identifier: MIT
 *
 * sluice snap: writes the newest frame to a PNG or NumPy file.
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
#include "common/per_system.h"
#include "common/picture.h"
#include "common/readback.h"
#include "common/term.h"
#include "media/image_png.h"
#include "media/npy.h"
#include "media/pixels.h"

enum { ARRAY, AS, UNDECLARED, TIMEOUT };

static const struct args_option options[] = {
    [ARRAY] = { 'a', "array", "ARRAY", "the array to write; default: the first image or array" },
    [AS] = AS_OPTION,
    [UNDECLARED] = UNDECLARED_OPTION,
    [TIMEOUT] = { 't', "timeout", "S", "wait up to S seconds for channel and frame; default: 2 for a frame" },
    { 0 },
};

static bool write_png(const char *path, const char *channel, FILE *out, const struct sluice_array *array)
{
    if (!pixels_channels(&array->image)) {
        say_not_image("snap", channel, array, "write it to a .npy file");
        return false;
    }
    int result = image_png_write(out, array);
    if (result == SLUICE_OK && !ferror(out))
        return true;
    if (result)
        say_result("snap", result, NULL);
    else
        say_error("snap", "cannot write %s: %s.", path, strerror(errno));
    return false;
}

static bool write_npy(const char *path, FILE *out, const struct sluice_array *array)
{
    bool exact;
    if (!npy_write(out, array, &exact)) {
        say_error("snap", "cannot write %s: %s.", path, strerror(errno));
        return false;
    }
    char type[32] = "this type";
    sluice_dtype_format(array->dtype, type, sizeof type);
    if (!exact)
        fprintf(stderr, "sluice: snap: NumPy has no %s; %s has its bits as uint%u.\n", type, path, array->dtype.bits);
    return true;
}

static int write_file(const char *path, const char *channel, const struct sluice_array *array)
{
    struct stat status;
    bool standard = strcmp(path, "-") == 0;
    bool png = standard ? array->image.pixel_format != SLUICE_PIXEL_NONE : text_ends_with(path, ".png");
    FILE *out = standard ? stdout : fopen(path, "wbe");
    if (!out) {
        say_error("snap", "cannot write %s: %s.", path, strerror(errno));
        return EXIT_FAILED;
    }
    bool done = png ? write_png(path, channel, out, array) : write_npy(path, out, array);
    if (standard)
        return done ? EXIT_DONE : EXIT_FAILED;
    bool plain = fstat(fileno(out), &status) == 0 && S_ISREG(status.st_mode);
    if (fclose(out) != 0 && done) {
        say_error("snap", "cannot write %s: %s.", path, strerror(errno));
        done = false;
    }
    if (!done && plain)
        unlink(path); /* leave no partial file */
    return done ? EXIT_DONE : EXIT_FAILED;
}

static int write_newest_frame(sluice_reader *reader, const char *channel, const char *path, const char *name,
                              uint32_t as, int64_t timeout)
{
    struct readback readback = { 0 };
    struct sluice_frame frame;
    struct sluice_array array;
    int64_t end = now_ns() + timeout, left = timeout;
    int result = sluice_reader_acquire(reader, SLUICE_ON_CPU, timeout, &frame);
    while (result == SLUICE_E_LOST && (left = end - now_ns()) > 0) /* overwritten meanwhile: try the next frame */
        result = sluice_reader_acquire(reader, SLUICE_ON_CPU, left, &frame);
    if (result == SLUICE_TIMEOUT) {
        say_error("snap", "no frame from '%s' within %.1f s.", channel, (double)timeout / 1e9);
        return EXIT_TIMED_OUT;
    }
    if (result)
        return say_result("snap", result, channel);
    int code = select_array("snap", &frame, name, &array);
    if (code == EXIT_DONE && (result = readback_fetch(&readback, reader, &frame)) != 0)
        code = say_result("snap", result, NULL);
    readback_map(&readback, &array);
    if (code == EXIT_DONE)
        code = picture_take_as("snap", &array, as);
    if (code == EXIT_DONE)
        code = write_file(path, channel, &array);
    readback_close(&readback);
    result = sluice_reader_release(reader, &frame, SLUICE_ON_CPU);
    if (result && code == EXIT_DONE)
        code = say_result("snap", result, channel);
    return code;
}

static int snap_run(const struct command *command, int argc, char **argv)
{
    struct sluice_reader_params params = SLUICE_READER_PARAMS_INIT;
    struct sluice_cipd_reader_params cipd;
    uint32_t undeclared = 0, as = 0;
    sluice_reader *reader = NULL;
    const char *name = NULL;
    int64_t timeout = -1;
    struct args args;
    int option;
    args_begin(&args, command, argc, argv);
    while ((option = args_next(&args)) >= 0) {
        if (option == ARRAY)
            name = args.value;
        else if (option == AS && !args_pixel_format(&args, &as))
            return EXIT_USAGE;
        else if (option == AS)
            continue;
        else if (option == UNDECLARED ? !cipd_parse_order(&args, &undeclared) : !args_duration(&args, &timeout))
            return EXIT_USAGE;
    }
    if (option != ARGS_END)
        return option == ARGS_HELP ? EXIT_DONE : EXIT_USAGE;
    const char *path = args.rest[1];
    if (strcmp(path, "-") != 0 && !text_ends_with(path, ".png") && !text_ends_with(path, ".npy")) {
        say_error(command->name, "%s must end in .png or .npy (or be - for standard output).", path);
        return EXIT_USAGE;
    }
    stop_on_signals();
    params.name = args.rest[0];
    int code = cipd_init_reader(command->name, &params, &cipd, undeclared);
    if (code == EXIT_DONE)
        code = open_reader(command->name, &params, timeout < 0 ? 0 : timeout, &reader);
    if (code != EXIT_DONE)
        return code;
    code = write_newest_frame(reader, params.name, path, name, as, timeout < 0 ? 2 * SLUICE_S : timeout);
    sluice_reader_close(&reader);
    return code;
}

const struct command snap_command = {
    .name = "snap",
    .arguments = "CHANNEL OUT.png|OUT.npy",
    .summary = "write the newest frame to a PNG or NumPy file",
    .details = "PNG works for every pixel format: YUV is converted by the frame's matrix and range, Bayer\n"
               "is demosaiced, floats are clipped to 0 to 1. GRAY16, RGBA64 and 16-bit Bayer give 16 bits per\n"
               "sample, all others 8. A .npy file has the array bit for bit. - is standard output.\n",
    .examples = PER_SYSTEM("  sluice snap camera now.png\n"
                           "  sluice snap camera depth.npy --array depth\n"
                           "  sluice snap result now.png --as bgr24\n"
                           "  sluice snap camera - | feh -\n",
                           "  sluice snap cipd:camera now.png\n"
                           "  sluice snap \"cipd:cudalink_ipc_TD>>Python\" now.png --undeclared bgra\n"),
    .options = options,
    .min_arguments = 2,
    .max_arguments = 2,
    .run = snap_run,
};
