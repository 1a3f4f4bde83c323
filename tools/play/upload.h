/* SPDX-License-Identifier: MIT
 *
 * Frames made by the CPU: in their slot, or for a GPU in pinned memory that is sent to the slot.
 */
#ifndef TOOLS_UPLOAD_H
#define TOOLS_UPLOAD_H

#include <stdbool.h>
#include <stdint.h>

#include <sluice/sluice.h>

struct upload {
    sluice_writer *writer;
    bool on_gpu; /* the slots are on a GPU; the members below are for that case */
    struct sluice_device device;
    uint8_t *memory;
    uint64_t size;
    struct sluice_ticket ticket; /* of the last frame that was sent */
    bool laid_out;               /* `arrays` point into `memory` */
    uint32_t count;
    struct sluice_array arrays[SLUICE_MAX_ARRAYS]; /* of the frame being made */
    uint8_t meta[SLUICE_MAX_META];
};

/* All functions return a result of the library. `device` NULL is host memory. The caller closes the writer. */
int upload_open(struct upload *upload, sluice_writer *writer, const char *device);

/* Like sluice_writer_begin and _commit. For a GPU upload_commit chooses the slot; if it returns SLUICE_NO_SLOT, it may
 * be called again. */
int upload_begin(struct upload *upload, struct sluice_frame *frame);
int upload_commit(struct upload *upload, struct sluice_frame *frame);
void upload_cancel(struct upload *upload, struct sluice_frame *frame);

/* Like sluice_frame_array and _array_at. */
int upload_array(struct upload *upload, const struct sluice_frame *frame, const char *name, struct sluice_array *array);
int upload_array_at(struct upload *upload, const struct sluice_frame *frame, uint32_t index,
                    struct sluice_array *array);

/* Gives the array with the name of `want` the same shape; call it before upload_array. SLUICE_E_CAPACITY if it does not
 * fit the slot; on a GPU upload_commit allocates larger slots instead. */
int upload_reshape(struct upload *upload, struct sluice_frame *frame, const struct sluice_array *want);

/* Call it before closing the writer. */
void upload_close(struct upload *upload);

#endif
