/* SPDX-License-Identifier: MIT
 *
 * The report, as text and as JSON.
 */
#include "doctor.h"

#include <stdio.h>

void report_text(const struct report *report, bool host_works)
{
    report_text_findings(report);
    for (unsigned i = 0; i < report->gpu_count; i++)
        printf("cuda:%u %s\n", i,
               report->gpus[i].usable ? "supports channels in its memory" : "does NOT support channels in its memory");
    printf("channels in host memory %s on this machine\n", host_works ? "work" : "do NOT work");
}

void report_json(const struct report *report, bool host_works)
{
    struct json json;
    json_begin(&json, stdout, false);
    json_object(&json);
    json_pair_string(&json, "version", sluice_version());
    json_pair_bool(&json, "host_channels_work", host_works);
    report_json_findings(&json, report);
    report_json_gpus(&json, report);
    report_json_cipd(&json);
    json_close(&json);
    json_end(&json);
}
