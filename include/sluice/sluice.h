/* SPDX-License-Identifier: MIT
 *
 * Sluice hands frames (images, tensors, any arrays) from one process to others on the same machine
 * without copying them. One writer, any number of readers, a channel.
 *
 *     writer:  sluice_writer_open, then per frame begin, fill, commit
 *     reader:  sluice_reader_open, then per frame acquire, use, release
 *
 * This header includes all others; they are the reference manual.
 */
#ifndef SLUICE_SLUICE_H
#define SLUICE_SLUICE_H

#include <sluice/base.h>
#include <sluice/cipd.h>
#include <sluice/convert.h>
#include <sluice/device.h>
#include <sluice/format.h>
#include <sluice/frame.h>
#include <sluice/graph.h>
#include <sluice/kernel.h>
#include <sluice/reader.h>
#include <sluice/registry.h>
#include <sluice/timers.h>
#include <sluice/writer.h>

#endif
