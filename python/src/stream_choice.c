/* SPDX-License-Identifier: MIT
 *
 * On which stream, and behind what.
 */
#include "stream_choice.h"

#include <string.h>

#include "fetch.h"

/* ---- which ---- */

/* An array whose framework works on the frames' GPU. */
static struct stream *of_sources(const struct user *user, const struct source *sources,
                                 uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (sources[i].stream && strcmp(stream_device(sources[i].stream), user->device) == 0)
            return stream_keep(sources[i].stream);
    return NULL;
}

struct stream *lease_first(struct lease *lease)
{
    struct stream *first;

    few_lock(&lease->busy, lease->channel);
    first = stream_keep(lease->used[0]);
    few_unlock(&lease->busy);
    return first;
}

/* The one that a frame was taken for; one of ours in its place if a reset has ended it. -1 with an exception. */
static int of_frame(struct state *state, const struct user *user, struct lease *lease,
                    struct launch *launch)
{
    if (launch->stream || !lease || !lease->named)
        return 0;
    launch->stream = lease_first(lease);
    if (stream_stale(launch->stream)) {
        stream_drop(launch->stream);
        launch->stream = copy_stream(state, user->channel, user->device);
    }
    return launch->stream ? 0 : -1;
}

static int choose(struct state *state, const struct user *user, struct lease *frame,
                  const struct source *sources, uint32_t count, struct launch *launch)
{
    if (stream_at_work(state, user->device, &launch->stream) < 0)
        return -1;
    if (!launch->stream)
        launch->stream = of_sources(user, sources, count);
    for (uint32_t i = 0; i < count; i++)
        if (of_frame(state, user, sources[i].lease, launch) < 0)
            return -1;
    if (!launch->stream && launch->gpu &&
        !(launch->stream = copy_stream(state, user->channel, user->device)))
        return -1;
    return of_frame(state, user, frame, launch);
}

int launch_choose(struct state *state, PyObject *given, const struct user *user,
                  struct lease *frame, const struct source *sources, uint32_t count,
                  struct launch *launch)
{
    memset(launch, 0, sizeof *launch);
    launch->on_gpu = device_ordinal(user->device) >= 0;
    for (uint32_t i = 0; i < count; i++) {
        launch->lasting = launch->lasting || sources[i].lasting;
        launch->gpu = launch->gpu || sources[i].ordinal >= 0;
        launch->host = launch->host || sources[i].ordinal < 0;
    }
    if (given && given != Py_None) {
        if (!(launch->stream = stream_of(state, given, user->device)))
            return -1;
    } else if (launch->on_gpu && choose(state, user, frame, sources, count, launch) < 0) {
        return -1;
    }
    if (!launch->on_gpu) { /* done when the call returns */
        stream_drop(launch->stream);
        launch->stream = NULL;
    }
    for (uint32_t i = 0; launch->stream && i < count; i++)
        if (sources[i].stream && !stream_same(sources[i].stream, launch->stream))
            launch->edges = true;
    return 0;
}

/* ---- may it be? ---- */

int raise_copy(const struct state *state, int r)
{
    if (r == SLUICE_E_CAPTURING)
        raise_as(
            state, ERROR_E_CAPTURING,
            "the copy would have to come behind work that is being captured into a graph, or is "
            "to be queued on a stream that is: use another stream, or copy after the capture; "
            "nothing was queued");
    else
        raise_result(state, r);
    return -1;
}

/* One that a capture elsewhere has shut takes no work either. */
int launch_on(const struct state *state, const struct stream *stream)
{
    bool captured = stream && sluice_stream_query(stream_handle(stream)) == SLUICE_E_CAPTURING;

    return captured ? raise_copy(state, SLUICE_E_CAPTURING) : 0;
}

int launch_on_current(struct state *state, enum framework framework, int ordinal)
{
    char made[DEVICE_NAME];
    struct stream *stream = NULL;
    int r;

    if (ordinal < 0)
        return 0;
    if (framework_current(state, framework, device_numbered(ordinal, made), &stream) < 0) {
        if (!PyErr_ExceptionMatches(state->error))
            return -1;
        PyErr_Clear(); /* a GPU that only the framework can have: then nothing of ours is captured there */
        return 0;
    }
    r = launch_on(state, stream);
    stream_drop(stream);
    return r;
}

int launch_by_framework(struct state *state, enum framework framework, int ordinal, PyObject *given)
{
    char made[DEVICE_NAME];
    struct stream *stream = NULL;
    int r;

    if (ordinal < 0)
        return 0;
    if (given && given != Py_None)
        r = (stream = stream_of(state, given, device_numbered(ordinal, made))) ? 0 : -1;
    else
        r = stream_current(state, device_numbered(ordinal, made), &stream);
    if (r == 0)
        r = launch_on(state, stream);
    stream_drop(stream);
    return r < 0 ? -1 : launch_on_current(state, framework, ordinal);
}

int launch_behind(const struct state *state, const struct stream *stream, const struct source *sources,
                  uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct stream *of = sources[i].stream;
        if (sources[i].lease && copy_captured(sources[i].lease, &sources[i].array))
            return raise_copy(state, SLUICE_E_CAPTURING);
        if (of && !(stream && stream_same(of, stream)) && launch_on(state, of) < 0)
            return -1;
    }
    return 0;
}

/* ---- before and behind ---- */

int launch_before(struct state *state, const struct launch *launch, const struct source *sources,
                  uint32_t count)
{
    int r = 0;

    if (!launch->stream)
        return 0;
    for (uint32_t i = 0; i < count && r == 0; i++) {
        struct stream *of = sources[i].stream;
        if (sources[i].lease)
            r = copy_behind(sources[i].lease, &sources[i].array, launch->stream);
        else if (of && !stream_same(of, launch->stream))
            r = stream_join(stream_handle(launch->stream), of); /* not into a graph */
    }
    return r == 0 ? 0 : raise_copy(state, r);
}

void launch_used(const struct launch *launch, struct lease *lease)
{
    if (!lease || !launch->stream || lease_use(lease, stream_keep(launch->stream)) == 0)
        return;
    PyErr_Clear(); /* no memory: then it may end when it likes */
    Py_BEGIN_ALLOW_THREADS(void) sluice_stream_synchronize(stream_handle(launch->stream));
    Py_END_ALLOW_THREADS
}

int launch_after(const struct launch *launch, const struct source *sources, uint32_t count)
{
    int r = 0;

    for (uint32_t i = 0; launch->edges && i < count && r == 0; i++) {
        struct stream *to = sources[i].stream;
        if (to && !stream_same(to, launch->stream))
            r = sluice_stream_wait_stream(stream_handle(to), stream_handle(launch->stream));
    }
    return r;
}

struct sluice_stream launch_handle(const struct launch *launch)
{
    return launch->stream ? stream_handle(launch->stream) : SLUICE_ON_CPU;
}

void launch_end(struct launch *launch)
{
    stream_drop(launch->stream);
    launch->stream = NULL;
}
