/* SPDX-License-Identifier: MIT
 *
 * The public calls of sluice/registry.h: which channels exist, and their state.
 */
#include <sluice/registry.h>

#include "channel/channel.h"
#include "util/params.h"
#include "util/result.h"

/* The kernel does not tell everything that can happen to a watched folder. */
#define LOOK_AGAIN (500 * SLUICE_MS)

/* ---- list ---- */

const char *sluice_registry_folder(void)
{
    return sl_channel_standard()->registry_folder();
}

int sluice_registry_list(const char *folder, struct sluice_registry_entry *entries, size_t capacity, size_t *count)
{
    if (!count || (!entries && capacity))
        return sl_fail(SLUICE_E_INVALID, "sluice_registry_list: %s is NULL", count ? "entries" : "count");
    int r = sl_object_forked();
    return r == 0 ? sl_channel_standard()->registry_list(folder, entries, capacity, count) : r;
}

/* ---- watch ---- */

struct sluice_watch {
    struct sl_object object;
    struct sl_registry_watch watch;
};

static void finish_watch(struct sl_object *object)
{
    struct sluice_watch *watch = (struct sluice_watch *)object;

    sl_os_close(watch->watch.fd);
    watch->watch.fd = -1;
}

int sluice_registry_watch_open(sluice_watch **out, const char *folder)
{
    struct sluice_watch *watch;
    uint64_t handle;
    int r;

    if (!out)
        return sl_fail(SLUICE_E_INVALID, "sluice_registry_watch_open: watch is NULL");
    if ((r = sl_object_forked()) != 0)
        return r;
    watch = (struct sluice_watch *)sl_object_new(SL_HANDLE_WATCH, sizeof *watch);
    if (!watch)
        return SLUICE_E_NO_MEMORY;
    watch->watch.fd = -1;
    watch->object.finish = finish_watch;
    if ((r = sl_channel_standard()->registry_watch(folder, &watch->watch)) != 0 ||
        (r = sl_object_name(&watch->object, &handle)) != 0) {
        sl_object_drop(&watch->object);
        return r;
    }
    *out = (sluice_watch *)(uintptr_t)handle;
    return 0;
}

static int hold_watch(sluice_watch *handle, struct sluice_watch **watch)
{
    struct sl_object *object;
    int r = sl_object_hold((uint64_t)(uintptr_t)handle, SL_HANDLE_WATCH, &object);

    if (r == 0)
        *watch = (struct sluice_watch *)object;
    return r;
}

int sluice_registry_watch_fd(sluice_watch *handle)
{
    struct sluice_watch *watch;
    int r = hold_watch(handle, &watch);

    if (r != 0)
        return r;
    r = watch->watch.fd;
    sl_object_drop(&watch->object);
    return r;
}

static int await_change(struct sl_registry_watch *watch, int64_t deadline)
{
    for (;;) {
        int64_t now = sl_os_now(), until = now + LOOK_AGAIN < deadline ? now + LOOK_AGAIN : deadline;
        int r = sl_os_wait_readable(watch->fd, until);
        if (r == 0)
            (void)sl_os_watch_drain(watch->fd);
        if (sl_channel_standard()->registry_watch_again(watch))
            return 0;
        if (r != SLUICE_TIMEOUT || until == deadline)
            return r;
    }
}

int sluice_registry_watch_next(sluice_watch *handle, int64_t timeout_ns)
{
    struct sluice_watch *watch;
    int r = hold_watch(handle, &watch);

    if (r != 0)
        return r;
    r = await_change(&watch->watch, sl_os_deadline(timeout_ns < 0 ? SLUICE_S : timeout_ns));
    if (r == SLUICE_TIMEOUT)
        sl_say("no channel came or went");
    sl_object_drop(&watch->object);
    return r;
}

int sluice_registry_watch_close(sluice_watch **handle)
{
    struct sluice_watch *watch;
    int r;

    if (!handle || !*handle)
        return 0;
    if ((r = hold_watch(*handle, &watch)) != 0) {
        if (r == SLUICE_E_FORKED)
            *handle = NULL;
        return r;
    }
    if (sl_object_unname(&watch->object, SL_END_CLOSED))
        sl_object_drop(&watch->object);
    sl_object_drop(&watch->object);
    *handle = NULL;
    return 0;
}

/* ---- info ---- */

int sluice_channel_info(const char *channel, int64_t timeout_ns, struct sluice_channel_info *caller,
                        struct sluice_reader_info *readers, uint32_t capacity)
{
    struct sluice_channel_info info = { .size = sizeof info };
    const struct sl_channel_ops *ops;
    const char *name;
    int r;

    if ((r = sl_object_forked()) != 0 || (r = sl_channel_of(channel, &ops, &name)) != 0)
        return r;
    if (!readers && capacity)
        return sl_fail(SLUICE_E_INVALID, "sluice_channel_info: readers is NULL");
    r = ops->info(name, timeout_ns < 0 ? SLUICE_S : timeout_ns, &info, readers, capacity);
    if (r != 0)
        return r;
    return sl_params_store(caller, &info, sizeof info, offsetof(struct sluice_channel_info, format),
                           "struct sluice_channel_info");
}
