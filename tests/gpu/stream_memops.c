/* SPDX-License-Identifier: MIT
 *
 * The driver calls that Sluice is built on: streams that wait for words and write them, in one process and between two.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "gpu/kit.h"
#include "util/atomic.h"

#define PAGE 4096

/* A registered page that other processes can map. */
struct page {
    int fd;
    _Atomic uint64_t *word; /* for the CPU */
    uint64_t gpu;           /* for the GPU */
};

static struct page page_of(int fd, bool read_only)
{
    unsigned flags = SL_CU_HOST_PORTABLE | SL_CU_HOST_DEVICEMAP;
    struct page page = { .fd = fd };

    page.word = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    void *seen = page.word;
    if (read_only)
        seen = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0);
    CHECK(page.word != MAP_FAILED && seen != MAP_FAILED);
    CU(MemHostRegister, seen, PAGE, read_only ? flags | SL_CU_HOST_READ_ONLY : flags);
    CU(MemHostGetDevicePointer, &page.gpu, seen, 0);
    return page;
}

static struct page page_new(bool read_only)
{
    int fd = memfd_create("words", 0); /* a role inherits it */

    CHECK(fd >= 0 && ftruncate(fd, PAGE) == 0);
    return page_of(fd, read_only);
}

static void page_end(struct page *page)
{
    void *seen = (void *)(uintptr_t)page->gpu;

    CU(MemHostUnregister, seen);
    if (seen != page->word)
        munmap(seen, PAGE);
    munmap((void *)page->word, PAGE);
    close(page->fd);
}

static void tear_down(struct sl_cu_stream *stream, struct page *page)
{
    CU(StreamSynchronize, stream);
    CU(StreamDestroy, stream);
    page_end(page);
    gpu_end();
}

/* The stream must stay blocked where it is. */
static void check_stands(struct sl_cu_stream *stream)
{
    test_nap(5000000);
    CHECK_EQ(cu.StreamQuery(stream), SL_CU_NOT_READY);
}

static void wait_is_released(bool read_only)
{
    struct sl_cu_stream *stream = gpu_begin_on_stream(1);
    struct page page = page_new(read_only), answer = page_new(false);

    for (uint64_t i = 1; i <= 3; i++) {
        CU(StreamWaitValue64, stream, page.gpu, i, SL_CU_WAIT_GEQ);
        CU(StreamWriteValue64, stream, answer.gpu, i, 0);
        check_stands(stream);
        CHECK_EQ(sl_load(answer.word, acquire), i - 1);
        sl_store(page.word, i, release);
        CHECK_SOON(sl_load(answer.word, acquire) == i, 5);
    }
    CU(StreamSynchronize, stream);
    page_end(&answer);
    tear_down(stream, &page);
}

TEST(a_wait_is_released_by_the_cpu)
{
    wait_is_released(false);
}

TEST(a_wait_on_a_page_that_may_only_be_read_too)
{
    wait_is_released(true);
}

/* Greater or equal in modular arithmetic, on which POISON relies. */
TEST(waits_compare_in_a_circle)
{
    struct sl_cu_stream *stream = gpu_begin_on_stream(1);
    struct page page = page_new(false);

    sl_store(page.word, UINT64_MAX, release);
    CU(StreamWaitValue64, stream, page.gpu, 5, SL_CU_WAIT_GEQ);
    check_stands(stream);
    sl_store(page.word, UINT64_C(1) << 62, release);
    CU(StreamSynchronize, stream);
    CU(StreamWaitValue64, stream, page.gpu, 7, SL_CU_WAIT_EQ);
    check_stands(stream);
    sl_store(page.word, 7, release);
    tear_down(stream, &page);
}

