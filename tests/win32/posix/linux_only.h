/* SPDX-License-Identifier: MIT
 *
 * What tests ask of Linux that Windows has not, included into each: a test that comes to one of these calls is skipped.
 */
#ifndef WIN32_LINUX_ONLY_H
#define WIN32_LINUX_ONLY_H

#include <string.h>

#include <sluice/sluice.h>

#include "harness/test.h"
#include "posix.h"

#define SIGKILL 9 /* child_kill has one way */

static inline int linux_call(const char *why)
{
    SKIP("%s", why);
}

static inline FILE *linux_fopen(const char *path, const char *mode)
{
    if (strncmp(path, "/dev/shm/", 9) == 0)
        SKIP("a section on Windows is no file");
    return posix_fopen(path, mode);
}

#define geteuid()                 1000 /* not root */
#define fork()                    linux_call("Windows does not fork")
#define unlink(path)              ((void)(path), linux_call("a section on Windows keeps its name"))
#define sluice_reader_fd(reader)  ((void)(reader), linux_call("Windows polls no descriptors"))
#define waitpid(pid, status, how) ((void)(pid), (void)(status), linux_call("Windows does not fork"))
#define kill(pid, number)         ((void)(pid), linux_call("Windows has no signals"))
#define unsetenv(name)            setenv(name, NULL, 1)
#undef fopen
#define fopen linux_fopen

#endif
