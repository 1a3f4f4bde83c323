/* SPDX-License-Identifier: MIT
 *
 * Checks of the system around GPUs: device nodes, containers, WSL2, the environment.
 */
#include "doctor.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define INITIAL_PID_NAMESPACE "pid:[4026531836]" /* a constant of the kernel */
#define WANTED_CONNECTIONS    32

static const char *join_path(char path[512], const char *root, const char *rest)
{
    snprintf(path, 512, "%s%s", root, rest);
    return path;
}

/* The first line of a file; false if there is none. */
static bool read_line(const char *root, const char *name, char *line, int size)
{
    char path[512];
    FILE *file = fopen(join_path(path, root, name), "re");
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
    if (glob(join_path(path, root, "/dev/nvidia[0-9]*"), 0, NULL, &nodes) == 0)
        count = (unsigned)nodes.gl_pathc;
    globfree(&nodes);
    return count;
}

/* Without /sys the release is read from a line such as
 * "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  ...". */
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
    return access(join_path(path, root, "/dev/dxg"), F_OK) == 0 ||
           (read_line(root, "/proc/version", line, sizeof line) && strcasestr(line, "microsoft"));
}

static bool in_pid_namespace(const char *root)
{
    char path[512], name[64];
    ssize_t length = readlink(join_path(path, root, "/proc/self/ns/pid"), name, sizeof name - 1);
    name[length < 0 ? 0 : length] = 0;
    return length > 0 && strcmp(name, INITIAL_PID_NAMESPACE) != 0;
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

/* ---- what it means for channels ---- */

static void check_wsl(struct report *report)
{
    if (report->system.wsl)
        report_add(report, "WSL2", FINDING_NOTE, "",
                   "the Windows driver may lack exported memory, registered memory and stream memory "
                   "operations (see each GPU). It submits work in batches: frames arrive later, although "
                   "each commit and release flushes (cuStreamQuery); not measured. Channels in host memory "
                   "work as on Linux");
}

static void check_given(struct report *report)
{
    const struct gpu_system *system = &report->system;
    if (system->given)
        report_add(report, "container", FINDING_NOTE, "",
                   "its GPUs are \"%.80s\" (NVIDIA_VISIBLE_DEVICES); channels work between containers that "
                   "have the same GPU, identified by its UUID",
                   system->given);
    if (system->visible)
        report_add(report, "visible", FINDING_NOTE, "",
                   "CUDA_VISIBLE_DEVICES is \"%.80s\": \"cuda:0\" is the first of these, and may be another GPU "
                   "in a program without this variable; Sluice compares UUIDs",
                   system->visible);
    if (system->pid_namespace)
        report_add(report, "PID space", FINDING_NOTE, "",
                   "not the initial PID namespace: channels on GPUs work, but pids of programs outside are "
                   "shown as 0, and legacy CUDA IPC does not work between PID namespaces");
}

static void check_connections(struct report *report)
{
    const char *text = report->system.connections;
    if (text && atoi(text) >= WANTED_CONNECTIONS)
        report_add(report, "queues", FINDING_OK, "",
                   "CUDA_DEVICE_MAX_CONNECTIONS is %.20s: a stream that waits ahead for a frame (.ahead) "
                   "does not block others",
                   text);
    else
        report_add(report, "queues", FINDING_NOTE,
                   "if a reader acquires frames ahead, set CUDA_DEVICE_MAX_CONNECTIONS=32 before CUDA starts",
                   "CUDA_DEVICE_MAX_CONNECTIONS is %.20s: on a busy GPU each stream that waits ahead for a "
                   "frame (.ahead) blocks %s of its process. Readers that wait on the CPU block nothing",
                   text ? text : "not set (8)",
                   text && atoi(text) == 1 ? "all other streams" : "one in eight of the other streams");
}

static void check_blocking(struct report *report)
{
    const char *text = report->system.blocking;
    if (text && text[0] && strcmp(text, "0") != 0)
        report_add(report, "launches", FINDING_NOTE, "unset it, except to debug",
                   "CUDA_LAUNCH_BLOCKING is %.20s: each call waits until its work is done, so a commit "
                   "waits for the writer's work, and frames cannot be acquired ahead (.ahead)",
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
                   "confidential computing is on: the GPU cannot access registered host memory, so it "
                   "cannot signal readers itself (see each GPU)");
}

void check_no_gpu(struct report *report, const char *reason)
{
    const struct gpu_system *system = &report->system;
    const char *fix = "";
    if (system->given &&
        (!system->given[0] || strcmp(system->given, "void") == 0 || strcmp(system->given, "none") == 0))
        fix = "start the container with GPUs; NVIDIA_VISIBLE_DEVICES gives it none";
    else if (system->nodes && strstr(reason, "no CUDA driver"))
        fix = "there is a GPU (/dev/nvidia0): install the libcuda.so.1 that matches the kernel module; "
              "in a container NVIDIA_DRIVER_CAPABILITIES must include \"compute\"";
    else if (!system->nodes && !system->wsl && !strstr(reason, "no CUDA driver"))
        fix = "there is no /dev/nvidia0: load the kernel module (nvidia), or start the container "
              "with GPUs";
    report_add(report, "GPU", FINDING_NOTE, fix, "%s; channels in host memory work without: %.400s",
               report->gpu_count ? "not all can be queried" : "none", reason);
}
