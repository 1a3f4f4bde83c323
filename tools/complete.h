/* SPDX-License-Identifier: MIT
 *
 * Completion of command lines, for the scripts in completions/.
 */
#ifndef TOOLS_COMPLETE_H
#define TOOLS_COMPLETE_H

#include <stddef.h>

#include "common/args.h"

/* `words` follow "sluice"; the last one is being typed. Prints a line for each candidate: the word, a tab and its
 * description. A line ":files" or ":folders" means that file or folder names fit too. Prints no errors. */
void complete(const struct command *const *commands, size_t count, int word_count, char **words);

#endif
