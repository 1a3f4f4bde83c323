/* SPDX-License-Identifier: MIT
 *
 * Pages end while host functions that signal in them are still queued or running: the last user ends each page, and no
 * function stores into pages that are gone.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "fake/fake.h"
#include "gpu/kit.h"
#include "sync/sync.h"

extern const struct sl_sync_ops sl_sync_cuda;

#define PAGE 4096

static struct {
    struct sluice_device device;
    struct sluice_stream stream;
    struct sl_sync_pages *pages;
    char *memory; /* two pages */
    char warning[256];
} fixture;

static volatile bool standing, ending;

static void note(void *user, enum sluice_log_level level, const char *text)
{
    (void)user;
    (void)level;
    snprintf(fixture.warning, sizeof fixture.warning, "%s", text);
}

static void begin(void)
{
    setenv("SLUICE_WITHOUT", "memops", 1);
    fake_use();
    gpu_begin();
    gpu_use(0);
    fixture.device = gpu_open();
    CHECK_OK(sluice_stream_create(fixture.device, NULL, &fixture.stream));
    fixture.memory = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(fixture.memory != MAP_FAILED);
    CHECK_OK(sl_sync_cuda.attach("cuda:0", fixture.memory, 2 * PAGE, true, &fixture.pages));
    sluice_log_set(note, NULL, SLUICE_LOG_WARN);
}

static sl_word *word(int page)
{
    return (sl_word *)(void *)(fixture.memory + page * PAGE);
}

static void raise_both(void)
{
    struct sl_signal signals[] = { { word(0), 1 }, { word(1), 2 } };

    CHECK_OK(sl_sync_cuda.signal(fixture.pages, fixture.stream, signals, 2));
}

/* The second word cannot be stored to: the function that signals in it is held until some time after the pages began to
 * end. The thread sanitizer may be in that store, and must not be entered again: this function is not instrumented. */
__attribute__((no_sanitize("thread"))) static void block(int number)
{
    (void)number;
    standing = true;
    while (!ending)
        ;
    syscall(SYS_nanosleep, &(struct timespec){ .tv_nsec = 150 * SLUICE_MS }, NULL);
    syscall(SYS_mprotect, fixture.memory + PAGE, PAGE, PROT_READ | PROT_WRITE);
}

TEST(pages_end_after_their_signals)
{
    struct sigaction action = { .sa_handler = block };

    begin();
    CHECK(sigaction(SIGSEGV, &action, NULL) == 0);
    CHECK(mprotect(fixture.memory + PAGE, PAGE, PROT_NONE) == 0);
    raise_both();
    CHECK_SOON(standing, 5);
    CHECK_EQ(sl_load(word(0), acquire), 1); /* as if that were all */
    ending = true;
    sl_sync_cuda.detach(fixture.pages);
    CHECK_STR(fixture.warning, "");
    CHECK_EQ(sl_load(word(1), acquire), 2);
    CHECK_OK(sluice_device_close(&fixture.device));
    gpu_end();
}

/* The pages have ended, and nothing may be stored to them. Their resources end with the function. */
TEST(a_function_that_is_called_when_its_pages_are_gone)
{
    begin();
    struct gpu_gate gate = gpu_gate_new();
    gpu_gate_close(&gate, gpu_native(fixture.stream));
    raise_both();
    sl_sync_cuda.detach(fixture.pages);
    CHECK_HAS(fixture.warning, "words that were to be raised are not");
    CHECK(mprotect(fixture.memory, 2 * PAGE, PROT_READ) == 0); /* a store would end the test */
    gpu_gate_open(&gate);
    CHECK_OK(sluice_stream_synchronize(fixture.stream));
    gpu_gate_end(&gate);
    CHECK_EQ(sl_load(word(0), acquire) + sl_load(word(1), acquire), 0);
    CHECK_OK(sluice_device_close(&fixture.device));
    gpu_end();
}

/* With its context a function is gone, too, as far as can be known: it is not a leak. */
TEST(a_function_that_is_never_called)
{
    begin();
    struct gpu_gate gate = gpu_gate_new();
    gpu_gate_close(&gate, gpu_native(fixture.stream));
    raise_both();
    raise_both();
    fake_lose(0, SL_CU_ILLEGAL_ADDRESS);
    CHECK_RESULT(sluice_stream_synchronize(fixture.stream), SLUICE_E_DRIVER);
    sl_sync_cuda.detach(fixture.pages);
    CHECK_STR(fixture.warning, "");
    gpu_gate_open(&gate);
    CHECK_RESULT(sluice_device_close(&fixture.device), SLUICE_E_DRIVER);
    fake_end_contexts();
}
