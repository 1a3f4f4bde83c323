/* SPDX-License-Identifier: MIT
 *
 * A channel that is written by a pipeline: its slots as memory of GStreamer.
 */
#include "slots.h"

#include <string.h>

#include "extra.h"
#include "gpu.h"
#include "memory.h"
#include "meta.h"

#define ADD_TIME (20 * SLUICE_MS) /* what adding a slot usually takes, and more */

struct gst_sluice_channel {
    gint refs;
    GMutex lock;           /* the writer's calls come from any thread of the pipeline */
    sluice_writer *writer; /* NULL: closed */
    sluice_reader *own;    /* keeps what was rendered in place; NULL: no place for it */
    struct gst_sluice_layout layout;
    GstVideoInfo info;          /* of the sink's caps: what the metadata of frames says */
    struct gst_sluice_gpu *gpu; /* NULL: host memory */
    GQueue slots;               /* that are lent */
    uint32_t max_slots;
    int64_t patience; /* of begin, in ns: 0 may take unread frames from readers, whatever the policy */
};

enum slot_state {
    SLOT_BEGUN,
    SLOT_KEPT,  /* committed, and leased by the own reader */
    SLOT_ADRIFT /* no slot any more: only its memory is kept, by a pin */
};

struct slot {
    struct gst_sluice_channel *channel;
    enum slot_state state;
    struct sluice_frame frame; /* of the writer, then of the own reader */
    sluice_pin *pin;
};

/* ---- layouts ---- */

static void take_planes(struct gst_sluice_layout *layout, const struct sluice_array *array)
{
    layout->size = array->nbytes;
    for (guint i = 0; i < array->image.plane_count; i++) {
        layout->offset[i] = array->image.planes[i].offset;
        layout->stride[i] = (gint)array->image.planes[i].pitch;
    }
}

static int add_image(struct sluice_format *to, const struct gst_sluice_layout *layout)
{
    const struct sluice_image *image = &layout->format.image;
    int r = sluice_format_add_image(to, "image", (enum sluice_pixel_format)image->pixel_format, image->width,
                                    image->height);

    if (r < 0)
        return r;
    to->arrays[0].image.colour = image->colour;
    to->arrays[0].image.alpha = image->alpha;
    return 0;
}

gboolean gst_sluice_layout_usual(struct gst_sluice_layout *layout, guint pitch_align)
{
    struct sluice_format format = SLUICE_FORMAT_INIT;

    format.pitch_align = pitch_align;
    if (add_image(&format, layout) != 0)
        return FALSE;
    take_planes(layout, &format.arrays[0]);
    return TRUE;
}

void gst_sluice_layout_padded(struct gst_sluice_layout *layout, const GstVideoAlignment *align)
{
    GstVideoInfo info = layout->format.info;
    GstVideoAlignment copy;

    if (align) {
        copy = *align;
        gst_video_info_align(&info, &copy);
    }
    layout->size = GST_VIDEO_INFO_SIZE(&info);
    memcpy(layout->offset, info.offset, sizeof layout->offset);
    memcpy(layout->stride, info.stride, sizeof layout->stride);
}

static gboolean same_layout(const struct gst_sluice_layout *a, const struct gst_sluice_layout *b)
{
    const struct sluice_image *p = &a->format.image, *q = &b->format.image;

    return p->pixel_format == q->pixel_format && p->width == q->width && p->height == q->height &&
           p->alpha == q->alpha && memcmp(&p->colour, &q->colour, sizeof p->colour) == 0 && a->size == b->size &&
           memcmp(a->offset, b->offset, sizeof a->offset) == 0 && memcmp(a->stride, b->stride, sizeof a->stride) == 0;
}

int gst_sluice_layout_place(struct sluice_format *format, const gsize *offset, const gint *stride)
{
    struct sluice_array *array = &format->arrays[0];

    for (guint i = 0; i < array->image.plane_count; i++) {
        array->image.planes[i].offset = offset[i];
        array->image.planes[i].pitch = (guint64)stride[i];
    }
    array->nbytes = 0;
    array->ndim = 0;
    memset(array->shape, 0, sizeof array->shape);
    memset(array->strides, 0, sizeof array->strides);
    return sluice_format_complete(format);
}

/* A slot ends behind the image's last row, but a decoder also writes the rows that it crops: these get an array of
 * their own, "padding". */
static int make_format(struct sluice_format *to, const struct gst_sluice_layout *layout)
{
    int r = add_image(to, layout);

    if (r < 0 || (r = gst_sluice_layout_place(to, layout->offset, layout->stride)) != 0 ||
        to->slot_bytes >= layout->size)
        return r;
    gint64 rest = (gint64)(layout->size - to->slot_bytes);
    return MIN(sluice_format_add_tensor(to, "padding", (struct sluice_dtype){ SLUICE_UINT, 8, 1 }, 1, &rest), 0);
}

