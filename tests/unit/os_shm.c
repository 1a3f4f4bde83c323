/* SPDX-License-Identifier: MIT
 *
 * Memory objects: whole, sealed, and distinguished from everything else that a peer might send.
 */
#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>

#include "os/os.h"
#include "os_kit.h"

#define MIB (UINT64_C(1) << 20)

static uint64_t page(void)
{
    return sl_os_page_size();
}

TEST(shm_page_size)
{
    CHECK(page() >= 4096 && (page() & (page() - 1)) == 0);
}

TEST(shm_create_gives_all_of_it)
{
    int fd;
    struct stat status;
    CHECK_OK(sl_os_memory_create("all", 3 * page(), &fd));
    CHECK_EQ(fstat(fd, &status), 0);
    CHECK_EQ(status.st_size, 3 * page());
    CHECK_GE(status.st_blocks * 512, 3 * page());
    check_flags(fd, false);
    char link[64], target[256] = "";
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    CHECK(readlink(link, target, sizeof(target) - 1) > 0);
    CHECK_HAS(target, "all");
    sl_os_close(fd);
}

TEST(shm_large_ones_are_whole_too)
{
    int fd;
    struct stat status;
    CHECK_OK(sl_os_memory_create("large", 33 * MIB + page(), &fd));
    CHECK_EQ(fstat(fd, &status), 0);
    CHECK_GE(status.st_blocks * 512, 33 * MIB + page());
    sl_os_close(fd);
}

TEST(shm_is_zeroed_and_shared)
{
    int fd;
    void *one, *two;
    CHECK_OK(sl_os_memory_create("zero", 2 * page(), &fd));
    CHECK_OK(sl_os_map(fd, 2 * page(), true, &one));
    CHECK_OK(sl_os_map(fd, 2 * page(), false, &two));
    const unsigned char *bytes = two;
    for (size_t i = 0; i < 2 * page(); i++)
        CHECK_EQ(bytes[i], 0);
    strcpy(one, "written");
    CHECK_STR((const char *)two, "written");
    sl_os_unmap(one, 2 * page());
    sl_os_unmap(two, 2 * page());
    sl_os_unmap(NULL, 0);
    sl_os_close(fd);
}

TEST(shm_size_is_sealed_at_creation)
{
    int fd;
    CHECK_OK(sl_os_memory_create("sealed", page(), &fd));
    CHECK(ftruncate(fd, 0) < 0 && errno == EPERM);
    CHECK(ftruncate(fd, (off_t)(2 * page())) < 0 && errno == EPERM);
    CHECK_OK(sl_os_memory_check(fd, page(), false));
    sl_os_close(fd);
}

TEST(shm_cannot_be_executed)
{
    int fd;
    CHECK_OK(sl_os_memory_create("noexec", page(), &fd));
    if (!(fcntl(fd, F_GET_SEALS) & 0x20)) /* F_SEAL_EXEC */
        SKIP("this kernel has no MFD_NOEXEC_SEAL");
    CHECK(fchmod(fd, 0755) < 0);
    sl_os_close(fd);
}

TEST(shm_invalid_sizes)
{
    int fd = -7;
    CHECK_SAYS(sl_os_memory_create("x", 0, &fd), SLUICE_E_INVALID, "whole pages");
    CHECK_SAYS(sl_os_memory_create("x", 1, &fd), SLUICE_E_INVALID, "whole pages");
    CHECK_SAYS(sl_os_memory_create("x", page() + 1, &fd), SLUICE_E_INVALID, "whole pages");
    CHECK_SAYS(sl_os_memory_create("cam", UINT64_C(1) << 50, &fd), SLUICE_E_NO_MEMORY, "cam");
    CHECK_HAS(sluice_last_error(), "1125899906842624");
    CHECK_RESULT(sl_os_memory_create("x", UINT64_MAX - page() + 1, &fd), SLUICE_E_NO_MEMORY);
    CHECK_EQ(fd, -7);
}

TEST(shm_long_names_are_cut)
{
    char name[1000];
    int fd;
    memset(name, 'n', sizeof(name) - 1);
    name[sizeof(name) - 1] = 0;
    CHECK_OK(sl_os_memory_create(name, page(), &fd));
    sl_os_close(fd);
}

TEST(shm_file_size_limit)
{
    struct rlimit limit = { MIB, MIB };
    int fd = -7;
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0); /* by default the kernel would kill the process for more */
    CHECK_SAYS(sl_os_memory_create("x", 2 * MIB, &fd), SLUICE_E_NO_MEMORY, "RLIMIT_FSIZE");
    CHECK_EQ(fd, -7);
    CHECK_OK(sl_os_memory_create("x", MIB, &fd));
    sl_os_close(fd);
}

TEST(shm_descriptor_limit)
{
    int fd = -7;
    limit_fds(0);
    int result = sl_os_memory_create("x", page(), &fd);
    limit_fds(-1);
    CHECK_SAYS(result, SLUICE_E_NO_DESCRIPTORS, "RLIMIT_NOFILE");
    CHECK_EQ(fd, -7);
}

