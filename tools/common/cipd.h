/* SPDX-License-Identifier: MIT
 *
 * What commands that read or write channels do for those of cuda-link's protocol.
 */
#ifndef TOOLS_CIPD_H
#define TOOLS_CIPD_H

#include <stdbool.h>
#include <stdint.h>

#include <sluice/sluice.h>

#include "args.h"

/* Is it the name of one? */
bool is_cipd(const char *name);

/* The option --undeclared, as a row of a table and as its value; that says what is wrong with it. */
#define UNDECLARED_OPTION { 'u', "undeclared", "rgba|bgra", "cipd: channel: order of 4 bytes that it does not tell" }
bool cipd_parse_order(const struct args *args, uint32_t *order);

/* If params->name is one's: what cuda-link's environment variables say, the newest frame, frames that are whole, and
 * writers as they come and go. params->cipd then is `cipd`, which must stay until the reader was opened. Else
 * only looks at `undeclared` (enum sluice_cipd_order). Says what is wrong; returns an exit code. */
int cipd_init_reader(const char *command, struct sluice_reader_params *params, struct sluice_cipd_reader_params *cipd,
                uint32_t undeclared);

/* If params->name is one's: what cuda-link's environment variables say. params->cipd then is `cipd`, which must stay until the
 * writer was opened. Says what is wrong; returns an exit code. */
int cipd_init_writer(const char *command, struct sluice_writer_params *params, struct sluice_cipd_writer_params *cipd);

/* The commands that honour one of cuda-link's environment variables, as "play bridge"; "" for none. */
const char *cipd_commands_using(const char *variable);

/* As sluice_channel_info of "cipd:NAME", and SLUICE_NOT_READY for one that is not finished; where it is not 0 the
 * reason is said. */
int cipd_channel_info(const char *name, int64_t timeout_ns, struct sluice_channel_info *info, char *reason, size_t size);

/* "running", "stalled", ... */
const char *cipd_state_name(uint32_t state);

/* Four uint8, of which the order matters? */
bool cipd_has_order(const struct sluice_cipd_info *info);

/* Says that the array cannot be shown, and what to do `instead`; of four bytes without an order that they may be given one. */
void say_not_image(const char *command, const char *channel, const struct sluice_array *array, const char *instead);

/* "1920x1080x4 uint8 bgra"; `text` has FORMAT_TEXT bytes. */
char *cipd_text_frame(char *text, const struct sluice_cipd_info *info);

#endif
