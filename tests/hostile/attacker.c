/* SPDX-License-Identifier: MIT */
#include "hostile/attacker.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- a connection ---- */

union sl_message attacker_hello(void)
{
    return raw_hello("attacker");
}

void attacker_say(int fd, const union sl_message *message)
{
    (void)!send(fd, message, message->header.size, MSG_NOSIGNAL);
}

static bool next(int fd, uint32_t type, union sl_message *message, int *fds, int *count)
{
    size_t size = raw_receive(fd, message, fds, count);
    return size >= sizeof message->header && message->header.type == type;
}

static bool take_welcome(struct attacker *attacker)
{
    union sl_message message;
    int fds[RAW_FDS], count;

    if (!next(attacker->fd, SL_MSG_WELCOME, &message, fds, &count) || count < 3)
        return false;
    attacker->control_fd = fds[0];
    attacker->page_fd = fds[1];
    attacker->wake = fds[2];
    for (int i = 3; i < count; i++)
        close(fds[i]);
    attacker->control_size = message.welcome.control_size;
    attacker->page_size = message.welcome.page_size;
    attacker->control = mmap(NULL, attacker->control_size, PROT_READ, MAP_SHARED, attacker->control_fd, 0);
    attacker->page = mmap(NULL, attacker->page_size, PROT_READ | PROT_WRITE, MAP_SHARED, attacker->page_fd, 0);
    CHECK(attacker->control != MAP_FAILED && attacker->page != MAP_FAILED);
    return true;
}

static bool take_memory(struct attacker *attacker)
{
    union sl_message message;
    int fds[RAW_FDS], count;

    if (!next(attacker->fd, SL_MSG_MEMORY, &message, fds, &count) || count != 1)
        return false;
    attacker->memory_fd = fds[0];
    attacker->memory = message.memory.memory;
    return true;
}

static void acknowledge(const struct attacker *attacker)
{
    union sl_message ack = SL_MESSAGE(SL_MSG_ACK, ack);
    ack.ack.memory = attacker->memory;
    attacker_say(attacker->fd, &ack);
}

static void take_lease(struct attacker *attacker)
{
    for (;;) {
        uint64_t head = sl_load(&attacker->control->head, acquire), q = sl_head_sequence(head);
        uint32_t s = sl_head_slot(head);
        sl_store(&attacker->page->lease[s], q, seq_cst);
        if (q && sl_load(&attacker->control->slot_seq[s], seq_cst) == q)
            return;
        sl_store(&attacker->page->lease[s], 0, release);
    }
}

static bool step(struct attacker *attacker, enum attacker_step step, const union sl_message *hello)
{
    union sl_message plain = attacker_hello();

    switch (step) {
    case CONNECTED: attacker->fd = raw_dial("cam"); return true;
    case GREETED: attacker_say(attacker->fd, hello ? hello : &plain); return true;
    case WELCOMED: return take_welcome(attacker);
    case GIVEN: return take_memory(attacker);
    case ARRIVED: acknowledge(attacker); return true;
    case SLEEPING: sl_store(&attacker->page->want, UINT64_MAX >> 1, seq_cst); return true;
    default: take_lease(attacker); return true;
    }
}

bool attacker_go(struct attacker *attacker, enum attacker_step to, const union sl_message *hello)
{
    *attacker = (struct attacker){ .fd = -1, .wake = -1, .control_fd = -1, .page_fd = -1, .memory_fd = -1 };
    for (enum attacker_step s = CONNECTED; s <= to; s++)
        if (!step(attacker, s, hello))
            return false;
    return true;
}

void attacker_attend(struct attacker *attacker)
{
    struct pollfd poll_fd = { .fd = attacker->fd, .events = POLLIN };

    while (poll(&poll_fd, 1, 0) > 0) {
        close(attacker->memory_fd);
        attacker->memory_fd = -1;
        if (!take_memory(attacker))
            return;
        acknowledge(attacker);
    }
}

