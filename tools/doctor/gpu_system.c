/* SPDX-License-Identifier: MIT
 *
 * The doctor looks at what is around GPUs: devices, containers, WSL2, the environment.
 */
#include "doctor.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FIRST_PID_NAMESPACE "pid:[4026531836]" /* the kernel's own number for it */
#define WANTED_CONNECTIONS  32

static const char *under(char path[512], const char *root, const char *rest)
{
    snprintf(path, 512, "%s%s", root, rest);
    return path;
}

/* The first line of a file; false if there is none. */
static bool read_line(const char *root, const char *name, char *line, int size)
{
    char path[512];
    FILE *file = fopen(under(path, root, name), "re");
    bool read = file && fgets(line, size, file);
    if (file)
        fclose(file);
    if (read)
        line[strcspn(line, "\n")] = 0;
    return read;
}

static unsigned count_nodes(const char *root)
{
    char path[512];
    glob_t nodes = { 0 };
    unsigned count = 0;
    if (glob(under(path, root, "/dev/nvidia[0-9]*"), 0, NULL, &nodes) == 0)
        count = (unsigned)nodes.gl_pathc;
    globfree(&nodes);
    return count;
}

/* "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  ..." has it too, where /sys is not.
 */
static void read_release(struct gpu_system *system, const char *root)
{
    char line[256], *at = line;
    if (read_line(root, "/sys/module/nvidia/version", system->release, sizeof system->release) ||
        !read_line(root, "/proc/driver/nvidia/version", line, sizeof line))
        return;
    for (; (at = strpbrk(at, "0123456789")); at += strspn(at, "0123456789.")) {
        size_t length = strspn(at, "0123456789.");
        if (memchr(at, '.', length)) {
            snprintf(system->release, sizeof system->release, "%.*s", (int)length, at);
            return;
        }
    }
}

static bool is_wsl(const char *root)
{
    char path[512], line[256];
    return access(under(path, root, "/dev/dxg"), F_OK) == 0 ||
           (read_line(root, "/proc/version", line, sizeof line) && strcasestr(line, "microsoft"));
}

static bool in_pid_namespace(const char *root)
{
    char path[512], name[64];
    ssize_t length = readlink(under(path, root, "/proc/self/ns/pid"), name, sizeof name - 1);
    name[length < 0 ? 0 : length] = 0;
    return length > 0 && strcmp(name, FIRST_PID_NAMESPACE) != 0;
}

void read_gpu_system(struct gpu_system *system, const char *root)
{
    *system = (struct gpu_system){
        .nodes = count_nodes(root),
        .wsl = is_wsl(root),
        .pid_namespace = in_pid_namespace(root),
        .given = getenv("NVIDIA_VISIBLE_DEVICES"),
        .visible = getenv("CUDA_VISIBLE_DEVICES"),
        .connections = getenv("CUDA_DEVICE_MAX_CONNECTIONS"),
        .blocking = getenv("CUDA_LAUNCH_BLOCKING"),
        .confidential = -1,
    };
    read_release(system, root);
}

/* ---- what it does to channels ---- */

static void check_wsl(struct report *report)
{
    if (report->system.wsl)
        report_add(report, "WSL2", FINDING_NOTE, "",
             "the driver is that of Windows: memory as a descriptor, registered memory and queued "
             "words may be missing (see each GPU), and work is handed over in batches, so that "
             "frames come later, though each commit and release asks for it (cuStreamQuery); "
             "not measured. Channels in host memory work as on Linux");
}

static void check_given(struct report *report)
{
    const struct gpu_system *system = &report->system;
    if (system->given)
        report_add(report, "container", FINDING_NOTE, "",
             "it was given the GPUs \"%.80s\" (NVIDIA_VISIBLE_DEVICES); channels between "
             "containers that have the same GPU work, they go by UUID",
             system->given);
    if (system->visible)
        report_add(report, "visible", FINDING_NOTE, "",
             "CUDA_VISIBLE_DEVICES is \"%.80s\": \"cuda:0\" is the first of those, and another GPU "
             "in a program that is started without it; frames go by UUID",
             system->visible);
    if (system->pid_namespace)
        report_add(report, "PID space", FINDING_NOTE, "",
             "separate from the machine's: channels on GPUs work, pids of programs outside show as "
             "0. CUDA's own sharing between processes (legacy IPC) would not work across it");
}

static void check_connections(struct report *report)
{
    const char *text = report->system.connections;
    if (text && atoi(text) >= WANTED_CONNECTIONS)
        report_add(report, "queues", FINDING_OK, "",
             "CUDA_DEVICE_MAX_CONNECTIONS is %.20s: a stream that waits ahead of a frame (.ahead) "
             "holds up no other",
             text);
    else
        report_add(report, "queues", FINDING_NOTE,
             "if a reader takes frames ahead: CUDA_DEVICE_MAX_CONNECTIONS=32 before CUDA starts",
             "CUDA_DEVICE_MAX_CONNECTIONS is %.20s: each stream that waits ahead of a frame "
             "(.ahead) holds up %s on a busy GPU. Readers that wait on the CPU hold up nothing",
             text ? text : "not set (8)",
             text && atoi(text) == 1 ? "all of the process's others"
                                     : "one in eight of the process's others");
}

static void check_blocking(struct report *report)
{
    const char *text = report->system.blocking;
    if (text && text[0] && strcmp(text, "0") != 0)
        report_add(report, "launches", FINDING_NOTE, "unset it, except to look for a fault",
             "CUDA_LAUNCH_BLOCKING is %.20s: each call waits until its work is done, so a commit "
             "comes after the work instead of behind it, and nothing may be taken ahead",
             text);
}

void check_gpu_system(struct report *report)
{
    check_wsl(report);
    check_given(report);
    check_connections(report);
    check_blocking(report);
    if (report->system.confidential == 1)
        report_add(report, "confidential", FINDING_NOTE, "",
             "confidential computing is on: the GPU cannot work on registered host memory, and "
             "without that there are no words for readers to wait on (see each GPU)");
}

void check_no_gpu(struct report *report, const char *reason)
{
    const struct gpu_system *system = &report->system;
    const char *mend = "";
    if (system->given && (!system->given[0] || strcmp(system->given, "void") == 0 ||
                          strcmp(system->given, "none") == 0))
        mend = "start the container with GPUs: NVIDIA_VISIBLE_DEVICES gives it none";
    else if (system->nodes && strstr(reason, "no CUDA driver"))
        mend = "there is a GPU (/dev/nvidia0): install libcuda.so.1 of the kernel module's "
               "version; in a container NVIDIA_DRIVER_CAPABILITIES must have \"compute\"";
    else if (!system->nodes && !system->wsl && !strstr(reason, "no CUDA driver"))
        mend = "there is no /dev/nvidia0: load the kernel module (nvidia), or start the container "
               "with GPUs";
    report_add(report, "GPU", FINDING_NOTE, mend, "%s; channels in host memory work without: %.400s",
         report->gpu_count ? "not all can be asked" : "none", reason);
}
