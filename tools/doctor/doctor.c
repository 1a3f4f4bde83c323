/* SPDX-License-Identifier: MIT
 *
 * sluice doctor: what this machine can do and, where not, why and the mend.
 */
#include "doctor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/args.h"
#include "../common/child.h"
#include "../common/term.h"

static const struct args_option options[] = {
    { 'j', "json", NULL, "as JSON" },
    { 'q', "quick", NULL, "only ask GPUs: no self-test, which makes a context on each" },
    { 0 },
};

static void check_program(struct report *report, const char *name, const char *use)
{
    char path[4096];
    if (child_find(name, path, sizeof path))
        report_add(report, name, FINDING_OK, "", "%s", path);
    else
        report_add(report, name, FINDING_NOTE, "apt install ffmpeg", "not installed; %s", use);
}

static void check_programs(struct report *report)
{
    check_program(report, "ffmpeg",
                    "'play' has its own test picture only, 'record' writes .slr only");
    check_program(report, "ffprobe", "'play' cannot find out what a file holds");
    check_program(report, "ffplay", "'view' shows channels in the terminal only (--ascii)");
}

static int run(const struct command *command, int argc, char **argv)
{
    struct report *report;
    struct args args;
    bool json = false, quick = false;
    int option;
    args_begin(&args, command, argc, argv);
    while ((option = args_next(&args)) >= 0)
        *(option == 0 ? &json : &quick) = true;
    if (option != ARGS_END)
        return option == ARGS_HELP ? EXIT_DONE : EXIT_USAGE;
    report = calloc(1, sizeof *report);
    if (!report) {
        say_error(command->name, "there is no memory, not even for a report.");
        return EXIT_FAILED;
    }
    check_system(report);
    check_programs(report);
    check_gpus(report, quick);
    check_cipd(report);
    check_cipd_gpus(report, quick);
    check_channel(report);
    bool works = report_host_works(report);
    if (json)
        report_json(report, works);
    else
        report_text(report, works);
    free(report->gpus);
    free(report->list);
    free(report);
    return works ? EXIT_DONE : EXIT_FAILED;
}

const struct command doctor_command = {
    .name = "doctor",
    .arguments = "",
    .summary = "say what this machine can do and, where not, why and the mend",
    .details =
        "'ok' is as it should be, 'note' is worth knowing, 'BAD' keeps channels from working, all\n"
        "or those on the GPU that the line names. It opens a channel of its own in a temporary\n"
        "folder and sends frames through it, and tries on each GPU what channels are made of.\n"
        "Exits with 0 if channels in host memory work, else with 1.\n",
    .examples = "  sluice doctor\n"
                "  sluice doctor --quick                   where a GPU's memory is full\n"
                "  sluice doctor --json > report.json      to send along with a bug report\n",
    .options = options,
    .run = run,
};
