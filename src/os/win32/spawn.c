/* SPDX-License-Identifier: MIT
 *
 * Programs that are run to their end: C++ compilers for kernels on the CPU, whose libraries Windows could not load from
 * memory (dl.c). So none is found.
 */
#include "os/os.h"
#include "util/result.h"

bool sl_os_runs_programs(void)
{
    return false;
}

bool sl_os_find_program(const char *name, struct sl_os_program *program)
{
    (void)name;
    (void)program;
    return false;
}

int sl_os_run(struct sl_os_run *run)
{
    (void)run;
    return sl_fail(SLUICE_E_UNSUPPORTED, "Sluice runs no programs on Windows");
}
