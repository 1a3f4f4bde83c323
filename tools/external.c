/* SPDX-License-Identifier: MIT
 *
 * Finds and runs programs named sluice-NAME.
 */
#include "external.h"

#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/args.h"
#include "common/child.h"
#include "common/term.h"

#define PREFIX   "sluice-"
#define MAX_NAME 64

/* The folder of this command, resolved: the package that contains it may be reached by a link. */
static bool own_folder(char folder[PATH_MAX])
{
    ssize_t size = readlink("/proc/self/exe", folder, PATH_MAX - 1);
    if (size <= 0)
        return false;
    folder[size] = 0;
    *strrchr(folder, '/') = 0;
    return true;
}

bool external_find(const char *name, char *path, size_t size)
{
    char folder[PATH_MAX], program[sizeof PREFIX + MAX_NAME];
    if (!name[0] || name[0] == '-' || strchr(name, '/') || strlen(name) > MAX_NAME)
        return false;
    snprintf(program, sizeof program, PREFIX "%s", name);
    if (own_folder(folder) && (size_t)snprintf(path, size, "%s/%s", folder, program) < size && access(path, X_OK) == 0)
        return true;
    return child_find(program, path, size);
}

int external_run(char **argv)
{
    char path[PATH_MAX];
    if (!external_find(argv[0], path, sizeof path))
        return EXIT_USAGE;
    signal(SIGXFSZ, SIG_DFL); /* what is ignored here would be ignored there */
    argv[0] = path;
    execv(path, argv);
    say_error(NULL, "cannot run %s: %s.", path, strerror(errno));
    return EXIT_FAILED;
}

static void list_folder(const char *folder, int length, void (*each)(const char *name, void *context), void *context)
{
    char pattern[PATH_MAX];
    glob_t found;
    int size = snprintf(pattern, sizeof pattern, "%.*s/" PREFIX "*", length, folder);
    if (length == 0 || size >= PATH_MAX || glob(pattern, GLOB_NOESCAPE, NULL, &found) != 0)
        return;
    for (size_t i = 0; i < found.gl_pathc; i++)
        if (access(found.gl_pathv[i], X_OK) == 0)
            each(found.gl_pathv[i] + length + sizeof PREFIX, context);
    globfree(&found);
}

void external_list(void (*each)(const char *name, void *context), void *context)
{
    char own[PATH_MAX];
    if (own_folder(own))
        list_folder(own, (int)strlen(own), each, context);
    for (const char *at = getenv("PATH"); at && *at; at += strcspn(at, ":"), at += *at == ':')
        list_folder(at, (int)strcspn(at, ":"), each, context);
}
