/* SPDX-License-Identifier: MIT
 *
 * Channels and formats as text and JSON; querying and opening channels, with retries.
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

/* "1920x1080 rgba", "float32[4,64,64]"; with " +2" if there are two more arrays. */
char *text_format(char text[FORMAT_TEXT], const struct sluice_format *format);
char *text_array(char text[FORMAT_TEXT], const struct sluice_array *array);

/* True if both have the same arrays in the same layout. */
bool same_format(const struct sluice_format *a, const struct sluice_format *b);

/* "in order", "newest". */
const char *mode_name(uint32_t mode);

/* "newest", "in order, may write", "newest, ahead (2 parked)". */
#define MODE_TEXT 64
char *text_mode(char text[MODE_TEXT], const struct sluice_reader_info *reader);

/* The UUID of the frames' GPU, "f0f1f2f3-f4f5-f6f7-f8f9-fafbfcfdfe00"; "" for host memory. */
#define UUID_TEXT 37
char *text_uuid(char text[UUID_TEXT], const struct sluice_channel_info *info);

/* "host", "cuda:0 (GPU f0f1f2f3)": the writer's name for the device and the start of its UUID, since "cuda:0" may be
 * another GPU in another program. */
#define DEVICE_TEXT 64
char *text_device(char text[DEVICE_TEXT], const struct sluice_channel_info *info);

/* The state of a channel, from its entry in the registry (`live`) and the result of sluice_channel_info: "live",
 * "stuck", "unfinished" (cipd: only), "dead", "refused", "version" or "odd". */
const char *channel_state(bool live, int result);

/* Lists the channels in the folder, sorted by name; the caller frees them. Returns a result of the library. */
int list_channels(struct sluice_registry_entry **entries, size_t *count);

/* False on a system that has cipd: channels alone. */
bool has_own_channels(void);
void print_no_channels(void);

/* How long to wait for the answer of a writer, which may be stopped or on a busy machine. */
#define WRITER_TIMEOUT (3 * SLUICE_S)

/* True if the process is stopped by a signal or a debugger; false also if that is unknown. */
bool process_is_stopped(uint32_t pid);

/* Like sluice_channel_info, for a channel listed with this pid: waits for the answer until `until_ns`, or until *stop
 * if that is not NULL, but only briefly if the writer is stopped. */
int query_channel(const char *name, uint32_t pid, int64_t until_ns, const atomic_bool *stop,
                  struct sluice_channel_info *info, struct sluice_reader_info *readers, uint32_t capacity);

/* A format as a JSON object. */
void json_format(struct json *json, const struct sluice_format *format);

/* A bit set of slots as a JSON array of their numbers. */
void json_slots(struct json *json, const char *key, uint64_t slots);

/* Opens a reader. Waits up to `timeout_ns` for the channel, and at least WRITER_TIMEOUT for the answer of its writer,
 * but not longer than until stop_asked(). Prints what is wrong; returns an exit code. */
int open_reader(const char *command, const struct sluice_reader_params *params, int64_t timeout_ns,
                sluice_reader **reader);

/* Waits for a free slot, until stop_asked(). Without waiting, begin and send would count a dropped frame. */
void wait_for_slot(sluice_writer *writer);

/* Selects the array called `name`; if that is NULL, the first image or else the first array. Prints what is wrong;
 * returns an exit code. */
int select_array(const char *command, const struct sluice_frame *frame, const char *name, struct sluice_array *array);

#endif
