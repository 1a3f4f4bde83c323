/* SPDX-License-Identifier: MIT
 *
 * The doorbell of a cuda-link channel: an event that resets itself, so one waiting program hears it.
 */
#include "os/win32/win32.h"
#include "util/result.h"

int sl_os_bell_make(const char *channel, int *bell)
{
    wchar_t name[SL_OBJECT_NAME];

    sl_beside_name("cudalink_db_", channel, "", name);
    HANDLE event = CreateEventW(NULL, FALSE, FALSE, name);
    if (!event)
        return sl_fail_windows(GetLastError(), "making the doorbell of cuda-link channel %s", channel);
    return sl_fd_new(event, NULL, bell);
}

void sl_os_bell_ring(int bell)
{
    struct sl_object_fd *object = sl_fd_find(bell);

    if (object)
        SetEvent(object->handle);
}
