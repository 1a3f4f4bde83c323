/* SPDX-License-Identifier: MIT
 *
 * Checks of each GPU: the features that it has, and what that means for channels.
 */
#include "doctor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/nvml.h"
#include "../common/term.h"

static const struct feature {
    uint32_t flag;           /* SLUICE_CAN_... */
    const char *topic, *key; /* in text and in JSON */
    const char *supported, *missing;
    enum finding_state state_if_missing;
} features[] = {
    { SLUICE_CAN_MAP, "mapping", "map", "readers map slots read-only (cuMemMap), so they cannot change frames",
      "memory of other processes cannot be mapped (cuMemMap): readers open it by IPC handles, so they "
      "could change frames, and frames are gone when their writer ends",
      FINDING_NOTE },
    { SLUICE_CAN_EXPORT, "memory", "export",
      "exported as file descriptors: nothing is copied, and frames outlive a killed writer",
      "cannot be exported as file descriptors: readers open it by IPC handles, so they could "
      "change frames, and frames are gone when their writer ends",
      FINDING_NOTE },
    { SLUICE_CAN_QUEUE_WORDS, "words", "words",
      "streams can write 64-bit words and wait for them: each commit and release is such a write, "
      "without waiting on the CPU",
      "streams cannot write 64-bit words or wait for them: each commit and release calls a host "
      "function instead, which is slower, and frames cannot be acquired ahead (.ahead)",
      FINDING_NOTE },
    { SLUICE_CAN_REGISTER, "host memory", "register", "can be registered: the GPU itself signals readers",
      "cannot be registered, so the GPU cannot signal readers itself: each commit and release calls "
      "a host function, which is slower, and frames cannot be acquired ahead (.ahead). "
      "Confidential computing has this effect",
      FINDING_NOTE },
    { SLUICE_CAN_REGISTER_READ_ONLY, "read-only", "register_read_only",
      "memory can be registered too; not needed, streams wait on words in their reader's own memory",
      "memory cannot be registered; not needed, streams wait on words in their reader's own memory", FINDING_OK },
    { SLUICE_CAN_SHARE_EVENTS, "events", "events",
      "and memory can be shared by IPC handles; only needed for channels of cuda-link (cipd:)",
      "and memory cannot be shared by IPC handles; only needed if memory cannot be exported as "
      "file descriptors, and for channels of cuda-link (cipd:)",
      FINDING_OK },
};
#define FEATURE_COUNT (sizeof features / sizeof *features)

static const struct {
    uint32_t flag; /* SLUICE_IS_... */
    const char *topic, *key, *text;
    enum finding_state state;
} traits[] = {
    { SLUICE_IS_INTEGRATED, "integrated", "integrated",
      "shares its memory with the CPU: channels in host memory are as fast, and need none of the "
      "features above",
      FINDING_NOTE },
    { SLUICE_IS_MIG, "MIG", "mig",
      "an instance of a partitioned GPU: frames can only be shared within this instance, and there "
      "is no peer access. Give the writer and its readers the same instance",
      FINDING_NOTE },
    { SLUICE_IS_EXCLUSIVE, "mode", "exclusive",
      "exclusive: only one process at a time may use the GPU, so writer and readers cannot share "
      "frames on it, except under MPS; to change it: nvidia-smi -c DEFAULT",
      FINDING_NOTE },
    { SLUICE_IS_CLOSED, "mode", "closed", "prohibited: no process may use the GPU; to change it: nvidia-smi -c DEFAULT",
      FINDING_BAD },
};
#define TRAIT_COUNT (sizeof traits / sizeof *traits)

static const char *const mps_names[] = { "none", "daemon", "client" };
static const char *const mps_texts[] = {
    "not used: while writer and reader keep the GPU busy, a handoff from GPU to GPU takes 100 to "
    "770 us, with MPS 8 us; to the reader's CPU it takes 3.9 us either way (on an H200). With MPS "
    "the fault of one process ends all of them",
    "its daemon is running, but this process does not use it: while both sides keep the GPU busy, a "
    "handoff from GPU to GPU takes 100 to 770 us instead of 8 us. Programs find the daemon by "
    "CUDA_MPS_PIPE_DIRECTORY",
    "used by this process: a handoff from GPU to GPU takes 8 us even while both sides keep it busy "
    "(without MPS 100 to 770 us). The fault of one client ends all clients on this GPU, and new ones "
    "are refused until all are gone; killing one may disturb others; frames cannot be acquired ahead "
    "(.ahead)",
};

