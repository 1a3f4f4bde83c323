/* SPDX-License-Identifier: MIT */
#include "native/writer/reader_semaphores.h"

#include <stdio.h>
#include <stdlib.h>

#include "device/device.h"
#include "os/os.h"
#include "util/result.h"

/* ---- pages that are registered with the device ---- */

struct registration {
    struct sl_shared_page *page; /* held */
    const struct sl_sync_ops *sync;
    char device[SL_DEVICE_NAME];
};

static void register_page(void *argument)
{
    struct registration *registration = argument;
    struct sl_shared_page *page = registration->page;
    int r = registration->sync->attach(registration->device, page->address, page->bytes, true, &page->registered);

    if (r == 0)
        page->unregister = registration->sync->detach;
    else
        sl_log(SLUICE_LOG_WARN, "a reader cannot take frames ahead: %s", sl_last_error());
    sl_store(&page->state, r == 0 ? SL_PAGE_REGISTERED : SL_PAGE_REFUSED, release);
    sl_shared_page_drop(page);
    free(registration);
}

void sl_reader_semaphores_register(struct sl_shared_page *page, const struct sl_sync_ops *sync, const char *device)
{
    struct registration *registration = malloc(sizeof *registration);

    if (registration) {
        *registration = (struct registration){ .page = page, .sync = sync };
        snprintf(registration->device, sizeof registration->device, "%s", device);
        sl_add(&page->users, 1);
        if (sl_background_start(register_page, registration))
            return;
        sl_add(&page->users, (uint32_t)-1);
        free(registration);
    }
    sl_store(&page->state, SL_PAGE_REFUSED, relaxed);
    sl_log(SLUICE_LOG_WARN,
           "a reader cannot take frames ahead: no thread could be started to register its page with the device");
}

/* ---- the list ---- */

static struct sl_reader_semaphore *find_page(struct sl_reader_semaphores *semaphores, const struct sl_shared_page *page)
{
    for (uint32_t i = 0; i < semaphores->count; i++)
        if (semaphores->list[i].page == page)
            return &semaphores->list[i];
    return NULL;
}

/* Lists the readers in the table whose pages are registered with the device, with a reference to each page. Under the
 * channel lock. Readers that left stay in the list until their pages are dropped: if it is full, new ones wait for the
 * next time. */
static void list_readers(struct sl_reader_semaphores *semaphores, struct sl_serve *serve)
{
    for (uint32_t i = 0; i < semaphores->count; i++)
        semaphores->list[i].in_table = false;
    for (uint32_t i = 0; i < serve->reader_count; i++) {
        struct sl_shared_page *page = serve->readers[i].shared;
        struct sl_reader_semaphore *known = find_page(semaphores, page);
        uint32_t state = sl_load(&page->state, acquire);
        if (!serve->readers[i].ahead || state == SL_PAGE_REFUSED)
            continue;
        if (known) {
            known->in_table = true;
        } else if (state == SL_PAGE_REGISTERED && semaphores->count < SLUICE_MAX_READERS) {
            sl_add(&page->users, 1);
            semaphores->list[semaphores->count++] = (struct sl_reader_semaphore){ .page = page, .in_table = true };
        } else {
            sl_store(&serve->ahead_changed, 1, relaxed);
        }
    }
}

void sl_reader_semaphores_update(struct sl_reader_semaphores *semaphores, struct sl_serve *serve, bool busy)
{
    uint32_t kept = 0;

    sl_store(&serve->ahead_changed, 0, relaxed);
    sl_mutex_lock(&serve->lock);
    list_readers(semaphores, serve);
    sl_mutex_unlock(&serve->lock);
    for (uint32_t i = 0; i < semaphores->count; i++) {
        struct sl_reader_semaphore *semaphore = &semaphores->list[i];
        if (!semaphore->in_table && busy) {
            sl_store(&serve->ahead_changed, 1, relaxed); /* another time */
        } else if (!semaphore->in_table) {
            sl_shared_page_drop(semaphore->page);
            continue;
        }
        semaphores->list[kept++] = *semaphore;
    }
    semaphores->count = kept;
}

void sl_reader_semaphores_update_requests(struct sl_reader_semaphores *semaphores, uint64_t next)
{
    for (uint32_t i = 0; i < semaphores->count; i++) {
        struct sl_reader_semaphore *semaphore = &semaphores->list[i];
        bool requested = next <= sl_load(semaphore->page->words.semaphores_to, relaxed);
        if (requested != semaphore->requested)
            sl_store(semaphore->page->words.semaphores_from, requested ? next : 0, release);
        semaphore->requested = requested;
    }
}

void sl_reader_semaphores_close(struct sl_reader_semaphores *semaphores)
{
    for (uint32_t i = 0; i < semaphores->count; i++)
        sl_shared_page_drop(semaphores->list[i].page);
    semaphores->count = 0;
}

uint32_t sl_reader_semaphores_fill_signals(const struct sl_reader_semaphores *semaphores, uint32_t slot,
                                           uint64_t sequence, struct sl_signal *signals)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < semaphores->count; i++)
        if (semaphores->list[i].requested)
            signals[count++] = (struct sl_signal){ &semaphores->list[i].page->words.semaphores[slot], sequence };
    return count;
}
