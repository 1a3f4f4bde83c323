/* SPDX-License-Identifier: MIT
 *
 * Which names are channel names; geometries of frames; the lives of memories and pages.
 */
#include "native/wire/wire.h"

#include <stdlib.h>
#include <string.h>

#include "util/result.h"

bool sl_link_forgot(const struct sl_link *link, uint32_t memory)
{
    uint32_t newest = 0;

    if (memory < sl_load(link->oldest_memory, acquire))
        return true;
    for (uint32_t s = 0; s < link->words.ids; s++) {
        uint32_t number = sl_load(&link->words.slot_memory[s], acquire);
        newest = number > newest ? number : newest;
    }
    if (memory >= newest)
        return false;
    /* It had its slots before any newer memory had, so slots that it still has are visible now. */
    for (uint32_t s = 0; s < link->words.ids; s++)
        if (sl_load(&link->words.slot_memory[s], acquire) == memory)
            return false;
    return true;
}

static bool ends_with(const char *name, const char *suffix)
{
    size_t n = strlen(name), s = strlen(suffix);
    return n >= s && strcmp(name + n - s, suffix) == 0;
}

int sl_native_check_name(const char *name)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    size_t length = strnlen(name, SLUICE_MAX_NAME + 1);

    if (length == 0)
        return sl_fail(SLUICE_E_NAME, "the channel name is empty: give it 1 to %d letters, digits, '.', '_' or '-'",
                       SLUICE_MAX_NAME);
    if (length > SLUICE_MAX_NAME)
        return sl_fail(SLUICE_E_NAME, "the channel name '%.20s...' is too long: %d bytes at most", name,
                       SLUICE_MAX_NAME);
    size_t good = strspn(name, allowed);
    if (name[good] != '\0')
        return sl_fail(SLUICE_E_NAME,
                       "'%s' is not a channel name: byte %zu (0x%02x) is not a letter, a digit, '.', '_' or '-'", name,
                       good + 1, (unsigned char)name[good]);
    if (name[0] == '.')
        return sl_fail(SLUICE_E_NAME, "'%s' is not a channel name: it may not begin with a dot", name);
    if (ends_with(name, ".lock") || ends_with(name, ".tmp"))
        return sl_fail(SLUICE_E_NAME, "'%s' is not a channel name: Sluice's own files end in .lock and .tmp", name);
    return 0;
}

static void end_page(void *argument)
{
    struct sl_shared_page *page = argument;

    if (page->unregister)
        page->unregister(page->registered);
    sl_os_unmap(page->address, page->bytes);
    free(page);
}

/* The service thread may drop the last reference, and must not call a driver (protocol 3.6). */
void sl_shared_page_drop(struct sl_shared_page *page)
{
    if (!page || sl_add(&page->users, (uint32_t)-1) != 1)
        return;
    if (!page->unregister)
        end_page(page);
    else if (!sl_background_start(end_page, page))
        sl_log(SLUICE_LOG_WARN, "the page of a reader that left stays mapped: no thread could be started to unmap it");
}
