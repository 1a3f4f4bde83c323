/* SPDX-License-Identifier: MIT */
#include "util/params.h"

#include <string.h>

#include "util/result.h"

#define LARGEST 65536 /* a size above is one that was never set */

static int size_of(const void *caller, size_t least, const char *what, size_t *size)
{
    uint32_t given;

    if (!caller)
        return sl_fail(SLUICE_E_INVALID, "no %s was given", what);
    memcpy(&given, caller, sizeof given);
    if (given < least || given > LARGEST)
        return sl_fail(SLUICE_E_INVALID, "%s says a size of %u bytes: set its `size`, or start from its initialiser",
                       what, given);
    *size = given;
    return 0;
}

int sl_params_load(void *own, size_t size, size_t least, const void *caller, const char *what)
{
    size_t given;
    int r = size_of(caller, least, what, &given);

    if (r != 0)
        return r;
    for (size_t i = size; i < given; i++)
        if (((const unsigned char *)caller)[i] != 0)
            return sl_fail(SLUICE_E_UNSUPPORTED, "%s sets a field at byte %zu that release %s does not have", what, i,
                           SLUICE_VERSION);
    memset(own, 0, size);
    memcpy(own, caller, given < size ? given : size);
    return 0;
}

int sl_params_store(void *caller, const void *own, size_t size, size_t least, const char *what)
{
    size_t given;
    int r = size_of(caller, least, what, &given);

    if (r != 0)
        return r;
    size_t n = given < size ? given : size;
    memcpy((char *)caller + sizeof(uint32_t), (const char *)own + sizeof(uint32_t), n - sizeof(uint32_t));
    return 0;
}
