/* SPDX-License-Identifier: MIT
 *
 * A folder of its own for a command that opens channels to try or to measure something.
 */
#ifndef TOOLS_SCRATCH_H
#define TOOLS_SCRATCH_H

#include <stdbool.h>

struct scratch {
    char folder[256];
    char *old; /* SLUICE_DIR as it was */
};

/* Makes a temporary folder, and SLUICE_DIR names it; false if none can be made. */
bool scratch_enter(struct scratch *scratch);

/* Removes the folder with all that is in it, and sets SLUICE_DIR back. */
void scratch_leave(struct scratch *scratch);

#endif
