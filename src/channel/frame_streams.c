/* SPDX-License-Identifier: MIT
 *
 * The streams that use a frame.
 *
 * A frame that several streams use ends behind a stream of ours that waits for each. No event waits for the legacy
 * default stream, which takes none during a capture elsewhere: a blocking stream of ours is ordered behind its work
 * without a call.
 */
#include "channel/frame_streams.h"

#include <stdlib.h>
#include <string.h>

#include "channel/frame_view.h"
#include "util/result.h"

#define FEW 2 /* streams in the set itself */

static const struct sl_stream_queue nowhere = { .context = NULL };

struct use {
    struct sl_stream *stream; /* a reference: the native stream lives on if its handle is destroyed */
    struct sl_stream_queue place;
    void (*release)(void *user);
    void *user;
};

struct sl_stream_set {
    struct sl_stream_set *next;
    uint64_t token, entry; /* the frame's */
    uint32_t count, room;
    struct use *uses; /* `few`, until there are more */
    struct use few[FEW];
};

/* ---- sets: under the lock ---- */

static struct sl_stream_set **find_by(struct sl_frame_streams *streams, uint64_t token, uint64_t entry)
{
    struct sl_stream_set **at = &streams->sets;

    while (*at && ((*at)->token != token || (*at)->entry != entry))
        at = &(*at)->next;
    return at;
}

static struct sl_stream_set *find(struct sl_frame_streams *streams, const struct sluice_frame *frame)
{
    return *find_by(streams, frame->opaque[SL_FRAME_TOKEN], frame->opaque[SL_FRAME_ENTRY]);
}

static struct sl_stream_set *find_or_make(struct sl_frame_streams *streams, const struct sluice_frame *frame)
{
    struct sl_stream_set *set = find(streams, frame);

    if (set)
        return set;
    if ((set = streams->spare))
        streams->spare = set->next;
    else if (!(set = calloc(1, sizeof *set)))
        return NULL;
    set->token = frame->opaque[SL_FRAME_TOKEN];
    set->entry = frame->opaque[SL_FRAME_ENTRY];
    if (!set->uses) {
        set->uses = set->few;
        set->room = FEW;
    }
    set->next = streams->sets;
    streams->sets = set;
    sl_add(&streams->used, 1);
    return set;
}

static bool grow(struct sl_stream_set *set)
{
    struct use *more = malloc(set->room * 4 * sizeof *more);

    if (!more)
        return false;
    memcpy(more, set->uses, set->count * sizeof *more);
    if (set->uses != set->few)
        free(set->uses);
    set->uses = more;
    set->room *= 4;
    return true;
}

static bool is_same(const struct sl_stream_queue *a, const struct sl_stream_queue *b)
{
    return a->context == b->context && a->native == b->native && a->thread == b->thread;
}

static bool has(const struct sl_stream_set *set, const struct sl_stream_queue *place)
{
    for (uint32_t i = 0; i < set->count; i++)
        if (is_same(&set->uses[i].place, place))
            return true;
    return false;
}

/* Takes the reference to the stream over, if *taken. */
static int add(struct sl_frame_streams *streams, const struct sluice_frame *frame, const struct use *use, bool *taken)
{
    struct sl_stream_set *set = find_or_make(streams, frame);

    *taken = set && !has(set, &use->place);
    if (set && (!*taken || set->count < set->room || grow(set))) {
        if (*taken)
            set->uses[set->count++] = *use;
        return 0;
    }
    *taken = false;
    return sl_fail(SLUICE_E_NO_MEMORY, "no memory for another stream of a frame");
}

/* ---- adding ---- */

/* Is the stream one of the GPU called `device`? */
static int check_device(const struct sl_stream *stream, const char *device)
{
    const struct sl_device *own = stream->object.device;
    unsigned char a[SL_DEVICE_UUID], b[SL_DEVICE_UUID];
    int r = 0;

    if (strcmp(own->name, device) == 0)
        return 0;
    if (own->ops == sl_device_kind(device) && (r = own->ops->identify(own->name, a)) == 0 &&
        (r = own->ops->identify(device, b)) == 0 && memcmp(a, b, sizeof a) == 0)
        return 0;
    return r != 0 ? r
                  : sl_fail(SLUICE_E_WRONG_DEVICE, "the stream is one of \"%s\", the frame is used on \"%s\"",
                            own->name, device);
}

int sl_frame_streams_add(struct sl_frame_streams *streams, const struct sluice_frame *frame, const char *device,
                         struct sluice_stream handle, void (*release)(void *user), void *user)
{
    struct use use = { .release = release, .user = user };
    bool taken = false;
    int r = 0;

    if (handle.id != SLUICE_ON_CPU.id) {
        if ((r = sl_stream_hold(handle, &use.stream)) != 0)
            return r;
        r = check_device(use.stream, device);
        if (r == 0 && strcmp(device, "host") != 0) {
            use.stream->object.device->ops->stream_queue(use.stream, &use.place);
            sl_mutex_lock(&streams->lock);
            r = add(streams, frame, &use, &taken);
            sl_mutex_unlock(&streams->lock);
        }
        if (!taken)
            sl_object_drop(&use.stream->object);
    }
    if (r == 0 && !taken && release)
        release(user);
    return r;
}

