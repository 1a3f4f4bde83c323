/* SPDX-License-Identifier: MIT
 *
 * The GPU's code as data, made by kernel/embed.py. A NUL follows.
 */
#ifndef SL_CONVERT_EMBEDDED_H
#define SL_CONVERT_EMBEDDED_H

#include <stddef.h>

extern const char sl_convert_ptx[];
extern const size_t sl_convert_ptx_size;

#endif
