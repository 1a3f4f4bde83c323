/* SPDX-License-Identifier: MIT
 *
 * Structs that begin with `size`, in both directions: callers built against older or newer headers
 * than ours keep working.
 */
#ifndef SL_UTIL_PARAMS_H
#define SL_UTIL_PARAMS_H

#include <stddef.h>
#include <stdint.h>

/* Copies a caller's struct into ours of `size` bytes, the rest zeroed. SLUICE_E_INVALID for no struct or
 * a size below `least`; SLUICE_E_UNSUPPORTED if it sets fields that this release does not have. `what`
 * names the struct. */
int sl_params_load(void *own, size_t size, size_t least, const void *caller, const char *what);

/* Copies ours out, as far as the caller's `size` goes. */
int sl_params_store(void *caller, const void *own, size_t size, size_t least, const char *what);

#endif
