/* SPDX-License-Identifier: MIT
 *
 * The stream of a copy, and its order.
 */
#include "stream_choice.h"

#include <string.h>

#include "fetch.h"

/* ---- the choice ---- */

/* The stream of the first array whose framework works on the frames' GPU. */
static struct stream *of_sources(const struct user *user, const struct source *sources, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (sources[i].stream && strcmp(stream_device(sources[i].stream), user->device) == 0)
            return stream_keep(sources[i].stream);
    return NULL;
}

/* The stream that a frame was acquired on; after a reset one of ours. -1 with an exception. */
static int of_frame(struct state *state, const struct user *user, struct lease *lease, struct stream_choice *choice)
{
    if (choice->stream || !lease || !lease->named)
        return 0;
    choice->stream = lease_first(lease);
    if (stream_was_reset(choice->stream)) {
        stream_drop(choice->stream);
        choice->stream = copy_stream(state, user->channel, user->device);
    }
    return choice->stream ? 0 : -1;
}

static int choose(struct state *state, const struct user *user, struct lease *frame, const struct source *sources,
                  uint32_t count, struct stream_choice *choice)
{
    if (stream_current_usable(state, user->device, &choice->stream) < 0)
        return -1;
    if (!choice->stream)
        choice->stream = of_sources(user, sources, count);
    for (uint32_t i = 0; i < count; i++)
        if (of_frame(state, user, sources[i].lease, choice) < 0)
            return -1;
    if (!choice->stream && choice->gpu && !(choice->stream = copy_stream(state, user->channel, user->device)))
        return -1;
    return of_frame(state, user, frame, choice);
}

int choice_make(struct state *state, PyObject *given, const struct user *user, struct lease *frame,
                const struct source *sources, uint32_t count, struct stream_choice *choice)
{
    memset(choice, 0, sizeof *choice);
    choice->on_gpu = device_ordinal(user->device) >= 0;
    for (uint32_t i = 0; i < count; i++) {
        choice->lasting = choice->lasting || sources[i].lasting;
        choice->gpu = choice->gpu || sources[i].ordinal >= 0;
        choice->host = choice->host || sources[i].ordinal < 0;
    }
    if (given && given != Py_None) {
        if (!(choice->stream = stream_of(state, given, user->device)))
            return -1;
    } else if (choice->on_gpu && choose(state, user, frame, sources, count, choice) < 0) {
        return -1;
    }
    if (!choice->on_gpu) { /* done when the call returns */
        stream_drop(choice->stream);
        choice->stream = NULL;
    }
    for (uint32_t i = 0; choice->stream && i < count; i++)
        if (sources[i].stream && !stream_same(sources[i].stream, choice->stream))
            choice->edges = true;
    return 0;
}

/* ---- checks ---- */

int raise_copy(const struct state *state, int r)
{
    if (r == SLUICE_E_CAPTURING)
        raise_as(state, ERROR_E_CAPTURING,
                 "the copy would have to wait for work that is being captured into a graph, or its stream is "
                 "capturing: use another "
                 "stream, or copy after the capture; nothing was queued");
    else
        raise_result(state, r);
    return -1;
}

/* Also of a default stream that takes no work during a capture elsewhere. */
int check_captures(const struct state *state, const struct stream *stream)
{
    bool captured = stream && sluice_stream_query(stream_handle(stream)) == SLUICE_E_CAPTURING;

    return captured ? raise_copy(state, SLUICE_E_CAPTURING) : 0;
}

int check_framework_captures(struct state *state, enum framework framework, int ordinal)
{
    char made[DEVICE_NAME];
    struct stream *stream = NULL;
    int r;

    if (ordinal < 0)
        return 0;
    if (framework_current(state, framework, device_numbered(ordinal, made), &stream) < 0) {
        if (!PyErr_ExceptionMatches(state->error))
            return -1;
        PyErr_Clear(); /* a GPU that only the framework knows: nothing of ours is captured there */
        return 0;
    }
    r = check_captures(state, stream);
    stream_drop(stream);
    return r;
}

int check_copy_captures(struct state *state, enum framework framework, int ordinal, PyObject *given)
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
        r = check_captures(state, stream);
    stream_drop(stream);
    return r < 0 ? -1 : check_framework_captures(state, framework, ordinal);
}

int check_source_captures(const struct state *state, const struct stream *stream, const struct source *sources,
                          uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct stream *of = sources[i].stream;
        if (sources[i].lease && copy_captured(sources[i].lease, &sources[i].array))
            return raise_copy(state, SLUICE_E_CAPTURING);
        if (of && !(stream && stream_same(of, stream)) && check_captures(state, of) < 0)
            return -1;
    }
    return 0;
}

/* ---- the order ---- */

int choice_wait_for_sources(struct state *state, const struct stream_choice *choice, const struct source *sources,
                            uint32_t count)
{
    int r = 0;

    if (!choice->stream)
        return 0;
    for (uint32_t i = 0; i < count && r == 0; i++) {
        struct stream *of = sources[i].stream;
        if (sources[i].lease)
            r = copy_behind(sources[i].lease, &sources[i].array, choice->stream);
        else if (of && !stream_same(of, choice->stream))
            r = stream_join(stream_handle(choice->stream), of); /* fails while it captures */
    }
    return r == 0 ? 0 : raise_copy(state, r);
}

void choice_hold_frame(const struct stream_choice *choice, struct lease *lease)
{
    if (!lease || !choice->stream || lease_use(lease, stream_keep(choice->stream)) == 0)
        return;
    PyErr_Clear(); /* no memory: the copy is waited for, and the frame may end at any time */
    Py_BEGIN_ALLOW_THREADS(void) sluice_stream_synchronize(stream_handle(choice->stream));
    Py_END_ALLOW_THREADS
}

int choice_hold_sources(const struct stream_choice *choice, const struct source *sources, uint32_t count)
{
    int r = 0;

    for (uint32_t i = 0; choice->edges && i < count && r == 0; i++) {
        struct stream *to = sources[i].stream;
        if (to && !stream_same(to, choice->stream))
            r = sluice_stream_wait_stream(stream_handle(to), stream_handle(choice->stream));
    }
    return r;
}

struct sluice_stream choice_handle(const struct stream_choice *choice)
{
    return choice->stream ? stream_handle(choice->stream) : SLUICE_ON_CPU;
}

void choice_drop(struct stream_choice *choice)
{
    stream_drop(choice->stream);
    choice->stream = NULL;
}
