/* SPDX-License-Identifier: MIT
 *
 * The list of channel backends, and the handles of their writers and readers.
 */
#include "channel/channel.h"

#include <string.h>

#include "util/result.h"

extern const struct sl_channel_ops sl_channel_native;
extern const struct sl_channel_ops sl_channel_cuda_link;

static const struct sl_channel_ops *const backends[] = { &sl_channel_native, &sl_channel_cuda_link };

/* ---- names ---- */

static const struct sl_channel_ops *find_scheme(const char *scheme, size_t length)
{
    for (size_t i = 0; i < sizeof backends / sizeof *backends; i++)
        if (strlen(backends[i]->scheme) == length && strncmp(backends[i]->scheme, scheme, length) == 0)
            return backends[i];
    return NULL;
}

const struct sl_channel_ops *sl_channel_standard(void)
{
    return backends[0];
}

int sl_channel_of(const char *channel, const struct sl_channel_ops **ops, const char **name)
{
    const struct sl_channel_ops *found = sl_channel_standard();

    if (!channel)
        return sl_fail(SLUICE_E_NAME, "no channel name: it is NULL");
    const char *colon = strchr(channel, ':');
    if (colon) {
        size_t length = (size_t)(colon - channel);
        found = find_scheme(channel, length);
        if (!found)
            return sl_fail(SLUICE_E_NAME,
                           "'%.80s': this release knows no scheme '%.*s'; write sluice:NAME, NAME or cipd:NAME",
                           channel, (int)(length > 40 ? 40 : length), channel);
        channel = colon + 1;
    }
    int r = found->check_name(channel);
    if (r != 0)
        return r;
    *ops = found;
    *name = channel;
    return 0;
}

/* ---- parameters of one backend alone ---- */

static int check_cipd(const struct sl_channel_ops *ops, const char *name, const void *cipd)
{
    if (!cipd || ops == &sl_channel_cuda_link)
        return 0;
    return sl_fail(SLUICE_E_INVALID, "channel '%s': `cipd` is for channels named \"cipd:NAME\"", name);
}

int sl_channel_check_writer_params(const struct sl_channel_ops *ops, const char *name,
                                   const struct sluice_writer_params *params)
{
    return check_cipd(ops, name, params->cipd);
}

int sl_channel_check_reader_params(const struct sl_channel_ops *ops, const char *name,
                                   const struct sluice_reader_params *params)
{
    return check_cipd(ops, name, params->cipd);
}

/* ---- handles ---- */

_Static_assert(sizeof(void *) == 8, "a handle fits a pointer");

int sl_writer_hold(sluice_writer *handle, struct sluice_writer **writer)
{
    struct sl_object *object;
    int r = sl_object_hold((uint64_t)(uintptr_t)handle, SL_HANDLE_WRITER, &object);

    if (r == 0)
        *writer = (struct sluice_writer *)object;
    return r;
}

int sl_reader_hold(sluice_reader *handle, struct sluice_reader **reader)
{
    struct sl_object *object;
    int r = sl_object_hold((uint64_t)(uintptr_t)handle, SL_HANDLE_READER, &object);

    if (r == 0)
        *reader = (struct sluice_reader *)object;
    return r;
}

/* 0, or SLUICE_TIMEOUT if there are fewer now. */
static int check_readers(struct sluice_writer *writer, uint32_t count)
{
    struct sluice_writer_stats stats = { .size = 0 };

    if (!writer->ops->counts_readers)
        return sl_fail(SLUICE_E_UNSUPPORTED, "channel '%s:%s': its protocol does not count readers",
                       writer->ops->scheme, writer->name);
    writer->ops->writer_stats(writer, &stats);
    return stats.readers >= count
               ? 0
               : sl_fail(SLUICE_TIMEOUT, "channel '%s' has %u readers, not %u yet", writer->name, stats.readers, count);
}

int sl_writer_wait_readers(sluice_writer *handle, uint32_t count, int64_t timeout_ns)
{
    int64_t deadline = sl_os_deadline(timeout_ns), now;
    struct sluice_writer *writer;
    int r;

    for (;;) { /* the writer is not held over a sleep: closing it ends the wait */
        now = sl_os_now();
        if ((r = sl_writer_hold(handle, &writer)) != 0)
            return r;
        r = check_readers(writer, count);
        sl_object_drop(&writer->object);
        if (r != SLUICE_TIMEOUT || now >= deadline)
            return r;
        sl_os_sleep(SLUICE_MS);
    }
}

/* Release builds do not look for a second thread. */
static bool claim(sl_word32 *busy)
{
#ifndef NDEBUG
    return sl_exchange(busy, 1) == 0;
#else
    (void)busy;
    return true;
#endif
}

static void unclaim(sl_word32 *busy)
{
#ifndef NDEBUG
    sl_store(busy, 0, release);
#else
    (void)busy;
#endif
}

int sl_writer_enter(sluice_writer *handle, struct sluice_writer **writer)
{
    int r = sl_writer_hold(handle, writer);

    if (r == 0 && !claim(&(*writer)->busy)) {
        r = sl_fail(SLUICE_E_BUSY, "channel '%s': two threads use its writer at once: one at a time may",
                    (*writer)->name);
        sl_object_drop(&(*writer)->object);
    }
    return r;
}

void sl_writer_leave(struct sluice_writer *writer)
{
    unclaim(&writer->busy);
    sl_object_drop(&writer->object);
}

int sl_reader_enter(struct sluice_reader *reader)
{
    if (claim(&reader->busy))
        return 0;
    return sl_fail(SLUICE_E_BUSY, "channel '%s': two threads acquire from one reader at once: open one each",
                   reader->name);
}

void sl_reader_leave(struct sluice_reader *reader)
{
    unclaim(&reader->busy);
}
