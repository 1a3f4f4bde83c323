/* SPDX-License-Identifier: MIT
 *
 * The bare limit of python_kernels.py, which compiles this: launches by the driver from C, in a process of Python.
 */
#include <stdint.h>
#include <time.h>

typedef int launch_function(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                            unsigned bz, unsigned shared, void *stream, void **arguments, void **extra);

static int64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* Launches `count` times; returns the ns that it took, or the driver's code, negated. */
__attribute__((visibility("default"))) int64_t bench_launch(launch_function *launch, void *function, void *stream,
                                                            void **arguments, int count);
int64_t bench_launch(launch_function *launch, void *function, void *stream, void **arguments, int count)
{
    int64_t start = now();
    for (int i = 0; i < count; i++) {
        int code = launch(function, 1, 1, 1, 32, 1, 1, 0, stream, arguments, 0);
        if (code != 0)
            return -code;
    }
    return now() - start;
}
