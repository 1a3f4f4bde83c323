/* SPDX-License-Identifier: MIT
 *
 * On `host` the work is done when commit or release is called, so a word is simply stored.
 */
#include "sync/sync.h"

static int host_signal(struct sluice_stream stream, sl_word *word, uint64_t value)
{
    (void)stream;
    sl_store(word, value, release);
    return 0;
}

static int host_signal_all(struct sluice_stream stream, const struct sl_signal *signals,
                           uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        (void)host_signal(stream, signals[i].word, signals[i].value);
    return 0;
}

static int host_attach(const char *device, void *address, uint64_t size, bool writable,
                       struct sl_sync_pages **pages)
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
    .signal = host_signal,
    .signal_all = host_signal_all,
    .settle = sl_settle,
};
