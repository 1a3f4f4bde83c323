/* SPDX-License-Identifier: MIT */
#include "multi/raw.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

struct sockaddr_un raw_address(const char *name)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    CHECK(snprintf(address.sun_path, sizeof address.sun_path, "%s/%s", test_dir(), name) < 108);
    return address;
}

int raw_dial(const char *name)
{
    struct sockaddr_un address = raw_address(name);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    struct timeval patience = { .tv_sec = 20 };

    CHECK(fd >= 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    CHECK_EQ(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

union sl_message raw_hello(const char *program)
{
    union sl_message message = SL_MESSAGE(SL_MSG_HELLO, hello);
    message.hello.magic = SL_NATIVE_MAGIC;
    message.hello.version_min = SLUICE_WIRE_VERSION_MIN;
    message.hello.version_max = SLUICE_WIRE_VERSION_MAX;
    message.hello.role = SL_ROLE_READER;
    message.hello.hold = message.hello.every = 1;
    message.hello.pid = (uint32_t)getpid();
    message.hello.clock_ns = test_now();
    strcpy(message.hello.program, program);
    return message;
}

bool raw_send(int fd, const void *message, size_t size, const int *fds, int count)
{
    char control[CMSG_SPACE(RAW_FDS * sizeof(int))] = { 0 };
    struct iovec part = { .iov_base = (void *)(uintptr_t)message, .iov_len = size };
    struct msghdr header = { .msg_iov = &part, .msg_iovlen = 1 };

    if (count) {
        header.msg_control = control;
        header.msg_controllen = CMSG_SPACE((size_t)count * sizeof(int));
        struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN((size_t)count * sizeof(int));
        memcpy(CMSG_DATA(rights), fds, (size_t)count * sizeof(int));
    }
    return sendmsg(fd, &header, MSG_NOSIGNAL) >= 0;
}

size_t raw_receive(int fd, union sl_message *message, int *fds, int *count)
{
    char control[CMSG_SPACE(RAW_FDS * sizeof(int))];
    struct iovec part = { .iov_base = message, .iov_len = sizeof *message };
    struct msghdr header = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control
    };
    int got[RAW_FDS], n = 0;

    ssize_t size;
    while ((size = recvmsg(fd, &header, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR)
        ; /* with a timeout it does not resume by itself after its process was stopped */
    if (size < 0 && errno == ECONNRESET)
        size = 0;
    CHECK(size >= 0);
    struct cmsghdr *rights = size ? CMSG_FIRSTHDR(&header) : NULL;
    if (rights) {
        n = (int)((rights->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        memcpy(got, CMSG_DATA(rights), (size_t)n * sizeof(int));
    }
    for (int i = 0; i < n; i++) {
        if (fds)
            fds[i] = got[i];
        else
            close(got[i]);
    }
    if (count)
        *count = n;
    return (size_t)size;
}

/* ---- a writer ---- */

int fake_memory(uint64_t size, void **address, int seals)
{
    int fd = memfd_create("fake", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    int error;

    CHECK(fd >= 0);
    while ((error = posix_fallocate(fd, 0, (off_t)size)) == EINTR)
        ; /* it was stopped, and goes on */
    CHECK_EQ(error, 0);
    void *mapped = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(mapped != MAP_FAILED);
    CHECK_EQ(fcntl(fd, F_ADD_SEALS, seals), 0);
    if (address)
        *address = mapped;
    else
        munmap(mapped, size);
    return fd;
}

static void fill_control(struct fake *fake)
{
    struct sl_control *control = fake->control;
    control->magic = SL_NATIVE_MAGIC;
    control->version = 1;
    control->header_size = sizeof *control;
    control->size = fake->control_size;
    control->session = 42;
    control->ids = 8;
    control->record_stride = SL_NATIVE_STRIDE;
    control->meta_offset = SL_NATIVE_META_OFFSET;
    control->meta_capacity = SLUICE_MAX_META;
    control->memory_kind = SL_MEM_HOST;
    sl_store(&control->oldest_memory, 1, relaxed);
}

static void unmap_all(struct fake *fake)
{
    if (fake->control)
        munmap(fake->control, fake->control_size);
    if (fake->page)
        munmap(fake->page, 2 * RAW_PAGE);
    if (fake->memory)
        munmap(fake->memory, fake->memory_size);
    fake->control = NULL;
    fake->page = NULL;
    fake->memory = NULL;
}

static void corrupt(struct fake *fake, union sl_message *message, int *fds, int *count)
{
    if (fake->corrupt)
        fake->corrupt(fake, message, fds, count);
}

static void send_and_close(int connection, const union sl_message *message, const int *fds, int count)
{
    if (message->header.size)
        raw_send(connection, message, message->header.size > sizeof *message ? sizeof *message : message->header.size,
                 fds, count);
    for (int i = 0; i < count; i++)
        close(fds[i]);
}

static void welcome_reader(struct fake *fake, int connection)
{
    union sl_message message = SL_MESSAGE(SL_MSG_WELCOME, welcome);
    void *address;
    int fds[RAW_FDS], pair[2], count = 3;

    unmap_all(fake);
    fake->control_size = sl_native_control_size(8, RAW_PAGE);
    fds[0] = fake_memory(fake->control_size, &address, ALL_SEALS);
    fake->control = address;
    fill_control(fake);
    fds[1] = fake_memory(2 * RAW_PAGE, &address, SIZE_SEALS);
    fake->page = address;
    fake->page->magic = SL_NATIVE_MAGIC;
    fake->page->session = 42;
    sl_store(&fake->page->cursor, 1, relaxed);
    CHECK_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
    fds[2] = pair[0];
    message.welcome.magic = SL_NATIVE_MAGIC;
    message.welcome.version = 1;
    message.welcome.depth = 4;
    message.welcome.session = 42;
    message.welcome.control_size = fake->control_size;
    message.welcome.page_size = 2 * RAW_PAGE;
    message.welcome.max_slots = 8;
    message.welcome.clock_ns = test_now();
    corrupt(fake, &message, fds, &count);
    send_and_close(connection, &message, fds, count);
    close(pair[1]);

    message = (union sl_message)SL_MESSAGE(SL_MSG_MEMORY, memory);
    fake->memory_size = fake->format.slot_bytes * 8;
    fds[0] = fake_memory(fake->memory_size, &address, ALL_SEALS);
    fake->memory = address;
    count = 1;
    message.memory.memory = message.memory.generation = 1;
    message.memory.bytes = fake->memory_size;
    message.memory.kind = SL_MEM_HOST;
    sl_format_to_wire(&message.memory.format, &fake->format);
    corrupt(fake, &message, fds, &count);
    send_and_close(connection, &message, fds, count);
}

void fake_listen(struct fake *fake)
{
    struct sockaddr_un address = raw_address("cam");

    fake->format = kit_format(8192);
    fake->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    unlink(address.sun_path);
    CHECK_EQ(bind(fake->listener, (struct sockaddr *)&address, sizeof address), 0);
    CHECK_EQ(listen(fake->listener, 16), 0);
}

int fake_accept(struct fake *fake, int timeout_ms)
{
    struct pollfd poll_fd = { .fd = fake->listener, .events = POLLIN };

    if (poll(&poll_fd, 1, timeout_ms) <= 0)
        return -1;
    return accept4(fake->listener, NULL, NULL, SOCK_CLOEXEC);
}

void fake_answer(struct fake *fake, int connection)
{
    union sl_message message;

    if (raw_receive(connection, &message, NULL, NULL) == sizeof message.hello)
        welcome_reader(fake, connection);
    atomic_fetch_add(&fake->connections, 1);
}

static void *fake_writer(void *context)
{
    struct fake *fake = context;
    int last = -1;

    while (!atomic_load(&fake->stop)) {
        int connection = fake_accept(fake, 5);
        if (connection < 0)
            continue;
        if (last >= 0)
            close(last);
        last = connection;
        fake_answer(fake, connection);
    }
    if (last >= 0)
        close(last);
    return NULL;
}

void fake_start(struct fake *fake)
{
    fake_listen(fake);
    CHECK_EQ(pthread_create(&fake->thread, NULL, fake_writer, fake), 0);
}

void fake_stop(struct fake *fake)
{
    atomic_store(&fake->stop, 1);
    pthread_join(fake->thread, NULL);
    close(fake->listener);
    unmap_all(fake);
}
