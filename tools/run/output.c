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

static int choose_format(const struct run_worker *worker, struct sluice_format *format)
{
    const struct run *run = worker->run;
    uint32_t width = run->width, height = run->height, pixels = run->format;
    struct sluice_array from = { .ndim = 0 };
    if (run->from_count) {
        int result = sluice_frame_array(&worker->inputs[0].frame, worker->inputs[0].array, &from);
        if (result)
            return run_failure(run, result);
        width = width ? width : from.image.width;
        height = height ? height : from.image.height;
        bool bayer = from.image.pixel_format >= SLUICE_PIXEL_BAYER_RGGB8 &&
                     from.image.pixel_format <= SLUICE_PIXEL_BAYER_GBRG16; /* which store() does not write */
        pixels = pixels || bayer ? pixels : from.image.pixel_format;
    }
    *format = (struct sluice_format)SLUICE_FORMAT_INIT;
    int result = sluice_format_add_image(format, "image", pixels ? pixels : SLUICE_PIXEL_RGBA, width ? width : 1280,
                                         height ? height : 720);
    if (result)
        return say_result(run->command, result, NULL);
    if (pixels == from.image.pixel_format) {
        format->arrays[0].image.colour = from.image.colour;
        format->arrays[0].image.alpha = from.image.alpha;
    }
    return EXIT_DONE;
}

static void free_images(struct run_worker *worker)
{
    for (int i = 0; i < IMAGES; i++)
        if (worker->output.images[i].memory)
            (void)sluice_memory_free(worker->stream, &worker->output.images[i].memory);
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
    int result = sluice_writer_open(&worker->output.writer, &params);
    if (result)
        return run_failure(run, result);
    if (run->kept->opened)
        return EXIT_DONE;
    run->kept->opened = true;
    run_program_settings(worker->program, settings, sizeof settings);
    run_note(run, "'%s' is open: %s on %s%s%s.", run->to, text_format(text, format), worker->device_name,
             settings[0] ? "; " : "", settings);
    return EXIT_DONE;
}

int run_output_prepare(struct run_worker *worker)
{
    struct sluice_format format;
    struct run_output *output = &worker->output;
    int code = choose_format(worker, &format);
    if (code != EXIT_DONE || (output->writer && same_format(&format, &output->format)))
        return code;
    if (!output->writer) {
        code = open_writer(worker, &format);
    } else {
        int result = sluice_writer_reformat(output->writer, &format);
        if (result == SLUICE_E_BUSY)
            return EXIT_DONE; /* readers still hold frames of too many older formats: with the next frame, perhaps */
        code = result ? run_failure(worker->run, result) : EXIT_DONE;
    }
    if (code == EXIT_DONE) {
        free_images(worker);
        output->format = format;
    }
    return code;
}

/* ---- launches ---- */

/* An image's memory, allocated at its first use. */
static int need_image(struct run_worker *worker, int index)
{
    struct run_image *image = &worker->output.images[index];
    if (image->memory)
        return SLUICE_OK;
    image->array = worker->output.format.arrays[0];
    int result = sluice_memory_alloc(worker->device, worker->stream, image->array.nbytes, &image->memory);
    image->array.data = image->memory;
    return result;
}

static int launch(struct run_worker *worker, struct sluice_kernel kernel, const struct sluice_argument *arguments,
                  uint32_t count)
{
    const struct sluice_image *image = &worker->output.format.arrays[0].image;
    struct sluice_launch shape = { .size = sizeof shape, .over = { image->width, image->height } };
    return sluice_launch(kernel, worker->stream, &shape, arguments, count);
}

static int clear_last(struct run_worker *worker)
{
    struct run_image *last = &worker->output.images[IMAGE_LAST];
    if (last->memory)
        return SLUICE_OK;
    int result = need_image(worker, IMAGE_LAST);
    struct sluice_argument argument = SLUICE_ARRAY(&last->array);
    return result ? result : launch(worker, worker->program->clear, &argument, 1);
}

/* What a number's parameter gets. */
static struct sluice_argument number(const struct run_worker *worker, const struct run_binding *binding)
{
    double value = binding->kind == RUN_TIME    ? worker->time
                   : binding->kind == RUN_FRAME ? (double)worker->frames
                   : binding->kind == RUN_RATE  ? worker->rate
                                                : worker->program->settings[binding->index].value;
    return binding->real ? SLUICE_REAL(value) : SLUICE_INTEGER((long long)value);
}

