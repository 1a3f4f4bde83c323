/* SPDX-License-Identifier: MIT
 *
 * What the doctor asks of Windows.
 */
#include "../doctor/doctor.h"
#include "../common/args.h"

#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    report_add(report, "windows", known ? FINDING_OK : FINDING_NOTE, known ? "" : "use Windows 10 or later",
               "%lu.%lu, build %lu", version.dwMajorVersion, version.dwMinorVersion, version.dwBuildNumber);
}

static void check_scheduling(struct report *report)
{
    DWORD mode = 0, size = sizeof mode;

    if (RegGetValueW(HKEY_LOCAL_MACHINE, L"SYSTEM\\CurrentControlSet\\Control\\GraphicsDrivers", L"HwSchMode",
                     RRF_RT_REG_DWORD, NULL, &mode, &size) != ERROR_SUCCESS)
        report_add(report, "scheduling", FINDING_NOTE, "",
                   "Windows does not say whether the GPU schedules its own work (HwSchMode)");
    else if (mode == 2)
        report_add(report, "scheduling", FINDING_OK, "", "hardware-accelerated GPU scheduling is on");
    else
        report_add(report, "scheduling", FINDING_NOTE,
                   "Settings, System, Display, Graphics: hardware-accelerated GPU scheduling",
                   "hardware-accelerated GPU scheduling is off: each wait for the GPU takes longer");
}

/* Of a GPU whose driver batches what programs submit (WDDM), and one whose driver does not (TCC). */
static const char *model_of(int index)
{
    int(WINAPI * ask)(int *, int, int);
    FARPROC found = GetProcAddress(GetModuleHandleW(L"nvcuda.dll"), "cuDeviceGetAttribute");
    int tcc = 0;

    memcpy(&ask, &found, sizeof ask);
    return found && ask(&tcc, 35, index) == 0 && tcc ? "TCC" : "WDDM";
}

static void check_gpu_here(struct report *report, uint32_t index)
{
    struct sluice_device_report gpu = { .size = sizeof gpu };
    char device[32];

    snprintf(device, sizeof device, "cuda:%u", index);
    report->device = device;
    if (sluice_device_probe(index, &gpu) != 0) {
        report_add(report, "GPU", FINDING_BAD, "", "%s", sluice_last_error());
    } else {
        report_add(report, "GPU", FINDING_OK, "", "%s, %s, PCI %s, CUDA %u.%u", gpu.model, model_of((int)index),
                   gpu.pci, gpu.driver / 1000, gpu.driver % 1000 / 10);
        if (gpu.can & SLUICE_CAN_SHARE_EVENTS)
            report_add(report, "sharing", FINDING_OK, "",
                       "the driver says that memory and events can be shared by IPC handles");
        else
            report_add(report, "sharing", FINDING_BAD, "another driver, or TCC (nvidia-smi -dm 1)",
                       "the driver shares no memory between processes, which each channel needs");
    }
    report->device = NULL;
}

static void check_gpus_here(struct report *report)
{
    uint32_t count = 0;

    if (sluice_device_count(&count) != 0)
        report_add(report, "GPU", FINDING_BAD, "install NVIDIA's driver", "%s", sluice_last_error());
    for (uint32_t i = 0; i < count; i++)
        check_gpu_here(report, i);
}

static void print_findings(const struct report *report)
{
    static const char *const marks[] = { "ok  ", "note", "BAD " };

    for (unsigned i = 0; i < report->count; i++) {
        const struct finding *finding = &report->list[i];
        printf("%s  %-12s %s%s%s\n", marks[finding->state], finding->device[0] ? finding->device : finding->topic,
               finding->device[0] ? finding->topic : "", finding->device[0] ? ": " : "", finding->text);
        if (finding->fix[0])
            printf("%20sfix: %s\n", "", finding->fix);
    }
}

static int doctor_run(const struct command *command, int argc, char **argv)
{
    struct report report = { .count = 0 };
    struct args args;
    bool works = true;
    int option;

    args_begin(&args, command, argc, argv);
    if ((option = args_next(&args)) != ARGS_END)
        return option == ARGS_HELP ? EXIT_DONE : EXIT_USAGE;
    check_version(&report);
    check_scheduling(&report);
    check_gpus_here(&report);
    check_cipd(&report);
    print_findings(&report);
    for (unsigned i = 0; i < report.count; i++)
        works = works && report.list[i].state != FINDING_BAD;
    printf("channels of cuda-link's protocol %s\n",
           works ? "should work: try one with sluice play test cipd:try" : "do NOT work on this machine");
    free(report.list);
    return works ? EXIT_DONE : EXIT_FAILED;
}

static const struct args_option options[] = { { 0 } };

const struct command doctor_command = {
    .name = "doctor",
    .arguments = "",
    .summary = "check what this machine supports, and how to fix what it does not",
    .details = "Lines start with ok, note (worth knowing), or BAD (channels do not work).\n"
               "The exit code is 0 if channels of cuda-link's protocol should work, else 1.\n",
    .examples = "  sluice doctor\n",
    .options = options,
    .run = doctor_run,
};
