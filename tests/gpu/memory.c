/* SPDX-License-Identifier: MIT
 *
 * GPU memory in several processes.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gpu/kit.h"
#include "mem/mem.h"
#include "os/os.h"

extern const struct sl_mem_ops sl_mem_cuda, sl_mem_cuda_ipc;

#define UNIT  (UINT64_C(2) << 20)
#define WORDS (UNIT / 4)

static struct sl_memory make(uint64_t size)
{
    struct sl_memory memory = { .ops = &sl_mem_cuda, .device = "cuda:0", .fd = -1 };

    CHECK_OK(sl_mem_cuda.create(&memory, "test", size, false));
    return memory;
}

static uint64_t address_of(const struct sl_memory *memory)
{
    return (uintptr_t)memory->address;
}

TEST(made_zeroed_and_writable)
{
    gpu_begin();
    gpu_use(0);
    struct sl_cu_stream *stream = gpu_stream(SL_CU_STREAM_NON_BLOCKING);
    struct sl_memory memory = make(1000); /* less than the granularity */
    int flags = fcntl(memory.fd, F_GETFD);

    CHECK(memory.size >= 1000 && memory.size % 4096 == 0);
    CHECK(flags >= 0 && flags & FD_CLOEXEC);
    CHECK_EQ(gpu_differ(stream, address_of(&memory), memory.size / 4, 0), 0);
    gpu_fill(stream, address_of(&memory), memory.size / 4, 7);
    CHECK_EQ(gpu_differ(stream, address_of(&memory), memory.size / 4, 7), 0);
    CHECK_EQ(gpu_differ(stream, address_of(&memory), memory.size / 4, 8), memory.size / 4);
    sl_mem_cuda.destroy(&memory);
    CHECK(!memory.address && memory.fd == -1);
    sl_mem_cuda.destroy(&memory); /* all fields may be missing */
    CU(StreamDestroy, stream);
    gpu_end();
}

/* A writer and a reader of one memory may be in one process. */
TEST(mapped_twice_in_one_process)
{
    gpu_begin();
    gpu_use(0);
    struct sl_cu_stream *stream = gpu_stream(SL_CU_STREAM_NON_BLOCKING);
    struct sl_memory memory = make(4 * UNIT), mine = { .ops = &sl_mem_cuda, .device = "cuda:0" };

    CHECK_OK(sl_mem_cuda.import(&mine, dup(memory.fd), memory.size, false));
    CHECK(!mine.address);
    CHECK_OK(sl_mem_cuda.map(&mine, false));
    CHECK_EQ(mine.fd, -1);
    CHECK(mine.address && mine.address != memory.address);
    gpu_fill(stream, address_of(&memory), 4 * WORDS, 9);
    CHECK_EQ(gpu_differ(stream, address_of(&mine), 4 * WORDS, 9), 0);
    sl_mem_cuda.destroy(&memory);
    CHECK_EQ(gpu_differ(stream, address_of(&mine), 4 * WORDS, 9), 0); /* it lives as long as one of them */
    sl_mem_cuda.destroy(&mine);
    CU(StreamDestroy, stream);
    gpu_end();
}

/* Makes memory, fills it with 5, passes its descriptor over descriptor 0, and stays until it is killed. */
ROLE(maker)
{
    int socket = atoi(argv[1]);

    CHECK(argc == 2);
    gpu_begin();
    gpu_use(0);
    struct sl_cu_stream *stream = gpu_stream(SL_CU_STREAM_NON_BLOCKING);
    struct sl_memory memory = make(2 * UNIT);
    gpu_fill(stream, address_of(&memory), 2 * WORDS, 5);
    CU(StreamSynchronize, stream);
    CHECK_OK(sl_os_send(socket, &memory.size, sizeof memory.size, &memory.fd, 1));
    role_say("sent");
    while (role_line())
        ;
    return 0;
}

static struct child start_maker(struct sl_memory *taken)
{
    int pair[2], fds[SL_OS_MAX_FDS], count;
    uint64_t size;
    size_t came;
    char text[16];

