/* SPDX-License-Identifier: MIT
 *
 * Commands that are programs of their own: `sluice NAME` runs `sluice-NAME`, as installed with the Python package, say.
 */
#ifndef TOOLS_EXTERNAL_H
#define TOOLS_EXTERNAL_H

#include <stdbool.h>
#include <stddef.h>

/* Looks for sluice-NAME beside this command, then in PATH. Stores its path. */
bool external_find(const char *name, char *path, size_t size);

/* Runs sluice-NAME in place of this process: argv[0] is NAME. Returns EXIT_USAGE if there is no such program,
 * EXIT_FAILED, with a message, if it cannot be run. */
int external_run(char **argv);

/* Calls `each` with the NAME of every sluice-NAME, perhaps several times. */
void external_list(void (*each)(const char *name, void *context), void *context);

#endif
