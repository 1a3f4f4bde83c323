/* SPDX-License-Identifier: MIT
 *
 * A slot's memory, as GstMemory. Decoders keep a picture mapped while they refer to it, and GStreamer copies memory
 * that is mapped for writing when a buffer is pushed. So a "copy" of it, then, is the same memory, read-only; who wants
 * to write to that gets a real copy.
 */
#ifndef GST_SLUICE_MEMORY_H
#define GST_SLUICE_MEMORY_H

#include <gst/gst.h>

/* `free` is called when the last memory with `user` is freed, on any thread. */
GstMemory *gst_sluice_memory_new(void *data, gsize size, gpointer user, void (*free)(gpointer user));

/* `user` of such a memory, whole; NULL for any other. */
gpointer gst_sluice_memory_user(GstMemory *memory);

#endif
