/* SPDX-License-Identifier: MIT
 *
 * Checks of what affects channels of cuda-link's protocol: environment variables, segments, the activation barrier.
 */
#include "doctor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../common/args.h"
#include "../common/cipd.h"
#include "../common/per_system.h"
#include "../common/term.h"
#include "../common/text.h"

/* ---- the environment ---- */

#define PREFIX "CUDALINK_"

/* Indexed by sluice_cipd_variable.used. */
static const char *const uses[] = { "no effect here", "honoured", "TouchDesigner's side", "in Python" };

static const char *use_of(const struct sluice_cipd_variable *variable)
{
    return uses[variable->used < sizeof uses / sizeof *uses ? variable->used : 0];
}

static struct sluice_cipd_variable *list_variables(size_t *count)
{
    if (sluice_cipd_variables(NULL, 0, count) != SLUICE_OK)
        return NULL;
    size_t capacity = *count;
    struct sluice_cipd_variable *all = calloc(capacity + 1, sizeof *all);
    if (!all || sluice_cipd_variables(all, capacity, count) == SLUICE_OK)
        return all;
    free(all);
    return NULL;
}

/* A value that cannot be used is replaced by the default. */
static bool is_valid(const struct sluice_cipd_variable *variable)
{
    return variable->reading != SLUICE_CIPD_READ_NO_NUMBER && variable->reading != SLUICE_CIPD_READ_OUT_OF_RANGE;
}

/* How the value is read, put between the value and the variable's purpose. */
static void text_reading(char *text, size_t size, const struct sluice_cipd_variable *variable)
{
    bool off = variable->reading == SLUICE_CIPD_READ_OFF;
    if (!is_valid(variable))
        snprintf(text, size, ", which is %s, so the default %s is used;",
                 variable->reading == SLUICE_CIPD_READ_NO_NUMBER ? "not a number" : "out of range", variable->usual);
    else
        snprintf(text, size, "%s%s:", off ? ", which means off" : "",
                 off && strcmp(variable->value, "0") ? " (only \"1\" means on)" : "");
}

static void text_use(char *text, size_t size, const struct sluice_cipd_variable *variable)
{
    const char *commands = cipd_commands_using(variable->name);
    snprintf(text, size, "%s%s%s", use_of(variable),
             *commands                              ? "; sluice "
             : variable->used == SLUICE_CIPD_USED   ? "; no command"
             : variable->used == SLUICE_CIPD_OTHERS ? ", no effect here"
                                                    : "",
             commands);
}

static void check_variable(struct report *report, const struct sluice_cipd_variable *variable)
{
    bool used = variable->used == SLUICE_CIPD_USED || variable->used == SLUICE_CIPD_IN_PYTHON;
    bool valid = is_valid(variable);
    char fix[256] = "", reading[96], use[96];
    text_reading(reading, sizeof reading, variable);
    text_use(use, sizeof use, variable);
    if (!used)
        snprintf(fix, sizeof fix, "unset %s, unless a program that uses cuda-link needs it", variable->name);
    else if (!valid)
        snprintf(fix, sizeof fix, "set %s to a whole number from %s, or unset it", variable->name, variable->range);
    report_add(report, "cuda-link", used && valid ? FINDING_OK : FINDING_NOTE, fix, "%s is \"%s\"%s %s; %s",
               variable->name, variable->value, reading, variable->what, use);
}

/* A variable that cuda-link does not have, such as a misspelled one; `entry` is "NAME=VALUE". */
static void check_unknown(struct report *report, const char *entry, const struct sluice_cipd_variable *all,
                          size_t count)
{
    const char *names[128], *near;
    char name[64], instead[96] = "", hint[96] = "", fix[256];
    size_t known = 0;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(entry, "="), entry);
    /* Names are compared without the prefix that all of them share. */
    for (; known < count && known < sizeof names / sizeof *names; known++) {
        if (strcmp(all[known].name, name) == 0)
            return;
        names[known] = all[known].name + strlen(PREFIX);
    }
    near = text_nearest(name + strlen(PREFIX), names, known);
    if (near) {
        snprintf(hint, sizeof hint, "; did you mean " PREFIX "%s?", near);
        snprintf(instead, sizeof instead, "set " PREFIX "%s, and ", near);
    }
    snprintf(fix, sizeof fix, "%sunset %s", instead, name);
    report_add(report, "cuda-link", FINDING_NOTE, fix, "%s is set, but is not a variable of cuda-link: no effect%s",
               name, hint);
}