void attacker_close(struct attacker *attacker)
{
    const int fds[] = { attacker->fd, attacker->wake, attacker->control_fd, attacker->page_fd, attacker->memory_fd };

    for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    if (attacker->control)
        munmap(attacker->control, attacker->control_size);
    if (attacker->page)
        munmap(attacker->page, attacker->page_size);
}

bool attacker_ended(int fd, int timeout_ms)
{
    struct pollfd poll_fd = { .fd = fd, .events = POLLIN };
    union sl_message message;

    while (poll(&poll_fd, 1, timeout_ms) > 0)
        if (raw_receive(fd, &message, NULL, NULL) == 0)
            return true;
    return false;
}

void attacker_many_fds(void)
{
    struct rlimit limit;
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

/* ---- descriptors ---- */

int attacker_lingering(void)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    struct linger hour = { .l_onoff = 1, .l_linger = 3600 };
    socklen_t size = sizeof address;
    static char much[65536];

    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(listener, (struct sockaddr *)&address, size) < 0 || listen(listener, 1) < 0 ||
        getsockname(listener, (struct sockaddr *)&address, &size) < 0)
        return -1; /* no network here */
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, (struct sockaddr *)&address, size) < 0)
        return -1;
    while (send(fd, much, sizeof much, MSG_DONTWAIT | MSG_NOSIGNAL) > 0) /* nobody ever reads it */
        ;
    CHECK_EQ(setsockopt(fd, SOL_SOCKET, SO_LINGER, &hour, sizeof hour), 0);
    return fd;
}

static void *close_it(void *fd)
{
    close((int)(intptr_t)fd);
    return NULL;
}

void attacker_close_lingering(int fd)
{
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, close_it, (void *)(intptr_t)fd), 0);
    CHECK_EQ(pthread_detach(thread), 0);
}

static int memory_of(unsigned flags, off_t size, int seals)
{
    int fd = memfd_create("attacker", MFD_CLOEXEC | MFD_ALLOW_SEALING | flags);
    if (fd >= 0 && ftruncate(fd, size) == 0 && (!seals || fcntl(fd, F_ADD_SEALS, seals) == 0))
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

int attacker_fd(int kind)
{
    int ends[2];

    switch (kind) {
    case 0: return open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    case 1: return open("/dev/zero", O_RDWR | O_CLOEXEC);
    case 2: return open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    case 3: /* a pipe at its end */
        CHECK_EQ(pipe2(ends, O_CLOEXEC), 0);
        close(ends[1]);
        return ends[0];
    case 4: /* a pipe that blocks, full */
        CHECK_EQ(pipe2(ends, O_CLOEXEC), 0);
        fcntl(ends[1], F_SETFL, O_NONBLOCK);
        while (write(ends[1], "full", 4) > 0)
            ;
        fcntl(ends[1], F_SETFL, 0);
        return ends[1];
    case 5: /* a socket that hung up */
        CHECK_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
        close(ends[1]);
        return ends[0];
    case 6: return socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    case 7: return epoll_create1(EPOLL_CLOEXEC);
    case 8: return eventfd(1, EFD_CLOEXEC);
    case 9: return (int)syscall(SYS_pidfd_open, getpid(), 0);
    case 10: return memory_of(0, 69632, 0);                      /* may shrink */
    case 11: return memory_of(0, 4096, SIZE_SEALS);              /* too small */
    case 12: return memory_of(0, 1 << 20, SIZE_SEALS);           /* has no pages */
    default: return memory_of(MFD_HUGETLB, 2 << 20, SIZE_SEALS); /* its pages can be taken away */
    }
}

/* ---- bytes ---- */

uint64_t attacker_random(void)
{
    static uint64_t state = 88172645463325252u; /* fixed, so that a failure can be repeated */
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

/* Word by word and atomically, as the other side reads it. */
void attacker_scribble(void *bytes, size_t size)
{
    for (size_t at = 0; at + 8 <= size; at += 8)
        sl_store((sl_word *)(void *)((char *)bytes + at), attacker_random(), relaxed);
}
