/* SPDX-License-Identifier: MIT
 *
 * What differs between systems in messages. Windows' words are in win32/posix.h.
 */
#ifndef TOOLS_PLACES_H
#define TOOLS_PLACES_H

#ifndef SEGMENT_AT
#define SEGMENT_AT  "/dev/shm/" /* stands before the name of a segment */
#define BARRIER_FIX "if no sender is starting: rm /dev/shm/%.200s"
#define LIST_FIX    "mount a tmpfs at /dev/shm, shared between containers"
#define IPC_FIX     "use channels of Sluice's own protocol"
#define TRY_CHANNEL "camera"
#define TRY_LINES \
    "  sluice play test camera &\n" \
    "  sluice ls\n" \
    "  sluice snap camera out.png\n" \
    "  kill %1\n"
#endif

#endif
