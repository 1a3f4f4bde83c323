/* SPDX-License-Identifier: MIT
 *
 * One frame: launches the passes, between the frames that are held and a new one of TO.
 */
#include <inttypes.h>
#include <string.h>

#include "../common/args.h"
#include "../common/describe.h"
#include "../common/term.h"
#include "worker.h"

/* ---- the format of TO ---- */

static uint32_t first_of(uint32_t a, uint32_t b, uint32_t c)
{
    return a ? a : b ? b : c;
}

static int choose_format(const struct run_worker *worker, struct sluice_format *format)
{
    const struct run *run = worker->run;
    struct sluice_array from = { .ndim = 0 };
    if (run->from_count) {
        int result = sluice_frame_array(&worker->inputs[0].frame, worker->inputs[0].array, &from);
        if (result)
            return run_failure(run, result);
    }
    const struct sluice_image *image = &from.image;
    bool bayer = image->pixel_format >= SLUICE_PIXEL_BAYER_RGGB8 &&
                 image->pixel_format <= SLUICE_PIXEL_BAYER_GBRG16; /* which store() does not write */
    uint32_t pixels = first_of(run->format, bayer ? 0 : image->pixel_format, SLUICE_PIXEL_RGBA);
    *format = (struct sluice_format)SLUICE_FORMAT_INIT;
    int result = sluice_format_add_image(format, "image", pixels, first_of(run->width, image->width, 1280),
                                         first_of(run->height, image->height, 720));
    if (result)
        return say_result(run->command, result, NULL);
    if (pixels == image->pixel_format) {
        format->arrays[0].image.colour = image->colour;
        format->arrays[0].image.alpha = image->alpha;
    }
    return EXIT_DONE;
}

static void free_images(struct run_worker *worker)
{
    for (int i = 0; i < IMAGES; i++)
        if (worker->images[i].data)
            (void)sluice_memory_free(worker->stream, &worker->images[i].data);
}

static int open_writer(struct run_worker *worker, const struct sluice_format *format)
{
    const struct run *run = worker->run;
    struct sluice_writer_params params = SLUICE_WRITER_PARAMS_INIT;
    char text[FORMAT_TEXT], settings[512];
    params.name = run->to;
    params.device = worker->device_name;
    params.format = format;
    params.slots = run->slots;
    int result = sluice_writer_open(&worker->writer, &params);
    if (result)
        return run_failure(run, result);
    if (!run->kept->opened && !run->quiet)
        say_error(run->command, "'%s' is open: %s on %s%s.", run->to, text_format(text, format), worker->device_name,
                  run_program_settings(worker->program, settings, sizeof settings));
    run->kept->opened = true;
    return EXIT_DONE;
}

int run_output_prepare(struct run_worker *worker)
{
    struct sluice_format format;
    int code = choose_format(worker, &format);
    if (code != EXIT_DONE || (worker->writer && same_format(&format, &worker->format)))
        return code;
    if (!worker->writer) {
        code = open_writer(worker, &format);
    } else {
        int result = sluice_writer_reformat(worker->writer, &format);
        if (result == SLUICE_E_BUSY)
            return EXIT_DONE; /* readers still hold frames of too many older formats: with the next frame, perhaps */
        code = result ? run_failure(worker->run, result) : EXIT_DONE;
    }
    if (code == EXIT_DONE) {
        free_images(worker);
        worker->format = format;
    }
    return code;
}

/* ---- launches ---- */

static int launch(struct run_worker *worker, struct sluice_kernel kernel, const struct sluice_argument *arguments,
                  uint32_t count)
{
    const struct sluice_image *image = &worker->format.arrays[0].image;
    struct sluice_launch shape = { .size = sizeof shape, .over = { image->width, image->height } };
    return sluice_launch(kernel, worker->stream, &shape, arguments, count);
}

/* Memory for an image, allocated at its first use; it is black then. */
static int need_image(struct run_worker *worker, int index)
{
    struct sluice_array *image = &worker->images[index];
    if (image->data)
        return SLUICE_OK;
    *image = worker->format.arrays[0];
    int result = sluice_memory_alloc(worker->device, worker->stream, image->nbytes, &image->data);
    struct sluice_argument out = SLUICE_ARRAY(image);
    return result ? result : launch(worker, worker->program->clear, &out, 1);
}

