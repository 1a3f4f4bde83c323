/* SPDX-License-Identifier: MIT
 *
 * cuda-link's doorbell is an object of Windows.
 */
#include "os/os.h"
#include "util/result.h"

int sl_os_bell_make(const char *channel, int *bell)
{
    (void)channel;
    (void)bell;
    return SLUICE_E_UNSUPPORTED;
}

void sl_os_bell_ring(int bell)
{
    (void)bell;
}