static char *version_text(char text[16], uint32_t version)
{
    snprintf(text, 16, "%u.%u", version / 1000, version % 1000 / 10);
    return text;
}

static char *compute_text(char text[16], uint32_t compute)
{
    snprintf(text, 16, "%u.%u", compute / 10, compute % 10);
    return text;
}

static void check_driver(struct report *report)
{
    const struct sluice_device_report *device = &report->gpus[0].report;
    const char *release = report->system.release;
    char version[16], min_version[16], min_compute[16];
    report_add(report, "GPU driver", FINDING_OK, "",
               "%s%sfor CUDA %s; Sluice needs " SLUICE_DRIVER_MIN " or newer, for CUDA %s, and compute capability %s",
               release, release[0] ? ", " : "", version_text(version, device->driver),
               version_text(min_version, device->driver_min), compute_text(min_compute, device->compute_min));
}

static void check_identity(struct report *report, const struct gpu *gpu)
{
    const struct sluice_device_report *device = &gpu->report;
    char total[TERM_TEXT], unused[TERM_TEXT] = "", compute[16], min_compute[16];
    if (gpu->memory_free != UINT64_MAX)
        text_bytes(unused, gpu->memory_free);
    bool old = device->compute < device->compute_min;
    report_add(report, "GPU", old ? FINDING_BAD : FINDING_OK, old ? "use a newer GPU, or channels in host memory" : "",
               "%s, %s%s%s, compute capability %s%s%s, %s of memory%s%s", device->model, device->uuid,
               device->pci[0] ? ", PCI " : "", device->pci, compute_text(compute, device->compute),
               old ? ", but Sluice needs " : "", old ? compute_text(min_compute, device->compute_min) : "",
               text_bytes(total, device->memory), unused[0] ? ", free " : "", unused);
}

static void check_peers(struct report *report, const struct gpu *gpu, unsigned index)
{
    char others[256] = "";
    size_t used = 0;
    if (report->gpu_count < 2)
        return;
    for (unsigned i = 0; i < report->gpu_count && i < 64 && used < sizeof others - 12; i++)
        if (i != index && gpu->report.peers >> i & 1)
            used += (size_t)snprintf(others + used, sizeof others - used, "%scuda:%u", used ? ", " : "", i);
    if (used)
        report_add(report, "peers", FINDING_OK, "",
                   "it can read frames on %s in place; a reader of frames on other GPUs needs copies "
                   "(SLUICE_STAGED_IF_NEEDED)",
                   others);
    else
        report_add(report, "peers", FINDING_NOTE, "nvidia-smi topo -p2p r shows the reason",
                   "none: a reader of frames on other GPUs needs copies (SLUICE_STAGED_IF_NEEDED)");
}

/* Channels need file descriptors of memory, or IPC handles. */
static void check_sharing(struct report *report, struct gpu *gpu)
{
    uint32_t can = gpu->report.can;
    if ((can & SLUICE_CAN_MAP && can & SLUICE_CAN_EXPORT) || can & SLUICE_CAN_SHARE_EVENTS)
        return;
    gpu->usable = false;
    report_add(report, "sharing", FINDING_BAD, "use channels in host memory",
               "memory can be shared neither as file descriptors nor by IPC handles: no channels on this "
               "GPU");
}

void check_gpu(struct report *report, struct gpu *gpu, unsigned index)
{
    const struct sluice_device_report *device = &gpu->report;
    char name[16];
    snprintf(name, sizeof name, "cuda:%u", index);
    report->device = name;
    gpu->usable = device->compute >= device->compute_min;
    check_identity(report, gpu);
    for (size_t i = 0; i < FEATURE_COUNT; i++) {
        bool can = device->can & features[i].flag;
        report_add(report, features[i].topic, can ? FINDING_OK : features[i].state_if_missing, "", "%s",
                   can ? features[i].supported : features[i].missing);
    }
    check_sharing(report, gpu);
    for (size_t i = 0; i < TRAIT_COUNT; i++) {
        if (!(device->is & traits[i].flag))
            continue;
        report_add(report, traits[i].topic, traits[i].state, "", "%s", traits[i].text);
        gpu->usable = gpu->usable && traits[i].state != FINDING_BAD;
    }
    check_peers(report, gpu, index);
    if (device->mps <= SLUICE_MPS_CLIENT)
        report_add(report, "MPS", device->mps == SLUICE_MPS_NONE ? FINDING_OK : FINDING_NOTE, "", "%s",
                   mps_texts[device->mps]);
    report->device = NULL;
}