/* ---- open, close ---- */

struct gst_sluice_channel *gst_sluice_channel_open(const struct sluice_writer_params *params,
                                                   const struct gst_sluice_layout *layout, struct gst_sluice_gpu *gpu)
{
    struct sluice_format format = SLUICE_FORMAT_INIT;
    struct sluice_writer_params complete = *params;
    struct sluice_reader_params own = SLUICE_READER_PARAMS_INIT;
    sluice_writer *writer;

    complete.format = &format;
    if (make_format(&format, layout) != 0 || sluice_writer_open(&writer, &complete) != 0)
        return NULL;
    struct gst_sluice_channel *channel = g_new0(struct gst_sluice_channel, 1);
    channel->refs = 1;
    g_mutex_init(&channel->lock);
    g_queue_init(&channel->slots);
    channel->writer = writer;
    channel->layout = *layout;
    if ((channel->gpu = gpu))
        gst_sluice_gpu_ref(gpu);
    channel->max_slots = params->max_slots;
    channel->patience = params->policy == SLUICE_WAIT ? 1 : 0;
    own.name = params->name;
    own.hold = SLUICE_MOST;
    own.open_timeout_ns = 10 * SLUICE_S;
    if (sluice_reader_open(&channel->own, &own) != 0) {
        GST_WARNING("nothing is rendered in place: %s", sluice_last_error());
        channel->own = NULL;
    }
    return channel;
}

struct gst_sluice_channel *gst_sluice_channel_ref(struct gst_sluice_channel *channel)
{
    g_atomic_int_inc(&channel->refs);
    return channel;
}

void gst_sluice_channel_unref(struct gst_sluice_channel *channel)
{
    if (!g_atomic_int_dec_and_test(&channel->refs))
        return;
    gst_sluice_channel_close(channel);
    gst_sluice_gpu_unref(channel->gpu);
    g_mutex_clear(&channel->lock);
    g_free(channel);
}

/* Where a frame ends that nobody commits. */
static struct sluice_stream behind_all(const struct gst_sluice_channel *channel)
{
    return channel->gpu ? gst_sluice_gpu_behind_all(channel->gpu) : SLUICE_ON_CPU;
}

/* Keeps its memory, but no slot. Under the lock. */
static void cut_loose(gpointer data, gpointer unused)
{
    struct slot *slot = data;
    struct gst_sluice_channel *channel = slot->channel;

    (void)unused;
    if (slot->state == SLOT_BEGUN) {
        sluice_writer_pin(channel->writer, &slot->frame, &slot->pin);
        sluice_writer_cancel(channel->writer, &slot->frame, behind_all(channel));
    } else if (slot->state == SLOT_KEPT) {
        sluice_reader_pin(channel->own, &slot->frame, &slot->pin);
        sluice_reader_release(channel->own, &slot->frame, behind_all(channel));
    }
    slot->state = SLOT_ADRIFT;
}

void gst_sluice_channel_close(struct gst_sluice_channel *channel)
{
    g_mutex_lock(&channel->lock);
    if (channel->writer)
        g_queue_foreach(&channel->slots, cut_loose, NULL);
    sluice_reader_close(&channel->own);
    sluice_writer_close(&channel->writer);
    g_mutex_unlock(&channel->lock);
}

static void cut_begun_loose(gpointer data, gpointer unused)
{
    if (((struct slot *)data)->state == SLOT_BEGUN)
        cut_loose(data, unused);
}

int gst_sluice_channel_set_layout(struct gst_sluice_channel *channel, const struct gst_sluice_layout *layout)
{
    struct sluice_format format = SLUICE_FORMAT_INIT;
    int r = 0;

    g_mutex_lock(&channel->lock);
    if (!same_layout(&channel->layout, layout) && (r = make_format(&format, layout)) == 0) {
        g_queue_foreach(&channel->slots, cut_begun_loose, NULL);
        if ((r = sluice_writer_reformat(channel->writer, &format)) == 0)
            channel->layout = *layout;
    }
    g_mutex_unlock(&channel->lock);
    return r;
}

void gst_sluice_channel_describe(struct gst_sluice_channel *channel, const GstVideoInfo *info)
{
    g_mutex_lock(&channel->lock);
    channel->info = *info;
    g_mutex_unlock(&channel->lock);
}

/* ---- slots ---- */

