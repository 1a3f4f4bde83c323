/* SPDX-License-Identifier: MIT
 *
 * A temporary folder for channels that only test or measure something.
 */
#ifndef TOOLS_SCRATCH_H
#define TOOLS_SCRATCH_H

#include <stdbool.h>

struct scratch {
    char folder[256];
    char *old; /* the previous SLUICE_DIR, or NULL */
};

/* Creates the folder and sets SLUICE_DIR to it; false if that fails. */
bool scratch_enter(struct scratch *scratch);

/* Removes the folder with its files, and restores SLUICE_DIR. */
void scratch_leave(struct scratch *scratch);

#endif