static void drop_uses(struct use *uses, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        sl_object_drop(&uses[i].stream->object);
        if (uses[i].release)
            uses[i].release(uses[i].user);
    }
}

void sl_frame_streams_forget(struct sl_frame_streams *streams, uint64_t token, uint64_t entry)
{
    if (sl_load(&streams->used, relaxed) == 0)
        return;
    sl_mutex_lock(&streams->lock);
    struct sl_stream_set **at = find_by(streams, token, entry), *set = *at;
    if (set)
        *at = set->next;
    sl_mutex_unlock(&streams->lock);
    if (!set)
        return;
    drop_uses(set->uses, set->count); /* without the lock: it may call the program */
    set->count = 0;
    sl_mutex_lock(&streams->lock);
    set->next = streams->spare;
    streams->spare = set;
    sl_add(&streams->used, (uint32_t)-1);
    sl_mutex_unlock(&streams->lock);
}

/* ---- waiting ---- */

static bool is_legacy(const struct use *use)
{
    return use->place.native == 0;
}

/* Another thread's default stream: nothing can be queued on it here. */
static bool is_elsewhere(const struct use *use)
{
    return use->place.thread && use->place.thread != sl_os_thread_number();
}

static bool captures(const struct use *use)
{
    return !is_legacy(use) && !is_elsewhere(use) &&
           use->stream->object.device->ops->stream_capture(use->stream) == SL_CAPTURE_ACTIVE;
}

/* Leaves out the stream at `but`. */
static uint32_t count_captures(const struct sl_stream_set *set, const struct sl_stream_queue *but)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < set->count; i++)
        count += !is_same(&set->uses[i].place, but) && captures(&set->uses[i]);
    return count;
}

/* Before anything is queued. */
static int check_captures(const struct sl_stream_set *set, const struct sl_stream_queue *but)
{
    uint32_t count = count_captures(set, but);

    return count == 0 ? 0
                      : sl_fail(SLUICE_E_CAPTURING,
                                "%u of the streams that use this frame capture a graph: nothing can wait for them "
                                "until the capture ends",
                                count);
}

static struct sluice_device device_of(const struct sl_stream *stream)
{
    return (struct sluice_device){ sl_object_id(&stream->object.device->object) };
}

/* The stream of ours, made the first time, after a reset, and for another device. A reference. */
static int hold_join(struct sl_frame_streams *streams, const struct use *use, bool blocking, struct sl_stream **join)
{
    struct sluice_stream_params params = { .size = sizeof params, .blocking = blocking };
    struct sluice_stream *handle = &streams->joins[blocking];
    struct sl_object *known = sl_object_find(handle->id, SL_HANDLE_STREAM);
    int r;

    *join = (struct sl_stream *)known;
    if (known && known->device == use->stream->object.device)
        return 0;
    if (known) {
        sl_object_drop(known);
        (void)sl_stream_destroy(handle);
    }
    if ((r = sl_stream_create(device_of(use->stream), &params, handle)) != 0)
        return r;
    return sl_stream_hold(*handle, join);
}

/* The default stream of all threads is ordered behind every thread's own. */
static int hold_default(const struct use *use, struct sl_stream **stream)
{
    struct sluice_stream handle;
    int r = sl_stream_default(device_of(use->stream), &handle);

    return r != 0 ? r : sl_stream_hold(handle, stream);
}

static int queue_wait(struct sl_stream *stream, struct sl_stream *other)
{
    return stream == other ? 0 : sl_streams_wait(&stream, 1, &other, 1);
}

/* Makes `stream` wait for one. `blocking`: it is ordered behind the default stream. */
static int wait_for(struct sl_frame_streams *streams, struct sl_stream *stream, const struct use *use, bool blocking)
{
    struct sl_stream *other;
    int r;

    if (is_elsewhere(use))
        r = hold_default(use, &other);
    else if (is_legacy(use) && blocking)
        return 0;
    else if (is_legacy(use))
        r = hold_join(streams, use, true, &other);
    else
        return queue_wait(stream, use->stream);
    if (r != 0)
        return r;
    r = sl_stream_not_capturing(other, "a frame cannot end behind it");
    if (r == 0)
        r = queue_wait(stream, other);
    sl_object_drop(&other->object);
    return r;
}

static int join(struct sl_frame_streams *streams, const struct sl_stream_set *set, struct sluice_stream *out)
{
    struct sl_stream *stream;
    bool blocking = false;
    int r;

    if (set->count == 1 && !is_elsewhere(&set->uses[0])) {
        out->id = sl_object_id(&set->uses[0].stream->object);
        if (sl_stream_is_alive(*out))
            return 0;
    }
    for (uint32_t i = 0; i < set->count; i++)
        blocking = blocking || is_legacy(&set->uses[i]);
    if ((r = check_captures(set, &nowhere)) != 0 || (r = hold_join(streams, &set->uses[0], blocking, &stream)) != 0)
        return r;
    for (uint32_t i = 0; r == 0 && i < set->count; i++)
        r = wait_for(streams, stream, &set->uses[i], blocking);
    out->id = sl_object_id(&stream->object);
    sl_object_drop(&stream->object);
    return r;
}

