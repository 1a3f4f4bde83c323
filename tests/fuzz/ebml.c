/* SPDX-License-Identifier: MIT
 *
 * The head of a Matroska file from anywhere: what is read of it stays within the bytes, and more bytes change no answer
 * that was given.
 */
#include "fuzz.h"

#include "../../tools/media/ebml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ebml_video whole, part;
    uint8_t *bytes = calloc(1, size + 1);
    REQUIRE(bytes);
    if (size)
        memcpy(bytes, data, size);
    enum ebml_result result = ebml_video(bytes, size, &whole);
    if (result == EBML_DONE)
        REQUIRE(memchr(whole.codec, 0, sizeof whole.codec));
    free(bytes);

    /* The same without its last byte, in memory that ends there. */
    if (size == 0)
        return 0;
    bytes = malloc(size);
    REQUIRE(bytes);
    memcpy(bytes, data, size - 1);
    enum ebml_result before = ebml_video(bytes, size - 1, &part);
    REQUIRE(before == result || before == EBML_MORE || (size < 5 && before != EBML_DONE));
    if (before == EBML_DONE)
        REQUIRE(strcmp(part.codec, whole.codec) == 0 && part.alpha == whole.alpha);
    free(bytes);
    return 0;
}
