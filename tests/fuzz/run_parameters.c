/* SPDX-License-Identifier: MIT
 *
 * The source of a kernel for `sluice run`: the names and comments of its parameters.
 */
#include "fuzz.h"

#include "../../tools/run/run.h"

#define MOST 6

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct run_parameter parameters[MOST];
    char *text = malloc(size + 1);

    REQUIRE(text);
    if (size)
        memcpy(text, data, size);
    text[size] = 0;
    for (uint32_t count = 1; count <= MOST; count++) {
        if (!run_parameters(text, "fx::k", count, parameters))
            continue;
        for (uint32_t i = 0; i < count; i++) {
            const struct run_parameter *p = &parameters[i];
            REQUIRE(memchr(p->name, 0, sizeof p->name) && memchr(p->wrong, 0, sizeof p->wrong));
            REQUIRE(!p->has_range || p->wrong[0] || (p->min <= p->initial && p->initial <= p->max));
        }
    }
    free(text);
    return 0;
}
