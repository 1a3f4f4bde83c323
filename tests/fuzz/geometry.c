/* SPDX-License-Identifier: MIT
 *
 * A frame's record of an array, against the format's capacity. What passes is copied out of memory that is exactly as
 * large as the capacity.
 */
#include "fuzz.h"
#include "geometry_check.h"
#include "native/wire/wire.h"

#define CAPACITY_MAX (1 << 20)

/* A format of one to three arrays, of sizes that can be allocated. */
static bool take_format(struct input *input, struct sluice_format *format)
{
    static const struct sluice_dtype dtypes[] = {
        { SLUICE_UINT, 8, 1 }, { SLUICE_FLOAT, 32, 1 }, { SLUICE_BFLOAT, 16, 3 }, { SLUICE_COMPLEX, 128, 2 }
    };
    static const char *const names[] = { "one", "two", "three" };
    uint8_t kind = take_byte(input);

    *format = (struct sluice_format)SLUICE_FORMAT_INIT;
    format->pitch_align = kind & 64 ? 64 : 0;
    for (uint32_t i = 0; i < 1 + kind % 3u; i++) {
        uint8_t type = take_byte(input);
        int64_t shape[SLUICE_MAX_DIMS];
        int ndim = type / 8 % 5;
        for (int d = 0; d < ndim; d++)
            shape[d] = take_byte(input) % 24 + 1;
        int r = type & 4 ? sluice_format_add_image(format, names[i], 1 + type / 8 % 23u, 2 + take_byte(input) % 64u * 2,
                                                   2 + take_byte(input) % 64u * 2)
                         : sluice_format_add_tensor(format, names[i], dtypes[type % 4], ndim, shape);
        if (r != 0)
            return false;
    }
    return format->slot_bytes <= CAPACITY_MAX;
}

static void copy_out(const struct sluice_array *capacity, struct sluice_array array)
{
    char *slot = malloc(capacity->nbytes), *own;
    struct sluice_array to = array;

    REQUIRE(slot);
    memset(slot, 7, capacity->nbytes);
    array.data = slot + (array.offset - capacity->offset);
    if (array.image.pixel_format) {
        sl_image_layout(&to.image, 0);
        sl_image_view(&to);
    } else {
        REQUIRE(sl_strides_tight(sluice_dtype_size(to.dtype), to.ndim, to.shape, to.strides, &to.nbytes));
    }
    REQUIRE(to.nbytes <= array.nbytes);
    own = malloc(to.nbytes ? to.nbytes : 1);
    REQUIRE(own);
    to.data = own;
    to.read_only = 0;
    REQUIRE(sluice_array_copy(&to, &array) == 0);
    for (uint64_t i = 0; i < to.nbytes; i++)
        REQUIRE(own[i] == 7);
    free(own);
    free(slot);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = { data, size };
    struct sluice_format format;

    if (!take_format(&input, &format))
        return 0;
    const struct sluice_array *capacity = &format.arrays[take_byte(&input) % format.array_count];
    struct sluice_array array = *capacity, frame;
    struct sl_geometry geometry;
    uint8_t how = take_byte(&input);

    if (how % 4 == 1 && sl_format_resize(capacity, take_byte(&input), take_byte(&input), 0, &frame) == 0)
        array = frame;
    sl_geometry_from_array(&geometry, &array);
    if (how % 4 == 3)
        take(&input, &geometry, sizeof geometry);
    take_patches(&input, &geometry, sizeof geometry);

    /* As a reader does it. */
    array = *capacity;
    sl_geometry_to_array(&geometry, &array);
    if (sl_format_geometry_check(capacity, &array, format.slot_bytes) != 0)
        return 0;
    REQUIRE(array.offset >= capacity->offset);
    check_array(&array, capacity->nbytes - (array.offset - capacity->offset));
    copy_out(capacity, array);
    return 0;
}
