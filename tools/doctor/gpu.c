/* SPDX-License-Identifier: MIT
 *
 * The doctor looks at each GPU: what it can do, and what that does to channels.
 */
#include "doctor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/nvml.h"
#include "../common/term.h"

/* What a GPU can do or not, and what it means. */
static const struct ability {
    uint32_t can;
    const char *topic, *key; /* in text and in JSON */
    const char *well, *missing;
    enum finding_state worth;
} abilities[] = {
    { SLUICE_CAN_MAP, "mapping", "map",
      "slots are mapped read-only in readers, so that these cannot change them (cuMemMap)",
      "memory of other processes cannot be mapped (cuMemMap): it is opened by handles, so that "
      "readers could change frames, and frames end with their writer",
      FINDING_NOTE },
    { SLUICE_CAN_EXPORT, "memory", "export",
      "is handed over as a descriptor: nothing is copied, and frames outlive a killed writer",
      "cannot be handed over as a descriptor: it is opened by handles, so that readers could "
      "change frames, and frames end with their writer",
      FINDING_NOTE },
    { SLUICE_CAN_QUEUE_WORDS, "words", "words",
      "streams write and wait for 64-bit words: a commit or release is one of them, and the CPU "
      "waits for nothing",
      "streams cannot write 64-bit words, or wait for them: the driver calls a function for each "
      "commit and release, which takes longer, and nothing is taken ahead (.ahead)",
      FINDING_NOTE },
    { SLUICE_CAN_REGISTER, "host memory", "register",
      "can be registered: the GPU raises the words that readers look at",
      "cannot be registered, so the GPU cannot raise the words that readers look at: the driver "
      "calls a function for each commit and release, which takes longer, and nothing is taken ahead "
      "(so it is under confidential computing)",
      FINDING_NOTE },
    { SLUICE_CAN_REGISTER_READ_ONLY, "read-only", "register_read_only",
      "memory can be registered too: spare, streams wait on words of their reader's own",
      "memory cannot be registered: nothing is lost, streams wait on words of their reader's own",
      FINDING_OK },
    { SLUICE_CAN_SHARE_EVENTS, "events", "events",
      "and handles of memory can be shared between processes: spare, frames are ordered by words",
      "and handles of memory cannot be shared between processes: nothing is lost where memory is "
      "handed over as a descriptor",
      FINDING_OK },
};
#define ABILITIES (sizeof abilities / sizeof *abilities)

static const struct {
    uint32_t is;
    const char *topic, *key, *text;
    enum finding_state worth;
} traits[] = {
    { SLUICE_IS_INTEGRATED, "integrated", "integrated",
      "it has the CPU's memory: frames in host memory are as near to it as in its own, and need "
      "none of the above",
      FINDING_NOTE },
    { SLUICE_IS_MIG, "MIG", "mig",
      "an instance of a divided GPU: frames are shared within this instance only, a reader on "
      "another is told so; there are no peers. Give writer and readers the same instance",
      FINDING_NOTE },
    { SLUICE_IS_EXCLUSIVE, "mode", "exclusive",
      "exclusive: only one process at a time may use the GPU, so writer and readers cannot meet "
      "on it, except under MPS; nvidia-smi -c DEFAULT opens it",
      FINDING_NOTE },
    { SLUICE_IS_CLOSED, "mode", "closed",
      "prohibited: no process may use the GPU; nvidia-smi -c DEFAULT opens it", FINDING_BAD },
};
#define TRAITS (sizeof traits / sizeof *traits)

