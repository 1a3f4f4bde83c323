/* SPDX-License-Identifier: MIT
 *
 * What the doctor's examinations report to.
 */
#ifndef TOOLS_DOCTOR_H
#define TOOLS_DOCTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sluice/sluice.h>

#include "../common/json.h"

#define DOCTOR_PATIENCE (10 * SLUICE_S) /* with a machine that does much else: for what a channel should do at once */

enum finding_state {
    FINDING_OK,
    FINDING_NOTE, /* something is not there, and channels work without it */
    FINDING_BAD,  /* channels do not work */
};

struct finding {
    const char *topic;
    char device[16]; /* the GPU that it is about, "cuda:0"; "": all of the machine */
    enum finding_state state;
    char text[640];
    char mend[256];
};

/* One GPU. */
struct gpu {
    struct sluice_device_report report;
    struct sluice_device_trial trial;
    uint64_t memory_free; /* UINT64_MAX: not known */
    int64_t channel_ns;   /* p50 from commit to acquire; 0: not tried, or failed */
    bool tried;
    bool usable; /* it has all that channels need */
};

/* What of the system concerns GPUs. */
struct gpu_system {
    char release[32];   /* of the driver in the kernel; "": it does not say */
    unsigned nodes;     /* /dev/nvidia0 and so on */
    bool wsl;           /* Windows' driver below */
    bool pid_namespace; /* not the machine's first one */
    int confidential;   /* -1: cannot be told */
    const char *given;  /* environment: NVIDIA_VISIBLE_DEVICES, */
    const char *visible, *connections, *blocking; /* CUDA_VISIBLE_DEVICES and so on */
};

struct report {
    struct finding *list;
    unsigned count, room;
    const char *device; /* what findings are about from now on; NULL: all of the machine */
    struct gpu_system system;
    struct gpu *gpus; /* the GPUs */
    unsigned gpu_count;
};

/* Adds a finding; `mend` may be "". */
void report_add(struct report *report, const char *topic, enum finding_state state, const char *mend,
          const char *format, ...) __attribute__((format(printf, 5, 6)));

/* What a GPU cannot do keeps nobody from host memory. */
bool report_host_works(const struct report *report);
void report_text(const struct report *report, bool works);
void report_json(const struct report *report, bool works);

void check_system(struct report *report);   /* kernel, limits, memory, folder */
void check_channel(struct report *report);  /* frames there and back */

void check_cipd(struct report *report);     /* what is there of cuda-link's protocol */

/* GPUs, and what is around them; each tries itself if not `quick`. */
void check_gpus(struct report *report, bool quick);

/* ---- the parts of that ---- */

/* All but `confidential`; `root` goes before each path: "". */
void read_gpu_system(struct gpu_system *system, const char *root);
void check_gpu_system(struct report *report);

/* No GPU can be used, for this reason. */
void check_no_gpu(struct report *report, const char *reason);

/* By gpu->report, and by its trial if it was tried, which ended in `result`. */
void check_gpu(struct report *report, struct gpu *gpu, unsigned index);
void check_gpu_trial(struct report *report, struct gpu *gpu, int result, const char *said);

/* Frames through a channel on the GPU that findings are about. */
void check_gpu_channel(struct report *report, struct gpu *gpu);

/* Does legacy CUDA IPC work on each GPU? Tried with a second process, if not `quick`. */
void check_cipd_gpus(struct report *report, bool quick);

/* cuda-link's activation barrier; NULL: the machine's. */
void check_leftovers(struct report *report);
void check_barrier(struct report *report, const char *name);

void report_json_cipd(struct json *json);
void report_json_gpus(struct json *json, const struct report *report);

#endif
