/* SPDX-License-Identifier: MIT
 *
 * Forwards one frame, from any device to any other: gives TO the frame's format, then sends the frame.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "../common/args.h"
#include "../common/describe.h"
#include "../common/term.h"
#include "bridge.h"

#define COPY_WARN_TIME (10 * SLUICE_S)   /* a copy that takes longer is reported */
#define WAIT_SLICE     (100 * SLUICE_MS) /* how long a signal to stop may go unnoticed */

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

/* The arrays to forward: all, the one of --array, or the only one that cuda-link's protocol supports. */
struct payload {
    struct sluice_array arrays[SLUICE_MAX_ARRAYS];
    uint32_t count;
};

/* Prints what is wrong; returns an exit code. */
static int select_payload(struct bridge *bridge, const struct sluice_frame *frame, struct payload *payload)
{
    if (bridge->array || bridge->to_cipd) {
        payload->count = 1;
        return select_array(bridge->command, frame, bridge->array, &payload->arrays[0]);
    }
    for (uint32_t i = 0; i < frame->array_count; i++) {
        int result = sluice_frame_array_at(frame, i, &payload->arrays[i]);
        if (result)
            return say_result(bridge->command, result, NULL);
    }
    payload->count = frame->array_count;
    return EXIT_DONE;
}

/* ---- the format of TO ---- */

static bool same_kind(const struct sluice_array *a, const struct sluice_array *b)
{
    const struct sluice_image *x = &a->image, *y = &b->image;
    return strcmp(a->name, b->name) == 0 && memcmp(&a->dtype, &b->dtype, sizeof a->dtype) == 0 && a->ndim == b->ndim &&
           x->pixel_format == y->pixel_format && x->row_order == y->row_order && x->alpha == y->alpha &&
           memcmp(&x->colour, &y->colour, sizeof x->colour) == 0;
}

static bool same_shape(const struct sluice_array *a, const struct sluice_array *b)
{
    return memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof a->shape[0]) == 0;
}

/* True if frames of this format can have these arrays. In cuda-link's protocol all frames have the same shape. */
static bool format_fits(const struct bridge *bridge, const struct sluice_format *format, const struct payload *payload)
{
    bool fits = format->array_count == payload->count;
    for (uint32_t i = 0; fits && i < payload->count; i++)
        fits = same_kind(&format->arrays[i], &payload->arrays[i]) &&
               format->arrays[i].nbytes >= payload->arrays[i].nbytes &&
               (!bridge->to_cipd || same_shape(&format->arrays[i], &payload->arrays[i]));
    return fits;
}

/* Removes the padding between rows, which cuda-link's protocol does not support. */
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

/* FROM's current format if the frame fits it, else one made from the frame itself, which may be older. */
static int choose_format(struct bridge *bridge, const struct payload *payload, struct sluice_format *want)
{
    int found;
    if (!bridge->to_cipd && sluice_reader_format(bridge->reader, want) == SLUICE_OK) {
        if (bridge->array && (found = sluice_format_find(want, bridge->array)) >= 0) {
            want->arrays[0] = want->arrays[found];
            want->array_count = 1;
        }
        if (format_fits(bridge, want, payload))
            return SLUICE_OK;
    }
    *want = (struct sluice_format)SLUICE_FORMAT_INIT;
    want->array_count = payload->count;
    memcpy(want->arrays, payload->arrays, payload->count * sizeof payload->arrays[0]);
    return bridge->to_cipd ? make_dense(&want->arrays[0]) : SLUICE_OK;
}

static int open_output(struct bridge *bridge, const struct sluice_format *format, const char *device)
{
    struct sluice_writer_params params = SLUICE_WRITER_PARAMS_INIT;
    if (bridge->to_cipd && strcmp(device, "host") == 0)
        device = "cuda:0";
    snprintf(bridge->to_device, sizeof bridge->to_device, "%s", bridge->device ? bridge->device : device);
    params.name = bridge->to;
    params.device = bridge->to_device;
    params.format = format;
    params.slots = bridge->slots;
    params.resize = 1; /* update_output() asks no new format for smaller frames */
    params.policy = bridge->wait ? SLUICE_WAIT : SLUICE_DROP;
    params.wait_ns = bridge->to_cipd ? 0 : WAIT_SLICE;
    params.cipd = bridge->to_cipd ? &bridge->to_params : NULL;
    return sluice_writer_open(&bridge->writer, &params);
}

/* Copies the flags from one cipd: channel to another. True if they differ from those TO was opened with. */
static bool copy_cipd_flags(struct bridge *bridge)
{
    struct sluice_cipd_info info = { .size = sizeof info };
    if (!bridge->from_cipd || !bridge->to_cipd || sluice_cipd_reader_info(bridge->reader, &info) != SLUICE_OK)
        return false;
    bool changed = bridge->to_params.mono_alpha != info.mono_alpha;
    bridge->to_params.mono_alpha = info.mono_alpha;
    return changed;
}

