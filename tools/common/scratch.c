/* SPDX-License-Identifier: MIT
 *
 * The temporary folder.
 */
#include "scratch.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool scratch_enter(struct scratch *scratch)
{
    const char *temporary = getenv("TMPDIR"), *old = getenv("SLUICE_DIR");
    snprintf(scratch->folder, sizeof scratch->folder, "%.200s/sluice-XXXXXX",
             temporary && temporary[0] ? temporary : "/tmp");
    if (!mkdtemp(scratch->folder))
        return false;
    scratch->old = old ? strdup(old) : NULL;
    setenv("SLUICE_DIR", scratch->folder, 1);
    return true;
}

void scratch_leave(struct scratch *scratch)
{
    DIR *dir = opendir(scratch->folder);
    struct dirent *entry;
    while (dir && (entry = readdir(dir)))
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            unlinkat(dirfd(dir), entry->d_name, 0);
    if (dir)
        closedir(dir);
    rmdir(scratch->folder);
    if (scratch->old)
        setenv("SLUICE_DIR", scratch->old, 1);
    else
        unsetenv("SLUICE_DIR");
    free(scratch->old);
    scratch->old = NULL;
}
