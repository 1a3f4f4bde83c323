/* SPDX-License-Identifier: MIT
 *
 * Ends that no call may wait for: a driver that is asked to give memory back may wait for all that the program has on the GPU.
 */
#ifndef SL_CORE_APART_H
#define SL_CORE_APART_H

#include <stdbool.h>

#include "util/atomic.h"

/* Calls job(argument) on a thread of its own; here, if none can be had. With no lock held. */
void sl_apart(void (*job)(void *argument), void *argument);

/* At close: waits until `word`, which such jobs change, is `value`; 2 s at most, then a warning names the channel. */
void sl_apart_await(const sl_word32 *word, uint32_t value, const char *channel);

#endif
