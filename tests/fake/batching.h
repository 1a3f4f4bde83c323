/* SPDX-License-Identifier: MIT
 *
 * Does the library ask about a stream behind each signal, as on WSL2? Then it makes more calls, also of the fake driver.
 */
#ifndef FAKE_BATCHING_H
#define FAKE_BATCHING_H

#include <stdlib.h>
#include <string.h>

#include "os/os.h"

static inline bool gathers(void)
{
    const char *without = getenv("SLUICE_WITHOUT");

    return sl_os_wsl("") || (without && strstr(without, "prompt"));
}

#endif
