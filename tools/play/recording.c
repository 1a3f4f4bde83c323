/* SPDX-License-Identifier: MIT
 *
 * Playing a Sluice recording: its frames, with their shapes, timing and metadata.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "../common/args.h"
#include "../common/term.h"
#include "../media/recording.h"
#include "play.h"

struct replay {
    struct recording recording;
    uint64_t frames;             /* played in this pass */
    int64_t last_ns;             /* recorded commit time of the last frame */
    int64_t step_ns;             /* time between the last two frames */
    int64_t due_ns;              /* when this frame is due, from the first frame of the first pass */
    struct sluice_format format; /* of the channel */
    uint8_t *buffer;             /* an array whose layout in the slot differs from the recorded one */
    uint64_t buffer_size;
};

static int use_format(struct play *play, struct replay *replay, const struct sluice_format *format)
{
    bool same = play->writer && memcmp(&replay->format, format, sizeof *format) == 0;
    replay->format = *format;
    if (same)
        return EXIT_DONE;
    if (!play->writer)
        return play_open(play, format);
    int result = sluice_writer_reformat(play->writer, format);
    return result ? say_result(play->command, result, NULL) : EXIT_DONE;
}

/* A frame that does not fit the format: its shapes become the new format. */
static int grow_format(struct play *play, struct replay *replay)
{
    const struct recording_frame *recorded = &replay->recording.frame;
    struct sluice_format format = replay->recording.format;
    if (recorded->array_count != format.array_count) {
        say_error(play->command, "%s: frame %" PRIu64 " does not fit its format.", play->source.name,
                  recorded->sequence);
        return EXIT_FAILED;
    }
    memcpy(format.arrays, recorded->arrays, sizeof format.arrays);
    return use_format(play, replay, &format);
}

static int reshape_arrays(struct play *play, struct sluice_frame *frame, const struct recording_frame *recorded)
{
    int result = SLUICE_OK;
    for (uint32_t i = 0; i < recorded->array_count && result == SLUICE_OK; i++)
        result = upload_reshape(&play->upload, frame, &recorded->arrays[i]);
    return result;
}

static bool same_layout(const struct sluice_array *a, const struct sluice_array *b)
{
    return a->nbytes == b->nbytes && a->ndim == b->ndim &&
           memcmp(a->strides, b->strides, (size_t)a->ndim * sizeof a->strides[0]) == 0 &&
           (!a->image.pixel_format ||
            memcmp(a->image.planes, b->image.planes, a->image.plane_count * sizeof a->image.planes[0]) == 0);
}

static bool same_content(const struct sluice_array *a, const struct sluice_array *b)
{
    return memcmp(&a->dtype, &b->dtype, sizeof a->dtype) == 0 && a->image.pixel_format == b->image.pixel_format &&
           a->image.width == b->image.width && a->image.height == b->image.height &&
           a->image.plane_count == b->image.plane_count;
}

/* Reads one array into the slot, through a buffer if the layouts differ. */
static enum recording_block read_array(struct play *play, struct replay *replay, struct sluice_frame *frame)
{
    struct recording *recording = &replay->recording;
    struct sluice_array from = recording->frame.arrays[recording->data_next], to;
    if (upload_array(&play->upload, frame, from.name, &to) != SLUICE_OK || !same_content(&from, &to)) {
        recording->problem = "a frame does not fit its format";
        return RECORDING_BAD;
    }
    if (same_layout(&from, &to))
        return recording_data(recording, to.data);
    if (replay->buffer_size < from.nbytes) {
        uint8_t *buffer = realloc(replay->buffer, from.nbytes);
        if (!buffer) {
            recording->problem = "out of memory for a frame";
            return RECORDING_BAD;
        }
        replay->buffer = buffer;
        replay->buffer_size = from.nbytes;
    }
    enum recording_block got = recording_data(recording, replay->buffer);
    from.data = replay->buffer;
    if (got == RECORDING_FRAME && sluice_array_copy(&to, &from) != SLUICE_OK) {
        recording->problem = "a frame does not fit its format";
        return RECORDING_BAD;
    }
    return got;
}

