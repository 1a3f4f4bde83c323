/* SPDX-License-Identifier: MIT
 *
 * Formats from anywhere: a program's struct, calls that add arrays, and the wire. What is accepted is valid, survives
 * the wire, and does not change when completed again; what is refused is not modified.
 */
#include "fuzz.h"
#include "geometry_check.h"
#include "native/wire/message.h"
#include "unit/same_format.h"

static void check_accepted(const struct sluice_format *format)
{
    struct sluice_format again = *format, back;
    struct sl_wire_format wire;

    check_format(format);
    REQUIRE(sluice_format_complete(&again) == 0);
    REQUIRE(same_format(format, &again));
    sl_format_to_wire(&wire, format);
    REQUIRE(sl_format_from_wire(&back, &wire) == 0);
    REQUIRE(same_format(format, &back));
    for (uint32_t i = 0; i < format->array_count; i++) {
        REQUIRE(sluice_format_find(format, format->arrays[i].name) == (int)i);
        REQUIRE(sl_format_geometry_check(&format->arrays[i], &format->arrays[i], format->slot_bytes) == 0);
    }
}

static void from_wire(struct input *input)
{
    struct sluice_format format;
    struct sl_wire_format wire;

    take(input, &wire, sizeof wire);
    for (int i = 0; i < SLUICE_MAX_ARRAYS; i++)
        wire.arrays[i].name[SLUICE_ARRAY_NAME - 1] = 0; /* as sl_message_check leaves it */
    if (sl_format_from_wire(&format, &wire) == 0)
        check_accepted(&format);
}

/* An array made from the input, which may be valid. */
static void take_array(struct input *input, struct sluice_array *array)
{
    static const struct sluice_dtype dtypes[] = {
        { SLUICE_UINT, 8, 1 }, { SLUICE_FLOAT, 32, 1 }, { SLUICE_BFLOAT, 16, 3 }, { SLUICE_COMPLEX, 128, 64 }
    };
    memset(array, 0, sizeof *array);
    uint8_t kind = take_byte(input);
    array->dtype = dtypes[kind % 4];
    array->name[0] = (char)('a' + kind / 16);
    if (kind & 8) {
        array->image.pixel_format = take_byte(input) % 26;
        array->image.width = (uint32_t)take_number(input);
        array->image.height = (uint32_t)take_number(input);
    } else {
        array->ndim = (int32_t)(take_byte(input) % 10) - 1;
        for (int d = 0; d < array->ndim && d < SLUICE_MAX_DIMS; d++)
            array->shape[d] = (int64_t)take_number(input);
    }
    take_patches(input, array, sizeof *array);
    array->data = NULL;
}

static void complete(struct input *input)
{
    struct sluice_format format = SLUICE_FORMAT_INIT, before;

    format.array_count = take_byte(input) % 18;
    format.pitch_align = take_byte(input) % 4 ? 0 : (uint32_t)take_number(input);
    for (uint32_t i = 0; i < format.array_count && i < SLUICE_MAX_ARRAYS; i++)
        take_array(input, &format.arrays[i]);
    take_patches(input, &format, sizeof format);
    before = format;
    if (sluice_format_complete(&format) != 0)
        REQUIRE(memcmp(&format, &before, sizeof format) == 0);
    else if (format.size >= sizeof format) /* else it ends elsewhere than ours */
        check_accepted(&format);
}

/* Frames of a channel with this format. */
static void fit(struct input *input, const struct sluice_format *format)
{
    struct sluice_format grown;
    struct sluice_array array, frame;
    uint32_t index = take_byte(input) % format->array_count;
    const struct sluice_array *capacity = &format->arrays[index];

    take_array(input, &array);
    bool fits = sl_format_fits(format, &array, index);
    if (sl_format_frame(format, &array, index, &frame) == 0) {
        REQUIRE(fits);
        REQUIRE(sl_format_geometry_check(capacity, &frame, format->slot_bytes) == 0);
    }
    if (sl_format_reshape(capacity, array.ndim, array.shape, &frame) == 0)
        REQUIRE(sl_format_geometry_check(capacity, &frame, format->slot_bytes) == 0);
    if (sl_format_resize(capacity, array.image.width, array.image.height, format->pitch_align, &frame) == 0)
        REQUIRE(sl_format_geometry_check(capacity, &frame, format->slot_bytes) == 0);
    if (sl_format_grow(format, &array, index, &grown) == 0) {
        check_accepted(&grown);
        REQUIRE(sl_format_fits(&grown, &array, index));
    }
}

static void add(struct input *input)
{
    struct sluice_format format = SLUICE_FORMAT_INIT;

    format.pitch_align = 1u << take_byte(input) % 20;
    for (int i = 0; i < 20 && input->left; i++) {
        struct sluice_format before = format;
        struct sluice_array array;
        char name[40];
        take_array(input, &array);
        memset(name, 0, sizeof name);
        take(input, name, take_byte(input) % sizeof name);
        if (!name[0])
            snprintf(name, sizeof name, "a%d", i);
        int r = array.image.pixel_format
                    ? sluice_format_add_image(&format, name, (enum sluice_pixel_format)array.image.pixel_format,
                                              array.image.width, array.image.height)
                    : sluice_format_add_tensor(&format, name, array.dtype, array.ndim, array.shape);
        if (r != 0)
            REQUIRE(memcmp(&format, &before, sizeof format) == 0);
        else
            check_accepted(&format);
        if (format.array_count)
            fit(input, &format);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = { data, size };

    switch (take_byte(&input) % 3) {
    case 0: from_wire(&input); break;
    case 1: complete(&input); break;
    default: add(&input); break;
    }
    return 0;
}
