/* SPDX-License-Identifier: MIT
 *
 * The table of subcommands, which differs between systems.
 */
#ifndef TOOLS_COMMANDS_H
#define TOOLS_COMMANDS_H

#include "common/args.h"

#define MOST_COMMANDS 16

extern const struct command *const commands[];
extern const size_t command_count;

#endif
