/* SPDX-License-Identifier: MIT
 *
 * The list of findings.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

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
