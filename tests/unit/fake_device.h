/* SPDX-License-Identifier: MIT
 *
 * A kind of device for tests: it counts the calls that reach it, and has controls. It shows that the checks in front of
 * the kinds apply before a kind is called.
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
    _Atomic bool busy;   /* queries return NOT_READY */
    _Atomic bool capturing;
    struct sluice_device shut; /* closed while one of its streams is made */
    _Atomic int fails;         /* the result of opening, creating and synchronizing the device */
};
extern struct fake_device fake;

extern const struct sl_device_ops fake_ops;

/* Opens "fake:0" with `fake` zeroed. */
struct sluice_device fake_open(void);

#endif