static void set_due(struct play *play, struct replay *replay)
{
    const struct recording_frame *recorded = &replay->recording.frame;
    /* Unsigned: the times in a file may be any numbers. */
    int64_t step =
        replay->frames ? (int64_t)((uint64_t)recorded->commit_ns - (uint64_t)replay->last_ns) : replay->step_ns;
    /* A recording across a reboot jumps in time. */
    if (step < 0 || step > 60 * SLUICE_S)
        step = 0;
    if (play->fps > 0)
        step = (int64_t)(1e9 / play->fps);
    if (play->start_ns)
        replay->due_ns += step;
    replay->step_ns = step;
    replay->last_ns = recorded->commit_ns;
}

/* Fills and publishes one frame; *state tells if the file had all of its data. */
static int replay_frame(struct play *play, struct replay *replay, enum recording_block *state)
{
    const struct recording_frame *recorded = &replay->recording.frame;
    struct sluice_frame frame;
    set_due(play, replay);
    int result = play_begin(play, &frame);
    if (result == SLUICE_OK && reshape_arrays(play, &frame, recorded) != SLUICE_OK) {
        upload_cancel(&play->upload, &frame);
        if (grow_format(play, replay) != EXIT_DONE)
            return EXIT_FAILED;
        result = play_begin(play, &frame);
    }
    if (result < 0)
        return say_result(play->command, result, NULL);
    if (result == SLUICE_NO_SLOT) {
        play_pace(play, replay->due_ns);
        return EXIT_DONE;
    }
    while (*state == RECORDING_FRAME && replay->recording.data_next < recorded->array_count)
        *state = read_array(play, replay, &frame);
    if (*state != RECORDING_FRAME) {
        upload_cancel(&play->upload, &frame);
        return EXIT_DONE;
    }
    memcpy(frame.meta, recorded->meta, recorded->meta_size);
    frame.meta_size = recorded->meta_size;
    play_pace(play, replay->due_ns);
    frame.capture_ns = play->retime ? now_ns() : recorded->capture_ns;
    frame.capture_clock = play->retime ? SLUICE_CLOCK_MONOTONIC : recorded->capture_clock;
    return play_commit(play, &frame);
}

/* Plays the file once; *state tells how it ended. */
static int play_pass(struct play *play, struct replay *replay, FILE *file, enum recording_block *state)
{
    int code = EXIT_DONE;
    replay->frames = 0;
    *state = recording_open(&replay->recording, file);
    while (code == EXIT_DONE && !play_is_done(play) && (*state == RECORDING_FORMAT || *state == RECORDING_FRAME)) {
        *state = recording_next(&replay->recording);
        if (*state == RECORDING_FORMAT)
            code = use_format(play, replay, &replay->recording.format);
        else if (*state == RECORDING_FRAME && !play->writer) {
            replay->recording.problem = "a frame precedes the first format";
            *state = RECORDING_BAD;
        } else if (*state == RECORDING_FRAME) {
            code = replay_frame(play, replay, state);
            replay->frames += *state == RECORDING_FRAME;
        }
    }
    return code;
}

int play_recording(struct play *play, FILE *file)
{
    struct replay *replay = calloc(1, sizeof *replay);
    enum recording_block state = RECORDING_END;
    int code = EXIT_DONE;
    if (!replay) {
        say_error(play->command, "out of memory.");
        return EXIT_FAILED;
    }
    do {
        rewind(file);
        code = play_pass(play, replay, file, &state);
    } while (play->loop && code == EXIT_DONE && replay->frames && state != RECORDING_BAD && !play_is_done(play));
    if (code == EXIT_DONE && state == RECORDING_BAD) {
        say_error(play->command, "%s: %s, near byte %" PRIu64 "; the frames before were played.", play->source.name,
                  replay->recording.problem, replay->recording.at);
        code = EXIT_FAILED;
    } else if (code == EXIT_DONE && state == RECORDING_CUT) {
        say_error(play->command, "%s is cut short; its %" PRIu64 " whole frames were played.", play->source.name,
                  replay->frames);
    }
    free(replay->buffer);
    free(replay);
    return code;
}
