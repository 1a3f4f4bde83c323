/* SPDX-License-Identifier: MIT
 *
 * Copies between arrays with any description, each with exactly the memory that it claims.
 */
#include "fuzz.h"
#include "geometry_check.h"

#define MEMORY_MAX (1 << 18)

/* Bytes before the first element; false if that is not a number of bytes. */
static bool find_below(const struct sluice_array *array, uint64_t *below)
{
    wide_uint sum = 0;
    for (int d = 0; d < array->ndim && d < SLUICE_MAX_DIMS; d++) {
        if (array->shape[d] == 0) {
            *below = 0;
            return true;
        }
        if (array->strides[d] < 0 && array->shape[d] > 0)
            sum += (wide_uint)(uint64_t)(array->shape[d] - 1) * (0 - (uint64_t)array->strides[d]);
        if (sum > array->nbytes)
            return false;
    }
    *below = (uint64_t)sum;
    return true;
}

static void take_array(struct input *input, struct sluice_array *array)
{
    static const struct sluice_dtype dtypes[] = {
        { SLUICE_UINT, 8, 1 }, { SLUICE_FLOAT, 32, 1 }, { SLUICE_UINT, 8, 3 }, { SLUICE_COMPLEX, 128, 1 }
    };
    int64_t shape[SLUICE_MAX_DIMS] = { 0 }, strides[SLUICE_MAX_DIMS] = { 0 };
    uint8_t kind = take_byte(input);
    int ndim = kind / 8 % 4;

    memset(array, 0, sizeof *array);
    for (int d = 0; d < ndim; d++) {
        shape[d] = take_byte(input) % 12;
        strides[d] = (int8_t)take_byte(input);
    }
    if (kind & 4) {
        array->image = (struct sluice_image){ .pixel_format = 1 + kind / 8 % 23u,
                                              .width = 2 + (kind & 2u),
                                              .height = 2 + (kind & 2u) };
        sl_image_layout(&array->image, 1 + kind % 2);
        sl_image_view(array);
    } else {
        (void)sluice_array_wrap(array, "x", NULL, dtypes[kind % 4], ndim, shape, kind & 128 ? strides : NULL);
    }
    take_patches(input, array, sizeof *array);
    array->data = NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = { data, size };
    struct sluice_array to, from;
    uint64_t to_below, from_below;
    bool same = take_byte(&input) & 1;

    take_array(&input, &to);
    from = to;
    if (same)
        take_patches(&input, &from, sizeof from);
    else
        take_array(&input, &from);
    if (to.nbytes > MEMORY_MAX || from.nbytes > MEMORY_MAX || !find_below(&to, &to_below) ||
        !find_below(&from, &from_below))
        return 0;
    char *to_bytes = malloc(to.nbytes ? to.nbytes : 1), *from_bytes = malloc(from.nbytes ? from.nbytes : 1);
    REQUIRE(to_bytes && from_bytes);
    memset(from_bytes, 1, from.nbytes);
    if (to.image.pixel_format && from.image.pixel_format)
        to_below = from_below = 0; /* planes have no negative pitch, and strides do not count */
    to.data = to_bytes + to_below;
    from.data = from_bytes + from_below;
    (void)sluice_array_copy(&to, &from);
    free(to_bytes);
    free(from_bytes);
    return 0;
}
