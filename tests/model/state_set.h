/* SPDX-License-Identifier: MIT
 *
 * A set of hashes of states.
 */
#ifndef MODEL_STATE_SET_H
#define MODEL_STATE_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Goes on with a hash over more data. */
uint64_t seen_mix(uint64_t hash, const void *data, size_t size);

/* Puts a hash, not 0, into the set; false if it was there. */
bool seen_is_new(uint64_t hash);

void seen_forget(void);

#endif
