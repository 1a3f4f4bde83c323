/* SPDX-License-Identifier: MIT
 *
 * sluice info: the part for channels of cuda-link's protocol.
 */
#ifndef TOOLS_INFO_H
#define TOOLS_INFO_H

#include <stdbool.h>

/* Prints all that is known of "cipd:NAME". Returns an exit code. */
int info_cipd(const char *command, const char *channel, bool json);

#endif
