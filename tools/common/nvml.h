/* SPDX-License-Identifier: MIT
 *
 * Metrics of NVIDIA GPUs, from the driver's management library (NVML), which is loaded at run time. Not thread-safe.
 */
#ifndef TOOLS_NVML_H
#define TOOLS_NVML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Unknown numbers are NAN. */
struct nvml_gpu {
    void *handle;   /* NULL: not found */
    unsigned index; /* as in nvidia-smi */
    char name[96], uuid[96];
    double load; /* percent of the last second or less in which the GPU was busy */
    double memory_used, memory_total;
    double watts, celsius;
    double pcie_in, pcie_out; /* bytes per second between the last two calls of nvml_read */
    uint64_t in_before, out_before;
    int64_t read_ns; /* 0: not yet read */
};

/* Finds the GPU or MIG instance with this UUID. */
bool nvml_find(const unsigned char uuid[16], struct nvml_gpu *gpu);

/* The same for a UUID as text, "GPU-..." or "MIG-...". */
bool nvml_find_by_uuid(const char *uuid, struct nvml_gpu *gpu);

/* Updates the metrics; takes less than a millisecond. */
void nvml_read(struct nvml_gpu *gpu);

/* 1 if confidential computing is on, 0 if not, -1 if unknown. */
int nvml_confidential(void);

/* The release of the driver, such as "580.95.05"; false if it is unknown. */
bool nvml_driver(char *text, size_t size);

void nvml_close(void);

#endif
