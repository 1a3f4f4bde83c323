/* SPDX-License-Identifier: MIT
 *
 * Opening, describing and closing a writer.
 */
#include "native/writer/writer.h"

#include <stdio.h>
#include <string.h>

#include "format/format.h"
#include "util/result.h"

#define DEFAULT_SLOTS      4
#define MIN_SLOTS          3              /* the newest frame, one being written, one being read */
#define CLOSE_TIMEOUT      (2 * SLUICE_S) /* for frames in flight */
#define MEMORY_TIMEOUT     SLUICE_S /* how long to wait for the memory of a writer that has just died (protocol 4.4) */
#define MEMORY_RETRY_DELAY (20 * SLUICE_MS)

/* ---- open ---- */

static int complete_params(struct sluice_writer_params *params)
{
    const char *name = params->name;

    if (params->policy > SLUICE_WAIT)
        return sl_fail(SLUICE_E_INVALID, "channel '%s': %u is no policy", name, params->policy);
    if (!params->format)
        return sl_fail(SLUICE_E_INVALID, "channel '%s': no format was given", name);
    if (params->slots == 0)
        params->slots = params->max_slots && params->max_slots < DEFAULT_SLOTS ? params->max_slots : DEFAULT_SLOTS;
    if (params->max_slots == 0)
        params->max_slots = params->slots * 2 < SLUICE_MAX_SLOTS ? params->slots * 2 : SLUICE_MAX_SLOTS;
    if (params->slots < MIN_SLOTS || params->slots > SLUICE_MAX_SLOTS || params->max_slots < params->slots ||
        params->max_slots > SLUICE_MAX_SLOTS)
        return sl_fail(SLUICE_E_INVALID, "channel '%s': %u slots growing to %u: use %d to %d, and no less to grow to",
                       name, params->slots, params->max_slots, MIN_SLOTS, SLUICE_MAX_SLOTS);
    if (params->readers == 0)
        params->readers = SLUICE_MAX_READERS;
    if (params->readers > SLUICE_MAX_READERS)
        return sl_fail(SLUICE_E_INVALID, "channel '%s': %u places for readers, %d at most", name, params->readers,
                       SLUICE_MAX_READERS);
    if (params->wait_ns < 0 || params->lease_timeout_ns < 0)
        return sl_fail(SLUICE_E_INVALID, "channel '%s': a time may not be negative", name);
    if (params->wait_ns == 0)
        params->wait_ns = SLUICE_S;
    if (params->writable > 1)
        return sl_fail(SLUICE_E_INVALID, "channel '%s': writable is 0 or 1, not %u", name, params->writable);
    if (params->no_graphs > 1)
        return sl_fail(SLUICE_E_INVALID, "channel '%s': no_graphs is 0 or 1, not %u", name, params->no_graphs);
    if (params->resize > 1)
        return sl_fail(SLUICE_E_INVALID, "channel '%s': resize is 0 or 1, not %u", name, params->resize);
    if ((params->uid_count && !params->uids) || (params->gid_count && !params->gids))
        return sl_fail(SLUICE_E_INVALID, "channel '%s': a count of users or groups without the list", name);
    return 0;
}

static int find_backends(struct sl_writer *writer, const char *name, unsigned char uuid[SL_DEVICE_UUID])
{
    const struct sl_device_ops *device = sl_device_kind(name);

    if (!device)
        return sl_fail(SLUICE_E_UNSUPPORTED, "channel '%s': there is no device '%.80s'; use \"host\" or \"cuda:0\"",
                       writer->base.name, name);
    writer->in_flight.sync = sl_sync_of_device(device->name);
    snprintf(writer->device_name, sizeof writer->device_name, "%s", name);
    int r = device->identify(name, uuid);
    return r == 0 ? sl_mem_choose(device->name, name, &writer->mem) : r;
}

static void describe(void *context, struct sluice_channel_info *info)
{
    const struct sl_writer *writer = context;

    info->generation = writer->generation;
    info->slots = writer->slot_count;
    info->committed = writer->totals.committed;
    info->dropped = writer->totals.dropped;
    info->stolen = writer->totals.stolen;
    info->bytes = writer->totals.bytes;
    info->last_commit_ns = writer->last_commit_ns;
    info->format = writer->format;
}

static void joined_ahead(void *context, struct sl_shared_page *page)
{
    const struct sl_writer *writer = context;

    if (writer->in_flight.pages && writer->serve->lingers_ns == 0)
        sl_reader_semaphores_register(page, writer->in_flight.sync, writer->device_name);
    else /* or under MPS, where no stream waits ahead: raising words for that would only cost time */
        sl_store(&page->state, SL_PAGE_REFUSED, relaxed);
}

static void destroy(struct sl_writer *writer)
{
    (void)sl_copier_close(&writer->copier, false);
    sl_reader_semaphores_close(&writer->reader_semaphores);
    sl_in_flight_close(&writer->in_flight);
    if (writer->serve)
        sl_serve_destroy(writer->serve);
    writer->serve = NULL;
    sl_slot_memory_destroy(writer);
}

static void destroy_in_background(void *argument)
{
    struct sl_writer *writer = argument;

    destroy(writer);
    writer->base.object.finish = NULL;
    sl_object_drop(&writer->base.object);
}