static const char *const mps_names[] = { "none", "daemon", "client" };
static const char *const mps_texts[] = {
    "not used: while writer and reader keep the GPU busy, a frame takes 100 to 770 us from GPU to "
    "GPU, with MPS 8 us; to the reader's CPU 3.9 us either way (on an H200). It would make a fault "
    "of one process everybody's",
    "its daemon runs, but this process works without it: 100 to 770 us from GPU to GPU while both "
    "sides keep it busy, instead of 8 us. Programs find it by CUDA_MPS_PIPE_DIRECTORY",
    "this process works through it: 8 us from GPU to GPU also while both sides keep it busy "
    "(without it 100 to 770 us). A fault of one client ends all of them on this GPU, and no new "
    "one "
    "is let in until they have; killing one may disturb others; no frames are taken ahead (.ahead)",
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
    char is[16], least[16], compute[16];
    report_add(report, "GPU driver", FINDING_OK, "",
         "%s%sfor CUDA %s; the least is " SLUICE_DRIVER_MIN
         ", for CUDA %s, and a GPU of compute capability %s",
         release, release[0] ? ", " : "", version_text(is, device->driver),
         version_text(least, device->driver_min), compute_text(compute, device->compute_min));
}

static void check_identity(struct report *report, const struct gpu *gpu)
{
    const struct sluice_device_report *device = &gpu->report;
    char all[TERM_TEXT], unused[TERM_TEXT] = "", compute[16], least[16];
    if (gpu->memory_free != UINT64_MAX)
        text_bytes(unused, gpu->memory_free);
    bool old = device->compute < device->compute_min;
    report_add(report, "GPU", old ? FINDING_BAD : FINDING_OK,
         old ? "use a newer GPU, or host memory" : "",
         "%s, %s%s%s, compute capability %s%s%s, %s of memory%s%s", device->model, device->uuid,
         device->pci[0] ? ", PCI " : "", device->pci, compute_text(compute, device->compute),
         old ? ", which is below " : "", old ? compute_text(least, device->compute_min) : "",
         text_bytes(all, device->memory), unused[0] ? ", free " : "", unused);
}

static void check_peers(struct report *report, const struct gpu *gpu, unsigned index)
{
    char others[256] = "";
    size_t used = 0;
    if (report->gpu_count < 2)
        return;
    for (unsigned i = 0; i < report->gpu_count && i < 64 && used < sizeof others - 12; i++)
        if (i != index && gpu->report.peers >> i & 1)
            used += (size_t)snprintf(others + used, sizeof others - used, "%scuda:%u",
                                     used ? ", " : "", i);
    if (used)
        report_add(
            report, "peers", FINDING_OK, "",
            "it reads frames on %s where they lie; on other GPUs a reader is told why not, and may "
            "ask for a copy",
            others);
    else
        report_add(report, "peers", FINDING_NOTE, "nvidia-smi topo -p2p r says why",
             "none: a reader on this GPU of frames on another is told so, and may ask for a copy");
}

/* One of the two ways must be there. */
static void check_sharing(struct report *report, struct gpu *gpu)
{
    uint32_t can = gpu->report.can;
    if ((can & SLUICE_CAN_MAP && can & SLUICE_CAN_EXPORT) || can & SLUICE_CAN_SHARE_EVENTS)
        return;
    gpu->usable = false;
    report_add(report, "sharing", FINDING_BAD, "use host memory",
         "its memory can be given to other processes neither as a descriptor nor by handles: no "
         "channels on this GPU");
}

void check_gpu(struct report *report, struct gpu *gpu, unsigned index)
{
    const struct sluice_device_report *device = &gpu->report;
    char name[16];
    snprintf(name, sizeof name, "cuda:%u", index);
    report->device = name;
    gpu->usable = device->compute >= device->compute_min;
    check_identity(report, gpu);
    for (size_t i = 0; i < ABILITIES; i++) {
        bool can = device->can & abilities[i].can;
        report_add(report, abilities[i].topic, can ? FINDING_OK : abilities[i].worth, "", "%s",
             can ? abilities[i].well : abilities[i].missing);
    }
    check_sharing(report, gpu);
    for (size_t i = 0; i < TRAITS; i++) {
        if (!(device->is & traits[i].is))
            continue;
        report_add(report, traits[i].topic, traits[i].worth, "", "%s", traits[i].text);
        gpu->usable = gpu->usable && traits[i].worth != FINDING_BAD;
    }
    check_peers(report, gpu, index);
    if (device->mps <= SLUICE_MPS_CLIENT)
        report_add(report, "MPS", device->mps == SLUICE_MPS_NONE ? FINDING_OK : FINDING_NOTE, "", "%s",
             mps_texts[device->mps]);
    report->device = NULL;
}