static void check_variables(struct report *report)
{
    size_t count = 0;
    struct sluice_cipd_variable *all = list_variables(&count);
    for (size_t i = 0; all && i < count; i++)
        if (all[i].set)
            check_variable(report, &all[i]);
    for (char **entry = environ; all && *entry; entry++)
        if (strncmp(*entry, PREFIX, strlen(PREFIX)) == 0)
            check_unknown(report, *entry, all, count);
    free(all);
}

void report_json_cipd(struct json *json)
{
    size_t count = 0;
    struct sluice_cipd_variable *all = list_variables(&count);
    json_key(json, "cuda_link_variables");
    json_array(json);
    for (size_t i = 0; all && i < count; i++) {
        json_object(json);
        json_pair_string(json, "name", all[i].name);
        json_pair_string(json, "value", all[i].set ? all[i].value : NULL);
        json_pair_string(json, "default", all[i].usual);
        json_pair_string(json, "here", use_of(&all[i]));
        json_pair_string(json, "what", all[i].what);
        json_pair_string(json, "commands", cipd_commands_using(all[i].name));
        json_close(json);
    }
    json_close_array(json);
    free(all);
}

/* ---- segments ---- */

static int count_one(void *user, const char *name)
{
    (void)name;
    ++*(unsigned *)user;
    return 0;
}

static void check_segments(struct report *report)
{
    unsigned count = 0;
    int result = sluice_cipd_list(count_one, &count);
    if (result)
        report_add(report, "cuda-link", FINDING_NOTE,
                   PER_SYSTEM("mount a tmpfs at /dev/shm, shared between containers", ""),
                   "cipd: channels do not work: segments cannot be listed: %.400s", sluice_last_error());
    else
        report_add(report, "cuda-link", FINDING_OK, "", "%u channel%s of its protocol on this machine (cipd:NAME)",
                   count, count == 1 ? "" : "s");
}

void check_leftovers(struct report *report)
{
    uint32_t count = 0;
    if (sluice_cipd_left(&count) == SLUICE_OK && count)
        report_add(report, "cuda-link", FINDING_NOTE, "the next writer of any cipd: channel removes them",
                   "killed writers left %u file%s of 4 KiB in /dev/shm (.NAME.PID.RANDOM)", count,
                   count == 1 ? "" : "s");
}

/* ---- the barrier ---- */

void check_barrier(struct report *report, const char *name)
{
    struct sluice_cipd_barrier_info info = { .size = sizeof info };
    char age[TERM_TEXT], fix[256];
    int result = sluice_cipd_barrier_look(name, 0, &info);
    if (result == SLUICE_E_NOT_FOUND)
        return;
    if (result) {
        report_add(report, "barrier", FINDING_NOTE, "", "cuda-link's activation barrier cannot be read: %.400s",
                   sluice_last_error());
        return;
    }
    text_duration(age, info.age_ns < 0 ? -info.age_ns : info.age_ns);
    snprintf(fix, sizeof fix,
             "if no sender is starting: " PER_SYSTEM("rm /dev/shm/%.200s", "end the programs that have %.200s open"),
             info.name);
    if (!info.known)
        report_add(report, "barrier", FINDING_NOTE, fix,
                   SEGMENT_AT
                   "%.200s exists, but is not an activation barrier of cuda-link: Sluice ignores it, programs "
                   "that use "
                   "cuda-link do not",
                   info.name);
    else if (!info.count)
        report_add(report, "barrier", FINDING_OK, "",
                   "cuda-link's activation barrier is down; it held back %u frame%s so far", info.skips,
                   info.skips == 1 ? "" : "s");
    else if (info.stale)
        report_add(report, "barrier", FINDING_NOTE, fix,
                   "cuda-link's activation barrier was left up by %u sender%s, last touched %s %s by process %u: it is "
                   "stale, and ignored until another sender starts",
                   info.count, info.count == 1 ? "" : "s", age, info.age_ns < 0 ? "in the future" : "ago", info.pid);
    else
        report_add(report, "barrier", FINDING_NOTE, fix,
                   "cuda-link's activation barrier is up: %u sender%s starting, last touched %s ago by process %u; all "
                   "exporters skip their frames until it is down",
                   info.count, info.count == 1 ? " is" : "s are", age, info.pid);
}

void check_cipd(struct report *report)
{
    check_variables(report);
    check_segments(report);
    check_leftovers(report);
    check_barrier(report, NULL);
}
