/* SPDX-License-Identifier: MIT
 *
 * A stream of a Unix socket, with as much room on its way as a user may ask for.
 */
#include <sys/socket.h>

#include "ends.h"

#define ROOM (1 << 20) /* the system gives less if it allows less */

static void prepare(size_t bytes)
{
    const int room = ROOM;
    (void)bytes;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0)
        die_errno("socketpair");
    setsockopt(ends[1], SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
}

const struct peer peer = ENDS_PEER;