static void on_alarm(int signal_number)
{
    (void)signal_number;
}

/* A profiler's timer must not keep it from ever finishing. */
TEST(shm_create_under_a_storm_of_signals)
{
    struct sigaction action = { .sa_handler = on_alarm };
    struct itimerval often = { { 0, 500 }, { 0, 500 } }, never = { { 0, 0 }, { 0, 0 } };
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    int fd;
    CHECK_OK(sl_os_memory_create("storm", 64 * MIB, &fd));
    setitimer(ITIMER_REAL, &never, NULL);
    CHECK_OK(sl_os_memory_check(fd, 64 * MIB, false));
    sl_os_close(fd);
}

/* ---- seals ---- */

TEST(shm_seal_forbids_new_writable_mappings)
{
    int fd;
    void *ours, *address = NULL;
    CHECK_OK(sl_os_memory_create("strict", page(), &fd));
    CHECK_OK(sl_os_map(fd, page(), true, &ours));
    CHECK_SAYS(sl_os_memory_check(fd, page(), true), SLUICE_E_PROTOCOL, "write");
    CHECK_OK(sl_os_memory_seal(fd, true));
    CHECK_OK(sl_os_memory_check(fd, page(), true));
    CHECK_RESULT(sl_os_map(fd, page(), true, &address), SLUICE_E_PERMISSION);
    CHECK(!address);
    strcpy(ours, "still writable here");
    CHECK_OK(sl_os_map(fd, page(), false, &address));
    CHECK_STR((const char *)address, "still writable here");
    CHECK(mprotect(address, page(), PROT_READ | PROT_WRITE) < 0);
    CHECK(pwrite(fd, "x", 1, 0) < 0);

    char link[64];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    int again = open(link, O_RDWR | O_CLOEXEC); /* the same user can open it again */
    CHECK(again < 0 || mmap(NULL, page(), PROT_WRITE, MAP_SHARED, again, 0) == MAP_FAILED);
    if (again >= 0)
        close(again);
    sl_os_unmap(address, page());
    sl_os_unmap(ours, page());
    sl_os_close(fd);
}

TEST(shm_seal_is_the_last_one)
{
    int fd;
    CHECK_OK(sl_os_memory_create("last", page(), &fd));
    CHECK_OK(sl_os_memory_seal(fd, false));
    CHECK(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE) < 0);
    CHECK_RESULT(sl_os_memory_seal(fd, true), SLUICE_E_PERMISSION);
    void *address;
    CHECK_OK(sl_os_map(fd, page(), true, &address)); /* not read-only */
    sl_os_unmap(address, page());
    CHECK_RESULT(sl_os_memory_check(fd, page(), true), SLUICE_E_PROTOCOL);
    CHECK_OK(sl_os_memory_check(fd, page(), false));
    sl_os_close(fd);
}

TEST(shm_seal_what_is_no_memory)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    CHECK_RESULT(sl_os_memory_seal(null, true), SLUICE_E_SYSTEM);
    close(null);
    CHECK_RESULT(sl_os_memory_seal(-1, false), SLUICE_E_SYSTEM);
}

/* ---- what a peer may send ---- */

static void refused(int fd, const char *word)
{
    CHECK(fd >= 0);
    CHECK_SAYS(sl_os_memory_check(fd, page(), false), SLUICE_E_PROTOCOL, word);
    CHECK_RESULT(sl_os_memory_check(fd, page(), true), SLUICE_E_PROTOCOL);
    CHECK_RESULT(sl_os_memory_check(fd, 0, false), SLUICE_E_PROTOCOL);
    close(fd);
}

TEST(shm_check_refuses_what_is_no_memory)
{
    int pair[2], file;
    char path[600];
    CHECK_EQ(pipe(pair), 0);
    refused(pair[0], "a pipe");
    close(pair[1]);
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    refused(pair[0], "a socket");
    close(pair[1]);
    refused(open("/dev/null", O_RDWR), "a device");
    refused(open("/dev/zero", O_RDWR), "a device");
    refused(open("/", O_RDONLY), "a folder");
    refused(dup(0), "a");
    snprintf(path, sizeof(path), "%s/file", test_dir());
    CHECK((file = open(path, O_RDWR | O_CREAT, 0600)) >= 0);
    CHECK_EQ(ftruncate(file, (off_t)page()), 0);
    refused(file, "");
    CHECK_RESULT(sl_os_memory_check(-1, page(), false), SLUICE_E_SYSTEM);
    CHECK_RESULT(sl_os_memory_check(900, page(), false), SLUICE_E_SYSTEM);
}

