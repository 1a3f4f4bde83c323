/* SPDX-License-Identifier: MIT
 *
 * Named points in begin, commit, acquire and release at which a test may kill the process. Only compiled in
 * with SL_TEST_HOOKS.
 */
#ifndef SL_UTIL_HOOKS_H
#define SL_UTIL_HOOKS_H

#ifdef SL_TEST_HOOKS
/* Called at each point; tests set it. May not return. */
extern void (*sl_kill_point_hook)(const char *name);
#define SL_KILL_POINT(name) \
    do { \
        if (sl_kill_point_hook) \
            sl_kill_point_hook(name); \
    } while (0)
#else
#define SL_KILL_POINT(name) ((void)0)
#endif

#endif
