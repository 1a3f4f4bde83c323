/* SPDX-License-Identifier: MIT
 *
 * Frames for the CPU to read: in host memory in place, on a GPU as a copy.
 */
#ifndef TOOLS_READBACK_H
#define TOOLS_READBACK_H

#include <stdbool.h>
#include <stdint.h>

#include <sluice/sluice.h>

/* Initialise with zeros. */
struct readback {
    bool copied;     /* the last frame is on a GPU, and was copied to `memory` */
    char device[64]; /* the GPU that `memory` is pinned for */
    struct sluice_device handle;
    uint8_t *memory;
    uint64_t size;
};

/* Copies the frame if it is on a GPU. Returns a result of the library. */
int readback_fetch(struct readback *readback, sluice_reader *reader, const struct sluice_frame *frame);

/* Sets array->data to where the CPU can read it, until the next frame is fetched or this one is released. */
void readback_map(const struct readback *readback, struct sluice_array *array);

void readback_close(struct readback *readback);

#endif
