/* SPDX-License-Identifier: MIT
 *
 * What the command has on Windows: all for channels of cuda-link's protocol that needs no program of others.
 */
#include "../commands.h"

#include <string.h>

#include "../complete.h"
#include "../external.h"

const struct command *const commands[] = { &ls_command,     &info_command, &play_command,  &snap_command,
                                           &bridge_command, &top_command,  &doctor_command };
const size_t command_count = sizeof commands / sizeof commands[0];

void complete(const struct command *const *all, size_t count, int word_count, char **words)
{
    (void)all;
    (void)count;
    (void)word_count;
    (void)words;
}

bool external_find(const char *name, char *path, size_t size)
{
    (void)name;
    (void)path;
    (void)size;
    return false;
}

int external_run(char **argv)
{
    (void)argv;
    return EXIT_USAGE;
}
