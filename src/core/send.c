/* SPDX-License-Identifier: MIT
 *
 * Copies between a program's own arrays and slots: send, fetch, and their tickets.
 */
#include <string.h>

#include "core/format.h"
#include "core/reader.h"
#include "core/view.h"
#include "core/writer.h"
#include "util/result.h"

/* On `host` a copy is done when the call returns: all tickets are this one. */
#define DONE UINT64_C(1)

/* The format's index of each array. */
static int match(const struct sluice_format *format, const char *channel, const struct sluice_array *arrays,
                 uint32_t count, uint32_t *indices)
{
    uint32_t seen = 0;

    if (!arrays || count != format->array_count)
        return sl_fail(SLUICE_E_FORMAT, "channel '%s': %u arrays were given, a frame has %u", channel,
                       arrays ? count : 0, format->array_count);
    for (uint32_t i = 0; i < count; i++) {
        if (!memchr(arrays[i].name, '\0', SLUICE_ARRAY_NAME))
            return sl_fail(SLUICE_E_FORMAT, "channel '%s': the name of array %u has no end", channel, i);
        int index = count == 1 && arrays[i].name[0] == '\0' ? 0 : sluice_format_find(format, arrays[i].name);
        if (index < 0)
            return sl_fail(SLUICE_E_FORMAT, "channel '%s': its frames have no array '%s'", channel, arrays[i].name);
        if (seen & 1u << index)
            return sl_fail(SLUICE_E_FORMAT, "channel '%s': array '%s' is given twice", channel, arrays[i].name);
        if (!arrays[i].data && arrays[i].nbytes > 0)
            return sl_fail(SLUICE_E_INVALID, "channel '%s': array '%s' has no data", channel, arrays[i].name);
        seen |= 1u << index;
        indices[i] = (uint32_t)index;
    }
    return 0;
}

/* A new generation if an array outgrows this one. */
static int make_room(struct sluice_writer *writer, const struct sluice_array *arrays, uint32_t count,
                     const uint32_t *indices)
{
    struct sluice_format format;
    bool grows = false;
    int r;

    for (uint32_t i = 0; i < count; i++) {
        if (sl_format_fits(&writer->format, &arrays[i], indices[i]))
            continue;
        if ((r = sl_format_grow(grows ? &format : &writer->format, &arrays[i], indices[i], &format)) != 0)
            return r;
        grows = true;
    }
    if (!grows)
        return 0;
    if (writer->begun > 0)
        return sl_fail(SLUICE_E_BUSY, "channel '%s': an array outgrows the format while %u frames are begun",
                       writer->name, writer->begun);
    return sl_generation_make(writer, &format);
}

static int fill(const struct sl_view *view, const struct sluice_array *arrays, uint32_t count,
                const uint32_t *indices, uint64_t *bytes)
{
    int r;

    for (uint32_t i = 0; i < count; i++) {
        struct sluice_array to;
        if ((r = sl_format_frame(view->format, &arrays[i], indices[i], &to)) != 0)
            return r;
        sl_geometry_from_array(&view->writable_record->arrays[indices[i]], &to);
        *view->reshaped = true;
        to.data = view->address + to.offset;
        to.read_only = 0;
        if ((r = sluice_array_copy(&to, &arrays[i])) != 0)
            return r;
        *bytes += to.nbytes;
    }
    return 0;
}

/* Times and metadata that the caller gave. */
static void take_header(struct sluice_frame *frame, const struct sluice_frame *header)
{
    if (header->capture_ns != 0 || header->capture_clock != SLUICE_CLOCK_MONOTONIC) /* 0: begin's now stays */
        frame->capture_ns = header->capture_ns;
    frame->capture_clock = header->capture_clock;
    frame->meta_size = header->meta_size;
    if (header->meta_size > 0)
        memcpy(frame->meta, header->meta, header->meta_size);
}