/* What a parameter of a pass gets. */
static struct sluice_argument argument(const struct run_worker *worker, uint32_t pass,
                                       const struct run_binding *binding, struct sluice_argument out)
{
    const struct sluice_array *images = worker->images;
    const struct run_input *inputs = worker->inputs;
    switch (binding->kind) {
    case RUN_OUT: return out;
    case RUN_LAST: return SLUICE_ARRAY(&images[IMAGE_LAST]);
    case RUN_BEFORE: return SLUICE_ARRAY(&images[IMAGE_PASS + (pass - 1) % 2]);
    case RUN_CHANNEL: return SLUICE_FRAME(&inputs[binding->index].frame, inputs[binding->index].array);
    default: break;
    }
    double value = worker->program->settings[binding->index].value;
    return binding->real ? SLUICE_REAL(value) : SLUICE_INTEGER((long long)value);
}

/* `frame` is that of TO, or NULL: the last pass then writes to IMAGE_NEXT. */
static int run_pass(struct run_worker *worker, uint32_t index, const struct sluice_frame *frame)
{
    const struct run_pass *pass = &worker->program->passes[index];
    struct sluice_argument arguments[SLUICE_MAX_PARAMETERS], out = SLUICE_FRAME(frame, NULL);
    bool final = index + 1 == worker->program->pass_count;
    if (!final || !frame) {
        int target = final ? IMAGE_NEXT : IMAGE_PASS + (int)(index % 2), result = need_image(worker, target);
        if (result)
            return result;
        out = SLUICE_ARRAY(&worker->images[target]);
    }
    for (uint32_t i = 0; i < pass->count; i++)
        arguments[i] = argument(worker, index, &pass->bindings[i], out);
    return launch(worker, pass->kernel, arguments, pass->count);
}

static int run_passes(struct run_worker *worker, const struct sluice_frame *frame)
{
    struct run_program *program = worker->program;
    program->settings[RUN_TIME].value = worker->time;
    program->settings[RUN_FRAME].value = (double)worker->frames;
    program->settings[RUN_RATE].value = worker->rate;
    int result = program->feedback ? need_image(worker, IMAGE_LAST) : SLUICE_OK;
    for (uint32_t i = 0; i < program->pass_count && result == SLUICE_OK; i++)
        result = run_pass(worker, i, frame);
    return result;
}

/* ---- frames ---- */

/* Straight into a slot of TO. */
static int write_frame(struct run_worker *worker)
{
    sluice_writer *writer = worker->writer;
    struct sluice_frame frame;
    int result = sluice_writer_begin(writer, SLUICE_DEFAULT, &frame);
    if (result)
        return result;
    if (worker->run->from_count)
        (void)sluice_frame_inherit(&frame, &worker->inputs[0].frame);
    result = run_passes(worker, &frame);
    if (result) {
        (void)sluice_writer_cancel(writer, &frame, worker->stream);
        return result;
    }
    struct sluice_array array;
    if (worker->run->hash && sluice_frame_array(&frame, NULL, &array) == SLUICE_OK)
        frame.meta_size = run_hash(worker, &array, frame.meta);
    return sluice_writer_commit(writer, &frame, worker->stream);
}

/* Into memory of our own, which the next frame's `last` is, and by a copy into TO. */
static int send_frame(struct run_worker *worker)
{
    struct sluice_array *images = worker->images, next;
    struct sluice_frame frame = worker->inputs[0].frame; /* for its time and metadata; zeros if there is no FROM */
    char meta[SLUICE_MAX_META];
    int result = run_passes(worker, NULL);
    if (result)
        return result;
    next = images[IMAGE_NEXT];
    images[IMAGE_NEXT] = images[IMAGE_LAST];
    images[IMAGE_LAST] = next;
    if (worker->run->hash) {
        frame.meta_size = run_hash(worker, &next, meta);
        frame.meta = meta;
    }
    return sluice_writer_send_frame(worker->writer, &frame, &next, 1, worker->stream, NULL);
}

int run_output_frame(struct run_worker *worker)
{
    int result = worker->program->feedback ? send_frame(worker) : write_frame(worker);
    if (result != SLUICE_OK && result != SLUICE_NO_SLOT)
        return run_failure(worker->run, result);
    worker->dropped += result == SLUICE_NO_SLOT;
    worker->frames++;
    return EXIT_DONE;
}

void run_output_close(struct run_worker *worker)
{
    free_images(worker);
    sluice_writer_close(&worker->writer);
}
