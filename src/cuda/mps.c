/* SPDX-License-Identifier: MIT
 *
 * NVIDIA's multi-process service (MPS): is it running, and is this process its client?
 */
#include <stdio.h>
#include <stdlib.h>

#include "cuda/cuda.h"
#include "os/os.h"

/* Is the daemon running, where this process's driver looks for it? When it ends it removes this
 * file, but not its socket. A daemon in another PID namespace seems dead; then the driver knows
 * better. */
static bool daemon_runs(void)
{
    const char *folder = getenv("CUDA_MPS_PIPE_DIRECTORY");
    char path[4096];
    int pid = 0;

    snprintf(path, sizeof path, "%s/nvidia-cuda-mps-control.pid", folder && *folder ? folder : "/tmp/nvidia-mps");
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    if (fscanf(file, "%d", &pid) != 1)
        pid = 0;
    fclose(file);
    return pid > 0 && sl_os_process_runs((uint32_t)pid);
}

enum sl_cuda_mps sl_cuda_mps(int device)
{
    int shared = 0;
    /* Drivers for CUDA 12.0 do not know the attribute. With them every process is a client of the
     * daemon that is running when it initialises its driver. */
    int code = sl_cuda.DeviceGetAttribute(&shared, SL_CU_MPS_ENABLED, device);

    if (code == SL_CU_OK && shared)
        return SL_CUDA_MPS_CLIENT;
    if (!daemon_runs())
        return SL_CUDA_MPS_NONE;
    return code == SL_CU_OK ? SL_CUDA_MPS_DAEMON : SL_CUDA_MPS_CLIENT;
}
