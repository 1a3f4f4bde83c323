/* SPDX-License-Identifier: MIT
 *
 * The fake driver itself: its switches work, and its memory is as strict as a GPU's.
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fake/fake.h"
#include "gpu/kit.h"

#define UNIT ((size_t)2 << 20)

static struct sl_cu_stream *set_up(void)
{
    fake_use();
    gpu_begin();
    gpu_use(0);
    return gpu_stream(SL_CU_STREAM_NON_BLOCKING);
}

static void tear_down(struct sl_cu_stream *stream)
{
    CU(StreamDestroy, stream);
    gpu_end();
}

/* ---- memory ---- */

static uint64_t make(size_t size, int *code)
{
    struct sl_cu_allocation what = { .type = SL_CU_ALLOCATION_PINNED,
                                     .handle_types = SL_CU_HANDLE_POSIX_FD,
                                     .location = { SL_CU_LOCATION_DEVICE, 0 } };
    uint64_t handle = 0;

    *code = cu.MemCreate(&handle, size, &what, 0);
    return handle;
}

static uint64_t map(uint64_t handle, size_t size, int device, int access, int *code)
{
    struct sl_cu_access who = { .location = { SL_CU_LOCATION_DEVICE, device }, .flags = access };
    uint64_t address;

    CU(MemAddressReserve, &address, size, 0, 0, 0);
    CU(MemMap, address, size, 0, handle, 0);
    *code = cu.MemSetAccess(address, size, &who, 1);
    return address;
}

static void unmap(uint64_t address, size_t size)
{
    CU(MemUnmap, address, size);
    CU(MemAddressFree, address, size);
}

static sigjmp_buf fault;

static void on_fault(int number)
{
    (void)number;
    siglongjmp(fault, 1);
}

/* Does a store by the CPU fault? */
static bool store_faults(uint64_t address)
{
    struct sigaction old, action = { .sa_handler = on_fault };

    CHECK(sigaction(SIGSEGV, &action, &old) == 0);
    bool faults = sigsetjmp(fault, 1) != 0;
    if (!faults)
        *(volatile char *)(uintptr_t)address = 1;
    CHECK(sigaction(SIGSEGV, &old, NULL) == 0);
    return faults;
}

/* Readers' memory is read-only for the CPU, too, which sees the fake driver's memory by chance. */
TEST(stray_stores_of_the_cpu_fault)
{
    int code;

    fake_machine.apart = false;
    struct sl_cu_stream *stream = set_up();
    uint64_t handle = make(UNIT, &code);
    CHECK_EQ(code, 0);
    uint64_t ours = map(handle, UNIT, 0, SL_CU_ACCESS_READ_WRITE, &code);
    uint64_t theirs = map(handle, UNIT, 0, SL_CU_ACCESS_READ, &code);
    CU(MemRelease, handle);
    CHECK(!store_faults(ours));
    CHECK(store_faults(theirs));
    CHECK_EQ(*(volatile char *)(uintptr_t)theirs, 1);
    CHECK_NE(cu.MemsetD8Async(theirs, 7, 4, stream), 0);
    CU(MemsetD8Async, ours, 7, 4, stream);
    CU(StreamSynchronize, stream);
    CHECK_EQ(*(volatile char *)(uintptr_t)theirs, 7);
    unmap(ours, UNIT);
    unmap(theirs, UNIT);
    tear_down(stream);
}

/* As with most GPUs: the CPU does not see their memory at all. */
TEST(memory_apart)
{
    int code;

    fake_machine.apart = true;
    struct sl_cu_stream *stream = set_up();
    uint64_t handle = make(UNIT, &code);
    uint64_t ours = map(handle, UNIT, 0, SL_CU_ACCESS_READ_WRITE, &code);
    uint64_t theirs = map(handle, UNIT, 0, SL_CU_ACCESS_READ, &code);
    CU(MemRelease, handle);
    CHECK(store_faults(ours));
    gpu_fill(stream, ours, UNIT / 4, 9);
    CHECK_EQ(gpu_differ(stream, theirs, UNIT / 4, 9), 0);
    CHECK_EQ(gpu_differ(stream, theirs, UNIT / 4, 8), UNIT / 4);
    unmap(ours, UNIT);
    unmap(theirs, UNIT);
    tear_down(stream);
}