/* The index-th picture of a pass: in each but the first, the picture of the pass before it comes before the channels'.
 */
static struct sluice_argument picture(const struct run_worker *worker, uint32_t pass, uint32_t index)
{
    if (pass > 0 && index == 0)
        return SLUICE_ARRAY(&worker->output.images[IMAGE_PASS + (pass - 1) % 2].array);
    const struct run_input *input = &worker->inputs[index - (pass > 0)];
    return SLUICE_FRAME(&input->frame, input->array);
}

/* `out` is the frame of TO, or NULL: the last pass then writes to IMAGE_NEXT. */
static int run_pass(struct run_worker *worker, uint32_t index, const struct sluice_frame *out)
{
    const struct run_pass *pass = &worker->program->passes[index];
    struct sluice_argument arguments[SLUICE_MAX_PARAMETERS];
    bool final = index + 1 == worker->program->pass_count;
    int target = final ? IMAGE_NEXT : IMAGE_PASS + (int)(index % 2);
    int result = final && out ? SLUICE_OK : need_image(worker, target);

    for (uint32_t i = 0; i < pass->count; i++) {
        const struct run_binding *binding = &pass->bindings[i];
        switch (binding->kind) {
        case RUN_OUT:
            arguments[i] = final && out ? SLUICE_FRAME(out, NULL) : SLUICE_ARRAY(&worker->output.images[target].array);
            break;
        case RUN_PICTURE: arguments[i] = picture(worker, index, binding->index); break;
        case RUN_LAST: arguments[i] = SLUICE_ARRAY(&worker->output.images[IMAGE_LAST].array); break;
        default: arguments[i] = number(worker, binding); break;
        }
    }
    return result ? result : launch(worker, pass->kernel, arguments, pass->count);
}

static int run_passes(struct run_worker *worker, const struct sluice_frame *out)
{
    run_hash_input(worker);
    int result = worker->program->feedback ? clear_last(worker) : SLUICE_OK;
    for (uint32_t i = 0; i < worker->program->pass_count && result == SLUICE_OK; i++)
        result = run_pass(worker, i, out);
    return result;
}

/* ---- frames ---- */

/* Straight into a slot of TO. */
static int write_frame(struct run_worker *worker)
{
    sluice_writer *writer = worker->output.writer;
    struct sluice_frame frame;
    struct sluice_array array;
    int result = sluice_writer_begin(writer, SLUICE_DEFAULT, &frame);
    if (result)
        return result;
    if (worker->run->from_count)
        (void)sluice_frame_inherit(&frame, &worker->inputs[0].frame);
    result = run_passes(worker, &frame);
    if (result == SLUICE_OK)
        result = sluice_frame_array(&frame, NULL, &array);
    if (result) {
        (void)sluice_writer_cancel(writer, &frame, worker->stream);
        return result;
    }
    run_hash_output(worker, &array, &frame);
    return sluice_writer_commit(writer, &frame, worker->stream);
}

/* Into memory of our own, which the next frame's `last` is, and by a copy into TO. */
static int send_frame(struct run_worker *worker)
{
    struct run_image *images = worker->output.images, next;
    char meta[SLUICE_MAX_META];
    struct sluice_frame frame = { .meta = meta };
    if (worker->run->from_count) {
        const struct sluice_frame *from = &worker->inputs[0].frame;
        frame.capture_ns = from->capture_ns;
        frame.capture_clock = from->capture_clock;
        frame.meta_size = from->meta_size;
        memcpy(meta, from->meta, from->meta_size);
    }
    int result = run_passes(worker, NULL);
    if (result)
        return result;
    next = images[IMAGE_NEXT];
    images[IMAGE_NEXT] = images[IMAGE_LAST];
    images[IMAGE_LAST] = next;
    run_hash_output(worker, &next.array, &frame);
    return sluice_writer_send_frame(worker->output.writer, &frame, &next.array, 1, worker->stream, NULL);
}

int run_output_frame(struct run_worker *worker)
{
    run_hash_input(worker);
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
    sluice_writer_close(&worker->output.writer);
}
