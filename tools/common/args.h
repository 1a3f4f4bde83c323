/* SPDX-License-Identifier: MIT
 *
 * Tables of commands and options: they drive parsing, --help, man pages and completion.
 */
#ifndef TOOLS_ARGS_H
#define TOOLS_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum exit_code {
    EXIT_DONE = 0,
    EXIT_FAILED = 1,
    EXIT_USAGE = 2,
    EXIT_NO_CHANNEL = 3,
    EXIT_TIMED_OUT = 4,
    EXIT_DAMAGED = 4, /* also: what came was not whole */
};

/* A table of options ends with a row without a name. Every command also has --help. */
struct args_option {
    char letter;       /* short form, or 0 */
    const char *name;  /* long form, without dashes */
    const char *value; /* placeholder of its value in --help; NULL: it takes none */
    const char *help;
};

struct command {
    const char *name;
    const char *arguments; /* "CHANNEL FILE" */
    const char *summary;   /* one line */
    const char *details;   /* more lines, or NULL */
    const char *examples;  /* lines that can be pasted into a shell */
    const struct args_option *options;
    int min_arguments, max_arguments;
    int (*run)(const struct command *command, int argc, char **argv);
    /* The index-th value of its COLUMN or ROW, NULL after the last one: for completion. May be NULL. */
    const char *(*word)(size_t index);
};

extern const struct command ls_command, info_command, play_command, view_command, record_command, snap_command,
    bridge_command, run_command, doctor_command, demo_command, bench_command, top_command, web_command;

struct args {
    const struct command *command;
    int argc;
    char **argv;
    const char *value; /* of the option just returned */
    const char *name;  /* its long form */
    char **rest;       /* after ARGS_END: the arguments that are not options */
    int count;
};

#define ARGS_END   (-1) /* no more options; rest and count are set and checked */
#define ARGS_HELP  (-2) /* --help was printed */
#define ARGS_WRONG (-3) /* wrong usage; the message was printed */

void args_begin(struct args *args, const struct command *command, int argc, char **argv);

/* The index of the next option in the command's table, or one of the above. */
int args_next(struct args *args);

/* Parse the value of the option just returned. False after printing what is wrong. */
bool args_u32(const struct args *args, uint32_t min, uint32_t max, uint32_t *value);
bool args_number(const struct args *args, double min, double max, double *value);
bool args_duration(const struct args *args, int64_t *ns);
bool args_size(const struct args *args, uint32_t *width, uint32_t *height);

void args_print_help(const struct command *command);

#endif
