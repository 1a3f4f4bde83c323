/* SPDX-License-Identifier: MIT
 *
 * What may stand at the cursor of a command line: for the completion of shells (see completions/).
 */
#ifndef TOOLS_COMPLETE_H
#define TOOLS_COMPLETE_H

#include <stddef.h>

#include "common/args.h"

/* `words` are those behind "sluice", the last of them being typed still. Prints a line for each
 * word that may stand there: the word, a tab and what it is. The line ":files" or ":folders" says
 * that names of these may stand there too. Says nothing about what is wrong. */
void complete(const struct command *const *commands, size_t count, int word_count, char **words);

#endif