int sl_frame_streams_join(struct sl_frame_streams *streams, const struct sluice_frame *frame,
                          struct sluice_stream *stream)
{
    *stream = SLUICE_ON_CPU;
    sl_mutex_lock(&streams->lock);
    const struct sl_stream_set *set = find(streams, frame);
    int r = set && set->count ? join(streams, set, stream) : 0;
    sl_mutex_unlock(&streams->lock);
    return r;
}

int sl_frame_streams_wait(struct sl_frame_streams *streams, const struct sluice_frame *frame,
                          struct sluice_stream handle)
{
    struct sl_stream_queue place;
    struct sl_stream *stream;
    int r = sl_stream_hold(handle, &stream);

    if (r != 0)
        return r;
    stream->object.device->ops->stream_queue(stream, &place);
    sl_mutex_lock(&streams->lock);
    const struct sl_stream_set *set = find(streams, frame);
    if (set)
        r = check_captures(set, &place);
    for (uint32_t i = 0; set && r == 0 && i < set->count; i++)
        if (!is_same(&set->uses[i].place, &place))
            r = wait_for(streams, stream, &set->uses[i], false);
    sl_mutex_unlock(&streams->lock);
    sl_object_drop(&stream->object);
    return r;
}

int sl_frame_streams_captures(struct sl_frame_streams *streams, const struct sluice_frame *frame)
{
    sl_mutex_lock(&streams->lock);
    const struct sl_stream_set *set = find(streams, frame);
    int count = set ? (int)count_captures(set, &nowhere) : 0;
    sl_mutex_unlock(&streams->lock);
    return count;
}

/* ---- the end of a frame ---- */

int sl_frame_streams_add_last(struct sl_frame_streams *streams, const struct sluice_frame *frame,
                              struct sluice_stream stream, bool *named)
{
    const char *device = NULL; /* which a stream of the set keeps alive */

    sl_mutex_lock(&streams->lock);
    const struct sl_stream_set *set = find(streams, frame);
    *named = set && set->count > 0;
    if (*named)
        device = set->uses[0].stream->object.device->name;
    sl_mutex_unlock(&streams->lock);
    return *named ? sl_frame_streams_add(streams, frame, device, stream, NULL, NULL) : 0;
}

int sl_frame_streams_end_on_all(struct sl_frame_streams *streams, const struct sluice_frame *frame,
                                struct sluice_stream *stream)
{
    bool named;
    int r = sl_frame_streams_add_last(streams, frame, *stream, &named);

    return r == 0 && named ? sl_frame_streams_join(streams, frame, stream) : r;
}

int sl_frame_streams_default(struct sl_frame_streams *streams, const struct sluice_frame *frame,
                             struct sluice_stream *stream)
{
    sl_mutex_lock(&streams->lock);
    const struct sl_stream_set *set = find(streams, frame);
    int r = set && set->count ? sl_stream_default(device_of(set->uses[0].stream), stream) : SLUICE_E_STALE;
    sl_mutex_unlock(&streams->lock);
    return r;
}

/* A stream that the driver does not know any more has no work. */
static bool is_done(const struct use *use)
{
    struct sl_stream *stream = use->stream;
    int r;

    if (is_elsewhere(use) && hold_default(use, &stream) != 0)
        return true;
    r = sl_stream_not_capturing(stream, "it cannot be queried");
    if (r == 0)
        r = stream->object.device->ops->stream_query(stream);
    if (stream != use->stream)
        sl_object_drop(&stream->object);
    return r != SLUICE_NOT_READY && r != SLUICE_E_CAPTURING;
}

int sl_frame_streams_query(struct sl_frame_streams *streams, const struct sluice_frame *frame)
{
    bool done = true;

    sl_mutex_lock(&streams->lock);
    const struct sl_stream_set *set = find(streams, frame);
    for (uint32_t i = 0; set && done && i < set->count; i++)
        done = is_done(&set->uses[i]);
    sl_mutex_unlock(&streams->lock);
    return done ? 0 : SLUICE_NOT_READY;
}

/* ---- of a writer or a reader ---- */

void sl_frame_streams_begin(struct sl_frame_streams *streams)
{
    sl_mutex_init(&streams->lock);
}

static void free_sets(struct sl_stream_set *set)
{
    while (set) {
        struct sl_stream_set *next = set->next;
        drop_uses(set->uses, set->count);
        if (set->uses != set->few)
            free(set->uses);
        free(set);
        set = next;
    }
}

void sl_frame_streams_end(struct sl_frame_streams *streams)
{
    free_sets(streams->sets);
    free_sets(streams->spare);
    for (int i = 0; i < 2; i++)
        (void)sl_stream_destroy(&streams->joins[i]);
    sl_mutex_finish(&streams->lock);
}