    CHECK_OK(sl_os_socket_pair(pair));
    CHECK(fcntl(pair[1], F_SETFD, 0) == 0);
    snprintf(text, sizeof text, "%d", pair[1]);
    struct child maker = role_start("maker", text, NULL);
    sl_os_close(pair[1]);
    child_expect(&maker, "sent", 20);
    CHECK_OK(sl_os_receive(pair[0], &size, sizeof size, &came, fds, &count));
    CHECK_EQ(count, 1);
    sl_os_close(pair[0]);
    *taken = (struct sl_memory){ .ops = &sl_mem_cuda, .device = "cuda:0", .fd = -1 };
    CHECK_OK(sl_mem_cuda.import(taken, fds[0], size, false));
    CHECK_OK(sl_mem_cuda.map(taken, false));
    return maker;
}

TEST(it_outlives_the_process_that_made_it)
{
    struct sl_memory memory;

    gpu_begin();
    gpu_use(0);
    struct sl_cu_stream *stream = gpu_stream(SL_CU_STREAM_NON_BLOCKING);
    struct child maker = start_maker(&memory);
    CHECK_EQ(gpu_differ(stream, address_of(&memory), 2 * WORDS, 5), 0);
    child_kill(&maker, SIGKILL);
    CHECK_EQ(gpu_differ(stream, address_of(&memory), 2 * WORDS, 5), 0);

    /* It cannot be written: a copy is refused, or breaks the context as a kernel would. */
    int code = cu.MemsetD8Async(address_of(&memory), 1, 4096, stream);
    if (code == 0)
        code = cu.StreamSynchronize(stream);
    CHECK_NE(code, 0);
    sl_mem_cuda.destroy(&memory);
    if (gpu_is_fake()) {
        CU(StreamDestroy, stream);
        gpu_end();
    }
}

TEST(a_kernel_that_stores_into_what_is_read_only_is_named)
{
    struct sluice_device device;
    struct sluice_stream stream;
    struct sl_memory memory;

    gpu_begin();
    TEST_KEEPS_FDS();
    gpu_use(0);
    struct child maker = start_maker(&memory);
    device = gpu_open();
    CHECK_OK(sluice_stream_create(device, NULL, &stream));
    gpu_store(gpu_native(stream), address_of(&memory), 1);
    CHECK_SAYS(sluice_stream_synchronize(stream), SLUICE_E_DRIVER, "may only read");
    CHECK_RESULT(sluice_device_close(&device), SLUICE_E_DRIVER);
    sl_mem_cuda.destroy(&memory);
    child_kill(&maker, SIGKILL);
    if (gpu_is_fake())
        gpu_end();
}

