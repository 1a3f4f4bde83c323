/* SPDX-License-Identifier: MIT
 *
 * Who the peer is, whether it is trusted, whether it lives.
 */
#include <grp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "os/os.h"
#include "os_kit.h"

TEST(process_ourselves)
{
    char name[64], small[4], command[512] = "";
    CHECK_EQ(sl_os_pid(), getpid());
    CHECK_EQ(sl_os_uid(), geteuid());
    sl_os_program(name, sizeof(name));
    FILE *file = fopen("/proc/self/cmdline", "re");
    CHECK(file && fread(command, 1, sizeof(command) - 1, file) > 0);
    fclose(file);
    const char *slash = strrchr(command, '/');
    CHECK_STR(name, slash ? slash + 1 : command);
    sl_os_program(small, sizeof(small));
    CHECK_EQ(strlen(small), 3);
}

static void put_file(const char *root, const char *folder, const char *name, const char *text)
{
    char path[512];

    snprintf(path, sizeof path, "%s/%s", root, folder);
    CHECK(mkdir(path, 0700) == 0);
    snprintf(path, sizeof path, "%s/%s/%s", root, folder, name);
    FILE *file = fopen(path, "we");
    CHECK(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

TEST(process_on_wsl)
{
    char root[400];

    snprintf(root, sizeof root, "%s/by-name", test_dir());
    CHECK(mkdir(root, 0700) == 0);
    CHECK(!sl_os_wsl(root));
    put_file(root, "proc", "version", "Linux version 5.15.167.4-Microsoft-standard-WSL2\n");
    CHECK(sl_os_wsl(root));
    snprintf(root, sizeof root, "%s/by-device", test_dir());
    CHECK(mkdir(root, 0700) == 0);
    put_file(root, "proc", "version", "Linux version 6.8.0-generic\n");
    CHECK(!sl_os_wsl(root));
    put_file(root, "dev", "dxg", "");
    CHECK(sl_os_wsl(root));
}

TEST(process_peer_identity)
{
    int pair[2];
    struct sl_peer_identity peer;
    CHECK_OK(sl_os_socket_pair(pair));
    CHECK_OK(sl_os_peer(pair[0], &peer));
    CHECK_EQ(peer.pid, getpid());
    CHECK_EQ(peer.uid, geteuid());
    CHECK_EQ(peer.gid, getegid());
    if (peer.pidfd >= 0) {
        check_flags(peer.pidfd, false);
        CHECK(sl_os_pidfd_valid(peer.pidfd));
        CHECK(!sl_os_pidfd_dead(peer.pidfd));
        sl_os_close(peer.pidfd);
    }
    sl_os_close(pair[0]);
    sl_os_close(pair[1]);
}

TEST(process_peer_of_what_is_not_connected)
{
    struct sl_peer_identity peer = { .pid = 77 };
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), pipes[2];
    CHECK_SAYS(sl_os_peer(fd, &peer), SLUICE_E_SYSTEM, "not connected");
    CHECK_EQ(pipe(pipes), 0);
    CHECK_RESULT(sl_os_peer(pipes[0], &peer), SLUICE_E_SYSTEM);
    CHECK_EQ(peer.pid, 77);
    close(fd);
    close(pipes[0]);
    close(pipes[1]);
}

TEST(process_peer_needs_a_descriptor)
{
    int pair[2];
    struct sl_peer_identity peer = { .pid = 77 };
    CHECK_OK(sl_os_socket_pair(pair));
    CHECK_OK(sl_os_peer(pair[0], &peer));
    if (peer.pidfd < 0)
        SKIP("this kernel has no SO_PEERPIDFD");
    sl_os_close(peer.pidfd);
    limit_fds(0);
    int result = sl_os_peer(pair[0], &peer);
    limit_fds(-1);
    CHECK_SAYS(result, SLUICE_E_NO_DESCRIPTORS, "RLIMIT_NOFILE");
    sl_os_close(pair[0]);
    sl_os_close(pair[1]);
}

/* ---- trust ---- */

static bool allowed(uint32_t uid, uint32_t gid, const uint32_t *uids, uint32_t uid_count, const uint32_t *gids,
                    uint32_t gid_count)
{
    struct sl_peer_identity peer = { .pid = 1, .uid = uid, .gid = gid, .pidfd = -1 };
    return sl_os_peer_allowed(-1, &peer, uids, uid_count, gids, gid_count);
}

TEST(process_trust_by_uid)
{
    const uint32_t uids[] = { 4001, 4002 };
    CHECK(allowed(geteuid(), 1, NULL, 0, NULL, 0));
    CHECK(allowed(geteuid(), 1, uids, 2, NULL, 0));
    CHECK(!allowed(4001, 1, NULL, 0, NULL, 0));
    CHECK(allowed(4001, 1, uids, 2, NULL, 0));
    CHECK(allowed(4002, 1, uids, 2, NULL, 0));
    CHECK(!allowed(4003, 1, uids, 2, NULL, 0));
    CHECK(!allowed(geteuid() + 1, getegid(), NULL, 0, NULL, 0)); /* no group was given */
}

TEST(process_trust_by_gid)
{
    const uint32_t gids[] = { 5001, 5002 };
    CHECK(allowed(4001, 5001, NULL, 0, gids, 2));
    CHECK(allowed(4001, 5002, NULL, 0, gids, 2));
    CHECK(!allowed(4001, 5003, NULL, 0, gids, 2));
    CHECK(!allowed(5001, 4001, NULL, 0, gids, 2)); /* a uid is no gid */
}

/* The overflow uid may be anybody, including this user. */
TEST(process_overflow_uid_is_not_trusted)
{
    const uint32_t named[] = { 65534 }, gids[] = { 5001 };
    unsigned overflow = 0;
    FILE *file = fopen("/proc/sys/kernel/overflowuid", "re");
    CHECK(file && fscanf(file, "%u", &overflow) == 1);
    fclose(file);
    if (overflow != 65534)
        SKIP("the overflow uid is %u here", overflow);
    CHECK(!allowed(65534, 1, NULL, 0, NULL, 0));
    CHECK(!allowed(65534, 5001, NULL, 0, gids, 1));
    CHECK(allowed(65534, 1, named, 1, NULL, 0));
    if (geteuid() == 0)
        IN_CHILD({
            CHECK_EQ(setresuid(65534, 65534, 65534), 0);
            CHECK(!allowed(65534, 1, NULL, 0, NULL, 0));
            CHECK(allowed(65534, 1, named, 1, NULL, 0));
        });
}

/* As the kernel reports it: another user with other groups connects. */
static void connect_as(int listener_pair[2], gid_t gid, size_t group_count)
{
    gid_t groups[200];
    for (size_t i = 0; i < group_count; i++)
        groups[i] = (gid_t)(6000 + i);
    CHECK_EQ(setgroups(group_count, groups), 0);
    CHECK_EQ(setresgid(gid, gid, gid), 0);
    CHECK_EQ(setresuid(4001, 4001, 4001), 0);
    CHECK_OK(sl_os_socket_pair(listener_pair)); /* has these credentials at both ends */
}

TEST(process_trust_of_another_user)
{
    if (geteuid() != 0)
        SKIP("needs root");
    const size_t counts[] = { 0, 1, 150 };
    for (size_t i = 0; i < 3; i++)
        IN_CHILD({
            int pair[2];
            struct sl_peer_identity peer;
            uint32_t uid = 4001, primary = 5001, last = 5999 + (uint32_t)counts[i], other = 7000;
            connect_as(pair, 5001, counts[i]);
            CHECK_OK(sl_os_peer(pair[0], &peer));
            CHECK_EQ(peer.uid, 4001);
            CHECK_EQ(peer.gid, 5001);
            peer.uid = 4444; /* so that it is not our own */
            CHECK(!sl_os_peer_allowed(pair[0], &peer, NULL, 0, NULL, 0));
            CHECK(!sl_os_peer_allowed(pair[0], &peer, &uid, 1, &other, 1));
            CHECK(sl_os_peer_allowed(pair[0], &peer, NULL, 0, &primary, 1));
            CHECK_EQ(sl_os_peer_allowed(pair[0], &peer, NULL, 0, &last, 1), counts[i] > 0);
        });
}

/* ---- life ---- */

TEST(process_death_of_a_peer)
{
    int pair[2], other[2];
    struct sl_peer_identity peer;
    char byte;
    CHECK_OK(sl_os_socket_pair(pair));
    pid_t child = fork();
    if (child == 0) {
        CHECK_OK(sl_os_socket_pair(other)); /* made here, so it names this process */
        CHECK_OK(sl_os_send(pair[0], "x", 1, other, 1));
        pause();
        _exit(0);
    }
    size_t size;
    int fds[SL_OS_MAX_FDS], count;
    CHECK_SOON(sl_os_receive(pair[1], &byte, 1, &size, fds, &count) == 0, 5);
    CHECK_OK(sl_os_peer(fds[0], &peer));
    CHECK_EQ(peer.pid, child);
    if (peer.pidfd < 0)
        SKIP("this kernel has no SO_PEERPIDFD");
    CHECK(sl_os_pidfd_valid(peer.pidfd));
    CHECK(!sl_os_pidfd_dead(peer.pidfd));
    kill(child, SIGKILL);
    CHECK_SOON(sl_os_pidfd_dead(peer.pidfd), 5); /* before anybody waits for it */
    CHECK(sl_os_pidfd_valid(peer.pidfd));
    waitpid(child, NULL, 0);
    CHECK(sl_os_pidfd_dead(peer.pidfd));
    CHECK(sl_os_pidfd_valid(peer.pidfd));
    sl_os_close(peer.pidfd);

    CHECK_OK(sl_os_peer(fds[0], &peer)); /* it has ended, but the query is no error */
    CHECK_EQ(peer.pid, child);
    CHECK(peer.pidfd < 0 || sl_os_pidfd_dead(peer.pidfd));
    sl_os_close(peer.pidfd);
    sl_os_close(fds[0]);
    sl_os_close(pair[0]);
    sl_os_close(pair[1]);
}

TEST(process_self_pidfd)
{
    int fd = sl_os_self_pidfd(), status;
    if (fd < 0)
        SKIP("this kernel has no pidfds");
    check_flags(fd, false);
    CHECK(sl_os_pidfd_valid(fd));
    CHECK(!sl_os_pidfd_dead(fd));
    IN_CHILD(CHECK(sl_os_pidfd_valid(fd) && !sl_os_pidfd_dead(fd)));
    sl_os_close(fd);

    pid_t child = fork(); /* of a child: the query reaps nothing */
    if (child == 0)
        _exit(5);
    fd = (int)syscall(SYS_pidfd_open, child, 0);
    CHECK_SOON(sl_os_pidfd_dead(fd), 5);
    CHECK(sl_os_pidfd_valid(fd));
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(WEXITSTATUS(status), 5);
    sl_os_close(fd);
}

TEST(process_what_is_no_pidfd)
{
    int pair[2], fd;
    CHECK_OK(sl_os_socket_pair(pair));
    CHECK(!sl_os_pidfd_valid(pair[0]));
    CHECK(!sl_os_pidfd_valid(-1));
    CHECK(!sl_os_pidfd_valid(900));
    CHECK(!sl_os_pidfd_dead(-1));
    CHECK(!sl_os_pidfd_dead(900));
    CHECK_OK(sl_os_memory_create("x", sl_os_page_size(), &fd));
    CHECK(!sl_os_pidfd_valid(fd));
    sl_os_close(fd);
    CHECK((fd = open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC)) >= 0); /* kill accepts it */
    CHECK(!sl_os_pidfd_valid(fd));
    sl_os_close(fd);
    CHECK((fd = open("/dev/null", O_RDWR | O_CLOEXEC)) >= 0);
    CHECK(!sl_os_pidfd_valid(fd));
    sl_os_close(fd);
    sl_os_close(pair[0]);
    sl_os_close(pair[1]);
}

TEST(memory_that_can_be_read)
{
    char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    CHECK(page != MAP_FAILED);
    CHECK(sl_os_readable(page));
    CHECK(sl_os_readable(page + 8191));
    CHECK(sl_os_readable("text"));
    CHECK(!sl_os_readable(NULL));
    CHECK(!sl_os_readable((void *)(uintptr_t)UINT64_C(0xffff800000000000)));
    CHECK(mprotect(page + 4096, 4096, PROT_NONE) == 0);
    CHECK(sl_os_readable(page + 4095));
    CHECK(!sl_os_readable(page + 4096));
    munmap(page, 8192);
    CHECK(!sl_os_readable(page));
}
