/* SPDX-License-Identifier: MIT
 *
 * A kind of device for tests: it counts the calls that reach it, and does as it is told. With it
 * the checks in front of the kinds are seen to hold before a kind is called.
 */
#ifndef FAKE_DEVICE_H
#define FAKE_DEVICE_H

#include <stdatomic.h>

#include "device/device.h"

struct fake_device {
    _Atomic int calls;     /* all of them but the quick ones */
    _Atomic int destroyed; /* native streams and events */
    _Atomic int closed;
    _Atomic int waiting; /* threads inside a synchronize */
    _Atomic bool stuck;  /* synchronizing a stream does not return */
    _Atomic bool busy;   /* queries say NOT_READY */
    _Atomic bool capturing;
    struct sluice_device shut; /* closed while a stream of it is made */
    _Atomic int fails;         /* what opening, creating and synchronizing the device say */
};
extern struct fake_device fake;

extern const struct sl_device_ops fake_ops;

/* Opens "fake:0" with `fake` zeroed. */
struct sluice_device fake_open(void);

#endif
