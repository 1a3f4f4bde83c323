/* SPDX-License-Identifier: MIT
 *
 * The doctor on Windows: the system, GPUs and their drivers, and whether a second process gets a frame of each.
 */
#include "../doctor/doctor.h"

#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/args.h"
#include "../common/nvml.h"

/* Also reported in JSON. */
static struct {
    char version[48]; /* of Windows */
    int scheduling;   /* 1: the GPU schedules its own work, 0: not; -1: unknown */
    char release[80]; /* of the GPUs' driver; "": unknown */
} facts;

/* ---- the system ---- */

/* As GetVersionEx would, which answers what the program's manifest allows. */
static void check_version(struct report *report)
{
    OSVERSIONINFOW version = { .dwOSVersionInfoSize = sizeof version };
    LONG(WINAPI * ask)(OSVERSIONINFOW *);
    FARPROC found = GetProcAddress(GetModuleHandleW(L"ntdll.dll"), "RtlGetVersion");

    memcpy(&ask, &found, sizeof ask);
    if (!found || ask(&version) != 0)
        return;
    bool known = version.dwMajorVersion >= 10;
    snprintf(facts.version, sizeof facts.version, "%lu.%lu, build %lu", version.dwMajorVersion, version.dwMinorVersion,
             version.dwBuildNumber);
    report_add(report, "windows", known ? FINDING_OK : FINDING_NOTE, known ? "" : "use Windows 10 or later", "%s",
               facts.version);
}

static void check_scheduling(struct report *report)
{
    DWORD mode = 0, size = sizeof mode;

    facts.scheduling = -1;
    if (RegGetValueW(HKEY_LOCAL_MACHINE, L"SYSTEM\\CurrentControlSet\\Control\\GraphicsDrivers", L"HwSchMode",
                     RRF_RT_REG_DWORD, NULL, &mode, &size) == ERROR_SUCCESS)
        facts.scheduling = mode == 2;
    if (facts.scheduling < 0)
        report_add(report, "scheduling", FINDING_NOTE, "",
                   "Windows does not say whether the GPU schedules its own work (HwSchMode)");
    else if (facts.scheduling)
        report_add(report, "scheduling", FINDING_OK, "", "hardware-accelerated GPU scheduling is on");
    else
        report_add(report, "scheduling", FINDING_NOTE,
                   "Settings, System, Display, Graphics: hardware-accelerated GPU scheduling",
                   "hardware-accelerated GPU scheduling is off: each wait for the GPU takes longer");
}

/* ---- GPUs ---- */

/* Of a GPU whose driver batches what programs submit (WDDM), and one whose driver does not (TCC). */
static const char *model_of(unsigned index)
{
    int(WINAPI * ask)(int *, int, int);
    FARPROC found = GetProcAddress(GetModuleHandleW(L"nvcuda.dll"), "cuDeviceGetAttribute");
    int tcc = 0;

    memcpy(&ask, &found, sizeof ask);
    return found && ask(&tcc, 35, (int)index) == 0 && tcc ? "TCC" : "WDDM";
}

static void check_driver(struct report *report)
{
    const struct sluice_device_report *gpu = &report->gpus[0].report;

    if (!nvml_driver(facts.release, sizeof facts.release))
        facts.release[0] = '\0';
    report_add(report, "GPU driver", FINDING_OK, "", "%s%sfor CUDA %u.%u; Sluice needs CUDA %u.%u or newer",
               facts.release, facts.release[0] ? ", " : "", gpu->driver / 1000, gpu->driver % 1000 / 10,
               gpu->driver_min / 1000, gpu->driver_min % 1000 / 10);
}

static void check_one(struct report *report, unsigned index)
{
    struct gpu *gpu = &report->gpus[index];
    uint32_t compute = gpu->report.compute, needed = gpu->report.compute_min;
    char device[16];

    snprintf(device, sizeof device, "cuda:%u", index);
    report->device = device;
    gpu->usable = compute >= needed && gpu->report.can & SLUICE_CAN_SHARE_EVENTS;
    gpu->tried = gpu->usable; /* so that a second process tries it */
    report_add(report, "GPU", compute >= needed ? FINDING_OK : FINDING_BAD, compute >= needed ? "" : "use a newer GPU",
               "%s, driver model %s, %s%s, compute capability %u.%u; %u.%u is needed", gpu->report.model,
               model_of(index), gpu->report.pci[0] ? "PCI " : "", gpu->report.pci, compute / 10, compute % 10,
               needed / 10, needed % 10);
    if (gpu->report.is & SLUICE_IS_CLOSED)
        report_add(report, "mode", FINDING_BAD, "nvidia-smi -c DEFAULT", "prohibited: no process may use the GPU");
    if (gpu->report.is & SLUICE_IS_EXCLUSIVE)
        report_add(report, "mode", FINDING_BAD, "nvidia-smi -c DEFAULT",
                   "exclusive: only one process at a time may use the GPU, and a channel has two");
    if (!(gpu->report.can & SLUICE_CAN_REGISTER))
        report_add(report, "host memory", FINDING_NOTE, "",
                   "cannot be registered: copies between it and the GPU are slower");
    report->device = NULL;
}

