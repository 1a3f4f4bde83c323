/* SPDX-License-Identifier: MIT */
#include "raw_peer.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MOST_FDS 8

void raw_peer_send(int fd, const void *message, size_t size, const int *fds, int count)
{
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(MOST_FDS * sizeof(int))];
    } control = { .room = { 0 } };
    struct iovec part = { .iov_base = (void *)(uintptr_t)message, .iov_len = size };
    struct msghdr header = { .msg_iov = &part, .msg_iovlen = 1 };

    if (count > 0) {
        header.msg_control = &control;
        header.msg_controllen = CMSG_SPACE((size_t)count * sizeof(int));
        struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN((size_t)count * sizeof(int));
        memcpy(CMSG_DATA(rights), fds, (size_t)count * sizeof(int));
    }
    (void)!sendmsg(fd, &header, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void raw_peer_send_input(struct input *input, int fd)
{
    static uint8_t bytes[8192];
    uint16_t length;
    int fds[MOST_FDS], count = take_byte(input) % (MOST_FDS + 1);

    take(input, &length, sizeof length);
    for (int i = 0; i < count; i++) {
        uint8_t kind = take_byte(input);
        fds[i] = kind == 255 ? fd : raw_peer_fd(kind);
    }
    size_t size = length % sizeof bytes;
    take(input, bytes, size);
    raw_peer_send(fd, bytes, size, fds, count);
}

static int make(unsigned kind)
{
    int ends[2];

    switch (kind) {
    case 0: return memfd_create("stranger", MFD_CLOEXEC);
    case 1: return open("/dev/null", O_RDWR | O_CLOEXEC);
    case 2: /* a pipe at its end */ REQUIRE(pipe2(ends, O_CLOEXEC) == 0 && close(ends[1]) == 0); return ends[0];
    case 3: /* a living process */ return (int)syscall(SYS_pidfd_open, getpid(), 0);
    case 4: return epoll_create1(EPOLL_CLOEXEC);
    case 5: /* a socket that hung up */
        REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0 && close(ends[1]) == 0);
        return ends[0];
    case 6: /* memory that may still shrink */
        ends[0] = memfd_create("stranger", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        REQUIRE(ends[0] >= 0 && ftruncate(ends[0], 69632) == 0);
        return ends[0];
    default: return open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    }
}

int raw_peer_fd(uint8_t kind)
{
    static int made[8];

    kind %= 8;
    if (made[kind] == 0) {
        made[kind] = make(kind);
        REQUIRE(made[kind] > 0);
    }
    return made[kind];
}

int raw_peer_open_fds(void)
{
    const struct dirent *entry;
    char kind[8];
    int count = 0;
    DIR *folder = opendir("/proc/self/fd");

    REQUIRE(folder);
    while ((entry = readdir(folder))) {
        ssize_t length = readlinkat(dirfd(folder), entry->d_name, kind, sizeof kind);
        /* Engines and sanitizers have pipes to helpers of their own; the library has none. */
        count += length < 5 || memcmp(kind, "pipe:", 5) != 0;
    }
    closedir(folder);
    return count;
}

int raw_peer_mappings(void)
{
    static char line[4096];
    int count = 0;
    FILE *file = fopen("/proc/self/maps", "re");

    REQUIRE(file);
    while (fgets(line, sizeof line, file))
        count += strstr(line, "/memfd:") != NULL;
    fclose(file);
    return count;
}
