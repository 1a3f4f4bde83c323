/* SPDX-License-Identifier: MIT
 *
 * One frame from one channel into another, wherever the two are: TO takes the form that the frame has, then
 * the frame is sent.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "../common/args.h"
#include "../common/describe.h"
#include "../common/term.h"
#include "bridge.h"

#define PATIENCE (10 * SLUICE_S)  /* with the GPU that copies a frame, until it is said that it does not */
#define SLICE    (100 * SLUICE_MS) /* of waiting for a slot or a copy, so that a stop is seen */

void bridge_note(const struct bridge *bridge, const char *format, ...)
{
    char text[512];
    va_list list;
    if (bridge->quiet)
        return;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    say_error(bridge->command, "%s", text);
}

/* The arrays of one frame that go on: all, the one that was asked for, or the one that the protocol has room for. */
struct load {
    struct sluice_array arrays[SLUICE_MAX_ARRAYS];
    uint32_t count;
};

/* Says what is wrong; returns an exit code. */
static int choose(struct bridge *bridge, const struct sluice_frame *frame, struct load *load)
{
    if (bridge->array || bridge->to_cipd) {
        load->count = 1;
        return select_array(bridge->command, frame, bridge->array, &load->arrays[0]);
    }
    for (uint32_t i = 0; i < frame->array_count; i++) {
        int result = sluice_frame_array_at(frame, i, &load->arrays[i]);
        if (result)
            return say_result(bridge->command, result, NULL);
    }
    load->count = frame->array_count;
    return EXIT_DONE;
}

/* ---- the form of TO ---- */

static bool same_kind(const struct sluice_array *a, const struct sluice_array *b)
{
    const struct sluice_image *x = &a->image, *y = &b->image;
    return strcmp(a->name, b->name) == 0 && memcmp(&a->dtype, &b->dtype, sizeof a->dtype) == 0 &&
           a->ndim == b->ndim && x->pixel_format == y->pixel_format && x->row_order == y->row_order &&
           x->alpha == y->alpha && memcmp(&x->colour, &y->colour, sizeof x->colour) == 0;
}

static bool same_shape(const struct sluice_array *a, const struct sluice_array *b)
{
    return memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof a->shape[0]) == 0;
}

/* Has the format these arrays, and room for them? A frame of cuda-link's protocol has the channel's one shape. */
static bool has_room(const struct bridge *bridge, const struct sluice_format *format, const struct load *load)
{
    bool fits = format->array_count == load->count;
    for (uint32_t i = 0; fits && i < load->count; i++)
        fits = same_kind(&format->arrays[i], &load->arrays[i]) &&
               format->arrays[i].nbytes >= load->arrays[i].nbytes &&
               (!bridge->to_cipd || same_shape(&format->arrays[i], &load->arrays[i]));
    return fits;
}

/* The same array with rows that follow each other, as cuda-link's protocol has them. */
static int make_dense(struct sluice_array *array)
{
    struct sluice_format dense = SLUICE_FORMAT_INIT;
    const struct sluice_image *image = &array->image;
    int result = image->pixel_format
                     ? sluice_format_add_image(&dense, array->name, image->pixel_format, image->width, image->height)
                     : sluice_format_add_tensor(&dense, array->name, array->dtype, array->ndim, array->shape);
    if (result)
        return result;
    dense.arrays[0].image.colour = image->colour;
    dense.arrays[0].image.row_order = image->row_order;
    dense.arrays[0].image.alpha = image->alpha;
    *array = dense.arrays[0];
    return SLUICE_OK;
}

/* The format that FROM has now, if it is the frame's; a frame may be older than that. Else what the frame
 * itself takes. */
