/* SPDX-License-Identifier: MIT
 *
 * A Unix stream socket with the largest buffer that the system allows a user.
 */
#include <sys/socket.h>

#include "ends.h"

#define BUFFER (1 << 20) /* the system may allow less */

static void prepare(size_t bytes)
{
    const int buffer = BUFFER;
    (void)bytes;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0)
        die_errno("socketpair");
    setsockopt(ends[1], SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer);
}

const struct peer peer = ENDS_PEER;
