/* SPDX-License-Identifier: MIT
 *
 * Figures of NVIDIA's GPUs, from the management library of its driver, found at run time. Where there is
 * none there are no figures. One thread at a time.
 */
#ifndef TOOLS_NVML_H
#define TOOLS_NVML_H

#include <stdbool.h>
#include <stdint.h>

/* Numbers that are not known are NAN. */
struct nvml_gpu {
    void *handle; /* NULL: not found */
    unsigned index; /* among all GPUs of the machine, as nvidia-smi counts them */
    char name[96], uuid[96];
    double load; /* percent of the last second or less in which it was at work */
    double memory_used, memory_total;
    double watts, celsius;
    double pcie_in, pcie_out; /* bytes a second, between the last two looks */

    uint64_t in_before, out_before;
    int64_t looked_ns; /* 0: not yet */
};

/* Finds the GPU, or the MIG instance, of this UUID. */
bool nvml_find(const unsigned char uuid[16], struct nvml_gpu *gpu);

/* The same by its UUID in words: "GPU-..." or "MIG-...". */
bool nvml_find_by_uuid(const char *uuid, struct nvml_gpu *gpu);

/* Reads its figures: under a millisecond. */
void nvml_read(struct nvml_gpu *gpu);

/* Is confidential computing on? 1, 0, or -1 where that cannot be told. */
int nvml_confidential(void);

void nvml_close(void);

#endif
