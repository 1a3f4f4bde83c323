/* SPDX-License-Identifier: MIT
 *
 * The list of findings, and its output.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "../common/term.h"
#include "doctor.h"

void report_add(struct report *report, const char *topic, enum finding_state state, const char *fix, const char *format,
                ...)
{
    if (report->count == report->capacity) {
        unsigned capacity = report->capacity ? 2 * report->capacity : 64;
        struct finding *list = realloc(report->list, capacity * sizeof *list);
        if (!list)
            return;
        report->list = list;
        report->capacity = capacity;
    }
    struct finding *finding = &report->list[report->count++];
    finding->topic = topic;
    finding->state = state;
    snprintf(finding->device, sizeof finding->device, "%s", report->device ? report->device : "");
    snprintf(finding->fix, sizeof finding->fix, "%s", fix);
    va_list list;
    va_start(list, format);
    vsnprintf(finding->text, sizeof finding->text, format, list);
    va_end(list);
}

bool report_host_works(const struct report *report)
{
    for (unsigned i = 0; i < report->count; i++)
        if (report->list[i].state == FINDING_BAD && !report->list[i].device[0])
            return false;
    return true;
}

/* ---- output ---- */

static const char *const state_names[] = { "ok", "note", "bad" };

void report_text_findings(const struct report *report)
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
}

void report_json_findings(struct json *json, const struct report *report)
{
    json_key(json, "findings");
    json_array(json);
    for (unsigned i = 0; i < report->count; i++) {
        json_object(json);
        json_pair_string(json, "topic", report->list[i].topic);
        json_key(json, "device");
        json_string(json, report->list[i].device[0] ? report->list[i].device : NULL);
        json_pair_string(json, "state", state_names[report->list[i].state]);
        json_pair_string(json, "text", report->list[i].text);
        json_pair_string(json, "fix", report->list[i].fix);
        json_close(json);
    }
    json_close_array(json);
}
