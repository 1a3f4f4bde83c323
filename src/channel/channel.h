/* SPDX-License-Identifier: MIT
 *
 * Bare channels: those of a wire that has neither ring nor leases, so that the core's protocol does not apply.
 * The public calls go straight to the table of such a channel; it uses the core's handles, views of frames, fetch and
 * tickets. channel.c is the only file that lists them.
 */
#ifndef SL_CHANNEL_CHANNEL_H
#define SL_CHANNEL_CHANNEL_H

#include <sluice/reader.h>
#include <sluice/writer.h>

#include "channel/frame_view.h"
#include "device/device.h"
#include "native/wire/wire.h"

/* `state` is the channel's own. Results and messages are those that the public calls promise; what the core has checked
 * is said at each. A writer's calls come from one thread at a time, except stats and view; a reader's from any thread,
 * except acquire. */
struct sl_bare_ops {
    const char *scheme;

    /* `params` are the caller's, loaded; strings and structs that they point to do not outlive the call. `object` is the
     * handle's; its id is stored in frames as their owner. */
    int (*writer_open)(const char *name, const struct sluice_writer_params *params, struct sl_object *object, void **state);
    void (*writer_close)(void *state);
    int (*begin)(void *state, int64_t timeout_ns, struct sluice_frame *frame);
    int (*wait)(void *state, int64_t timeout_ns);
    int (*commit)(void *state, struct sluice_frame *frame, struct sluice_stream stream);
    int (*cancel)(void *state, struct sluice_frame *frame, struct sluice_stream stream);
    /* `header` is not NULL. */
    int (*send)(void *state, struct sluice_frame *header, const struct sluice_array *arrays, uint32_t count,
                struct sluice_stream stream, struct sluice_ticket *ticket);
    int (*reformat)(void *state, const struct sluice_format *format); /* complete */
    int (*writer_format)(void *state, struct sluice_format *format);
    void (*writer_stats)(void *state, struct sluice_writer_stats *stats);
    int (*writer_pin)(void *state, const struct sluice_frame *frame, sluice_pin **pin);
    int (*writer_view)(void *state, const struct sluice_frame *frame, struct sl_view *view);

    int (*reader_open)(const char *name, const struct sluice_reader_params *params, struct sl_object *object, void **state);
    void (*reader_close)(void *state);
    /* `frame` is not NULL, and the time-out is 0 or more. */
    int (*acquire)(void *state, struct sluice_stream stream, int64_t timeout_ns, struct sluice_frame *frame);
    int (*release)(void *state, struct sluice_frame *frame, struct sluice_stream stream);
    int (*check)(void *state, const struct sluice_frame *frame);
    int (*reader_format)(void *state, struct sluice_format *format);
    int (*reader_device)(void *state, char name[SL_DEVICE_NAME]);
    int (*reader_fd)(void *state);
    void (*reader_stats)(void *state, struct sluice_reader_stats *stats);
    void (*reader_stop)(void *state);
    int (*reader_pin)(void *state, const struct sluice_frame *frame, sluice_pin **pin);
    int (*reader_view)(void *state, const struct sluice_frame *frame, struct sl_view *view);
};

/* The channels of a wire, if they are bare; else NULL. */
const struct sl_bare_ops *sl_bare_of(const struct sl_wire_ops *wire);

/* A writer or reader of that kind. */
int sl_bare_writer_open(sluice_writer **writer, const struct sl_bare_ops *ops, const char *name,
                        const struct sluice_writer_params *params);
int sl_bare_reader_open(sluice_reader **reader, const struct sl_bare_ops *ops, const char *name,
                        const struct sluice_reader_params *params);

/* The state behind a handle, held until sl_object_drop(*object). SLUICE_E_UNSUPPORTED for a channel of another kind. */
int sl_bare_writer_state(sluice_writer *handle, const struct sl_bare_ops *ops, struct sl_object **object, void **state);
int sl_bare_reader_state(sluice_reader *handle, const struct sl_bare_ops *ops, struct sl_object **object, void **state);

/* The same for a call that one thread at a time may make. */
struct sluice_writer;
int sl_bare_writer_enter(sluice_writer *handle, const struct sl_bare_ops *ops, struct sluice_writer **writer, void **state);
void sl_bare_writer_leave(struct sluice_writer *writer);

#endif
