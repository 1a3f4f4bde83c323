/* SPDX-License-Identifier: MIT
 *
 * Helpers for channels of cuda-link's protocol, "cipd:NAME".
 */
#ifndef TOOLS_CIPD_H
#define TOOLS_CIPD_H

#include <stdbool.h>
#include <stdint.h>

#include <sluice/sluice.h>

#include "args.h"

/* True for "cipd:NAME". */
bool is_cipd(const char *name);

/* The option --undeclared: a row for a table of options, and its parser. The parser prints what is wrong. */
#define UNDECLARED_OPTION \
    { \
        'u', "undeclared", "rgba|bgra", "byte order of a cipd: channel that does not declare it" \
    }
bool cipd_parse_order(const struct args *args, uint32_t *order);

/* Fills in the parameters of a reader of "cipd:NAME": cuda-link's environment variables, the newest frame, copied so
 * that it is whole, and reconnection to new writers. params->cipd points to `cipd` until the reader is opened. For
 * other channels it only checks that --undeclared was not given. Prints what is wrong; returns an exit code. */
int cipd_init_reader(const char *command, struct sluice_reader_params *params, struct sluice_cipd_reader_params *cipd,
                     uint32_t undeclared);

/* The same for a writer, from cuda-link's environment variables. Does nothing for other channels. */
int cipd_init_writer(const char *command, struct sluice_writer_params *params, struct sluice_cipd_writer_params *cipd);

/* The commands that use one of cuda-link's environment variables, such as "play bridge"; "" for none. */
const char *cipd_commands_using(const char *variable);

/* Like sluice_channel_info for "cipd:NAME"; SLUICE_NOT_READY if its segment is not finished. Stores the reason if it
 * returns anything but SLUICE_OK. */
int cipd_channel_info(const char *name, int64_t timeout_ns, struct sluice_channel_info *info, char *reason,
                      size_t size);

/* "running", "stalled", ... */
const char *cipd_state_name(uint32_t state);

/* True if frames have four uint8 components, whose order matters. */
bool cipd_has_order(const struct sluice_cipd_info *info);

/* "1920x1080x4 uint8 bgra"; `text` has FORMAT_TEXT bytes. */
char *cipd_text_frame(char *text, const struct sluice_cipd_info *info);

#endif
