/* SPDX-License-Identifier: MIT
 *
 * SLUICE_FAKE_SLICES: processes whose work alternates, as on a GPU without MPS. A process with work keeps the machine
 * for one time slice at most if others wait; one without work yields at once.
 *
 * A time slice is a lock on a file: the kernel releases it when its owner is killed. A process that waits for it holds
 * another lock, so that the last owner comes after it.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "fake/internal.h"

enum { TURN, QUEUE }; /* bytes of the file */

static int file = -1;
static int64_t slice; /* 0: all work at once */
static int64_t since, left;
static bool mine;

static void lock(int byte, short type)
{
    struct flock what = { .l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1 };

    while (fcntl(file, F_OFD_SETLKW, &what) != 0)
        if (errno != EINTR)
            abort();
}

/* "US:FILE" */
void fake_turns_begin(void)
{
    const char *asked = getenv("SLUICE_FAKE_SLICES");
    char *path;

    if (!asked || !*asked)
        return;
    slice = strtol(asked, &path, 10) * 1000;
    file = *path == ':' && slice > 0 ? open(path + 1, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (file < 0) {
        fprintf(stderr, "SLUICE_FAKE_SLICES: \"%s\" is not US:FILE\n", asked);
        abort();
    }
}

void fake_turns_end(void)
{
    if (file >= 0)
        close(file); /* with the turn */
    file = -1;
    slice = left = 0;
    mine = false;
}

bool fake_turn_is_held(void)
{
    return mine;
}

int64_t fake_turn_since(void)
{
    return since;
}

int64_t fake_turn_until(void)
{
    return mine ? since + slice : INT64_MAX;
}

bool fake_turn_lasts(void)
{
    return slice == 0 || fake_now() < (mine ? since + slice : 0);
}

int64_t fake_turn_take(void)
{
    pthread_mutex_unlock(&fake_lock);
    lock(QUEUE, F_WRLCK);
    lock(TURN, F_WRLCK);
    lock(QUEUE, F_UNLCK);
    pthread_mutex_lock(&fake_lock);
    mine = true;
    since = fake_now();
    return left ? since - left : 0;
}

void fake_turn_leave(void)
{
    mine = false;
    left = fake_now();
    lock(TURN, F_UNLCK);
}
