/* SPDX-License-Identifier: MIT
 *
 * Copies a frame's arrays into the program's own.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "channel/arrays.h"
#include "channel/channel.h"
#include "channel/fetch.h"
#include "format/format.h"
#include "mem/mem.h"
#include "trace/trace.h"
#include "util/result.h"

/* A copier for one device: after a restart the writer may use another one. */
struct sl_fetch_copier {
    struct sl_fetch_copier *next;
    char device[SL_DEVICE_NAME];
    struct sl_copier copier;
};

/* A fetch that was given up may begin yet: what it reads stays mapped until the reader has closed and no copy is under
 * way. */
struct sl_fetch_pin {
    struct sl_fetch_pin *next;
    sluice_pin *pin;
};

static struct sl_fetch_copier *find_copier(const struct sluice_reader *reader, const char *device)
{
    struct sl_fetch_copier *copier = reader->copiers;

    while (copier && strcmp(copier->device, device) != 0)
        copier = copier->next;
    return copier;
}

static int new_copier(struct sluice_reader *reader, const char *device, struct sl_fetch_copier **out)
{
    struct sl_fetch_copier *copier = calloc(1, sizeof *copier);

    if (!copier)
        return sl_fail(SLUICE_E_NO_MEMORY, "channel '%s': no memory to fetch with", reader->name);
    snprintf(copier->device, sizeof copier->device, "%s", device);
    int r = sl_copier_open(&copier->copier, copier->device, reader->name, false);
    if (r != 0) {
        free(copier);
        return r;
    }
    copier->next = reader->copiers;
    reader->copiers = copier;
    *out = copier;
    return 0;
}

/* It lives until the reader ends, and so do its tickets. */
static int copier_for(struct sluice_reader *reader, const char *device, struct sl_copier **copier)
{
    int r = 0;

    sl_mutex_lock(&reader->copier_lock);
    struct sl_fetch_copier *found = find_copier(reader, device);
    if (!found)
        r = new_copier(reader, device, &found);
    sl_mutex_unlock(&reader->copier_lock);
    if (r == 0)
        *copier = &found->copier;
    return r;
}

static void end_left(struct sluice_reader *reader, bool done)
{
    while (reader->fetch_pins) {
        struct sl_fetch_pin *left = reader->fetch_pins;
        reader->fetch_pins = left->next;
        if (done)
            sl_mem_drop((struct sl_mem_shared *)left->pin);
        free(left);
    }
}

bool sl_fetch_end(struct sluice_reader *reader, bool working)
{
    bool done = true;

    while (reader->copiers) {
        struct sl_fetch_copier *copier = reader->copiers;
        reader->copiers = copier->next;
        done = sl_copier_close(&copier->copier, working) && done;
        free(copier);
    }
    end_left(reader, done);
    sl_mutex_finish(&reader->copier_lock);
    return done;
}

/* After a failure no copy may still run when the call returns, or it is SLUICE_TIMEOUT. */
static int give_up(struct sl_copy_job *job, int result)
{
    char why[640];

    snprintf(why, sizeof why, "%s", sl_last_error());
    if (job->uses_source && sl_copy_finish(job) == SLUICE_TIMEOUT)
        return SLUICE_TIMEOUT;
    return sl_fail_text(result, why);
}

static int plan(const struct sl_view *view, const struct sluice_array *to, uint32_t index, struct sl_copy *copy)
{
    struct sluice_array from;
    int r = sl_view_array(view, index, &from);

    return r == 0 ? sl_array_plan(to, &from, copy) : r;
}

/* Without a ticket or a stream the copy is done when the call returns. */
static int fetch_copies(const struct sl_view *view, struct sl_copy_job *job, const struct sluice_array *arrays,
                        const uint32_t *indices, struct sluice_ticket *ticket, bool wait)
{
    struct sl_copy copy;
    int r = 0;

    for (uint32_t i = 1; i < job->count && r == 0; i++) /* none is copied if one cannot be */
        r = plan(view, &arrays[i], indices[i], &copy);
    for (uint32_t i = 0; i < job->count && r == 0; i++)
        if ((r = plan(view, &arrays[i], indices[i], &copy)) == 0)
            r = sl_copy_queue(job, i, &copy);
    if (r != 0)
        return give_up(job, r);
    if (wait && (r = sl_copy_finish(job)) != 0)
        return r;
    if (ticket && wait)
        ticket->id = SL_TICKET_DONE;
    else if (ticket)
        sl_copy_ticket(job, NULL, ticket);
    return 0;
}

/* *left: copies may be under way, and the program cannot know for how long. */
static int fetch(struct sluice_reader *reader, const struct sl_view *view, const struct sluice_array *arrays,
                 uint32_t count, struct sluice_stream stream, struct sluice_ticket *ticket, bool *left)
{
    uint32_t indices[SLUICE_MAX_ARRAYS];
    bool wait = !ticket || stream.id == SLUICE_ON_CPU.id;
    struct sl_copier *copier;
    struct sl_copy_job job;
    int r;

    if (view->object != &reader->object)
        return sl_fail(SLUICE_E_STALE, "channel '%s': this frame is not this reader's", reader->name);
    if ((r = sl_stream_check(stream, NULL)) != 0 ||
        (r = sl_arrays_match(view->format, reader->name, arrays, count, false, indices)) != 0 ||
        (r = copier_for(reader, view->device, &copier)) != 0)
        return r;
    if (stream.id == SLUICE_ON_CPU.id)
        stream = view->behind;
    job.needs_fence = job.prompt = true;
    if ((r = sl_arrays_begin(copier, SL_COPY_FETCH, arrays, count, stream, &job)) != 0)
        return r;
    SL_STAGE_BEGIN(FETCH_COPY);
    r = fetch_copies(view, &job, arrays, indices, ticket, wait);
    SL_STAGE_END(FETCH_COPY);
    *left = job.abandoned || r == SLUICE_TIMEOUT;
    sl_copy_end(&job);
    return r;
}

/* The frame may be released before the copies end. What cannot be pinned cannot be unmapped under the GPU's work
 * either. */
static void keep_mapped(struct sluice_reader *reader, const struct sluice_frame *frame)
{
    struct sl_fetch_pin *left = malloc(sizeof *left);
    sluice_pin *pin;
    char why[640];

    snprintf(why, sizeof why, "%s", sl_last_error());
    if (reader->ops->reader_pin(reader, frame, &pin) == 0 &&
        left) { /* without memory for `left` the pin stays for good */
        left->pin = pin;
        sl_mutex_lock(&reader->copier_lock);
        left->next = reader->fetch_pins;
        reader->fetch_pins = left;
        sl_mutex_unlock(&reader->copier_lock);
    } else {
        free(left);
    }
    (void)sl_fail_text(0, why);
}

int sl_fetch(struct sluice_reader *reader, const struct sluice_frame *frame, const struct sluice_array *arrays,
             uint32_t count, struct sluice_stream stream, struct sluice_ticket *ticket)
{
    struct sl_view view;
    bool left = false;
    int r = sl_view_begin(frame, &view);

    if (r != 0)
        return r;
    r = fetch(reader, &view, arrays, count, stream, ticket, &left);
    if (left)
        keep_mapped(reader, frame);
    sl_view_end(&view);
    if (r == 0 && reader->ops->check_fetched && (!ticket || ticket->id == SL_TICKET_DONE))
        r = reader->ops->check_fetched(reader, frame);
    return r;
}