TEST(other_memory_is_refused)
{
    gpu_begin();
    struct sl_memory memory = make(UNIT);
    int pair[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    int fds[] = { pair[0], open("/dev/null", O_RDWR), open("/", O_RDONLY), open("/proc/self/exe", O_RDONLY),
                  gpu_is_fake() ? dup(pair[0]) : memfd_create("not it", MFD_CLOEXEC) };

    for (int i = 0; i < 5; i++) {
        struct sl_memory bad = { .ops = &sl_mem_cuda, .device = "cuda:0", .fd = -1 };
        CHECK_OK(sl_mem_cuda.import(&bad, fds[i], UNIT, false));
        CHECK_SAYS(sl_mem_cuda.map(&bad, false), SLUICE_E_PROTOCOL, "not GPU memory");
        CHECK(!bad.address && !bad.state);
        sl_mem_cuda.destroy(&bad); /* closes it */
    }
    close(pair[1]);

    /* The size must match, or a call fails before anybody reads. */
    uint64_t sizes[] = { 0, 4096, UNIT + 1, 2 * UNIT };
    for (int i = 0; i < 4; i++) {
        struct sl_memory bad = { .ops = &sl_mem_cuda, .device = "cuda:0", .fd = -1 };
        CHECK_OK(sl_mem_cuda.import(&bad, dup(memory.fd), sizes[i], false));
        CHECK(sl_mem_cuda.map(&bad, false) < 0);
        CHECK(!bad.address);
        sl_mem_cuda.destroy(&bad);
    }
    sl_mem_cuda.destroy(&memory);
}

/* How much was requested and how much is free: other programs allocate and free meanwhile. */
static void check_reported_sizes(uint64_t asked)
{
    const char *said = strstr(sluice_last_error(), "bytes were asked for");
    unsigned long long free_then, all;
    size_t left, total;
    char numbers[32];

    snprintf(numbers, sizeof numbers, ": %llu bytes were", (unsigned long long)asked);
    CHECK_HAS(sluice_last_error(), numbers);
    CHECK(said && sscanf(said, "bytes were asked for, cuda:0 has %llu of its %llu free", &free_then, &all) == 2);
    CU(MemGetInfo, &left, &total);
    CHECK_EQ(all, total);
    CHECK(free_then > 0 && free_then < all);
    uint64_t apart = free_then > left ? free_then - left : left - free_then;
    CHECK_LE(apart, gpu_is_fake() ? 0 : total / 2);
}

TEST(more_than_there_is)
{
    struct sl_memory memory = { .ops = &sl_mem_cuda, .device = "cuda:0", .fd = -1 };

    gpu_begin();
    gpu_use(0);
    gpu_memory(UNIT); /* not all of it is free */
    CHECK_SAYS(sl_mem_cuda.create(&memory, "camera", UINT64_C(1) << 42, false), SLUICE_E_NO_MEMORY, "camera");
    check_reported_sizes(UINT64_C(1) << 42);
    CHECK_SAYS(sl_mem_cuda_ipc.create(&memory, "camera", UINT64_C(1) << 42, false), SLUICE_E_NO_MEMORY, "camera");
    check_reported_sizes(UINT64_C(1) << 42);
    CHECK(!memory.address && !memory.state && memory.fd == -1);
    CHECK_RESULT(sl_mem_cuda.create(&memory, "camera", 0, false), SLUICE_E_INVALID);
    CHECK_RESULT(sl_mem_cuda.create(&memory, "camera", UINT64_MAX, false), SLUICE_E_INVALID);
    memory.device = "cuda:99";
    CHECK_RESULT(sl_mem_cuda.create(&memory, "camera", UNIT, false), SLUICE_E_UNSUPPORTED);
    memory.device = NULL;
    CHECK_RESULT(sl_mem_cuda.create(&memory, "camera", UNIT, false), SLUICE_E_INVALID);
    gpu_end();
}

/* The page in which a handle travels says how much memory it is of, which may be as false as the writer's announcement.
 * */
static int fd_of_a_page_that_says(const struct sl_memory *memory, uint64_t bytes)
{
    uint64_t size = sl_os_page_size();
    void *theirs, *page;
    int fd;

    CHECK_OK(sl_os_map(memory->fd, size, false, &theirs));
    CHECK_OK(sl_os_memory_create("test", size, &fd));
    CHECK_OK(sl_os_map(fd, size, true, &page));
    memcpy(page, theirs, size);
    memcpy((char *)page + 8, &bytes, sizeof bytes);
    sl_os_unmap(theirs, size);
    sl_os_unmap(page, size);
    CHECK_OK(sl_os_memory_seal(fd, true));
    return fd;
}

TEST(handles_of_less_than_was_announced_are_refused)
{
    gpu_begin();
    struct sl_memory memory = { .ops = &sl_mem_cuda_ipc, .device = "cuda:0", .fd = -1 };
    struct sl_memory whole = memory, more = memory;

    CHECK_OK(sl_mem_cuda_ipc.create(&memory, "test", 2 * UNIT, false));
    CHECK_OK(sl_mem_cuda_ipc.import(&whole, fd_of_a_page_that_says(&memory, 2 * UNIT), 2 * UNIT, false));
    CHECK_OK(sl_mem_cuda_ipc.map(&whole, false));
    CHECK_OK(sl_mem_cuda_ipc.import(&more, fd_of_a_page_that_says(&memory, 4 * UNIT), 4 * UNIT, false));
    CHECK_SAYS(sl_mem_cuda_ipc.map(&more, false), SLUICE_E_PROTOCOL, "its handle is of 4194304");
    sl_mem_cuda_ipc.destroy(&more);
    sl_mem_cuda_ipc.destroy(&whole);
    sl_mem_cuda_ipc.destroy(&memory);
    gpu_end();
}