/* Dropping the last reference to the object ends the channel. */
static void finish(struct sl_object *object)
{
    struct sl_writer *writer = (struct sl_writer *)object;

    sl_grow_leave(writer);
    /* Memory that the device still works on cannot be unmapped. Readers get its frames if they are ready soon. */
    bool done = sl_deferred_cancel_end(writer, CLOSE_TIMEOUT) &&
                sl_in_flight_wait(&writer->in_flight, &writer->ring, CLOSE_TIMEOUT);
    uint32_t lost = done ? 0 : sl_in_flight_lose(&writer->ring);

    sl_frame_streams_end(&writer->base.streams);
    if (lost)
        sl_log(SLUICE_LOG_WARN, "channel '%s': closed with %u frames that its device has not finished: they are lost",
               writer->base.name, lost);
    if (writer->serve)
        sl_serve_close(writer->serve);
    sl_trace_close();
    bool working = (!done || writer->in_flight.stuck) && writer->in_flight.sync->alive(writer->in_flight.pages) == 0;
    if (working) {
        (void)sl_copier_close(&writer->copier, true);
        sl_log(SLUICE_LOG_WARN, "channel '%s': its memory stays until the process ends", writer->base.name);
    } else if (writer->in_flight.pages) {
        sl_object_defer_finish(&writer->base.object);
        sl_background_run(destroy_in_background, writer);
        sl_background_await(writer->base.name);
    } else {
        destroy(writer);
    }
}

/* The kernel frees the memory of a killed writer of this name a little after its name becomes free. */
static int make_slots(struct sl_writer *writer)
{
    int64_t deadline = sl_os_deadline(MEMORY_TIMEOUT);
    int r = sl_generation_make(writer, writer->params.format);

    if (r == SLUICE_E_NO_MEMORY && writer->serve->previous_died)
        sl_log(SLUICE_LOG_WARN,
               "channel '%s': its last writer was killed and may have memory still; waiting up to 1 s for that: %s",
               writer->base.name, sl_last_error());
    while (r == SLUICE_E_NO_MEMORY && writer->serve->previous_died && sl_os_now() < deadline) {
        sl_os_sleep(MEMORY_RETRY_DELAY);
        r = sl_generation_make(writer, writer->params.format);
    }
    return r;
}

static int open_channel(struct sl_writer *writer, const unsigned char uuid[SL_DEVICE_UUID])
{
    uint32_t ids = writer->params.max_slots * 2; /* room for one older generation in full */
    struct sl_serve_params params = {
        .name = writer->base.name,
        .writer = &writer->params,
        .device = writer->device_name,
        .uuid = uuid,
        .memory_kind = writer->mem->kind,
        .session = writer->session,
        .ids = ids < SL_MAX_IDS ? ids : SL_MAX_IDS,
        .describe = describe,
        .joined_ahead = joined_ahead,
        .context = writer,
    };
    int r = sl_serve_open(&params, &writer->serve);

    if (r != 0)
        return r;
    r = sl_in_flight_open(&writer->in_flight, writer->device_name, writer->serve->pages, writer->serve->page_bytes);
    if (r != 0)
        return r;
    writer->serve->lingers_ns = writer->in_flight.sync->lingers(writer->in_flight.pages);
    writer->ring.words = writer->serve->words;
    writer->ring.idle = writer->in_flight.idle;
    return make_slots(writer);
}

int sl_native_writer_open(struct sluice_writer *base, const struct sluice_writer_params *params)
{
    struct sl_writer *writer = sl_writer_of(base);
    struct sluice_writer_params complete = *params;
    unsigned char uuid[SL_DEVICE_UUID];
    struct sluice_format format;
    int r;

    base->object.finish = finish;
    writer->next_memory = 1;
    writer->session = sl_os_random();
    complete.name = base->name;
    complete.device = NULL; /* the caller's string does not outlive this call */
    if ((r = complete_params(&complete)) != 0 || (r = sl_format_load(&format, params->format)) != 0)
        return r;
    complete.format = &format;
    writer->params = complete; /* not before: `finish` relies on them */
    if ((r = find_backends(writer, params->device ? params->device : "host", uuid)) == 0)
        r = open_channel(writer, uuid);
    writer->params.format = NULL;
    writer->params.uids = writer->params.gids = NULL;
    return r;
}

/* ---- format, stats ---- */

int sl_native_reformat(struct sluice_writer *base, const struct sluice_format *format)
{
    struct sl_writer *writer = sl_writer_of(base);
    int r = sl_commit_check_none_begun(writer, "commit or cancel them before the format changes");

    return r == 0 ? sl_generation_make(writer, format) : r;
}

int sl_native_writer_format(struct sluice_writer *base, struct sluice_format *format)
{
    struct sl_writer *writer = sl_writer_of(base);

    sl_mutex_lock(&writer->serve->lock);
    int r = sl_format_store(format, &writer->format);
    sl_mutex_unlock(&writer->serve->lock);
    return r;
}

void sl_native_writer_stats(struct sluice_writer *base, struct sluice_writer_stats *stats)
{
    struct sl_writer *writer = sl_writer_of(base);
    struct sl_serve *serve = writer->serve;

    sl_service_lock(); /* what the wire counts */
    sl_mutex_lock(&serve->lock);
    *stats = (struct sluice_writer_stats){
        .readers = serve->reader_count,
        .session = writer->session,
        .committed = writer->totals.committed,
        .dropped = writer->totals.dropped,
        .cancelled = writer->cancelled,
        .stolen = writer->totals.stolen,
        .bytes = writer->totals.bytes,
        .copied_bytes = writer->copied_bytes,
        .waited_ns = writer->waited_ns,
        .slots = writer->slot_count,
        .generation = writer->generation,
        .evicted = serve->evicted,
        .readers_total = serve->readers_total,
        .readers_died = serve->readers_died,
        .refused = serve->refused,
        .graph_sends = writer->graph_sends,
        .name_restored = serve->name_restored,
        .name_lost = serve->name_lost,
    };
    sl_mutex_unlock(&serve->lock);
    sl_service_unlock();
}