static int peer_memory(uint64_t size, int seals)
{
    int fd = memfd_create("peer", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    CHECK(fd >= 0);
    CHECK_EQ(posix_fallocate(fd, 0, (off_t)size), 0);
    CHECK(!seals || fcntl(fd, F_ADD_SEALS, seals) == 0);
    return fd;
}

TEST(shm_check_refuses_memory_that_lacks_pages)
{
    int fd = peer_memory(page(), 0);
    CHECK_EQ(ftruncate(fd, (off_t)page() * 2), 0);
    CHECK_EQ(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
    CHECK_SAYS(sl_os_memory_check(fd, 2 * page(), false), SLUICE_E_PROTOCOL, "4096 only");
    close(fd);
    fd = memfd_create("huge", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB);
    if (fd < 0)
        return; /* no such memory here */
    CHECK_EQ(ftruncate(fd, 2 << 20), 0);
    CHECK_EQ(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
    CHECK_SAYS(sl_os_memory_check(fd, 2 << 20, false), SLUICE_E_PROTOCOL, "huge pages");
    close(fd);
}

TEST(shm_check_refuses_memory_that_is_not_as_announced)
{
    refused(peer_memory(page(), 0), "size");
    refused(peer_memory(page(), F_SEAL_SHRINK), "size");
    refused(peer_memory(page(), F_SEAL_GROW), "size");
    refused(memfd_create("unsealable", MFD_CLOEXEC), "size");

    int fd = peer_memory(2 * page(), F_SEAL_SHRINK | F_SEAL_GROW);
    CHECK_SAYS(sl_os_memory_check(fd, page(), false), SLUICE_E_PROTOCOL, "announced");
    CHECK_SAYS(sl_os_memory_check(fd, 3 * page(), false), SLUICE_E_PROTOCOL, "announced");
    CHECK_RESULT(sl_os_memory_check(fd, 2 * page() - 1, false), SLUICE_E_PROTOCOL);
    CHECK_SAYS(sl_os_memory_check(fd, 2 * page(), true), SLUICE_E_PROTOCOL, "write");
    CHECK_OK(sl_os_memory_check(fd, 2 * page(), false));
    CHECK_EQ(fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE), 0);
    CHECK_OK(sl_os_memory_check(fd, 2 * page(), true));
    close(fd);
}

TEST(shm_map_fails_clearly)
{
    int fd, null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    void *address = NULL;
    CHECK_OK(sl_os_memory_create("x", page(), &fd));
    CHECK(sl_os_map(fd, 0, false, &address) < 0);
    CHECK_RESULT(sl_os_map(fd, UINT64_C(1) << 62, false, &address), SLUICE_E_NO_MEMORY);
    CHECK(sl_os_map(-1, page(), false, &address) < 0);
    CHECK(sl_os_map(null, page(), true, &address) < 0);
    CHECK(!address);
    close(null);
    sl_os_close(fd);
}

/* ---- a copy of the file for kernels that are older, or have no memory left ---- */

static int fallocate_error, fallocate_calls, memfd_refuses_flag;

static int scarce_fallocate(int fd, int mode, off_t offset, off_t size)
{
    errno = fallocate_calls++ % 2 ? fallocate_error : EINTR;
    return errno ? -1 : fallocate(fd, mode, offset, size);
}

static int old_memfd_create(const char *name, unsigned flags)
{
    errno = EINVAL;
    return memfd_refuses_flag && flags & 8 ? -1 : memfd_create(name, flags);
}

static int scarce_create(const char *name, uint64_t size, int *fd);
static int scarce_seal(int fd, bool read_only);
static int scarce_check(int fd, uint64_t size, bool read_only);
static int scarce_map(int fd, uint64_t size, bool writable, void **address);
static void scarce_unmap(void *address, uint64_t size);

#define fallocate(...)      scarce_fallocate(__VA_ARGS__)
#define memfd_create(...)   old_memfd_create(__VA_ARGS__)
#define sl_os_memory_create scarce_create
#define sl_os_memory_seal   scarce_seal
#define sl_os_memory_check  scarce_check
#define sl_os_map           scarce_map
#define sl_os_unmap         scarce_unmap
#include "os/posix/shm.c"

TEST(shm_on_an_old_kernel_and_through_interruptions)
{
    int fd;
    void *address = NULL;
    memfd_refuses_flag = 1;
    CHECK_OK(scarce_create("old", 8 * MIB, &fd));
    CHECK_EQ(fallocate_calls, 8); /* 4 steps, each interrupted once */
    CHECK_OK(scarce_check(fd, 8 * MIB, false));
    CHECK_OK(scarce_seal(fd, true));
    CHECK_OK(scarce_map(fd, 8 * MIB, false, &address));
    scarce_unmap(address, 8 * MIB);
    sl_os_close(fd);
}

TEST(shm_when_memory_runs_out)
{
    const int errors[] = { ENOSPC, ENOMEM };
    for (int i = 0; i < 2; i++) {
        int fd = -7, before = open_count();
        fallocate_error = errors[i];
        CHECK_SAYS(scarce_create("the camera", 8 * MIB, &fd), SLUICE_E_NO_MEMORY, "the camera");
        CHECK_HAS(sluice_last_error(), "8388608");
        CHECK_EQ(fd, -7);
        CHECK_EQ(open_count(), before);
    }
}