TEST(waits_and_writes_in_one_batch)
{
    struct sl_cu_stream *first = gpu_begin_on_stream(1), *second = gpu_stream(SL_CU_STREAM_NON_BLOCKING);
    struct page page = page_new(false);
    union sl_cu_mem_op ops[] = {
        { .write = { SL_CU_MEM_OP_WRITE_64, page.gpu + 8, 1, 0, 0 } },
        { .wait = { SL_CU_MEM_OP_WAIT_64, page.gpu, 1, SL_CU_WAIT_GEQ, 0 } },
        { .write = { SL_CU_MEM_OP_WRITE_64, page.gpu + 16, 2, 0, 0 } },
    };

    CU(StreamBatchMemOp, first, 3, ops, 0);
    CHECK_SOON(sl_load(page.word + 1, acquire) == 1, 5);
    check_stands(first);
    CHECK_EQ(sl_load(page.word + 2, acquire), 0);
    gpu_spin(second, 1000000);
    CU(StreamWriteValue64, second, page.gpu, 1, 0); /* another stream's write releases it */
    CU(StreamSynchronize, first);
    CHECK_EQ(sl_load(page.word + 2, acquire), 2);
    CU(StreamDestroy, second);
    tear_down(first, &page);
}

TEST(invalid_words)
{
    struct sl_cu_stream *stream = gpu_begin_on_stream(1);
    struct page page = page_new(true);
    uint64_t loose = 0;

    CHECK_NE(cu.StreamWriteValue64(stream, (uintptr_t)&loose, 1, 0), 0);
    CHECK_NE(cu.StreamWaitValue64(stream, (uintptr_t)&loose, 1, 0), 0);
    CHECK_NE(cu.StreamWaitValue64(stream, page.gpu + 4, 1, 0), 0);
    CHECK_EQ(loose, 0);
    CHECK_EQ(sl_load(page.word, acquire), 0);
    tear_down(stream, &page);
}

/* ---- two processes ---- */

/* Writes the words of the page after its own work: word 0 counts from 1, once for each line. Arguments: the page; how
 * long the work takes, in ns. */
ROLE(raiser)
{
    uint64_t value = 0;

    CHECK(argc == 3);
    struct sl_cu_stream *stream = gpu_begin_on_stream(1);
    struct page page = page_of(atoi(argv[1]), false);
    role_say("ready");
    while (role_line()) {
        gpu_spin(stream, atol(argv[2]));
        CU(StreamWriteValue64, stream, page.gpu, ++value, 0);
    }
    tear_down(stream, &page);
    return 0;
}

static struct child start_raiser(const struct page *page, const char *ns)
{
    char fd[16];

    snprintf(fd, sizeof fd, "%d", page->fd);
    struct child raiser = role_start("raiser", fd, ns, NULL);
    child_expect(&raiser, "ready", 20);
    return raiser;
}

TEST(a_wait_is_released_by_the_gpu_work_of_another_process)
{
    struct sl_cu_stream *stream = gpu_begin_on_stream(1);
    struct page page = page_new(true), answer = page_new(false);
    struct child raiser = start_raiser(&page, "2000000");

    for (uint64_t i = 1; i <= 20; i++) {
        CU(StreamWaitValue64, stream, page.gpu, i, SL_CU_WAIT_GEQ);
        CU(StreamWriteValue64, stream, answer.gpu, i, 0);
        CHECK_EQ(sl_load(answer.word, acquire), i - 1);
        child_send(&raiser, "raise");
        CHECK_SOON(sl_load(answer.word, acquire) == i, 10);
        CHECK_EQ(sl_load(page.word, acquire), i);
    }
    role_stop(&raiser);
    page_end(&answer);
    tear_down(stream, &page);
}

/* Its work dies with it; a CPU releases those that wait for it. */
TEST(the_work_of_a_killed_process_does_not_come)
{
    struct sl_cu_stream *stream = gpu_begin_on_stream(1);
    struct page page = page_new(true);
    struct child raiser = start_raiser(&page, "100000000");

    CU(StreamWaitValue64, stream, page.gpu, 1000, SL_CU_WAIT_GEQ);
    for (int i = 0; i < 100; i++)
        child_send(&raiser, "raise"); /* 10 s of work */
    CHECK_SOON(sl_load(page.word, acquire) >= 1, 10);
    child_kill(&raiser, SIGKILL);
    uint64_t reached = sl_load(page.word, acquire);
    CHECK_LE(reached, 99);
    test_nap(300000000);
    CHECK_EQ(sl_load(page.word, acquire), reached);
    CHECK_EQ(cu.StreamQuery(stream), SL_CU_NOT_READY);
    sl_store(page.word, UINT64_C(1) << 62, release);
    tear_down(stream, &page);
}
