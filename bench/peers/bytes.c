/* SPDX-License-Identifier: MIT */
#include "bytes.h"

#include <string.h>

/* The first word is the sequence, all others are this byte eight times. */
static unsigned char pattern(uint64_t sequence)
{
    return (unsigned char)(sequence * 37 + 1);
}

void bytes_fill(void *frame, size_t bytes, uint64_t sequence)
{
    memset(frame, pattern(sequence), bytes);
    memcpy(frame, &sequence, sizeof sequence);
}

bool bytes_check(const void *frame, size_t bytes, uint64_t sequence)
{
    const uint64_t word = UINT64_C(0x0101010101010101) * pattern(sequence);
    const char *at = frame;
    uint64_t first, next, wrong = 0;
    memcpy(&first, at, sizeof first);
    for (size_t i = sizeof first; i < bytes; i += sizeof next) {
        memcpy(&next, at + i, sizeof next); /* a frame may begin anywhere */
        wrong |= next ^ word;
    }
    return first == sequence && wrong == 0;
}
