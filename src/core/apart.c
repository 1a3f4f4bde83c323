/* SPDX-License-Identifier: MIT */
#include "core/apart.h"

#include "os/os.h"
#include "util/result.h"

#define PATIENCE (2 * SLUICE_S)
#define FIRST_LOOK (SLUICE_MS / 50)
#define LAST_LOOK SLUICE_MS

void sl_apart(void (*job)(void *argument), void *argument)
{
    if (sl_os_start_thread(job, argument) != 0)
        job(argument);
}

void sl_apart_await(const sl_word32 *word, uint32_t value, const char *channel)
{
    int64_t now = sl_os_now(), deadline = sl_os_deadline(PATIENCE), look = FIRST_LOOK;

    while (sl_load(word, acquire) != value) {
        if (now >= deadline) { /* `now` is before the look: this thread may have stood still since */
            sl_log(SLUICE_LOG_WARN, "channel '%s': closed while the GPU has work of this program: its memory there stays until that ends",
                   channel);
            return;
        }
        sl_os_sleep(look);
        look = look * 2 < LAST_LOOK ? look * 2 : LAST_LOOK;
        now = sl_os_now();
    }
}
