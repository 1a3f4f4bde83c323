/* SPDX-License-Identifier: MIT
 *
 * The public calls of sluice/base.h. Results, error messages, versions and the log.
 */
#include <sluice/base.h>

#include "util/result.h"

const char *sluice_result_text(int result)
{
    switch (result) {
#define TEXT(name, number, text) \
    case number: return text;
        SLUICE_RESULTS(TEXT)
#undef TEXT
    default: return "no such result";
    }
}

const char *sluice_result_name(int result)
{
    return sl_result_name(result);
}

const char *sluice_last_error(void)
{
    return sl_last_error();
}

const char *sluice_version(void)
{
    return SLUICE_VERSION;
}

int sluice_api_version(void)
{
    return SLUICE_API_VERSION;
}

void sluice_log_set(sluice_log_callback callback, void *user, enum sluice_log_level level)
{
    sl_log_set(callback, user, level);
}