/* Opens or reformats TO for the frame. Returns a result of the library. */
static int update_output(struct bridge *bridge, const struct sluice_frame *frame, const struct payload *payload,
                         const char *device)
{
    struct sluice_format want = SLUICE_FORMAT_INIT;
    bool changed = frame->flags & (SLUICE_FRAME_NEW_FORMAT | SLUICE_FRAME_NEW_SESSION);
    char text[FORMAT_TEXT];
    int result;
    if (bridge->writer && !changed && !bridge->refused && format_fits(bridge, &bridge->format, payload))
        return SLUICE_OK;
    if ((result = choose_format(bridge, payload, &want)) != 0)
        return result;
    for (uint32_t i = 0; i < want.array_count; i++) {
        want.arrays[i].data = NULL;
        want.arrays[i].offset = 0;
        want.arrays[i].read_only = 0;
    }
    bool flags_changed = copy_cipd_flags(bridge);
    if (bridge->writer && !bridge->refused && !flags_changed && same_format(&want, &bridge->format))
        return SLUICE_OK;
    if (flags_changed)
        bridge_close_output(bridge);
    bool first = !bridge->writer;
    result = first ? open_output(bridge, &want, device) : sluice_writer_reformat(bridge->writer, &want);
    if (result)
        return result;
    bridge->format = want;
    bridge->refused = false;
    bridge_note(bridge, "'%s' %s %s on %s.", bridge->to, first ? "is open:" : "changed to", text_format(text, &want),
                bridge->to_device);
    return SLUICE_OK;
}

/* ---- frames ---- */

/* Waits for the copy, during which the frame must not be released. TO already has the frame, so there is no time limit.
 * SLUICE_TIMEOUT: the bridge ends first. */
static int wait_for_copy(const struct bridge *bridge, struct sluice_ticket ticket)
{
    int64_t warn_ns = now_ns() + COPY_WARN_TIME;
    int result;
    while ((result = sluice_ticket_wait(ticket, WAIT_SLICE)) == SLUICE_TIMEOUT && !stop_asked() &&
           now_ns() < bridge->end_ns) {
        if (now_ns() < warn_ns)
            continue;
        bridge_note(bridge, "%s has been copying a frame for %d s; still waiting.", bridge->to_device,
                    (int)(COPY_WARN_TIME / SLUICE_S));
        warn_ns = INT64_MAX;
    }
    return result;
}

/* Sends the frame with its times and metadata. Returns a result of the library; SLUICE_NO_SLOT: it was dropped. */
static int send_payload(struct bridge *bridge, const struct sluice_frame *frame, const struct payload *payload)
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
        result =
            sluice_writer_send_frame(bridge->writer, &sent, payload->arrays, payload->count, SLUICE_ON_CPU, &ticket);
    } while (result == SLUICE_NO_SLOT && bridge->wait && !stop_asked());
    return result == SLUICE_OK && ticket.id ? wait_for_copy(bridge, ticket) : result;
}

static int copy_frame(struct bridge *bridge, const struct sluice_frame *frame, struct payload *payload,
                      const char *device)
{
    if (strcmp(bridge->to_device, "host") == 0 && strcmp(device, "host") != 0) {
        int result = readback_fetch(&bridge->readback, bridge->reader, frame);
        if (result)
            return result;
        for (uint32_t i = 0; i < payload->count; i++)
            readback_map(&bridge->readback, &payload->arrays[i]);
    }
    return send_payload(bridge, frame, payload);
}

/* TO cannot have FROM's format: this ends the bridge at first, but later FROM may change again. */
static int refuse_format(struct bridge *bridge, int result)
{
    if (!bridge->frames)
        return say_result(bridge->command, result, NULL);
    if (!bridge->refused)
        say_error(bridge->command, "%s Dropping frames until '%s' changes.", sluice_last_error(), bridge->from);
    bridge->refused = true;
    bridge->dropped++;
    return EXIT_DONE;
}

/* The frame was overwritten before it was copied, its session ended, or the bridge ends before the copy. */
static bool is_lost(int result)
{
    return result == SLUICE_E_LOST || result == SLUICE_E_STALE || result == SLUICE_AGAIN || result == SLUICE_TIMEOUT;
}

int bridge_send(struct bridge *bridge, const struct sluice_frame *frame)
{
    struct payload payload;
    char device[64];
    int result = sluice_frame_device(frame, device, sizeof device);
    if (result)
        return say_result(bridge->command, result, NULL);
    if (bridge->frames && bridge->array && (result = sluice_frame_array(frame, bridge->array, &payload.arrays[0])) != 0)
        return refuse_format(bridge, result);
    int code = select_payload(bridge, frame, &payload);
    if (code != EXIT_DONE)
        return code;
    result = update_output(bridge, frame, &payload, device);
    if (result == SLUICE_E_BUSY) { /* readers of TO still use too many older formats */
        bridge->dropped++;
        return EXIT_DONE;
    }
    if (result == SLUICE_E_FORMAT || result == SLUICE_E_UNSUPPORTED)
        return refuse_format(bridge, result);
    if (result == SLUICE_OK)
        result = copy_frame(bridge, frame, &payload, device);
    if (result == SLUICE_NO_SLOT || result == SLUICE_E_BUSY) {
        bridge->dropped++;
        return EXIT_DONE;
    }
    if (is_lost(result)) {
        bridge->lost++;
        if (!stop_asked())
            bridge_note(bridge, "%s Forwarding continues.", sluice_last_error());
        return EXIT_DONE;
    }
    if (result)
        return say_result(bridge->command, result, NULL);
    bridge->frames++;
    int64_t now = now_ns();
    if (frame->commit_ns > 0 && frame->commit_ns <= now) { /* unknown in cuda-link's protocol, and not to be trusted */
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
