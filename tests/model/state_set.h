/* SPDX-License-Identifier: MIT
 *
 * A set of hashes of states.
 */
#ifndef MODEL_STATE_SET_H
#define MODEL_STATE_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Continues a hash with more data. */
uint64_t state_hash(uint64_t hash, const void *data, size_t size);

/* Adds a hash, not 0, to the set; false if it was there. */
bool state_set_add(uint64_t hash);

void state_set_clear(void);

#endif