TEST(memory_counts_until_nothing_holds_it)
{
    size_t left, total, before;
    int code;

    fake_machine.memory = 8 * UNIT;
    struct sl_cu_stream *stream = set_up();
    CU(MemGetInfo, &before, &total);
    CHECK_EQ(total, 8 * UNIT);
    CHECK_EQ(before, total);
    uint64_t handle = make(6 * UNIT, &code);
    CHECK_EQ(code, 0);
    make(3 * UNIT, &code);
    CHECK_EQ(code, SL_CU_OUT_OF_MEMORY);
    uint64_t address = map(handle, 6 * UNIT, 0, SL_CU_ACCESS_READ, &code);
    CU(MemRelease, handle);
    CU(MemGetInfo, &left, &total);
    CHECK_EQ(left, 2 * UNIT); /* the mapping holds it */
    unmap(address, 6 * UNIT);
    CU(MemGetInfo, &left, &total);
    CHECK_EQ(left, before);
    gpu_use(1); /* each GPU has its own */
    make(8 * UNIT, &code);
    CHECK_EQ(code, 0);
    gpu_use(0);
    tear_down(stream);
    TEST_KEEPS_FDS();
}

/* Freed memory, or an address that never was any: a kernel that accesses it ends the context, and all calls report it.
 * */
static void crash(uint64_t (*address_of)(struct sl_cu_stream *stream))
{
    struct sl_cu_stream *stream = set_up();
    struct sl_cu_event *event;

    uint64_t address = address_of(stream);
    CU(EventCreate, &event, 0);
    gpu_spin(stream, SLUICE_MS);
    gpu_fill(stream, address, 4, 1);
    CHECK_EQ(cu.StreamSynchronize(stream), SL_CU_ILLEGAL_ADDRESS);
    CHECK_EQ(cu.EventRecord(event, stream), SL_CU_ILLEGAL_ADDRESS);
    CHECK_EQ(cu.StreamQuery(stream), SL_CU_ILLEGAL_ADDRESS);
    uint64_t memory;
    CHECK_EQ(cu.MemAlloc(&memory, 4), SL_CU_ILLEGAL_ADDRESS);
    gpu_use(1); /* the other GPU works */
    CU(MemAlloc, &memory, 4);
    CU(MemFree, memory);
    gpu_end();
}

static uint64_t nowhere(struct sl_cu_stream *stream)
{
    (void)stream;
    return 0x1000;
}

static uint64_t freed(struct sl_cu_stream *stream)
{
    uint64_t memory;

    CU(MemAlloc, &memory, 16);
    gpu_fill(stream, memory, 4, 1);
    CU(MemFree, memory); /* it waits for the work */
    return memory;
}

static uint64_t too_short(struct sl_cu_stream *stream)
{
    (void)stream;
    uint64_t memory;

    CU(MemAlloc, &memory, 12); /* ends with the context */
    return memory;
}

TEST(a_kernel_that_stores_nowhere)
{
    crash(nowhere);
}

TEST(a_kernel_that_stores_where_memory_was)
{
    crash(freed);
}

TEST(a_kernel_that_stores_beyond_its_memory)
{
    crash(too_short);
}

/* ---- several GPUs ---- */

static int map_for_the_other(void)
{
    int code, mapped;

    uint64_t handle = make(UNIT, &code);
    CHECK_EQ(code, 0);
    uint64_t address = map(handle, UNIT, 1, SL_CU_ACCESS_READ, &mapped);
    CU(MemRelease, handle);
    gpu_use(1);
    struct sl_cu_stream *there = gpu_stream(SL_CU_STREAM_NON_BLOCKING);
    if (mapped == 0)
        CHECK_EQ(gpu_differ(there, address, UNIT / 4, 0), 0);
    CU(StreamDestroy, there);
    gpu_use(0);
    unmap(address, UNIT);
    return mapped;
}

TEST(peers_may_be_far)
{
    struct sl_cu_stream *stream = set_up();
    int can;

    CU(DeviceCanAccessPeer, &can, 0, 1);
    CHECK_EQ(can, 1);
    CHECK_EQ(map_for_the_other(), 0);
    fake_machine.peers = false;
    CU(DeviceCanAccessPeer, &can, 0, 1);
    CHECK_EQ(can, 0);
    CHECK_NE(map_for_the_other(), 0);
    tear_down(stream);
}

/* Each process orders the GPUs in its own way; their memory knows which one it is on. */
ROLE(other_order)
{
    uint64_t handle;
    int code, ordinal;

    CHECK(argc == 2);
    struct sl_cu_stream *stream = set_up();
    CU(MemImportFromShareableHandle, &handle, (void *)(intptr_t)atoi(argv[1]), SL_CU_HANDLE_POSIX_FD);
    uint64_t address = map(handle, UNIT, 1, SL_CU_ACCESS_READ, &code);
    CHECK_EQ(code, 0);
    CU(PointerGetAttribute, &ordinal, SL_CU_POINTER_ORDINAL, address);
    role_say("%d", ordinal);
    CU(MemRelease, handle);
    unmap(address, UNIT);
    tear_down(stream);
    return 0;
}

