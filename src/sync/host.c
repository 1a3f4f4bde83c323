/* SPDX-License-Identifier: MIT
 *
 * On `host` the work is done when commit or release is called, so raising a word is a plain store.
 */
#include "device/device.h"
#include "sync/sync.h"

static int host_alive(const struct sl_sync_pages *pages)
{
    (void)pages;
    return 0;
}

static int host_probe(const struct sl_sync_pages *pages)
{
    (void)pages;
    return 0;
}

static int64_t host_lingers(const struct sl_sync_pages *pages)
{
    (void)pages;
    return 0;
}

static int host_check(const struct sl_sync_pages *pages, struct sluice_stream stream)
{
    (void)pages;
    return sl_stream_check(stream, &sl_device_host);
}

static int host_signal(const struct sl_sync_pages *pages, struct sluice_stream stream, const struct sl_signal *signals,
                       uint32_t count)
{
    (void)pages;
    (void)stream;
    for (uint32_t i = 0; i < count; i++)
        sl_store(signals[i].word, signals[i].value, release);
    return 0;
}

static int host_signal_held(const struct sl_sync_pages *pages, const struct sl_stream *stream, uint64_t thread,
                            const struct sl_signal *signals, uint32_t count)
{
    (void)stream;
    (void)thread;
    return host_signal(pages, SLUICE_ON_CPU, signals, count);
}

static int host_can_wait(const struct sl_sync_pages *pages)
{
    (void)pages;
    return 0;
}

/* The CPU's work is always done by now. */
static bool host_direct(const struct sl_sync_pages *pages)
{
    (void)pages;
    return false;
}

static int host_await(const struct sl_sync_pages *pages, const struct sl_stream *stream, sl_word *word, uint64_t value)
{
    (void)pages;
    (void)stream;
    (void)word;
    (void)value;
    return 0;
}

static int host_attach(const char *device, void *address, uint64_t size, bool writable, struct sl_sync_pages **pages)
{
    (void)device;
    (void)address;
    (void)size;
    (void)writable;
    *pages = NULL;
    return 0;
}

static void host_detach(struct sl_sync_pages *pages)
{
    (void)pages;
}

extern const struct sl_sync_ops sl_sync_host;
const struct sl_sync_ops sl_sync_host = {
    .device = "host",
    .attach = host_attach,
    .detach = host_detach,
    .alive = host_alive,
    .probe = host_probe,
    .lingers = host_lingers,
    .check = host_check,
    .signal = host_signal,
    .signal_held = host_signal_held,
    .direct = host_direct,
    .can_wait = host_can_wait,
    .await = host_await,
    .settle = sl_settle,
};
