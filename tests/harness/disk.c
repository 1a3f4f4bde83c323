/* SPDX-License-Identifier: MIT
 *
 * A small file system for one test.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "harness/harness.h"

static bool write_to(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool good = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

    if (fd >= 0)
        close(fd);
    return good;
}

/* Root needs a mount namespace; another user also needs a user namespace, in which it is root. */
static bool own_mounts(void)
{
    unsigned uid = getuid(), gid = getgid();
    char map[64];

    if (unshare(CLONE_NEWNS) != 0) {
        if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0)
            return false;
        snprintf(map, sizeof map, "0 %u 1", uid);
        bool good = write_to("/proc/self/uid_map", map) && write_to("/proc/self/setgroups", "deny");
        snprintf(map, sizeof map, "0 %u 1", gid);
        if (!good || !write_to("/proc/self/gid_map", map))
            return false;
    }
    return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
}

void test_small_disk(const char *folder, const char *options)
{
    static bool ours;

    if (!ours && !own_mounts())
        SKIP("a mount namespace is not permitted here: %s", strerror(errno));
    ours = true;
    if (mount("none", folder, "tmpfs", 0, options) != 0)
        SKIP("a tmpfs over %s is not permitted here: %s", folder, strerror(errno));
}
