/* SPDX-License-Identifier: MIT
 *
 * Where the CPU makes a frame before it is published: in its slot, or, if slots are on a GPU, in host
 * memory from which it is sent.
 */
#ifndef TOOLS_UPLOAD_H
#define TOOLS_UPLOAD_H

#include <stdbool.h>
#include <stdint.h>

#include <sluice/sluice.h>

struct slate {
    sluice_writer *writer;
    bool away; /* slots are on a GPU; all below is for that */
    struct sluice_device device;
    uint8_t *memory;
    uint64_t size;
    struct sluice_ticket ticket; /* of the frame sent last */
    bool placed;
    uint32_t count;
    struct sluice_array arrays[SLUICE_MAX_ARRAYS]; /* of the frame being made */
    uint8_t meta[SLUICE_MAX_META];
};

/* All return 0 or what the library says. `device`: NULL is the host. The writer stays the caller's. */
int slate_open(struct slate *slate, sluice_writer *writer, const char *device);

/* As sluice_writer_begin by the policy; for a GPU a slot is looked for by slate_commit instead, which
 * may say SLUICE_NO_SLOT: then it can be tried again. */
int slate_begin(struct slate *slate, struct sluice_frame *frame);
int slate_commit(struct slate *slate, struct sluice_frame *frame);
void slate_cancel(struct slate *slate, struct sluice_frame *frame);

/* As sluice_frame_array and _array_at. */
int slate_array(struct slate *slate, const struct sluice_frame *frame, const char *name,
                struct sluice_array *array);
int slate_array_at(struct slate *slate, const struct sluice_frame *frame, uint32_t index,
                   struct sluice_array *array);

/* Gives the array of its name the shape of `want`, before any is asked for. SLUICE_E_CAPACITY if slots
 * are too small for it; on a GPU slate_commit makes larger ones. */
int slate_shape(struct slate *slate, struct sluice_frame *frame, const struct sluice_array *want);

/* Before the writer is closed. */
void slate_close(struct slate *slate);

#endif
