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

static void examine_program(struct report *report, const char *name, const char *use)
{
    char path[4096];
    if (child_find(name, path, sizeof path))
        report_add(report, name, FINDING_WELL, "", "%s", path);
    else
        report_add(report, name, FINDING_NOTE, "apt install ffmpeg", "not installed; %s", use);
}

static void examine_programs(struct report *report)
{
    examine_program(report, "ffmpeg",
                    "'play' has its own test picture only, 'record' writes .slr only");
    examine_program(report, "ffprobe", "'play' cannot find out what a file holds");
    examine_program(report, "ffplay", "'view' shows channels in the terminal only (--ascii)");
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
    examine_system(report);
    examine_programs(report);
    examine_gpus(report, quick);
    examine_cipd(report);
    examine_cipd_gpus(report, quick);
    examine_channel(report);
    bool works = host_works(report);
    if (json)
        report_json(report, works);
    else
        report_text(report, works);
    free(report->patients);
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
