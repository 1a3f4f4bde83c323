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
    signal(SIGPIPE, SIG_IGN); /* a reader that is gone is an error of write */
    close(ends[0]);
}

void ends_reader_open(size_t bytes)
{
    size = bytes;
    close(ends[1]);
    received = kit_memory(bytes);
}

void ends_hand(const void *own)
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

const void *ends_take(void)
{
    for (size_t have = 0; have < size;) {
        ssize_t n = read(ends[0], received + have, size - have);
        if (n <= 0)
            die_errno("read");
        have += (size_t)n;
    }
    return received;
}
