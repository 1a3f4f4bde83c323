/* SPDX-License-Identifier: MIT
 *
 * sluice doctor: the report, and the checks that add findings to it.
 */
#ifndef TOOLS_DOCTOR_H
#define TOOLS_DOCTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sluice/sluice.h>

#include "../common/json.h"

#define DOCTOR_TIMEOUT (10 * SLUICE_S) /* for each step of a self-test, even on a busy machine */

enum finding_state {
    FINDING_OK,
    FINDING_NOTE, /* something is missing, but channels work without it */
    FINDING_BAD,  /* channels do not work */
};

struct finding {
    const char *topic;
    char device[16]; /* "cuda:0"; "" if the finding is about the whole machine */
    enum finding_state state;
    char text[640];
    char fix[256];
};

struct gpu {
    struct sluice_device_report report;
    struct sluice_device_trial trial;
    uint64_t memory_free; /* UINT64_MAX: unknown */
    int64_t channel_ns;   /* median from commit to acquire; 0: not measured */
    bool tried;           /* `trial` is filled in */
    bool usable;          /* it has everything that channels need */
};

/* The parts of the system that affect GPUs. */
struct gpu_system {
    char release[32];   /* of the kernel driver; "": unknown */
    unsigned nodes;     /* number of /dev/nvidia0, /dev/nvidia1, ... */
    bool wsl;           /* WSL2, with the Windows driver */
    bool pid_namespace; /* not the initial PID namespace */
    int confidential;   /* confidential computing is on; -1: unknown */
    /* Environment variables, NULL if not set. */
    const char *given;       /* NVIDIA_VISIBLE_DEVICES */
    const char *visible;     /* CUDA_VISIBLE_DEVICES */
    const char *connections; /* CUDA_DEVICE_MAX_CONNECTIONS */
    const char *blocking;    /* CUDA_LAUNCH_BLOCKING */
};

struct report {
    struct finding *list;
    unsigned count, capacity;
    const char *device; /* the GPU that new findings are about; NULL: the whole machine */
    struct gpu_system system;
    struct gpu *gpus;
    unsigned gpu_count;
};

/* Adds a finding; `fix` is "" if there is nothing to fix. */
void report_add(struct report *report, const char *topic, enum finding_state state, const char *fix, const char *format,
                ...) __attribute__((format(printf, 5, 6)));

/* False if a finding prevents channels in host memory; what a GPU lacks does not. */
bool report_host_works(const struct report *report);
void report_text(const struct report *report, bool host_works);
void report_json(const struct report *report, bool host_works);

/* ---- the checks ---- */

void check_system(struct report *report);  /* kernel, limits, memory, folder */
void check_channel(struct report *report); /* sends frames through a channel in host memory */
void check_cipd(struct report *report);    /* cuda-link: its environment, segments and barrier */
void check_kernels(struct report *report); /* compilers of kernels, after check_gpus; the cache */

/* All GPUs and the system around them. Each GPU runs a self-test unless `quick`. */
void check_gpus(struct report *report, bool quick);

/* Whether legacy CUDA IPC works on each GPU, tested with a second process unless `quick`. */
void check_cipd_gpus(struct report *report, bool quick);

/* ---- their parts, called by tests too ---- */

/* Runs `sluice snap CHANNEL PATH` as another process. False with its last message in `error` if that failed. */
bool second_snap(const char *channel, const char *path, char *error, size_t size);

/* Fills in everything but `confidential`. Tests put their own files below `root`; else it is "". */
void read_gpu_system(struct gpu_system *system, const char *root);
void check_gpu_system(struct report *report);

/* Reports that no GPU is usable, and why. */
void check_no_gpu(struct report *report, const char *reason);

/* Reports what gpu->report says. */
void check_gpu(struct report *report, struct gpu *gpu, unsigned index);

/* Reports gpu->trial, or that the trial failed with `result` and `error`. */
void check_gpu_trial(struct report *report, struct gpu *gpu, int result, const char *error);

/* Sends frames through a channel on the GPU report->device. */
void check_gpu_channel(struct report *report, struct gpu *gpu);

/* Names that killed writers of cuda-link's protocol left in /dev/shm. */
void check_leftovers(struct report *report);

/* cuda-link's activation barrier of this name; NULL: the one that all programs use. */
void check_barrier(struct report *report, const char *name);

/* The lines of the findings; the key "findings" and its array. */
void report_text_findings(const struct report *report);
void report_json_findings(struct json *json, const struct report *report);

void report_json_cipd(struct json *json);
void report_json_gpus(struct json *json, const struct report *report);

#endif