static int want_format(struct bridge *bridge, const struct load *load, struct sluice_format *want)
{
    int found;
    if (!bridge->to_cipd && sluice_reader_format(bridge->reader, want) == SLUICE_OK) {
        if (bridge->array && (found = sluice_format_find(want, bridge->array)) >= 0) {
            want->arrays[0] = want->arrays[found];
            want->array_count = 1;
        }
        if (has_room(bridge, want, load))
            return SLUICE_OK;
    }
    *want = (struct sluice_format)SLUICE_FORMAT_INIT;
    want->array_count = load->count;
    memcpy(want->arrays, load->arrays, load->count * sizeof load->arrays[0]);
    return bridge->to_cipd ? make_dense(&want->arrays[0]) : SLUICE_OK;
}

static int open_to(struct bridge *bridge, const struct sluice_format *format, const char *device)
{
    struct sluice_writer_params params = SLUICE_WRITER_PARAMS_INIT;
    if (bridge->to_cipd && strcmp(device, "host") == 0)
        device = "cuda:0";
    snprintf(bridge->on, sizeof bridge->on, "%s", bridge->device ? bridge->device : device);
    params.name = bridge->to;
    params.device = bridge->on;
    params.format = format;
    params.slots = bridge->slots;
    params.policy = bridge->wait ? SLUICE_WAIT : SLUICE_DROP;
    params.wait_ns = bridge->to_cipd ? 0 : SLICE;
    params.cipd = bridge->to_cipd ? &bridge->to_params : NULL;
    return sluice_writer_open(&bridge->writer, &params);
}

/* From one of cuda-link's channels to another what its flags say goes over, too. Returns true if that is something
 * else than TO was opened with. */
static bool keep_flags(struct bridge *bridge)
{
    struct sluice_cipd_info info = { .size = sizeof info };
    if (!bridge->from_cipd || !bridge->to_cipd || sluice_cipd_reader_info(bridge->reader, &info) != SLUICE_OK)
        return false;
    bool changed = bridge->to_params.mono_alpha != info.mono_alpha;
    bridge->to_params.mono_alpha = info.mono_alpha;
    return changed;
}

/* Makes TO what the frame needs. Returns what the library says. */
static int follow_format(struct bridge *bridge, const struct sluice_frame *frame, const struct load *load,
                         const char *device)
{
    struct sluice_format want = SLUICE_FORMAT_INIT;
    bool changed = frame->flags & (SLUICE_FRAME_NEW_FORMAT | SLUICE_FRAME_NEW_SESSION);
    char text[FORMAT_TEXT];
    int result;
    if (bridge->writer && !changed && !bridge->refused && has_room(bridge, &bridge->format, load))
        return SLUICE_OK;
    if ((result = want_format(bridge, load, &want)) != 0)
        return result;
    for (uint32_t i = 0; i < want.array_count; i++) {
        want.arrays[i].data = NULL;
        want.arrays[i].offset = 0;
        want.arrays[i].read_only = 0;
    }
    bool flags = keep_flags(bridge);
    if (bridge->writer && !bridge->refused && !flags && same_format(&want, &bridge->format))
        return SLUICE_OK;
    if (flags)
        bridge_close_output(bridge);
    bool first = !bridge->writer;
    result = first ? open_to(bridge, &want, device) : sluice_writer_reformat(bridge->writer, &want);
    if (result)
        return result;
    bridge->format = want;
    bridge->refused = false;
    bridge_note(bridge, "'%s' is %s %s on %s.", bridge->to, first ? "open:" : "now", text_format(text, &want),
                bridge->on);
    return SLUICE_OK;
}

/* ---- frames ---- */

/* The frame is FROM's until it has been copied. TO has it by then, so that it is not given up while its GPU stands still.
 * SLUICE_TIMEOUT: the bridge is to end before that. */
static int await_copy(const struct bridge *bridge, struct sluice_ticket ticket)
{
    int64_t told_ns = now_ns() + PATIENCE;
    int result;
    while ((result = sluice_ticket_wait(ticket, SLICE)) == SLUICE_TIMEOUT && !stop_asked() && now_ns() < bridge->end_ns) {
        if (now_ns() < told_ns)
            continue;
        bridge_note(bridge, "%s has not copied a frame for %d s; waiting for it.", bridge->on, (int)(PATIENCE / SLUICE_S));
        told_ns = INT64_MAX;
    }
    return result;
}

