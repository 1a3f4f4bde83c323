/* SPDX-License-Identifier: MIT */
#include "util/hooks.h"

#ifdef SL_TEST_HOOKS
void (*sl_kill_point_hook)(const char *name);
#else
typedef int sl_hooks_are_off; /* ISO C requires a declaration in every file */
#endif