static void slot_free(gpointer data)
{
    struct slot *slot = data;
    struct gst_sluice_channel *channel = slot->channel;

    g_mutex_lock(&channel->lock);
    g_queue_remove(&channel->slots, slot);
    if (slot->state == SLOT_BEGUN)
        sluice_writer_cancel(channel->writer, &slot->frame, behind_all(channel));
    else if (slot->state == SLOT_KEPT)
        sluice_reader_release(channel->own, &slot->frame, behind_all(channel));
    g_mutex_unlock(&channel->lock);
    sluice_pin_drop(&slot->pin);
    gst_sluice_channel_unref(channel);
    g_free(slot);
}

/* Would begin find a slot, or add one? To ask begin itself counts a dropped frame. On a GPU a slot is added in the
 * background, and only a begin that drops waits for that. Under the lock. */
static gboolean has_slot(struct gst_sluice_channel *channel)
{
    struct sluice_writer_stats stats = { .size = sizeof stats };

    if (sluice_writer_wait(channel->writer, 0) == 0)
        return TRUE;
    if (sluice_writer_stats(channel->writer, &stats) != 0 || stats.slots >= channel->max_slots)
        return FALSE;
    return channel->patience == 0 || sluice_writer_wait(channel->writer, ADD_TIME) == 0;
}

GstMemory *gst_sluice_channel_lend(struct gst_sluice_channel *channel, const struct gst_sluice_layout *layout,
                                   gpointer stream)
{
    struct sluice_frame frame;
    struct sluice_array array;
    struct slot *slot = NULL;

    g_mutex_lock(&channel->lock);
    if (channel->writer && channel->own && same_layout(&channel->layout, layout) && has_slot(channel) &&
        sluice_writer_begin(channel->writer, channel->patience, &frame) == 0) {
        if (sluice_frame_array_at(&frame, 0, &array) == 0) {
            slot = g_new0(struct slot, 1);
            slot->channel = gst_sluice_channel_ref(channel);
            slot->frame = frame;
            g_queue_push_tail(&channel->slots, slot);
        } else {
            sluice_writer_cancel(channel->writer, &frame, SLUICE_ON_CPU);
        }
    }
    g_mutex_unlock(&channel->lock);
    if (!slot)
        return NULL;
    if (!channel->gpu)
        return gst_sluice_memory_new(array.data, layout->size, slot, slot_free);
    GstMemory *memory = gst_sluice_gpu_memory(channel->gpu, layout, array.data, array.nbytes, stream, slot, slot_free);
    if (!memory)
        slot_free(slot);
    return memory;
}

/* ---- publishing ---- */

static void prepare(const struct gst_sluice_channel *channel, struct sluice_frame *frame, GstBuffer *buffer,
                    gint64 capture_ns)
{
    frame->capture_ns = capture_ns;
    gst_sluice_meta_load(buffer, frame);
    gst_sluice_extra_write(frame, &channel->info);
}

static struct slot *slot_in(const struct gst_sluice_channel *channel, GstMemory *memory)
{
    gpointer user = channel->gpu ? gst_sluice_gpu_memory_user(memory) : gst_sluice_memory_user(memory);

    return user && g_queue_find((GQueue *)&channel->slots, user) ? user : NULL; /* others wrap memory, too */
}

/* The slot whose picture this buffer is, whole and where it should be; or NULL. Under the lock. */
static struct slot *slot_of(const struct gst_sluice_channel *channel, GstBuffer *buffer)
{
    GstMemory *memory = gst_buffer_n_memory(buffer) == 1 ? gst_buffer_peek_memory(buffer, 0) : NULL;
    struct slot *slot = memory ? slot_in(channel, memory) : NULL;
    const struct gst_sluice_layout *layout = &channel->layout;
    const GstVideoMeta *meta = gst_buffer_get_video_meta(buffer);

    if (!slot || slot->channel != channel || slot->state != SLOT_BEGUN || gst_buffer_get_video_crop_meta(buffer) ||
        !meta || meta->width != layout->format.image.width || meta->height != layout->format.image.height)
        return NULL;
    for (guint i = 0; i < meta->n_planes; i++)
        if (meta->offset[i] != layout->offset[i] || meta->stride[i] != layout->stride[i])
            return NULL;
    return slot;
}

/* The own reader takes what was committed just now, unless another thread has committed since. On a GPU the CPU waits
 * until the picture is complete. */
static void keep(struct gst_sluice_channel *channel, struct slot *slot)
{
    struct sluice_frame frame;
    int r;

    do /* after a change of format its memory may be on its way yet */
        r = sluice_reader_acquire(channel->own, SLUICE_ON_CPU, SLUICE_S, &frame);
    while (r == SLUICE_AGAIN);
    if (r == 0) {
        slot->frame = frame;
        slot->state = SLOT_KEPT;
    } else {
        GST_WARNING("a frame is not kept: %s", sluice_last_error());
        slot->state = SLOT_ADRIFT;
    }
}

