/* SPDX-License-Identifier: MIT
 *
 * Checks of the kernel, its limits, memory and the folder of channels.
 */
#include "doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include <sluice/sluice.h>

#include "../common/term.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif
#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

static void check_kernel(struct report *report)
{
    struct utsname name;
    if (uname(&name) == 0)
        report_add(report, "kernel", FINDING_OK, "", "%s %s, %s", name.sysname, name.release, name.machine);
}

/* Channels need sealed memory, and a futex on a read-only mapping of it. */
static void check_memory_files(struct report *report)
{
    static const char fix[] = "use Linux 5.1 or newer, and allow memfd_create in the sandbox";
    long page = sysconf(_SC_PAGESIZE);
    int fd = memfd_create("sluice-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 || ftruncate(fd, page) < 0) {
        report_add(report, "memory files", FINDING_BAD, fix, "memfd_create: %s", strerror(errno));
    } else if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE) < 0) {
        report_add(report, "memory files", FINDING_BAD, fix, "no F_SEAL_FUTURE_WRITE: %s", strerror(errno));
    } else {
        report_add(report, "memory files", FINDING_OK, "", "memfd can be sealed against writing");
        uint32_t *word = mmap(NULL, (size_t)page, PROT_READ, MAP_SHARED, fd, 0);
        struct timespec soon = { .tv_nsec = 1000000 };
        if (word == MAP_FAILED)
            report_add(report, "waiting", FINDING_BAD, "", "memory cannot be mapped read-only: %s", strerror(errno));
        else if (syscall(SYS_futex, word, FUTEX_WAIT, 0, &soon, NULL, 0) < 0 && errno != ETIMEDOUT)
            report_add(report, "waiting", FINDING_BAD, "", "futex does not work on read-only memory: %s",
                       strerror(errno));
        else
            report_add(report, "waiting", FINDING_OK, "", "futex works on read-only memory");
        if (word != MAP_FAILED)
            munmap(word, (size_t)page);
    }
    if (fd >= 0)
        close(fd);
}

static void check_processes(struct report *report)
{
    int pair[2], peer = -1, own = (int)syscall(SYS_pidfd_open, getpid(), 0);
    socklen_t size = sizeof peer;
    bool by_socket = false;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
        report_add(report, "sockets", FINDING_BAD, "allow Unix sockets in the sandbox",
                   "SOCK_SEQPACKET is not available: %s", strerror(errno));
    } else {
        by_socket = getsockopt(pair[0], SOL_SOCKET, SO_PEERPIDFD, &peer, &size) == 0;
        close(pair[0]);
        close(pair[1]);
    }
    if (by_socket)
        report_add(report, "processes", FINDING_OK, "", "pidfd and SO_PEERPIDFD are available, also across containers");
    else if (own >= 0)
        report_add(report, "processes", FINDING_NOTE, "use Linux 6.5 or newer for SO_PEERPIDFD",
                   "pidfd only within a PID namespace: the death of a peer in another one is detected by its "
                   "socket");
    else
        report_add(report, "processes", FINDING_NOTE, "use Linux 5.3 or newer",
                   "no pidfd (%s): the death of a peer is detected by its socket only", strerror(errno));
    if (peer >= 0)
        close(peer);
    if (own >= 0)
        close(own);
    if (access("/proc/self/comm", R_OK) == 0)
        report_add(report, "/proc", FINDING_OK, "", "mounted");
    else
        report_add(report, "/proc", FINDING_NOTE, "mount -t proc proc /proc",
                   "not mounted: the names of programs are unknown");
}

