/* SPDX-License-Identifier: MIT
 *
 * Channels and formats in words, and channels that are asked and opened with patience: what several commands share.
 */
#ifndef TOOLS_DESCRIBE_H
#define TOOLS_DESCRIBE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sluice/sluice.h>

#include "json.h"

#define FORMAT_TEXT 160

/* "1920x1080 rgba", "float32[4,64,64]", with " +2" if there are more arrays. */
char *text_format(char text[FORMAT_TEXT], const struct sluice_format *format);
char *text_array(char text[FORMAT_TEXT], const struct sluice_array *array);

/* Are they of the same arrays, laid out in the same way? */
bool same_format(const struct sluice_format *a, const struct sluice_format *b);

/* "in order", "newest". */
const char *mode_name(uint32_t mode);

/* "newest", "in order, may write", "newest, ahead (2 parked)". */
#define MODE_TEXT 64
char *text_mode(char text[MODE_TEXT], const struct sluice_reader_info *reader);

/* Which GPU the frames are on, "f0f1f2f3-f4f5-f6f7-f8f9-fafbfcfdfe00"; "" in host memory. */
#define UUID_TEXT 37
char *text_uuid(char text[UUID_TEXT], const struct sluice_channel_info *info);

/* "host", "cuda:0 (GPU f0f1f2f3)": by the writer's name for it, and the UUID's beginning, for another
 * program's cuda:0 may be another GPU. */
#define DEVICE_TEXT 64
char *text_device(char text[DEVICE_TEXT], const struct sluice_channel_info *info);

/* One word for a channel: is its name `live` in the registry, and what did its writer's answer
 * result in? "live", "stuck", "unfinished" (one of cuda-link's), "dead", "refused", "version", "odd". */
const char *channel_state(bool live, int result);

/* All channels of the folder, by name; the caller frees them. Returns 0 or what the library says. */
int list_channels(struct sluice_registry_entry **entries, size_t *count);

/* How long a writer is waited for that is there and does not answer: it may be stopped, or its machine does much else. */
#define WRITER_PATIENCE (3 * SLUICE_S)

/* Is this process stopped, by a signal or a debugger? As far as we can see. */
bool process_is_stopped(uint32_t pid);

/* Asks the writer of a channel that is listed with this pid. For an answer it waits until `until_ns` or until `stop` (or NULL), for that
 * of one that process_is_stopped() a moment. Returns what sluice_channel_info does. */
int query_channel(const char *name, uint32_t pid, int64_t until_ns, const atomic_bool *stop,
                struct sluice_channel_info *info, struct sluice_reader_info *readers, uint32_t capacity);

/* One array of a format as an object. */
void json_format(struct json *json, const struct sluice_format *format);

/* A set of slots, a bit each, as an array of their numbers. */
void json_slots(struct json *json, const char *key, uint64_t slots);

/* Opens a reader, trying again for `timeout_ns` while there is no such channel, and for WRITER_PATIENCE at least while its
 * writer does not answer, until a stop is asked for. Says what is wrong; returns an exit code. */
int open_reader(const char *command, const struct sluice_reader_params *params, int64_t timeout_ns,
                sluice_reader **reader);

/* Waits for a slot, until a stop is asked for: a begin or a send that finds none would count as a frame that is dropped. */
void wait_for_slot(sluice_writer *writer);

/* The array called `name`, or if that is NULL the first one that is an image, or the first. Says
 * what is wrong; returns an exit code. */
int select_array(const char *command, const struct sluice_frame *frame, const char *name,
                 struct sluice_array *array);

#endif
