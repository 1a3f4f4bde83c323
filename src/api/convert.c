/* SPDX-License-Identifier: MIT
 *
 * The public call of sluice/convert.h.
 */
#include <sluice/convert.h>

#include "convert/convert.h"
#include "util/result.h"

int sluice_convert(struct sluice_stream stream, const struct sluice_array *to, const struct sluice_array *from,
                   const struct sluice_convert *how, struct sluice_area *area)
{
    if (!to || !from)
        return sl_fail(SLUICE_E_INVALID, "sluice_convert: %s is NULL", to ? "from" : "to");
    return sl_convert(stream, to, from, how, area);
}