gboolean gst_sluice_channel_commit(struct gst_sluice_channel *channel, GstBuffer *buffer, gint64 capture_ns)
{
    g_mutex_lock(&channel->lock);
    struct slot *slot = slot_of(channel, buffer);
    gboolean done = FALSE;
    if (slot) {
        prepare(channel, &slot->frame, buffer, capture_ns);
        sluice_writer_pin(channel->writer, &slot->frame, &slot->pin);
        int r = channel->gpu ? gst_sluice_gpu_commit(channel->gpu, channel->writer, &slot->frame,
                                                     gst_buffer_peek_memory(buffer, 0))
                             : sluice_writer_commit(channel->writer, &slot->frame, SLUICE_ON_CPU);
        if ((done = r == 0))
            keep(channel, slot);
        if (slot->state == SLOT_KEPT)
            sluice_pin_drop(&slot->pin);
    }
    g_mutex_unlock(&channel->lock);
    return done;
}

static int copy_picture(const struct gst_sluice_layout *layout, GstBuffer *buffer, void *to)
{
    GstVideoInfo info = layout->format.info;
    GstVideoFrame picture;
    GstMapInfo map;

    if (layout->format.bayer) {
        if (!gst_buffer_map(buffer, &map, GST_MAP_READ))
            return SLUICE_E_FORMAT;
        gboolean fits = map.size >= GST_VIDEO_INFO_SIZE(&info);
        if (fits)
            gst_sluice_copy_rows(&info, to, layout->offset, layout->stride, map.data, info.offset, info.stride, FALSE);
        gst_buffer_unmap(buffer, &map);
        return fits ? 0 : SLUICE_E_FORMAT;
    }
    if (!gst_video_frame_map(&picture, &info, buffer, GST_MAP_READ))
        return SLUICE_E_FORMAT;
    for (guint plane = 0; plane < GST_VIDEO_FRAME_N_PLANES(&picture); plane++) {
        GstVideoFrame target = picture;
        target.data[plane] = (guint8 *)to + layout->offset[plane];
        target.info.stride[plane] = layout->stride[plane];
        gst_video_frame_copy_plane(&target, &picture, plane);
    }
    gst_video_frame_unmap(&picture);
    return 0;
}

static int copy_on_gpu(struct gst_sluice_channel *channel, GstBuffer *buffer, gint64 capture_ns)
{
    guint8 meta[SLUICE_MAX_META];
    struct sluice_frame frame = { .meta = meta };

    prepare(channel, &frame, buffer, capture_ns);
    return gst_sluice_gpu_send(channel->gpu, channel->writer, &frame, &channel->layout.format, buffer);
}

static int copy_on_cpu(struct gst_sluice_channel *channel, GstBuffer *buffer, gint64 capture_ns)
{
    struct sluice_frame frame;
    struct sluice_array array;
    int r = sluice_writer_begin(channel->writer, channel->patience, &frame);

    if (r == 0) {
        if ((r = sluice_frame_array_at(&frame, 0, &array)) == 0)
            r = copy_picture(&channel->layout, buffer, array.data);
        prepare(channel, &frame, buffer, capture_ns);
        if (r == 0)
            r = sluice_writer_commit(channel->writer, &frame, SLUICE_ON_CPU);
        else
            sluice_writer_cancel(channel->writer, &frame, SLUICE_ON_CPU);
    }
    return r;
}

int gst_sluice_channel_copy(struct gst_sluice_channel *channel, GstBuffer *buffer, gint64 capture_ns, gboolean last)
{
    int r = SLUICE_NO_SLOT;

    g_mutex_lock(&channel->lock);
    if (last || has_slot(channel))
        r = (channel->gpu ? copy_on_gpu : copy_on_cpu)(channel, buffer, capture_ns);
    g_mutex_unlock(&channel->lock);
    return r;
}

int gst_sluice_channel_wait(struct gst_sluice_channel *channel, gint64 timeout_ns)
{
    g_mutex_lock(&channel->lock);
    int r = has_slot(channel) ? 0 : sluice_writer_wait(channel->writer, timeout_ns);
    g_mutex_unlock(&channel->lock);
    return r;
}

gboolean gst_sluice_channel_stats(struct gst_sluice_channel *channel, struct sluice_writer_stats *stats)
{
    stats->size = sizeof *stats;
    return sluice_writer_stats(channel->writer, stats) == 0;
}
