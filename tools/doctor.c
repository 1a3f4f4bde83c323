/* SPDX-License-Identifier: MIT
 *
 * sluice doctor: what this machine can do and, where not, why and the mend.
 */
#include "doctor.h"

#include <dlfcn.h>
#include <glob.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sluice/sluice.h>

#include "args.h"
#include "child.h"
#include "json.h"
#include "term.h"

static const struct args_option options[] = {
    { 'j', "json", NULL, "as JSON" },
    { 0 },
};

static const char *const state_names[] = { "ok", "note", "bad" };

void find(struct report *report, const char *topic, enum finding_state state, const char *mend,
          const char *format, ...)
{
    if (report->count == FINDINGS_MAX)
        return;
    struct finding *finding = &report->list[report->count++];
    finding->topic = topic;
    finding->state = state;
    snprintf(finding->mend, sizeof finding->mend, "%s", mend);
    va_list list;
    va_start(list, format);
    vsnprintf(finding->text, sizeof finding->text, format, list);
    va_end(list);
}

static void examine_program(struct report *report, const char *name, const char *use)
{
    char path[4096];
    if (child_find(name, path, sizeof path))
        find(report, name, FINDING_WELL, "", "%s", path);
    else
        find(report, name, FINDING_NOTE, "apt install ffmpeg", "not installed; %s", use);
}

static void examine_gpu(struct report *report)
{
    glob_t nodes = { 0 };
    size_t count = 0;
    if (glob("/dev/nvidia[0-9]*", 0, NULL, &nodes) == 0)
        count = nodes.gl_pathc;
    globfree(&nodes);
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    const char *said = driver ? NULL : dlerror();
    if (driver)
        find(report, "GPU", FINDING_NOTE, "",
             "a CUDA driver and %zu devices are here; this release runs channels in host memory "
             "only",
             count);
    else if (count)
        find(report, "GPU", FINDING_NOTE, "install the driver's libcuda.so.1 of the same version",
             "%zu devices, but no driver library (%s); channels run in host memory", count,
             said ? said : "?");
    else
        find(report, "GPU", FINDING_NOTE, "", "no CUDA driver; channels run in host memory");
    if (driver)
        dlclose(driver);
}

void examine_programs(struct report *report)
{
    examine_program(report, "ffmpeg",
                    "'play' has its own test picture only, 'record' writes .slr only");
    examine_program(report, "ffprobe", "'play' cannot find out what a file holds");
    examine_program(report, "ffplay", "'view' shows channels in the terminal only (--ascii)");
    examine_gpu(report);
}

static void print_report(const struct report *report)
{
    static const enum colour colours[] = { COLOUR_GREEN, COLOUR_YELLOW, COLOUR_RED };
    static const char *const marks[] = { "ok  ", "note", "BAD " };
    for (unsigned i = 0; i < report->count; i++) {
        const struct finding *finding = &report->list[i];
        printf("%s%s%s  %-12s %s\n", colour(colours[finding->state]), marks[finding->state],
               colour(COLOUR_PLAIN), finding->topic, finding->text);
        if (finding->mend[0])
            printf("%20sto mend it: %s\n", "", finding->mend);
    }
}

static void print_json(const struct report *report, bool works)
{
    struct json json;
    json_begin(&json, stdout, false);
    json_object(&json);
    json_pair_string(&json, "version", sluice_version());
    json_pair_bool(&json, "host_channels_work", works);
    json_key(&json, "findings");
    json_array(&json);
    for (unsigned i = 0; i < report->count; i++) {
        json_object(&json);
        json_pair_string(&json, "topic", report->list[i].topic);
        json_pair_string(&json, "state", state_names[report->list[i].state]);
        json_pair_string(&json, "text", report->list[i].text);
        json_pair_string(&json, "mend", report->list[i].mend);
        json_close(&json);
    }
    json_close_array(&json);
    json_close(&json);
    json_end(&json);
}

static int run(const struct command *command, int argc, char **argv)
{
    struct report *report;
    struct args args;
    bool json = false, works = true;
    int option;
    args_begin(&args, command, argc, argv);
    while ((option = args_next(&args)) >= 0)
        json = true;
    if (option != ARGS_END)
        return option == ARGS_HELP ? EXIT_DONE : EXIT_USAGE;
    report = calloc(1, sizeof *report);
    if (!report) {
        say_error(command->name, "there is no memory, not even for a report.");
        return EXIT_FAILED;
    }
    examine_system(report);
    examine_programs(report);
    examine_channel(report);
    for (unsigned i = 0; i < report->count; i++)
        works = works && report->list[i].state != FINDING_BAD;
    if (json) {
        print_json(report, works);
    } else {
        print_report(report);
        printf("%s\n", works ? "channels in host memory work here"
                             : "channels in host memory do NOT work here");
    }
    free(report);
    return works ? EXIT_DONE : EXIT_FAILED;
}

const struct command doctor_command = {
    .name = "doctor",
    .arguments = "",
    .summary = "say what this machine can do and, where not, why and the mend",
    .details =
        "'ok' is as it should be, 'note' is worth knowing, 'BAD' keeps channels from working. It\n"
        "opens a channel of its own in a temporary folder and sends frames through it. Exits\n"
        "with 0 if channels in host memory work, else with 1.\n",
    .examples = "  sluice doctor\n"
                "  sluice doctor --json > report.json      to send along with a bug report\n",
    .options = options,
    .run = run,
};