void check_gpu_trial(struct report *report, struct gpu *gpu, int result, const char *error)
{
    const struct sluice_device_trial *trial = &gpu->trial;
    char a[TERM_TEXT], b[TERM_TEXT], parts[4][160] = { "" };
    if (result) {
        gpu->usable = false;
        report_add(report, "self-test", FINDING_BAD, "see the lines above, or use channels in host memory",
                   "failed: %.400s", error[0] ? error : sluice_result_text(result));
        return;
    }
    if (trial->memory_ns)
        snprintf(parts[0], sizeof parts[0],
                 "8 MiB of memory allocated, exported and mapped read-only in %s, filled and copied "
                 "back intact in %s",
                 text_duration(a, trial->memory_ns), text_duration(b, trial->copy_ns));
    if (trial->word_ns)
        snprintf(parts[1], sizeof parts[1], "; a word written by a stream arrives after %s (p50)",
                 text_duration(a, trial->word_ns));
    if (trial->wait_ns)
        snprintf(parts[2], sizeof parts[2], ", a stream that waits for one resumes after %s",
                 text_duration(a, trial->wait_ns));
    if (trial->context_ns)
        snprintf(parts[3], sizeof parts[3], "; creating the context took %s", text_duration(a, trial->context_ns));
    report_add(report, "self-test", FINDING_OK, "", "%s%s%s%s", trial->memory_ns ? parts[0] : "memory not tested",
               parts[1], parts[2], parts[3]);
}

/* From the self-test, else from NVML. */
static uint64_t memory_free(const struct gpu *gpu)
{
    struct nvml_gpu nvml;
    if (gpu->tried)
        return gpu->trial.memory_free;
    if (!nvml_find_by_uuid(gpu->report.uuid, &nvml))
        return UINT64_MAX;
    nvml_read(&nvml);
    return nvml.memory_total >= nvml.memory_used ? (uint64_t)(nvml.memory_total - nvml.memory_used) : UINT64_MAX;
}

static void check_with_trial(struct report *report, unsigned index, bool quick)
{
    struct gpu *gpu = &report->gpus[index];
    char name[16], error[512] = "";
    int result = 0;
    snprintf(name, sizeof name, "cuda:%u", index);
    if (!quick) {
        gpu->trial.size = sizeof gpu->trial;
        result = sluice_device_try(index, &gpu->trial);
        snprintf(error, sizeof error, "%s", result ? sluice_last_error() : "");
        gpu->tried = result == SLUICE_OK;
    }
    gpu->memory_free = memory_free(gpu);
    check_gpu(report, gpu, index);
    report->device = name;
    if (!quick)
        check_gpu_trial(report, gpu, result, error);
    if (gpu->tried && gpu->usable)
        check_gpu_channel(report, gpu);
    report->device = NULL;
}

/* Probes all GPUs before checking one: the check of peers needs the number of GPUs. */
static int probe_all(struct report *report)
{
    uint32_t count = 0;
    int result = sluice_device_count(&count);
    if (result)
        return result;
    report->gpus = calloc(count + 1, sizeof *report->gpus);
    for (uint32_t i = 0; i < count && report->gpus; i++) {
        report->gpus[i].report.size = sizeof report->gpus[i].report;
        result = sluice_device_probe(i, &report->gpus[i].report);
        if (result)
            return result;
        report->gpu_count = i + 1;
    }
    return result;
}

void check_gpus(struct report *report, bool quick)
{
    read_gpu_system(&report->system, "");
    int result = probe_all(report);
    char error[512];
    snprintf(error, sizeof error, "%s", result ? sluice_last_error() : "");
    if (report->gpu_count > 0) {
        report->system.confidential = nvml_confidential();
        check_driver(report);
    }
    for (unsigned i = 0; i < report->gpu_count; i++)
        check_with_trial(report, i, quick);
    if (report->gpu_count > 0)
        check_gpu_system(report);
    if (result)
        check_no_gpu(report, error);
    nvml_close();
}

