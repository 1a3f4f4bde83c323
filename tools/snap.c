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
#include "common/picture.h"
#include "common/readback.h"
#include "common/term.h"
#include "media/npy.h"
#include "media/pixels.h"
#include "media/png.h"

enum { ARRAY, AS, UNDECLARED, TIMEOUT };

static const struct args_option options[] = {
    [ARRAY] = { 'a', "array", "ARRAY", "the array to write; default: the first image or array" },
    [AS] = AS_OPTION,
    [UNDECLARED] = UNDECLARED_OPTION,
    [TIMEOUT] = { 't', "timeout", "S", "wait up to S seconds for channel and frame; default: 2 for a frame" },
    { 0 },
};

static bool has_16_bits(uint32_t format)
{
    return format == SLUICE_PIXEL_GRAY16 || format == SLUICE_PIXEL_BAYER_RGGB16 ||
           format == SLUICE_PIXEL_BAYER_BGGR16 || format == SLUICE_PIXEL_BAYER_GRBG16 ||
           format == SLUICE_PIXEL_BAYER_GBRG16;
}

/* Pixels of four floats, in place, as the first `channels` samples of 16 bits, the high byte first. */
static void to_16_bits(void *row, uint32_t pixels, unsigned channels)
{
    const float *from = row;
    uint8_t *to = row;
    for (uint32_t x = 0; x < pixels; x++, from += 4)
        for (unsigned i = 0; i < channels; i++) {
            float value = from[i] > 0 ? from[i] < 1 ? from[i] : 1 : 0;
            unsigned word = (unsigned)(value * 65535 + 0.5f);
            *to++ = (uint8_t)(word >> 8);
            *to++ = (uint8_t)word;
        }
}

static bool write_png(const char *path, const char *channel, FILE *out, const struct sluice_array *array)
{
    uint32_t width = array->image.width, height = array->image.height;
    unsigned channels = pixels_channels(&array->image);
    bool wide = has_16_bits(array->image.pixel_format);
    struct sluice_array image = { 0 };
    struct png png;
    if (!channels) {
        say_not_image("snap", channel, array, "write it to a .npy file");
        return false;
    }
    int result = pixels_alloc(&image,
                              wide            ? SLUICE_PIXEL_RGBA_F32
                              : channels == 1 ? SLUICE_PIXEL_GRAY8
                              : channels == 3 ? SLUICE_PIXEL_RGB24
                                              : SLUICE_PIXEL_RGBA,
                              width, height);
    if (result == SLUICE_OK)
        result = pixels_convert(&image, array);
    if (result) {
        free(image.data);
        say_result("snap", result, NULL);
        return false;
    }
    png_begin(&png, out, width, height, channels, wide ? 16 : 8);
    for (uint32_t y = 0; y < height; y++) {
        uint8_t *row = (uint8_t *)image.data + y * image.image.planes[0].pitch;
        if (wide)
            to_16_bits(row, width, channels);
        png_row(&png, row);
    }
    free(image.data);
    if (png_end(&png))
        return true;
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
               "is demosaiced, floats are clipped to 0 to 1. GRAY16 and 16-bit Bayer give 16 bits per\n"
               "sample, all others 8. A .npy file has the array bit for bit. - is standard output.\n",
    .examples = "  sluice snap camera now.png\n"
                "  sluice snap camera depth.npy --array depth\n"
                "  sluice snap result now.png --as bgr24\n"
                "  sluice snap camera - | feh -\n",
    .options = options,
    .min_arguments = 2,
    .max_arguments = 2,
    .run = snap_run,
};