static void check_folder(struct report *report)
{
    const char *folder = sluice_registry_folder();
    const char *given = getenv("SLUICE_DIR");
    const char *origin = given && given[0] ? "from SLUICE_DIR" : "the default";
    struct stat status;
    char fix[256] = "";
    if (stat(folder, &status) < 0 && errno == ENOENT) {
        report_add(report, "folder", FINDING_OK, "", "%s (%s), created when the first channel opens", folder, origin);
        return;
    }
    if (stat(folder, &status) < 0) {
        report_add(report, "folder", FINDING_BAD, "", "%s (%s): %s", folder, origin, strerror(errno));
    } else if (!S_ISDIR(status.st_mode)) {
        snprintf(fix, sizeof fix, "remove %.200s, or set SLUICE_DIR", folder);
        report_add(report, "folder", FINDING_BAD, fix, "%s (%s) is not a folder", folder, origin);
    } else if (status.st_uid != getuid()) {
        report_add(
            report, "folder", FINDING_NOTE, "",
            "%s (%s) belongs to uid %u, mode %04o: you can read channels there if the folder and the writer allow it",
            folder, origin, status.st_uid, status.st_mode & 07777);
    } else if (access(folder, W_OK | X_OK) < 0) {
        snprintf(fix, sizeof fix, "chmod 700 %.200s", folder);
        report_add(report, "folder", FINDING_BAD, fix, "%s (%s) is not writable", folder, origin);
    } else if (status.st_mode & 022 && !given) {
        snprintf(fix, sizeof fix, "chmod 700 %.200s", folder);
        report_add(report, "folder", FINDING_BAD, fix, "%s is writable by others, mode %04o", folder,
                   status.st_mode & 07777);
    } else {
        report_add(report, "folder", FINDING_OK, "", "%s (%s), mode %04o", folder, origin, status.st_mode & 07777);
    }
}

static void check_limits(struct report *report)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        bool few = files.rlim_cur < 256;
        report_add(report, "descriptors", few ? FINDING_NOTE : FINDING_OK, few ? "ulimit -n 1024" : "",
                   "%llu may be open at once; a channel with 64 slots takes about 70",
                   (unsigned long long)files.rlim_cur);
    }
}

/* The number after `key` in a file like /proc/meminfo; the first number if `key` is empty. -1 if there is none. */
static long long read_number(const char *path, const char *key)
{
    char line[256];
    long long value = -1;
    FILE *file = fopen(path, "re");
    while (file && value < 0 && fgets(line, sizeof line, file))
        if (strncmp(line, key, strlen(key)) == 0 && sscanf(line + strlen(key), "%lld", &value) != 1)
            value = -1;
    if (file)
        fclose(file);
    return value;
}

static void check_memory(struct report *report)
{
    char text[TERM_TEXT];
    long long free_kib = read_number("/proc/meminfo", "MemAvailable:");
    long long limit = read_number("/sys/fs/cgroup/memory.max", "");
    long long used = read_number("/sys/fs/cgroup/memory.current", "");
    if (limit < 0) {
        limit = read_number("/sys/fs/cgroup/memory/memory.limit_in_bytes", "");
        used = read_number("/sys/fs/cgroup/memory/memory.usage_in_bytes", "");
    }
    if (free_kib >= 0) {
        bool low = free_kib < 256 * 1024;
        report_add(report, "memory", low ? FINDING_NOTE : FINDING_OK, low ? "use fewer slots or smaller frames" : "",
                   "%s free", text_bytes(text, (uint64_t)free_kib * 1024));
    }
    if (limit > 0 && limit < (1LL << 50)) {
        char of[TERM_TEXT];
        report_add(report, "memory limit", FINDING_NOTE, "", "this cgroup may use %s and uses %s, slots included",
                   text_bytes(of, (uint64_t)limit), used >= 0 ? text_bytes(text, (uint64_t)used) : "?");
    }
}

static void check_container(struct report *report)
{
    const char *kind = access("/.dockerenv", F_OK) == 0          ? "Docker"
                       : access("/run/.containerenv", F_OK) == 0 ? "Podman"
                       : getenv("container")                     ? getenv("container")
                       : getenv("KUBERNETES_SERVICE_HOST")       ? "Kubernetes"
                                                                 : NULL;
    if (kind)
        report_add(report, "container", FINDING_NOTE, "",
                   "running in %s: to share channels with other containers, share the folder SLUICE_DIR", kind);
}

static void check_clock(struct report *report)
{
    struct timespec step;
    if (clock_getres(CLOCK_MONOTONIC, &step) == 0 && step.tv_sec == 0 && step.tv_nsec <= 1000)
        report_add(report, "clock", FINDING_OK, "", "CLOCK_MONOTONIC in steps of %ld ns", step.tv_nsec);
    else
        report_add(report, "clock", FINDING_NOTE, "boot with high-resolution timers",
                   "CLOCK_MONOTONIC is coarse, and so are measured latencies");
}

void check_system(struct report *report)
{
    check_kernel(report);
    check_memory_files(report);
    check_processes(report);
    check_folder(report);
    check_limits(report);
    check_memory(report);
    check_container(report);
    check_clock(report);
}
