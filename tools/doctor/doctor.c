/* SPDX-License-Identifier: MIT
 *
 * sluice doctor: checks what this machine supports, and how to fix what it does not.
 */
#include "doctor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/args.h"
#include "../common/child.h"
#include "../common/term.h"
#include "../media/media.h"

static const struct args_option options[] = {
    { 'j', "json", NULL, "print JSON" },
    { 'q', "quick", NULL, "query GPUs only: skip the self-tests, which create a CUDA context" },
    { 0 },
};

static void check_program(struct report *report, const char *name, const char *program, const char *use)
{
    char path[4096];
    if (child_find(program, path, sizeof path))
        report_add(report, name, FINDING_OK, "", "%s", path);
    else
        report_add(report, name, FINDING_NOTE, "apt install ffmpeg", "not installed: %s", use);
}

static void check_programs(struct report *report)
{
    check_program(report, "ffmpeg", media_ffmpeg(),
                  "'play' can only play recordings and its test picture, 'record' only writes .slr");
    check_program(report, "ffplay", "ffplay", "'view' only works in the terminal (--ascii)");
}

static int doctor_run(const struct command *command, int argc, char **argv)
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
        say_error(command->name, "out of memory.");
        return EXIT_FAILED;
    }
    check_system(report);
    check_programs(report);
    check_gpus(report, quick);
    check_kernels(report);
    check_cipd(report);
    check_cipd_gpus(report, quick);
    check_channel(report);
    bool host_works = report_host_works(report);
    if (json)
        report_json(report, host_works);
    else
        report_text(report, host_works);
    free(report->gpus);
    free(report->list);
    free(report);
    return host_works ? EXIT_DONE : EXIT_FAILED;
}

const struct command doctor_command = {
    .name = "doctor",
    .arguments = "",
    .summary = "check what this machine supports, and how to fix what it does not",
    .details = "Lines start with ok, note (worth knowing), or BAD (channels do not work: all of them, or\n"
               "those on the GPU that the line names). The doctor opens a channel in a temporary folder,\n"
               "sends frames through it, and tests on each GPU the features that channels need.\n"
               "The exit code is 0 if channels in host memory work, else 1.\n",
    .examples = "  sluice doctor\n"
                "  sluice doctor --quick                   when a GPU's memory is full\n"
                "  sluice doctor --json > report.json      to attach to a bug report\n",
    .options = options,
    .run = doctor_run,
};
