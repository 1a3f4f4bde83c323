/* SPDX-License-Identifier: MIT
 *
 * Parsing of command lines, with getopt_long.
 */
#include "args.h"

#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "term.h"
#include "text.h"

#define MAX_OPTIONS 32
#define HELP_ROW    1000

static size_t option_count(const struct command *command)
{
    size_t count = 0;
    while (command->options && command->options[count].name)
        count++;
    return count;
}

void args_begin(struct args *args, const struct command *command, int argc, char **argv)
{
    *args = (struct args){ .command = command, .argc = argc, .argv = argv };
    optind = 0; /* starts getopt afresh */
    opterr = 0;
}

static int usage_error(const struct args *args)
{
    fprintf(stderr, "usage: sluice %s %s    (see sluice %s --help)\n", args->command->name, args->command->arguments,
            args->command->name);
    return ARGS_WRONG;
}

static int unknown_option(const struct args *args)
{
    const char *names[MAX_OPTIONS + 1];
    size_t count = option_count(args->command);
    const char *text = args->argv[optind - 1];
    if (optopt > 0 && optopt < HELP_ROW && text[1] != '-') {
        say_error(args->command->name, "unknown option -%c.", optopt);
        return usage_error(args);
    }
    char option[64];
    snprintf(option, sizeof option, "%s", text[0] == '-' && text[1] == '-' ? text + 2 : text);
    option[strcspn(option, "=")] = 0;
    for (size_t i = 0; i < count; i++)
        names[i] = args->command->options[i].name;
    names[count] = "help";
    const char *near = text_nearest(option, names, count + 1);
    if (near)
        say_error(args->command->name, "unknown option --%s; did you mean --%s?", option, near);
    else
        say_error(args->command->name, "unknown option --%s.", option);
    return usage_error(args);
}

static int take_arguments(struct args *args)
{
    args->rest = args->argv + optind;
    args->count = args->argc - optind;
    if (args->count < args->command->min_arguments) {
        say_error(args->command->name, "missing argument; it takes %s.", args->command->arguments);
        return usage_error(args);
    }
    if (args->count > args->command->max_arguments) {
        say_error(args->command->name, "unexpected argument '%s'.", args->rest[args->command->max_arguments]);
        return usage_error(args);
    }
    return ARGS_END;
}

int args_next(struct args *args)
{
    struct option longs[MAX_OPTIONS + 2] = { 0 };
    char shorts[2 * MAX_OPTIONS + 4] = ":h";
    const struct args_option *rows = args->command->options;
    size_t count = option_count(args->command), used = 2;

    for (size_t i = 0; i < count; i++) {
        longs[i].name = rows[i].name;
        longs[i].has_arg = rows[i].value ? required_argument : no_argument;
        longs[i].val = HELP_ROW + 1 + (int)i;
        if (rows[i].letter) {
            shorts[used++] = rows[i].letter;
            if (rows[i].value)
                shorts[used++] = ':';
        }
    }
    longs[count].name = "help";
    longs[count].val = HELP_ROW;

    int found = getopt_long(args->argc, args->argv, shorts, longs, NULL);
    if (found == -1)
        return take_arguments(args);
    if (found == 'h' || found == HELP_ROW) {
        args_print_help(args->command);
        return ARGS_HELP;
    }
    if (found == ':') {
        say_error(args->command->name, "%s needs a value.", args->argv[optind - 1]);
        return usage_error(args);
    }
    if (found == '?')
        return unknown_option(args);
    args->value = optarg;
    for (size_t i = 0; i < count; i++)
        if (found == HELP_ROW + 1 + (int)i || (rows[i].letter && found == rows[i].letter)) {
            args->name = rows[i].name;
            return (int)i;
        }
    return unknown_option(args);
}

bool args_number(const struct args *args, double min, double max, double *value)
{
    char *end;
    double number = strtod(args->value, &end);
    if (end == args->value || *end || !isfinite(number) || number < min || number > max) {
        say_error(args->command->name, "--%s takes a number from %g to %g, not '%s'.", args->name, min, max,
                  args->value);
        return false;
    }
    *value = number;
    return true;
}

bool args_u32(const struct args *args, uint32_t min, uint32_t max, uint32_t *value)
{
    char *end;
    unsigned long long number = strtoull(args->value, &end, 10);
    if (end == args->value || *end || args->value[0] == '-' || number < min || number > max) {
        say_error(args->command->name, "--%s takes a whole number from %u to %u, not '%s'.", args->name, min, max,
                  args->value);
        return false;
    }
    *value = (uint32_t)number;
    return true;
}

bool args_duration(const struct args *args, int64_t *ns)
{
    double seconds;
    if (!args_number(args, 0, 1e9, &seconds))
        return false;
    *ns = (int64_t)(seconds * 1e9);
    return true;
}

bool args_size(const struct args *args, uint32_t *width, uint32_t *height)
{
    unsigned w, h;
    char after;
    if (sscanf(args->value, "%5u%*[xX]%5u%c", &w, &h, &after) != 2 || !w || !h || w > 65536 || h > 65536) {
        say_error(args->command->name, "--%s takes WIDTHxHEIGHT, such as 1280x720, not '%s'.", args->name, args->value);
        return false;
    }
    *width = w;
    *height = h;
    return true;
}

static void print_option(char letter, const char *name, const char *value, const char *help)
{
    char left[64], short_form[8] = "    ";
    if (letter)
        snprintf(short_form, sizeof short_form, "-%c, ", letter);
    snprintf(left, sizeof left, "%s--%s%s%s", short_form, name, value ? " " : "", value ? value : "");
    printf("  %-26s  %s\n", left, help);
}

void args_print_help(const struct command *command)
{
    printf("usage: sluice %s%s%s\n\n%s\n", command->name, command->arguments[0] ? " " : "", command->arguments,
           command->summary);
    if (command->details)
        printf("\n%s", command->details);
    printf("\noptions:\n");
    for (size_t i = 0; i < option_count(command); i++)
        print_option(command->options[i].letter, command->options[i].name, command->options[i].value,
                     command->options[i].help);
    print_option('h', "help", NULL, "print this help");
    if (command->examples)
        printf("\nexamples:\n%s", command->examples);
}
