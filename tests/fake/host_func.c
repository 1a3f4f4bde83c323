/* SPDX-License-Identifier: MIT
 *
 * Pages end while functions that are to raise their words are still queued, or under way: each ends with whoever
 * comes last, and none stores into pages that are gone.
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
} scene;

static volatile bool standing, ending;

static void note(void *user, enum sluice_log_level level, const char *text)
{
    (void)user;
    (void)level;
    snprintf(scene.warning, sizeof scene.warning, "%s", text);
}

static void begin(void)
{
    setenv("SLUICE_WITHOUT", "memops", 1);
    fake_use();
    gpu_begin();
    gpu_use(0);
    scene.device = gpu_open();
    CHECK_OK(sluice_stream_create(scene.device, NULL, &scene.stream));
    scene.memory = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(scene.memory != MAP_FAILED);
    CHECK_OK(sl_sync_cuda.attach("cuda:0", scene.memory, 2 * PAGE, true, &scene.pages));
    sluice_log_set(note, NULL, SLUICE_LOG_WARN);
}

static sl_word *word(int page)
{
    return (sl_word *)(void *)(scene.memory + page * PAGE);
}

static void raise_both(void)
{
    struct sl_signal signals[] = { { word(0), 1 }, { word(1), 2 } };

    CHECK_OK(sl_sync_cuda.signal(scene.pages, scene.stream, signals, 2));
}

/* The second word cannot be stored to: what raises it stands still until some time after the pages began to end. The thread
 * sanitizer, in which the store may be, must not be entered again: nothing here is known to it. */
__attribute__((no_sanitize("thread"))) static void stand_still(int number)
{
    (void)number;
    standing = true;
    while (!ending)
        ;
    syscall(SYS_nanosleep, &(struct timespec){ .tv_nsec = 150 * SLUICE_MS }, NULL);
    syscall(SYS_mprotect, scene.memory + PAGE, PAGE, PROT_READ | PROT_WRITE);
}

TEST(pages_end_when_their_words_are_raised)
{
    struct sigaction action = { .sa_handler = stand_still };

    begin();
    CHECK(sigaction(SIGSEGV, &action, NULL) == 0);
    CHECK(mprotect(scene.memory + PAGE, PAGE, PROT_NONE) == 0);
    raise_both();
    CHECK_SOON(standing, 5);
    CHECK_EQ(sl_load(word(0), acquire), 1); /* as if that were all */
    ending = true;
    sl_sync_cuda.detach(scene.pages);
    CHECK_STR(scene.warning, "");
    CHECK_EQ(sl_load(word(1), acquire), 2);
    CHECK_OK(sluice_device_close(&scene.device));
    gpu_end();
}

/* The pages have ended, and nothing may be stored to them. Whatever was made for it ends with the function. */
TEST(a_function_that_is_called_when_its_pages_are_gone)
{
    begin();
    struct gpu_gate gate = gpu_gate_new();
    gpu_gate_close(&gate, gpu_native(scene.stream));
    raise_both();
    sl_sync_cuda.detach(scene.pages);
    CHECK_HAS(scene.warning, "words that were to be raised are not");
    CHECK(mprotect(scene.memory, 2 * PAGE, PROT_READ) == 0); /* a store would end the test */
    gpu_gate_open(&gate);
    CHECK_OK(sluice_stream_synchronize(scene.stream));
    gpu_gate_end(&gate);
    CHECK_EQ(sl_load(word(0), acquire) + sl_load(word(1), acquire), 0);
    CHECK_OK(sluice_device_close(&scene.device));
    gpu_end();
}

/* With its context a function is gone, too, as far as anybody knows: it is no leak. */
TEST(a_function_that_is_never_called)
{
    begin();
    struct gpu_gate gate = gpu_gate_new();
    gpu_gate_close(&gate, gpu_native(scene.stream));
    raise_both();
    raise_both();
    fake_lose(0, SL_CU_ILLEGAL_ADDRESS);
    CHECK_RESULT(sluice_stream_synchronize(scene.stream), SLUICE_E_DRIVER);
    sl_sync_cuda.detach(scene.pages);
    CHECK_STR(scene.warning, "");
    gpu_gate_open(&gate);
    CHECK_RESULT(sluice_device_close(&scene.device), SLUICE_E_DRIVER);
    fake_end_contexts();
}
