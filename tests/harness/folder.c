/* SPDX-License-Identifier: MIT
 *
 * The temporary folder of a test. The runner makes and removes it, so it is removed however the test ends.
 */
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness/harness.h"

bool harness_folder_make(char *path, size_t size)
{
    const char *parent = getenv("TMPDIR");
    snprintf(path, size, "%s/sluice-test-XXXXXX", parent && *parent ? parent : "/tmp");
    return mkdtemp(path) != NULL;
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *where)
{
    (void)status;
    (void)where;
    if (kind == FTW_DNR) /* a test removed its own permissions */
        chmod(path, 0700);
    remove(path);
    return 0;
}

void harness_folder_remove(const char *path)
{
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

const char *test_dir(void)
{
    static char path[512];
    const char *folder = getenv(HARNESS_FOLDER);
    if (!folder)
        FAIL("%s is not set", HARNESS_FOLDER);
    snprintf(path, sizeof path, "%s/channels", folder);
    mkdir(path, 0700);
    setenv("SLUICE_DIR", path, 1);
    return path;
}