TEST(gpus_in_another_order)
{
    unsigned char uuid[16];
    int code, fd, count;
    char text[16];

    fake_use();
    CHECK(setenv("CUDA_VISIBLE_DEVICES", "1", 1) == 0);
    struct sl_cu_stream *stream = set_up();
    CU(DeviceGetCount, &count);
    CHECK_EQ(count, 1);
    CU(DeviceGetUuid, uuid, 0);
    CHECK_EQ(uuid[15], 1);
    uint64_t handle = make(UNIT, &code); /* on the machine's second GPU */
    CU(MemExportToShareableHandle, &fd, handle, SL_CU_HANDLE_POSIX_FD, 0);
    snprintf(text, sizeof text, "%d", fd);
    CHECK(setenv("CUDA_VISIBLE_DEVICES", "0,GPU-f0f1f2f3-f4f5-f6f7-f8f9-fafbfcfdfe01,7,0", 1) == 0);
    struct child other = role_start("other_order", text, NULL);
    child_expect(&other, "1", 20);
    CHECK_EQ(child_wait(&other, 20), 0);
    CHECK(setenv("CUDA_VISIBLE_DEVICES", "1", 1) == 0);
    CU(MemRelease, handle);
    close(fd);
    tear_down(stream);
}

/* ---- the environment ---- */

ROLE(poor_machine)
{
    int count, version, value;
    size_t left, total;

    (void)argc;
    struct sl_cu_stream *stream = set_up();
    CU(DeviceGetCount, &count);
    CU(DriverGetVersion, &version);
    CU(MemGetInfo, &left, &total);
    role_say("%d GPUs, %d, %zu MiB", count, version, total >> 20);
    for (int i = 0; i < 2; i++) {
        CU(DeviceGetAttribute, &value, i ? SL_CU_CAN_REGISTER_READ_ONLY : SL_CU_CAN_WAIT_64, 0);
        role_say("%d", value);
    }
    CHECK_EQ(cu.StreamWriteValue64(stream, gpu_memory(8), 1, 0), SL_CU_NOT_SUPPORTED);
    CU(DeviceCanAccessPeer, &value, 0, 2);
    role_say("%d", value);
    tear_down(stream);
    return 0;
}

TEST(the_environment_holds_for_all_processes)
{
    CHECK(setenv("SLUICE_FAKE_GPUS", "3", 1) == 0);
    CHECK(setenv("SLUICE_FAKE_VERSION", "12020", 1) == 0);
    CHECK(setenv("SLUICE_FAKE_MEMORY", "64", 1) == 0);
    CHECK(setenv("SLUICE_FAKE_WITHOUT", "memops,peers", 1) == 0);
    struct child machine = role_start("poor_machine", NULL);
    child_expect(&machine, "3 GPUs, 12020, 64 MiB", 20);
    child_expect(&machine, "0", 5);
    child_expect(&machine, "1", 5);
    child_expect(&machine, "0", 5);
    CHECK_EQ(child_wait(&machine, 20), 0);
}

/* Work that takes time on a GPU is not done at once. */
TEST(work_takes_its_time)
{
    fake_machine.delay = 10 * SLUICE_MS;
    struct sl_cu_stream *stream = set_up();
    uint64_t memory = gpu_memory(8);

    int64_t began = test_now();
    CU(MemsetD8Async, memory, 0, 8, stream);
    CU(StreamWriteValue64, stream, memory, 1, 0);
    int said = cu.StreamQuery(stream);
    if (test_now() - began < 20 * SLUICE_MS) /* else this thread may have been suspended */
        CHECK_EQ(said, SL_CU_NOT_READY);
    CU(StreamSynchronize, stream);
    CHECK_GE(test_now() - began, 20 * SLUICE_MS);
    tear_down(stream);
}

/* ---- what makes other streams wait ---- */

static void *release(void *word)
{
    test_nap(SPIN);
    __atomic_store_n((uint64_t *)word, 1, __ATOMIC_RELEASE);
    return NULL;
}

/* Freeing waits for every blocked stream of the context, as on a GPU. */
TEST(freeing_waits_for_stuck_streams)
{
    struct sl_cu_stream *stream = set_up();
    void *page, *other;
    pthread_t thread;

    CU(MemHostAlloc, &page, 4096, 0);
    memset(page, 0, 4096);
    CU(MemHostAlloc, &other, 4096, 0);
    CU(StreamWaitValue64, stream, (uintptr_t)page, 1, 0);
    int64_t began = test_now();
    CHECK(pthread_create(&thread, NULL, release, page) == 0);
    CU(MemFreeHost, other);
    CHECK_GE(test_now() - began, SPIN * 9 / 10);
    CHECK(pthread_join(thread, NULL) == 0);
    CU(MemFreeHost, page);
    tear_down(stream);
}
