/* SPDX-License-Identifier: MIT
 *
 * Files of this folder as data, made by embed.py. Compilers read them with a source. Each ends with a NUL.
 */
#ifndef SL_KERNEL_EMBEDDED_H
#define SL_KERNEL_EMBEDDED_H

#include <stddef.h>

extern const char sl_prelude_cuh[], sl_sluice_cuh[], sl_describe_cuh[];
extern const size_t sl_prelude_cuh_size, sl_sluice_cuh_size, sl_describe_cuh_size;

#endif
