/* SPDX-License-Identifier: MIT
 *
 * The report, as text and as JSON.
 */
#include "doctor.h"

#include <stdio.h>

#include "../common/term.h"

static const char *const state_names[] = { "ok", "note", "bad" };

void report_text(const struct report *report, bool host_works)
{
    static const enum colour colours[] = { COLOUR_GREEN, COLOUR_YELLOW, COLOUR_RED };
    static const char *const marks[] = { "ok  ", "note", "BAD " };
    for (unsigned i = 0; i < report->count; i++) {
        const struct finding *finding = &report->list[i];
        printf("%s%s%s  %-12s %s%s%s\n", colour(colours[finding->state]), marks[finding->state], colour(COLOUR_PLAIN),
               finding->device[0] ? finding->device : finding->topic, finding->device[0] ? finding->topic : "",
               finding->device[0] ? ": " : "", finding->text);
        if (finding->fix[0])
            printf("%20sfix: %s\n", "", finding->fix);
    }
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
    json_key(&json, "findings");
    json_array(&json);
    for (unsigned i = 0; i < report->count; i++) {
        json_object(&json);
        json_pair_string(&json, "topic", report->list[i].topic);
        json_key(&json, "device");
        json_string(&json, report->list[i].device[0] ? report->list[i].device : NULL);
        json_pair_string(&json, "state", state_names[report->list[i].state]);
        json_pair_string(&json, "text", report->list[i].text);
        json_pair_string(&json, "fix", report->list[i].fix);
        json_close(&json);
    }
    json_close_array(&json);
    report_json_gpus(&json, report);
    report_json_cipd(&json);
    json_close(&json);
    json_end(&json);
}
