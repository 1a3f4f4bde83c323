/* SPDX-License-Identifier: MIT
 *
 * Words that differ between systems: the first is for Linux. win32/posix.h takes the second.
 */
#ifndef TOOLS_PER_SYSTEM_H
#define TOOLS_PER_SYSTEM_H

#ifndef PER_SYSTEM
#define PER_SYSTEM(posix, win32) posix
#endif

/* Before the name of a segment. */
#define SEGMENT_AT PER_SYSTEM("/dev/shm/", "section ")

#endif
