/* SPDX-License-Identifier: MIT
 *
 * Does the driver batch work, as on WSL2? Then the library queries the stream after each signal, so it makes more
 * calls, also of the fake driver.
 */
#ifndef FAKE_BATCHING_H
#define FAKE_BATCHING_H

#include <stdlib.h>
#include <string.h>

#include "os/os.h"

static inline bool driver_batches(void)
{
    const char *without = getenv("SLUICE_WITHOUT");

    return sl_os_wsl("") || (without && strstr(without, "prompt"));
}

#endif
