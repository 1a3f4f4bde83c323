/* SPDX-License-Identifier: MIT
 *
 * Channels and formats in words, and readers that open with patience: what several commands share.
 */
#ifndef TOOLS_DESCRIBE_H
#define TOOLS_DESCRIBE_H

#include <stddef.h>
#include <stdint.h>

#include <sluice/sluice.h>

#include "json.h"

#define FORMAT_TEXT 160

/* "1920x1080 rgba", "float32[4,64,64]", with " +2" if there are more arrays. */
char *text_format(char text[FORMAT_TEXT], const struct sluice_format *format);
char *text_array(char text[FORMAT_TEXT], const struct sluice_array *array);

/* "in order", "newest". */
const char *mode_name(uint32_t mode);

/* One array of a format as an object. */
void json_format(struct json *json, const struct sluice_format *format);

/* Opens a reader, trying again for `timeout_ns` while there is no such channel, until a stop is
 * asked for. Says what is wrong; returns an exit code. */
int open_reader(const char *command, const struct sluice_reader_params *params, int64_t timeout_ns,
                sluice_reader **reader);

/* The array called `name`, or if that is NULL the first one that is an image, or the first. Says
 * what is wrong; returns an exit code. */
int choose_array(const char *command, const struct sluice_frame *frame, const char *name,
                 struct sluice_array *array);

#endif
