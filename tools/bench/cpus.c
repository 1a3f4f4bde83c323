/* SPDX-License-Identifier: MIT
 *
 * The CPUs that a bench may use, and the time that it has.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench.h"

#define QUICK 0.03 /* of a full run */

int64_t bench_time(const struct bench *bench, double seconds)
{
    return (int64_t)(seconds * (bench->quick ? QUICK : 1) * 1e9);
}

int bench_cpu(const struct bench *bench, int index)
{
    if (bench->cpu_count < 2)
        return BENCH_ANY_CPU;
    return bench->cpus[index == 0 ? 0 : 1 + (index - 1) % (bench->cpu_count - 1)];
}

/* Is it the second thread of a core whose first one has a lower number? */
static bool is_sibling(int cpu)
{
    char path[96];
    int first = cpu;
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
    FILE *file = fopen(path, "r");
    if (file && fscanf(file, "%d", &first) != 1)
        first = cpu;
    if (file)
        fclose(file);
    return first != cpu;
}

void bench_find_cpus(struct bench *bench)
{
    cpu_set_t *set = CPU_ALLOC(CPUS_MAX);
    size_t size = CPU_ALLOC_SIZE(CPUS_MAX);
    bool known = set && sched_getaffinity(0, size, set) == 0;
    for (int siblings = 0; siblings < 2; siblings++)
        for (int cpu = 0; known && cpu < CPUS_MAX; cpu++)
            if (CPU_ISSET_S((size_t)cpu, size, set) && is_sibling(cpu) == (siblings == 1))
                bench->cpus[bench->cpu_count++] = cpu;
    if (bench->cpu_count == 0)
        bench->cpu_count = 1;
    CPU_FREE(set);
    if (getloadavg(&bench->load, 1) != 1)
        bench->load = -1;
}