void check_gpu_trial(struct report *report, struct gpu *gpu, int result, const char *said)
{
    const struct sluice_device_trial *trial = &gpu->trial;
    char a[TERM_TEXT], b[TERM_TEXT], parts[4][160] = { "" };
    if (result) {
        gpu->usable = false;
        report_add(report, "self-test", FINDING_BAD,
             "the lines above may say why; channels in host memory work", "failed: %.400s",
             said[0] ? said : sluice_result_text(result));
        return;
    }
    if (trial->memory_ns)
        snprintf(parts[0], sizeof parts[0],
                 "a frame of 8 MiB came back whole; made, exported and mapped read-only in %s, "
                 "filled and copied back in %s",
                 text_duration(a, trial->memory_ns), text_duration(b, trial->copy_ns));
    if (trial->word_ns)
        snprintf(parts[1], sizeof parts[1], "; a queued word is there after %s (p50)",
                 text_duration(a, trial->word_ns));
    if (trial->wait_ns)
        snprintf(parts[2], sizeof parts[2], ", a stream that waits for one goes on after %s",
                 text_duration(a, trial->wait_ns));
    if (trial->context_ns)
        snprintf(parts[3], sizeof parts[3], "; the context took %s",
                 text_duration(a, trial->context_ns));
    report_add(report, "self-test", FINDING_OK, "", "%s%s%s%s",
         trial->memory_ns ? parts[0] : "no memory to try", parts[1], parts[2], parts[3]);
}

/* By the trial; without one NVML may know. */
static uint64_t memory_free(const struct gpu *gpu)
{
    struct nvml_gpu nvml;
    if (gpu->tried)
        return gpu->trial.memory_free;
    if (!nvml_find_by_uuid(gpu->report.uuid, &nvml))
        return UINT64_MAX;
    nvml_read(&nvml);
    return nvml.memory_total >= nvml.memory_used ? (uint64_t)(nvml.memory_total - nvml.memory_used)
                                               : UINT64_MAX;
}

static void check_one(struct report *report, unsigned index, bool quick)
{
    struct gpu *gpu = &report->gpus[index];
    char name[16], said[512] = "";
    int result = 0;
    snprintf(name, sizeof name, "cuda:%u", index);
    if (!quick) {
        gpu->trial.size = sizeof gpu->trial;
        result = sluice_device_try(index, &gpu->trial);
        snprintf(said, sizeof said, "%s", result ? sluice_last_error() : "");
        gpu->tried = result == SLUICE_OK;
    }
    gpu->memory_free = memory_free(gpu);
    check_gpu(report, gpu, index);
    report->device = name;
    if (!quick)
        check_gpu_trial(report, gpu, result, said);
    if (gpu->tried && gpu->usable)
        check_gpu_channel(report, gpu);
    report->device = NULL;
}

/* All of them before any is examined: what one says of its peers is about the others. */
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
    char said[512];
    snprintf(said, sizeof said, "%s", result ? sluice_last_error() : "");
    if (report->gpu_count > 0) {
        report->system.confidential = nvml_confidential();
        check_driver(report);
    }
    for (unsigned i = 0; i < report->gpu_count; i++)
        check_one(report, i, quick);
    if (report->gpu_count > 0)
        check_gpu_system(report);
    if (result)
        check_no_gpu(report, said);
    nvml_close();
}

/* ---- as data ---- */

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
    for (size_t i = 0; i < ABILITIES; i++)
        json_pair_bool(json, abilities[i].key, device->can & abilities[i].can);
    json_close(json);
    json_key(json, "is");
    json_object(json);
    for (size_t i = 0; i < TRAITS; i++)
        json_pair_bool(json, traits[i].key, device->is & traits[i].is);
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