static void check_all(struct report *report)
{
    uint32_t count = 0;
    int result = sluice_device_count(&count);

    report->gpus = calloc(count + 1, sizeof *report->gpus);
    for (uint32_t i = 0; i < count && report->gpus && result == 0; i++) {
        report->gpus[i].report.size = sizeof report->gpus[i].report;
        if ((result = sluice_device_probe(i, &report->gpus[i].report)) == 0)
            report->gpu_count = i + 1;
    }
    if (result)
        report_add(report, "GPU", FINDING_BAD, "install NVIDIA's driver", "%s", sluice_last_error());
    else if (!count)
        report_add(report, "GPU", FINDING_BAD, "", "there is none, and channels of cuda-link's protocol need one");
    if (report->gpu_count)
        check_driver(report);
    for (unsigned i = 0; i < report->gpu_count; i++)
        check_one(report, i);
    nvml_close();
}

/* ---- the report ---- */

/* Whether a second process got a frame of the GPU: the finding of check_cipd_gpus(). */
static const struct finding *sharing_of(const struct report *report, unsigned index)
{
    char device[16];

    snprintf(device, sizeof device, "cuda:%u", index);
    for (unsigned i = 0; i < report->count; i++)
        if (strcmp(report->list[i].device, device) == 0 && strcmp(report->list[i].topic, "cuda-link") == 0)
            return &report->list[i];
    return NULL;
}

static bool any_works(const struct report *report)
{
    for (unsigned i = 0; i < report->gpu_count; i++) {
        const struct finding *finding = sharing_of(report, i);
        if (report->gpus[i].usable && (!finding || finding->state == FINDING_OK))
            return true;
    }
    return false;
}

static void json_gpu(struct json *json, const struct report *report, unsigned index)
{
    const struct sluice_device_report *gpu = &report->gpus[index].report;
    const struct finding *finding = sharing_of(report, index);
    char text[32];

    json_object(json);
    snprintf(text, sizeof text, "cuda:%u", index);
    json_pair_string(json, "device", text);
    json_pair_string(json, "model", gpu->model);
    json_pair_string(json, "uuid", gpu->uuid);
    json_pair_string(json, "pci", gpu->pci);
    json_pair_string(json, "driver_model", model_of(index));
    snprintf(text, sizeof text, "%u.%u", gpu->compute / 10, gpu->compute % 10);
    json_pair_string(json, "compute_capability", text);
    json_pair_uint(json, "memory", gpu->memory);
    json_pair_bool(json, "ipc_declared", (gpu->can & SLUICE_CAN_SHARE_EVENTS) != 0);
    json_key(json, "ipc_works");
    if (finding)
        json_bool(json, finding->state == FINDING_OK);
    else
        json_null(json);
    json_close(json);
}

static void print_json(const struct report *report, bool works)
{
    struct json json;
    char text[32] = "";

    json_begin(&json, stdout, false);
    json_object(&json);
    json_pair_string(&json, "version", sluice_version());
    json_pair_bool(&json, "cipd_channels_work", works);
    json_pair_string(&json, "windows", facts.version);
    json_key(&json, "hardware_scheduling");
    if (facts.scheduling < 0)
        json_null(&json);
    else
        json_bool(&json, facts.scheduling);
    json_key(&json, "driver");
    json_object(&json);
    json_pair_string(&json, "release", facts.release[0] ? facts.release : NULL);
    if (report->gpu_count)
        snprintf(text, sizeof text, "%u.%u", report->gpus[0].report.driver / 1000,
                 report->gpus[0].report.driver % 1000 / 10);
    json_pair_string(&json, "cuda", text[0] ? text : NULL);
    json_close(&json);
    json_key(&json, "gpus");
    json_array(&json);
    for (unsigned i = 0; i < report->gpu_count; i++)
        json_gpu(&json, report, i);
    json_close_array(&json);
    report_json_findings(&json, report);
    report_json_cipd(&json);
    json_close(&json);
    json_end(&json);
}

/* ---- the command ---- */

static const struct args_option options[] = {
    { 'j', "json", NULL, "print JSON" },
    { 'q', "quick", NULL, "query GPUs only: send no frame to a second process" },
    { 0 },
};

static int doctor_run(const struct command *command, int argc, char **argv)
{
    struct report report = { .count = 0 };
    struct args args;
    bool json = false, quick = false;
    int option;

    args_begin(&args, command, argc, argv);
    while ((option = args_next(&args)) >= 0)
        *(option == 0 ? &json : &quick) = true;
    if (option != ARGS_END)
        return option == ARGS_HELP ? EXIT_DONE : EXIT_USAGE;
    check_version(&report);
    check_scheduling(&report);
    check_all(&report);
    check_cipd(&report);
    check_cipd_gpus(&report, quick);
    bool works = any_works(&report);
    if (json) {
        print_json(&report, works);
    } else {
        report_text_findings(&report);
        printf("channels of cuda-link's protocol %s\n", !works  ? "do NOT work on this machine"
                                                        : quick ? "should work on this machine"
                                                                : "work on this machine");
    }
    free(report.gpus);
    free(report.list);
    return works ? EXIT_DONE : EXIT_FAILED;
}

const struct command doctor_command = {
    .name = "doctor",
    .arguments = "",
    .summary = "check what this machine supports, and how to fix what it does not",
    .details = "Lines start with ok, note (worth knowing), or BAD (channels do not work). On each GPU a\n"
               "second process opens a frame of a channel of cuda-link's protocol.\n"
               "The exit code is 0 if such channels work on a GPU, else 1.\n",
    .examples = "  sluice doctor\n"
                "  sluice doctor --json > report.json      to attach to a bug report\n",
    .options = options,
    .run = doctor_run,
};
