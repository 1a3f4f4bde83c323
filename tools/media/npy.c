/* SPDX-License-Identifier: MIT
 *
 * NumPy's .npy format 1.0: a text header, then the elements.
 */
#include "npy.h"

#include <inttypes.h>
#include <string.h>

static char type_letter(struct sluice_dtype dtype, bool *exact)
{
    *exact = true;
    switch (dtype.code) {
    case SLUICE_INT: return 'i';
    case SLUICE_UINT: return 'u';
    case SLUICE_FLOAT: return 'f';
    case SLUICE_COMPLEX: return 'c';
    case SLUICE_BOOL: return 'b';
    default: *exact = false; return 'u';
    }
}

/* Writes the elements of dimension `dim` and below, in order; contiguous ones as one block. */
static void write_elements(FILE *out, const struct sluice_array *array, const uint8_t *at, int dim)
{
    uint64_t block = sluice_dtype_size(array->dtype);
    int inner = array->ndim;
    while (inner > dim && (uint64_t)array->strides[inner - 1] == block) {
        inner--;
        block *= (uint64_t)array->shape[inner];
    }
    if (inner == dim) {
        fwrite(at, 1, block, out);
        return;
    }
    for (int64_t i = 0; i < array->shape[dim]; i++)
        write_elements(out, array, at + i * array->strides[dim], dim + 1);
}

bool npy_write(FILE *out, const struct sluice_array *array, bool *exact)
{
    char text[512];
    struct sluice_dtype dtype = array->dtype;
    unsigned bytes = dtype.bits / 8u;
    char letter = type_letter(dtype, exact);
    int used = snprintf(text, sizeof text, "{'descr': '%c%c%u', 'fortran_order': False, 'shape': (",
                        bytes == 1 ? '|' : '<', letter, bytes);
    for (int i = 0; i < array->ndim; i++)
        used += snprintf(text + used, sizeof text - (size_t)used, "%" PRId64 ", ", array->shape[i]);
    if (dtype.lanes > 1)
        used += snprintf(text + used, sizeof text - (size_t)used, "%u, ", dtype.lanes);
    used += snprintf(text + used, sizeof text - (size_t)used, "), }");
    /* The header starts with 10 bytes of magic, version and length. It ends with \n, padded to a multiple of 64. */
    size_t total = ((size_t)(10 + used + 1) + 63) / 64 * 64, length = total - 10;
    memset(text + used, ' ', length - (size_t)used);
    text[length - 1] = '\n';
    fwrite("\x93NUMPY\x01", 1, 7, out);
    fputc(0, out);
    fputc((int)(length & 255), out);
    fputc((int)(length >> 8), out);
    fwrite(text, 1, length, out);

    bool empty = false;
    for (int i = 0; i < array->ndim; i++)
        empty = empty || array->shape[i] == 0;
    if (!empty)
        write_elements(out, array, array->data, 0);
    return fflush(out) == 0 && !ferror(out);
}
