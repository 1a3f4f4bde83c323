/* SPDX-License-Identifier: MIT
 *
 * What the fuzzers share: reading numbers and bytes from an input, and checking what must hold.
 */
#ifndef FUZZ_H
#define FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sluice/sluice.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Must hold for any input. */
#define REQUIRE(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "%s:%d: this does not hold: %s (last error: %s)\n", __FILE__, __LINE__, #condition, \
                    sluice_last_error()); \
            abort(); \
        } \
    } while (0)

/* An input is read from its beginning; after its end there are zeros. */
struct input {
    const uint8_t *data;
    size_t left;
};

static inline void take(struct input *input, void *to, size_t size)
{
    size_t n = size < input->left ? size : input->left;
    if (n)
        memcpy(to, input->data, n);
    memset((char *)to + n, 0, size - n);
    input->data += n;
    input->left -= n;
}

static inline uint8_t take_byte(struct input *input)
{
    uint8_t value;
    take(input, &value, sizeof value);
    return value;
}

static inline uint32_t take_u32(struct input *input)
{
    uint32_t value;
    take(input, &value, sizeof value);
    return value;
}

static inline uint64_t take_u64(struct input *input)
{
    uint64_t value;
    take(input, &value, sizeof value);
    return value;
}

/* A number that is usually small: a byte, or eight bytes after 0xff. */
static inline uint64_t take_number(struct input *input)
{
    uint8_t small = take_byte(input);
    return small < 0xff ? small : take_u64(input);
}

/* Changes up to 7 places in `bytes`: a count, then each an offset (16 bits), a width and a value. */
static inline void take_patches(struct input *input, void *bytes, size_t size)
{
    for (unsigned n = take_byte(input) % 8; n > 0; n--) {
        uint16_t at;
        take(input, &at, sizeof at);
        size_t width = (size_t)1 << (take_byte(input) % 4), room = size - at % size;
        uint64_t value = width == 1 ? take_byte(input) : take_number(input);
        memcpy((char *)bytes + at % size, &value, width < room ? width : room);
    }
}

/* Reads every byte, so that a sanitizer or the MMU can object. */
static inline void touch(const void *bytes, size_t size)
{
    static volatile unsigned char sink;
    unsigned char sum = 0;
    for (size_t i = 0; i < size; i++)
        sum ^= ((const unsigned char *)bytes)[i];
    sink = sum;
    (void)sink;
}

#endif
