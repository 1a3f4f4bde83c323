/* SPDX-License-Identifier: MIT
 *
 * sluice info: channels of cuda-link's protocol.
 */
#ifndef TOOLS_INFO_H
#define TOOLS_INFO_H

#include <stdbool.h>

/* Prints what the segment of "cipd:NAME" contains. Returns an exit code. */
int info_cipd(const char *command, const char *channel, bool json);

#endif
