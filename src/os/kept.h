/* SPDX-License-Identifier: MIT */
#ifndef SL_OS_KEPT_H
#define SL_OS_KEPT_H

#include <stdbool.h>

/* Was this mapping given to sl_os_keep_mapped? Then it is not unmapped. */
bool sl_os_is_kept(const void *address);

#endif
