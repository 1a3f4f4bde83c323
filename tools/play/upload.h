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

struct upload {
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
int upload_open(struct upload *upload, sluice_writer *writer, const char *device);

/* As sluice_writer_begin by the policy; for a GPU a slot is looked for by upload_commit instead, which
 * may say SLUICE_NO_SLOT: then it can be tried again. */
int upload_begin(struct upload *upload, struct sluice_frame *frame);
int upload_commit(struct upload *upload, struct sluice_frame *frame);
void upload_cancel(struct upload *upload, struct sluice_frame *frame);

/* As sluice_frame_array and _array_at. */
int upload_array(struct upload *upload, const struct sluice_frame *frame, const char *name,
                struct sluice_array *array);
int upload_array_at(struct upload *upload, const struct sluice_frame *frame, uint32_t index,
                   struct sluice_array *array);

/* Gives the array of its name the shape of `want`, before any is asked for. SLUICE_E_CAPACITY if slots
 * are too small for it; on a GPU upload_commit makes larger ones. */
int upload_reshape(struct upload *upload, struct sluice_frame *frame, const struct sluice_array *want);

/* Before the writer is closed. */
void upload_close(struct upload *upload);

#endif
