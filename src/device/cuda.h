/* SPDX-License-Identifier: MIT
 *
 * Internals of the CUDA kind of device, shared by the files that implement it.
 */
#ifndef SL_DEVICE_CUDA_H
#define SL_DEVICE_CUDA_H

#include "cuda/cuda.h"
#include "device/device.h"

static inline struct sl_cuda_context *sl_cuda_context_of(const struct sl_object *object)
{
    return object->device->state;
}

static inline struct sl_cu_stream *sl_cuda_stream_of(const struct sl_stream *stream)
{
    return (struct sl_cu_stream *)stream->native;
}

static inline struct sl_cu_event *sl_cuda_event_of(const struct sl_event *event)
{
    return (struct sl_cu_event *)event->native;
}

/* Is this the default stream, by any of its handles? */
static inline bool sl_cuda_is_legacy(const struct sl_stream *stream)
{
    return sl_cuda_stream_of(stream) == NULL || sl_cuda_stream_of(stream) == SL_CU_LEGACY;
}

/* Which capture does the stream take part in (0: none)? SLUICE_E_CAPTURING if nothing can be queued
 * on it: its capture was invalidated, or another stream's capture prohibits its use. Inside
 * sl_cuda_enter. */
int sl_cuda_stream_part(struct sl_stream *stream, uint64_t *capture);

int sl_cuda_stream_create(struct sl_stream *stream);
int sl_cuda_stream_wrap(struct sl_stream *stream, uintptr_t native);
int sl_cuda_stream_default(struct sl_stream *stream);
void sl_cuda_stream_destroy(struct sl_stream *stream);
enum sl_capture sl_cuda_stream_capture(struct sl_stream *stream);
void sl_cuda_stream_queue(const struct sl_stream *stream, struct sl_stream_queue *queue);
int sl_cuda_stream_query(struct sl_stream *stream);
int sl_cuda_stream_synchronize(struct sl_stream *stream);
void sl_cuda_streams_state(struct sl_stream *const *streams, uint32_t count, enum sl_stream_state *states);
int sl_cuda_streams_wait(struct sl_stream *const *streams, uint32_t count, struct sl_stream *const *others,
                         uint32_t other_count);
int sl_cuda_stream_wait_event(struct sl_stream *stream, struct sl_event *event);

/* stream_retire.c: an owned stream whose handle has ended, and which captures nothing, is destroyed; once its work is
 * done, if it has some, which synchronize waits for. The first one is called inside sl_cuda_enter. End: with the
 * device. */
int sl_cuda_retire_stream(struct sl_device *device, struct sl_cu_stream *stream);
int sl_cuda_retired_synchronize(struct sl_device *device);
void sl_cuda_retired_destroy(struct sl_device *device);

int sl_cuda_event_create(struct sl_event *event);
void sl_cuda_event_destroy(struct sl_event *event);
int sl_cuda_event_record(struct sl_event *event, struct sl_stream *stream);
int sl_cuda_event_query(struct sl_event *event);
int sl_cuda_event_synchronize(struct sl_event *event);
int sl_cuda_event_elapsed(struct sl_event *start, struct sl_event *stop, double *milliseconds);

#endif
