/* SPDX-License-Identifier: MIT
 *
 * Checks of what kernels need: compilers, and the cache of what they make.
 */
#include "doctor.h"

#include <stdio.h>
#include <string.h>

#include <sluice/sluice.h>

#define TEXT 600

/* The message of a compiler that is missing, "what: install ...", as a finding and its fix. */
static void add_missing(struct report *report, const char *topic)
{
    const char *error = sluice_last_error(), *fix = strstr(error, ": pip install ");

    if (!fix)
        fix = strstr(error, ": install ");
    if (fix)
        report_add(report, topic, FINDING_NOTE, fix + 2, "%.*s", (int)(fix - error), error);
    else
        report_add(report, topic, FINDING_NOTE, "", "%s", error);
}

static void check_compiler(struct report *report, const char *topic, const char *kind)
{
    char text[TEXT];

    if (sluice_kernel_compiler(kind, text, sizeof text) == 0)
        report_add(report, topic, FINDING_OK, "", "%s", text);
    else
        add_missing(report, topic);
}

static void check_cache(struct report *report)
{
    char path[TEXT];
    int result = sluice_kernel_cache(path, sizeof path);

    if (result == 0)
        report_add(report, "kernel cache", FINDING_OK, "", "%s", path);
    else
        report_add(report, "kernel cache", FINDING_NOTE, "", "not used: %s", sluice_last_error());
}

void check_kernels(struct report *report)
{
    check_compiler(report, "C++ compiler", "host");
    if (report->gpu_count > 0)
        check_compiler(report, "NVRTC", "cuda");
    check_cache(report);
}
