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

static void host_settle(void)
{
    /* A release store does not order non-temporal stores on x86 (protocol rule 1.13). */
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_sfence();
#endif
}

extern const struct sl_sync_ops sl_sync_host;
const struct sl_sync_ops sl_sync_host = {
    .device = "host",
    .signal = host_signal,
    .settle = host_settle,
};
