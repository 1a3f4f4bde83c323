/* SPDX-License-Identifier: MIT
 *
 * A reader's release of a frame that several streams use.
 *
 * While one of them captures a graph, or if no stream can be made to wait for them all, a thread releases it later. The
 * thread has a reference to the reader, which may be closed meanwhile.
 */
#include <stdlib.h>
#include <string.h>

#include "channel/channel.h"
#include "util/result.h"

#define POLL_INTERVAL SLUICE_MS

struct late_release {
    struct sluice_reader *reader;
    struct sluice_frame frame;
};

/* A frame that was acquired on a stream is released on one, also once all work is done. */
static int release_done(struct sluice_reader *reader, struct sluice_frame *frame)
{
    struct sluice_stream any;
    int r = reader->ops->release(reader, frame, SLUICE_ON_CPU);

    if (r == SLUICE_E_INVALID && sl_frame_streams_default(&reader->streams, frame, &any) == 0)
        r = reader->ops->release(reader, frame, any);
    return r;
}

static void release_late(void *argument)
{
    struct late_release *late = argument;
    struct sl_frame_streams *streams = &late->reader->streams;
    struct sluice_frame was = late->frame;
    struct sluice_stream behind;
    int r;

    while ((r = sl_frame_streams_join(streams, &was, &behind)) == SLUICE_E_CAPTURING)
        sl_os_sleep(POLL_INTERVAL);
    if (r == 0)
        r = late->reader->ops->release(late->reader, &late->frame, behind);
    if (late->frame.opaque[SL_FRAME_OWNER] != 0) {
        while (sl_frame_streams_query(streams, &was) != 0)
            sl_os_sleep(POLL_INTERVAL);
        (void)release_done(late->reader, &late->frame);
    }
    sl_frame_streams_forget(streams, was.opaque[SL_FRAME_TOKEN], was.opaque[SL_FRAME_ENTRY]);
    sl_object_drop(&late->reader->object);
    free(late);
}

/* Takes the frame over, whose end behind its streams returned `r`. */
static int start(struct sluice_reader *reader, struct sluice_frame *frame, int r)
{
    struct late_release *late = malloc(sizeof *late);

    if (!late)
        return sl_fail(SLUICE_E_NO_MEMORY, "channel '%s': no memory to release a frame", reader->name);
    *late = (struct late_release){ .reader = reader, .frame = *frame };
    sl_object_keep(&reader->object);
    if (sl_os_start_thread(release_late, late) != 0) {
        sl_object_drop(&reader->object);
        free(late);
        return r;
    }
    memset(frame->opaque, 0, sizeof frame->opaque);
    frame->meta = NULL;
    return r == SLUICE_E_CAPTURING ? 0 : r;
}

int sl_release_behind_all(struct sluice_reader *reader, struct sluice_frame *frame, struct sluice_stream stream)
{
    uint64_t token = frame->opaque[SL_FRAME_TOKEN], entry = frame->opaque[SL_FRAME_ENTRY];
    bool named;
    int r = sl_frame_streams_add_last(&reader->streams, frame, stream, &named);

    if (r != 0)
        return r;
    if (!named)
        return reader->ops->release(reader, frame, stream);
    if ((r = sl_frame_streams_join(&reader->streams, frame, &stream)) == 0)
        r = reader->ops->release(reader, frame, stream);
    if (frame->opaque[SL_FRAME_OWNER] == 0)
        sl_frame_streams_forget(&reader->streams, token, entry);
    else if (r != SLUICE_E_STALE)
        r = start(reader, frame, r);
    return r;
}
