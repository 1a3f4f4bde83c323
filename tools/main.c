/* SPDX-License-Identifier: MIT
 *
 * The command `sluice`: a table of subcommands. They use public headers only, so each is also an example.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sluice/sluice.h>

#include "commands.h"
#include "common/args.h"
#include "common/per_system.h"
#include "common/term.h"
#include "common/text.h"
#include "complete.h"
#include "external.h"

static void print_help(FILE *out)
{
    static const char try[] =
        PER_SYSTEM("  sluice play test camera &\n"
                   "  sluice ls\n"
                   "  sluice snap camera out.png\n"
                   "  kill %1\n",
                   "  sluice play test cipd:camera     until Ctrl-C; meanwhile, in another window:\n"
                   "  sluice ls\n"
                   "  sluice snap cipd:camera out.png\n");
    fprintf(out, "usage: sluice COMMAND [OPTIONS] ...\n\n"
                 "Shares frames between processes on this machine without copying them.\n\n"
                 "commands:\n");
    for (size_t i = 0; i < command_count; i++)
        fprintf(out, "  %-8s  %s\n", commands[i]->name, commands[i]->summary);
    fprintf(out,
            "\n  sluice COMMAND --help    options and examples\n"
            "  sluice NAME ...          runs the program sluice-NAME\n"
            "  sluice --version\n\n"
            "try:\n%s\n"
            "exit codes: 0 success, 1 failure, 2 wrong usage, 3 no such channel, 4 timed out\n",
            try);
}

static int print_version(void)
{
    printf("sluice %s (library %s, API %d, wire %d to %d)\n", SLUICE_VERSION, sluice_version(), sluice_api_version(),
           SLUICE_WIRE_VERSION_MIN, SLUICE_WIRE_VERSION_MAX);
    return EXIT_DONE;
}

static const struct command *find_command(const char *name)
{
    for (size_t i = 0; i < command_count; i++)
        if (strcmp(name, commands[i]->name) == 0)
            return commands[i];
    return NULL;
}

/* Runs sluice-NAME, for NAME in argv[0]; returns if it cannot. */
static int run_external(char **argv)
{
    const char *name = argv[0], *names[MOST_COMMANDS];
    int code = external_run(argv);
    if (code != EXIT_USAGE)
        return code;
    for (size_t i = 0; i < command_count; i++)
        names[i] = commands[i]->name;
    const char *near = text_nearest(name, names, command_count);
    if (near)
        say_error(NULL, "unknown command '%s'; did you mean '%s'?", name, near);
    else
        say_error(NULL, "unknown command '%s'; see sluice --help.", name);
    return EXIT_USAGE;
}

static int run_help(int argc, char **argv)
{
    if (argc < 3) {
        print_help(stdout);
        return EXIT_DONE;
    }
    const struct command *command = find_command(argv[2]);
    if (!command)
        return run_external((char *[]){ argv[2], "--help", NULL });
    args_print_help(command);
    return EXIT_DONE;
}

/* Output that a closed pipe or a full disk lost is a failure. */
static int flush_output(int code)
{
    if (fflush(stdout) != 0 || ferror(stdout)) {
        say_error(NULL, "cannot write to standard output.");
        return code == EXIT_DONE ? EXIT_FAILED : code;
    }
    return code;
}

int main(int argc, char **argv)
{
    signal(SIGXFSZ, SIG_IGN); /* writing beyond the file size limit fails with EFBIG instead */
    if (argc < 2) {
        print_help(stderr);
        return EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        print_help(stdout);
        return flush_output(EXIT_DONE);
    }
    if (strcmp(argv[1], "help") == 0)
        return flush_output(run_help(argc, argv));
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0)
        return flush_output(print_version());
    if (strcmp(argv[1], "__complete") == 0) { /* for shells, see completions/ */
        complete(commands, command_count, argc - 2, argv + 2);
        return flush_output(EXIT_DONE);
    }
    if (sluice_api_version() < SLUICE_API_VERSION) {
        fprintf(stderr, "sluice: this command is sluice %s, but libsluice is %s, which is older: see ldd %s\n",
                SLUICE_VERSION, sluice_version(), argv[0]);
        return EXIT_FAILED;
    }
    const struct command *command = find_command(argv[1]);
    if (!command)
        return run_external(argv + 1);
    return flush_output(command->run(command, argc - 1, argv + 1));
}
