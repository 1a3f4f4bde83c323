/* SPDX-License-Identifier: MIT
 *
 * Structs that begin with their size, of callers built against any headers: memory of exactly the size that it gives,
 * into and out of the library's structs.
 */
#include "util/params.h"
#include "format/format.h"
#include "fuzz.h"

static void load_and_store(void *caller, size_t given, size_t own_size, size_t least)
{
    unsigned char *own = malloc(own_size), *before = malloc(given);

    REQUIRE(own && before);
    memcpy(before, caller, given);
    if (sl_params_load(own, own_size, least, caller, "struct sluice_x") == 0) {
        size_t known = given < own_size ? given : own_size;
        REQUIRE(memcmp(own, caller, known) == 0);
        for (size_t i = known; i < own_size; i++)
            REQUIRE(own[i] == 0);
        memset(own, 0x5a, own_size);
        REQUIRE(sl_params_store(caller, own, own_size, least, "struct sluice_x") == 0);
        REQUIRE(memcmp(caller, before, sizeof(uint32_t)) == 0);
        REQUIRE(given <= own_size || memcmp((char *)caller + own_size, before + own_size, given - own_size) == 0);
    }
    free(before);
    free(own);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = { data, size };
    size_t own_size = 8 + take_byte(&input) % 64 * 4u, least = 4 + take_byte(&input) % 32 * 4u;
    uint8_t honest = take_byte(&input);
    uint32_t given;

    if (input.left < sizeof given || least > own_size)
        return 0;
    size_t room = input.left;
    void *caller = malloc(room);
    REQUIRE(caller);
    take(&input, caller, room);
    memcpy(&given, caller, sizeof given);
    if (honest % 4 || given > room) { /* a size beyond the memory would be the caller's own fault */
        given = (uint32_t)room;
        memcpy(caller, &given, sizeof given);
    }
    load_and_store(caller, given, own_size, least);

    /* Formats have a size of another kind. */
    struct sluice_format own;
    if (sl_format_load(&own, caller) == 0)
        REQUIRE(sl_format_store(caller, &own) == 0);
    free(caller);
    return 0;
}
