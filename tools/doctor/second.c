/* SPDX-License-Identifier: MIT
 *
 * The second process of the doctor: this program, as `sluice snap`.
 */
#include <stdlib.h>
#include <string.h>

#include "../common/child.h"
#include "doctor.h"

bool second_snap(const char *channel, const char *path, char *error, size_t size)
{
    struct child_args line = { .count = 0 };
    struct child child;
    char *name = strdup(channel), *out = strdup(path);
    bool done = false;
    if (name && out) {
        child_add(&line, "/proc/self/exe", "snap", name, out, "--timeout", "10", NULL);
        int failure = child_start(&child, line.list, CHILD_STDERR | CHILD_KILL);
        if (failure) {
            snprintf(error, size, "a second process cannot be started: %s", strerror(failure));
        } else {
            done = child_finish(&child, 30 * SLUICE_S);
            child_last_line(&child, error, size);
        }
    }
    free(name);
    free(out);
    return done;
}
