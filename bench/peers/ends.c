/* SPDX-License-Identifier: MIT */
#include "ends.h"

#include <signal.h>
#include <unistd.h>

int ends[2];
static size_t size;
static char *received;

void ends_writer_open(size_t bytes)
{
    size = bytes;
    signal(SIGPIPE, SIG_IGN); /* write reports a reader that has died */
    close(ends[0]);
}

void ends_reader_open(size_t bytes)
{
    size = bytes;
    close(ends[1]);
    received = own_memory(bytes);
}

void ends_send(const void *own)
{
    const char *at = own;
    for (size_t left = size; left > 0;) {
        ssize_t n = write(ends[1], at, left);
        if (n < 0)
            die_errno("write");
        at += n;
        left -= (size_t)n;
    }
}

const void *ends_receive(void)
{
    for (size_t have = 0; have < size;) {
        ssize_t n = read(ends[0], received + have, size - have);
        if (n <= 0)
            die_errno("read");
        have += (size_t)n;
    }
    return received;
}