/* ---- JSON ---- */

static void json_trial(struct json *json, const struct gpu *gpu)
{
    const struct sluice_device_trial *trial = &gpu->trial;
    json_key(json, "self_test");
    if (!gpu->tried) {
        json_null(json);
        return;
    }
    json_object(json);
    json_pair_int(json, "context_ns", trial->context_ns);
    json_pair_int(json, "memory_ns", trial->memory_ns);
    json_pair_int(json, "copy_ns", trial->copy_ns);
    json_pair_int(json, "word_ns", trial->word_ns);
    json_pair_int(json, "wait_ns", trial->wait_ns);
    json_pair_int(json, "channel_ns", gpu->channel_ns);
    json_close(json);
}

static void json_gpu(struct json *json, const struct gpu *gpu, unsigned index)
{
    const struct sluice_device_report *device = &gpu->report;
    char name[16], compute[16];
    snprintf(name, sizeof name, "cuda:%u", index);
    json_object(json);
    json_pair_string(json, "device", name);
    json_pair_string(json, "model", device->model);
    json_pair_string(json, "uuid", device->uuid);
    json_pair_string(json, "pci", device->pci);
    json_pair_string(json, "compute_capability", compute_text(compute, device->compute));
    json_pair_uint(json, "memory", device->memory);
    json_key(json, "memory_free");
    if (gpu->memory_free != UINT64_MAX)
        json_uint(json, gpu->memory_free);
    else
        json_null(json);
    json_key(json, "can");
    json_object(json);
    for (size_t i = 0; i < FEATURE_COUNT; i++)
        json_pair_bool(json, features[i].key, device->can & features[i].flag);
    json_close(json);
    json_key(json, "is");
    json_object(json);
    for (size_t i = 0; i < TRAIT_COUNT; i++)
        json_pair_bool(json, traits[i].key, device->is & traits[i].flag);
    json_close(json);
    json_key(json, "peers");
    json_array(json);
    for (unsigned i = 0; i < 64; i++)
        if (device->peers >> i & 1)
            json_uint(json, i);
    json_close_array(json);
    json_pair_string(json, "mps", device->mps <= SLUICE_MPS_CLIENT ? mps_names[device->mps] : "?");
    json_pair_bool(json, "usable", gpu->usable);
    json_trial(json, gpu);
    json_close(json);
}

static void json_driver(struct json *json, const struct report *report)
{
    char text[16];
    json_key(json, "driver");
    if (report->gpu_count == 0) {
        json_null(json);
        return;
    }
    const struct sluice_device_report *device = &report->gpus[0].report;
    json_object(json);
    json_pair_string(json, "release", report->system.release[0] ? report->system.release : NULL);
    json_pair_string(json, "cuda", version_text(text, device->driver));
    json_pair_string(json, "release_min", SLUICE_DRIVER_MIN);
    json_pair_string(json, "cuda_min", version_text(text, device->driver_min));
    json_pair_string(json, "compute_capability_min", compute_text(text, device->compute_min));
    json_close(json);
}

static void json_system(struct json *json, const struct gpu_system *system)
{
    json_key(json, "gpu_system");
    json_object(json);
    json_pair_uint(json, "device_nodes", system->nodes);
    json_pair_bool(json, "wsl2", system->wsl);
    json_pair_bool(json, "pid_namespace", system->pid_namespace);
    json_key(json, "confidential_computing");
    if (system->confidential < 0)
        json_null(json);
    else
        json_bool(json, system->confidential);
    json_pair_string(json, "NVIDIA_VISIBLE_DEVICES", system->given);
    json_pair_string(json, "CUDA_VISIBLE_DEVICES", system->visible);
    json_pair_string(json, "CUDA_DEVICE_MAX_CONNECTIONS", system->connections);
    json_pair_string(json, "CUDA_LAUNCH_BLOCKING", system->blocking);
    json_close(json);
}

void report_json_gpus(struct json *json, const struct report *report)
{
    json_driver(json, report);
    json_system(json, &report->system);
    json_key(json, "gpus");
    json_array(json);
    for (unsigned i = 0; i < report->gpu_count; i++)
        json_gpu(json, &report->gpus[i], i);
    json_close_array(json);
}