/* Sends the frame with its times and metadata. Returns 0, or SLUICE_NO_SLOT if it was dropped. */
static int send(struct bridge *bridge, const struct sluice_frame *frame, const struct load *load)
{
    struct sluice_ticket ticket = { 0 };
    int result;
    do {
        if (bridge->wait)
            wait_for_slot(bridge->writer);
        struct sluice_frame sent = { .capture_ns = frame->capture_ns,
                                     .capture_clock = frame->capture_clock,
                                     .meta = frame->meta,
                                     .meta_size = frame->meta_size };
        result = sluice_writer_send_frame(bridge->writer, &sent, load->arrays, load->count, SLUICE_ON_CPU, &ticket);
    } while (result == SLUICE_NO_SLOT && bridge->wait && !stop_asked());
    return result == SLUICE_OK && ticket.id ? await_copy(bridge, ticket) : result;
}

static int copy(struct bridge *bridge, const struct sluice_frame *frame, struct load *load, const char *device)
{
    if (strcmp(bridge->on, "host") == 0 && strcmp(device, "host") != 0) {
        int result = readback_fetch(&bridge->readback, bridge->reader, frame);
        if (result)
            return result;
        for (uint32_t i = 0; i < load->count; i++)
            readback_map(&bridge->readback, &load->arrays[i]);
    }
    return send(bridge, frame, load);
}

/* TO cannot be made what FROM is now: at first that ends the bridge, later FROM may change again. */
static int refuse(struct bridge *bridge, int result)
{
    if (!bridge->frames)
        return say_result(bridge->command, result, NULL);
    if (!bridge->refused)
        say_error(bridge->command, "%s Its frames are dropped until '%s' changes again.", sluice_last_error(),
                  bridge->from);
    bridge->refused = true;
    bridge->dropped++;
    return EXIT_DONE;
}

/* The frame was its writer's again before it was copied, its session has ended, or no GPU has copied it in time: the next one
 * may be whole. */
static bool is_lost(int result)
{
    return result == SLUICE_E_LOST || result == SLUICE_E_STALE || result == SLUICE_AGAIN || result == SLUICE_TIMEOUT;
}

int bridge_send(struct bridge *bridge, const struct sluice_frame *frame)
{
    struct load load;
    char device[64];
    int result = sluice_frame_device(frame, device, sizeof device);
    if (result)
        return say_result(bridge->command, result, NULL);
    if (bridge->frames && bridge->array && (result = sluice_frame_array(frame, bridge->array, &load.arrays[0])) != 0)
        return refuse(bridge, result);
    int code = choose(bridge, frame, &load);
    if (code != EXIT_DONE)
        return code;
    result = follow_format(bridge, frame, &load, device);
    if (result == SLUICE_E_BUSY) { /* readers of TO hold too many formats before */
        bridge->dropped++;
        return EXIT_DONE;
    }
    if (result == SLUICE_E_FORMAT || result == SLUICE_E_UNSUPPORTED)
        return refuse(bridge, result);
    if (result == SLUICE_OK)
        result = copy(bridge, frame, &load, device);
    if (result == SLUICE_NO_SLOT || result == SLUICE_E_BUSY) {
        bridge->dropped++;
        return EXIT_DONE;
    }
    if (is_lost(result)) {
        bridge->lost++;
        if (!stop_asked())
            bridge_note(bridge, "%s Going on.", sluice_last_error());
        return EXIT_DONE;
    }
    if (result)
        return say_result(bridge->command, result, NULL);
    bridge->frames++;
    int64_t now = now_ns();
    if (frame->commit_ns > 0 && frame->commit_ns <= now) { /* cuda-link's protocol may not say; and it is FROM's word */
        bridge->delay_ns += now - frame->commit_ns;
        bridge->delays++;
    }
    return EXIT_DONE;
}

void bridge_close_output(struct bridge *bridge)
{
    sluice_writer_close(&bridge->writer);
    bridge->refused = false;
}
