/* SPDX-License-Identifier: MIT
 *
 * Records of long runs: one JSON object in a file, the source of the figures in the documents.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "harness/harness.h"

static const char *from_environment(const char *name)
{
    const char *text = getenv(name);
    return text ? text : "";
}

FILE *test_record(const char *variable)
{
    const char *path = from_environment(variable);
    struct utsname system = { .sysname = "?" };
    FILE *file = *path ? fopen(path, "we") : stderr;

    if (!file)
        FAIL("the record %s cannot be written", path);
    uname(&system);
    fprintf(file, "{\"machine\":\"%s %s %s, %ld processors\",\n", system.sysname, system.release, system.machine,
            sysconf(_SC_NPROCESSORS_ONLN));
    fprintf(file, "\"commit\":\"%s\",\n\"command\":\"%s\",\n", from_environment("SLUICE_COMMIT"),
            from_environment("SLUICE_COMMAND"));
    return file;
}

void test_record_end(FILE *file)
{
    fputs("}\n", file);
    if (file != stderr && fclose(file) != 0)
        FAIL("a record could not be written to its end");
}
