/* SPDX-License-Identifier: MIT
 *
 * What the tests of devices, streams and events share.
 */
#ifndef DEVICE_KIT_H
#define DEVICE_KIT_H

#include <sluice/device.h>

#include "device/device.h"
#include "harness/test.h"

static inline struct sluice_device open_host(void)
{
    struct sluice_device device;

    CHECK_OK(sluice_device_open(&device, "host"));
    return device;
}

static inline void check_nothing_lives(void)
{
    struct sl_device_counts counts = sl_device_counts();

    CHECK_EQ(counts.devices, 0);
    CHECK_EQ(counts.streams, 0);
    CHECK_EQ(counts.events, 0);
}

#endif