static int send_frame(struct sluice_writer *writer, struct sluice_frame *header, const struct sluice_array *arrays,
                      uint32_t count, struct sluice_stream stream)
{
    uint32_t indices[SLUICE_MAX_ARRAYS];
    struct sluice_frame frame;
    struct sl_view view;
    uint64_t bytes = 0;
    int r;

    if (header->meta_size > SLUICE_MAX_META || (header->meta_size > 0 && !header->meta))
        return sl_fail(SLUICE_E_LIMIT, "channel '%s': %u bytes of metadata%s, %d fit", writer->name, header->meta_size,
                       header->meta ? "" : " at NULL", SLUICE_MAX_META);
    if ((stream.id != SLUICE_ON_CPU.id && (r = writer->flight.sync->check(writer->flight.pages, stream)) != 0) ||
        (r = match(&writer->format, writer->name, arrays, count, indices)) != 0 ||
        (r = make_room(writer, arrays, count, indices)) != 0 ||
        (r = sl_publish_begin(writer, SLUICE_DEFAULT, &frame)) != 0)
        return r;
    take_header(&frame, header);
    SL_STAGE_BEGIN(SEND_COPY);
    if ((r = sl_writer_view(&writer->object, &frame, &view)) == 0)
        r = fill(&view, arrays, count, indices, &bytes);
    SL_STAGE_END(SEND_COPY);
    if (r == 0)
        r = sl_publish_commit(writer, &frame, stream);
    if (r != 0) {
        (void)sl_publish_cancel(writer, &frame, SLUICE_ON_CPU);
        return r;
    }
    sl_mutex_lock(&writer->serve->lock);
    writer->copied_bytes += bytes;
    sl_mutex_unlock(&writer->serve->lock);
    header->sequence = frame.sequence;
    header->session = frame.session;
    header->capture_ns = frame.capture_ns;
    header->commit_ns = frame.commit_ns;
    header->slot = frame.slot;
    header->generation = frame.generation;
    return 0;
}

int sluice_writer_send_frame(sluice_writer *handle, struct sluice_frame *header, const struct sluice_array *arrays,
                             uint32_t count, struct sluice_stream stream, struct sluice_ticket *ticket)
{
    struct sluice_writer *writer;
    int r = sl_writer_enter(handle, &writer);

    if (r != 0)
        return r;
    SL_STAGE_BEGIN(SEND);
    r = header ? send_frame(writer, header, arrays, count, stream)
               : sl_fail(SLUICE_E_INVALID, "channel '%s': no frame was given", writer->name);
    SL_STAGE_END(SEND);
    sl_writer_leave(writer);
    if (r == 0 && ticket)
        ticket->id = DONE;
    return r;
}

int sluice_writer_send(sluice_writer *handle, const struct sluice_array *arrays, uint32_t count,
                       struct sluice_stream stream, struct sluice_ticket *ticket)
{
    struct sluice_frame header = { .sequence = 0 };

    return sluice_writer_send_frame(handle, &header, arrays, count, stream, ticket);
}

int sluice_reader_fetch(sluice_reader *handle, const struct sluice_frame *frame, const struct sluice_array *arrays,
                        uint32_t count, struct sluice_stream stream, struct sluice_ticket *ticket)
{
    uint32_t indices[SLUICE_MAX_ARRAYS];
    struct sluice_reader *reader;
    struct sl_view view;
    int r = sl_reader_hold(handle, &reader);

    if (r != 0)
        return r;
    SL_STAGE_BEGIN(FETCH);
    if ((r = sl_view_begin(frame, &view)) != 0)
        goto out;
    if (view.object != &reader->object)
        r = sl_fail(SLUICE_E_STALE, "channel '%s': this frame is not this reader's", reader->name);
    else if ((r = sl_stream_check(stream, NULL)) == 0)
        r = match(view.format, reader->name, arrays, count, indices);
    SL_STAGE_BEGIN(FETCH_COPY);
    for (uint32_t i = 0; r == 0 && i < count; i++) {
        struct sluice_array from;
        if ((r = sl_view_array(&view, indices[i], &from)) == 0)
            r = sluice_array_copy(&arrays[i], &from);
    }
    SL_STAGE_END(FETCH_COPY);
    sl_view_end(&view);
    if (r == 0 && ticket)
        ticket->id = DONE;
out:
    SL_STAGE_END(FETCH);
    sl_object_drop(&reader->object);
    return r;
}

int sluice_ticket_wait(struct sluice_ticket ticket, int64_t timeout_ns)
{
    (void)timeout_ns;
    if (ticket.id == 0)
        return sl_fail(SLUICE_E_HANDLE, "zero ticket: send or fetch fills it in");
    if (ticket.id != DONE)
        return sl_fail(SLUICE_E_HANDLE, "not a ticket of send or fetch");
    return 0;
}
