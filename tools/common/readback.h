/* SPDX-License-Identifier: MIT
 *
 * Frames where the CPU can read them: in host memory as they lie, on a GPU as a copy.
 */
#ifndef TOOLS_READBACK_H
#define TOOLS_READBACK_H

#include <stdbool.h>
#include <stdint.h>

#include <sluice/sluice.h>

/* All zero at first. */
struct readback {
    bool copied;      /* the frame taken last lies on a GPU */
    char device[64];  /* that `memory` was made for */
    struct sluice_device handle;
    uint8_t *memory;
    uint64_t size;
};

/* Copies a frame that lies on a GPU; does nothing for others. Returns 0 or what the library says. */
int readback_fetch(struct readback *readback, sluice_reader *reader, const struct sluice_frame *frame);

/* Points an array of the frame taken last at where the CPU reads it, until the next one is taken, or
 * this one is released. */
void readback_map(const struct readback *readback, struct sluice_array *array);

void readback_close(struct readback *readback);

#endif
