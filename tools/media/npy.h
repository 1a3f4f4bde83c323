/* SPDX-License-Identifier: MIT
 *
 * Writes one array as NumPy's .npy file, format 1.0.
 */
#ifndef TOOLS_NPY_H
#define TOOLS_NPY_H

#include <stdbool.h>
#include <stdio.h>

#include <sluice/sluice.h>

/* C-ordered, whatever the array's strides. A vector type gets one more dimension. Types that NumPy
 * has no name for are written as unsigned integers of their size; *exact says whether it has one.
 * Returns false if anything could not be written. */
bool npy_write(FILE *out, const struct sluice_array *array, bool *exact);

#endif
