/* SPDX-License-Identifier: MIT
 *
 * Writes one array as NumPy's .npy file, format 1.0.
 */
#ifndef TOOLS_NPY_H
#define TOOLS_NPY_H

#include <stdbool.h>
#include <stdio.h>

#include <sluice/sluice.h>

/* Writes the array in C order. A vector type becomes an additional dimension. Types that NumPy lacks are written as
 * unsigned integers of the same size, with *exact false. Returns false on a write error. */
bool npy_write(FILE *out, const struct sluice_array *array, bool *exact);

#endif
