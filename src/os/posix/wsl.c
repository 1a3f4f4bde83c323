/* SPDX-License-Identifier: MIT
 *
 * Does this Linux run under Windows (WSL2), with Windows' GPU drivers below?
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "os/os.h"

/* The kernel's version has "...-microsoft-standard-WSL2", except for custom builds. */
static bool built_for_it(const char *root)
{
    char path[512], line[256] = "";

    snprintf(path, sizeof path, "%s/proc/version", root);
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    bool read = fgets(line, sizeof line, file) != NULL;
    fclose(file);
    return read && strcasestr(line, "microsoft");
}

bool sl_os_holds_work_back(void)
{
    return false;
}

bool sl_os_wsl(const char *root)
{
    char path[512];

    snprintf(path, sizeof path, "%s/dev/dxg", root);
    return access(path, F_OK) == 0 || built_for_it(root);
}
