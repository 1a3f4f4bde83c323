/* SPDX-License-Identifier: MIT
 *
 * What is reported of a machine's GPUs, and their self-test, on fake GPUs that lack one thing or another.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device/device.h"
#include "fake/fake.h"
#include "harness/test.h"

#define ALL_ABILITIES 63

static struct sluice_device_report probe(uint32_t index)
{
    struct sluice_device_report report = { .size = sizeof report };

    CHECK_OK(sluice_device_probe(index, &report));
    return report;
}

static struct sluice_device_trial try(uint32_t index)
{
    struct sluice_device_trial trial = { .size = sizeof trial };

    CHECK_OK(sluice_device_try(index, &trial));
    return trial;
}

static long left(void)
{
    struct fake_things now = fake_things();

    return now.contexts + now.streams + now.events + now.handles + now.reservations + now.mappings + now.registrations;
}

/* Without a daemon of the machine's. */
static void begin(void)
{
    fake_use();
    unsetenv("CUDA_VISIBLE_DEVICES");
    CHECK(setenv("CUDA_MPS_PIPE_DIRECTORY", test_dir(), 1) == 0);
}

TEST(two_gpus)
{
    uint32_t count = 0;

    begin();
    unsigned long long state = fake_thread_state();
    CHECK_OK(sluice_device_count(&count));
    CHECK_EQ(count, 2);
    struct sluice_device_report first = probe(0), second = probe(1);
    CHECK_EQ(first.size, sizeof first);
    CHECK_EQ(first.driver, 13000);
    CHECK_EQ(first.driver_min, 12000);
    CHECK_EQ(first.compute, 90);
    CHECK_EQ(first.compute_min, 50);
    CHECK_EQ(first.memory, 256 << 20);
    CHECK_EQ(first.can, ALL_ABILITIES);
    CHECK_EQ(first.is, 0);
    CHECK_EQ(first.mps, SLUICE_MPS_NONE);
    CHECK_EQ(first.peers, 2);
    CHECK_EQ(second.peers, 1);
    CHECK_STR(first.model, "Fake GPU 0");
    CHECK_STR(second.model, "Fake GPU 1");
    CHECK_STR(second.uuid, "GPU-f0f1f2f3-f4f5-f6f7-f8f9-fafbfcfdfe01");
    CHECK(strlen(first.pci) == 12 && strcmp(first.pci, second.pci) != 0);

    /* All that without a context. */
    CHECK_EQ(fake_calls(FAKE_DevicePrimaryCtxRetain), 0);
    CHECK_EQ(left(), 0);
    CHECK_EQ(fake_thread_state(), state);
    CHECK(!fake_broken_rule());
}

TEST(invalid_arguments)
{
    struct {
        struct sluice_device_report report;
        char more[8];
    } newer = { .report.size = sizeof newer, .more = "newer" };
    struct sluice_device_report report = { 0 };
    struct sluice_device_trial trial = { .size = 3 };

    begin();
    CHECK_RESULT(sluice_device_count(NULL), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_device_probe(0, NULL), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_device_try(0, NULL), SLUICE_E_INVALID);
    CHECK_SAYS(sluice_device_probe(0, &report), SLUICE_E_INVALID, "size is 0");
    CHECK_SAYS(sluice_device_try(0, &trial), SLUICE_E_INVALID, "size is 3");
    report.size = sizeof report;
    trial.size = sizeof trial;
    CHECK_SAYS(sluice_device_probe(2, &report), SLUICE_E_UNSUPPORTED, "\"cuda:2\"");
    CHECK_HAS(sluice_last_error(), "sees 2");
    CHECK_RESULT(sluice_device_try(UINT32_MAX, &trial), SLUICE_E_UNSUPPORTED);
    CHECK(!report.model[0] && !trial.did);

    /* A program of a later release: fields that we do not know read as 0. */
    CHECK_OK(sluice_device_probe(0, &newer.report));
    CHECK_EQ(newer.report.size, sizeof newer);
    CHECK_STR(newer.report.model, "Fake GPU 0");
    CHECK_STR(newer.more, "");
}

static void check_none(const char *word)
{
    struct sluice_device_report report = { .size = sizeof report };
    struct sluice_device_trial trial = { .size = sizeof trial };
    uint32_t count = 42;

    CHECK_SAYS(sluice_device_count(&count), SLUICE_E_UNSUPPORTED, word);
    CHECK_EQ(count, 42);
    CHECK_SAYS(sluice_device_probe(0, &report), SLUICE_E_UNSUPPORTED, word);
    CHECK_SAYS(sluice_device_try(0, &trial), SLUICE_E_UNSUPPORTED, word);
}

TEST(no_driver_or_none_that_will_do)
{
    begin();
    CHECK(setenv("SLUICE_CUDA_DRIVER", "libno-such-driver.so.1", 1) == 0);
    check_none("no CUDA driver");
    begin();
    fake_machine.version = 11080;
    check_none(SLUICE_DRIVER_MIN);
    CHECK_HAS(sluice_last_error(), "11.8");
    fake_machine.version = 12000;
    CHECK(setenv("CUDA_VISIBLE_DEVICES", "", 1) == 0);
    check_none("CUDA_VISIBLE_DEVICES is \"\"");
    unsetenv("CUDA_VISIBLE_DEVICES");
    CHECK_EQ(probe(0).driver, 12000);
}

TEST(in_a_forked_child)
{
    uint32_t count;
    int status;

    begin();
    CHECK_OK(sluice_device_count(&count));
    pid_t child = fork();
    CHECK_GE(child, 0);
    if (child == 0)
        _exit(sluice_device_count(&count) == SLUICE_E_FORKED ? 0 : 1);
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
}

/* ---- what it lacks ---- */

static const struct {
    int attribute;
    uint32_t can;
    enum fake_function without; /* the function that is then not called */
} abilities[] = {
    { SL_CU_CAN_MAP_MEMORY, SLUICE_CAN_MAP, FAKE_MemCreate },
    { SL_CU_CAN_EXPORT_FD, SLUICE_CAN_EXPORT, FAKE_MemCreate },
    { SL_CU_CAN_WRITE_64, SLUICE_CAN_QUEUE_WORDS, FAKE_StreamWriteValue64 },
    { SL_CU_CAN_REGISTER_HOST, SLUICE_CAN_REGISTER, FAKE_MemHostRegister },
    { SL_CU_CAN_REGISTER_READ_ONLY, SLUICE_CAN_REGISTER_READ_ONLY, FAKE_StreamWaitValue64 },
    { SL_CU_CAN_SHARE_EVENTS, SLUICE_CAN_SHARE_EVENTS, FAKE_EventCreate },
};

TEST(abilities_switched_off)
{
    begin();
    for (size_t i = 0; i < sizeof abilities / sizeof *abilities; i++) {
        fake_machine.cannot[abilities[i].attribute] = 1;
        CHECK_EQ(probe(0).can, ALL_ABILITIES & ~abilities[i].can);
        fake_forget();
        struct sluice_device_trial trial = try(0);
        CHECK_EQ(trial.did & abilities[i].can, 0);
        CHECK_NE(trial.did, 0); /* the rest is tried all the same */
        CHECK_EQ(fake_calls(abilities[i].without), 0);
        CHECK_EQ(trial.memory_ns > 0, abilities[i].without != FAKE_MemCreate);
        fake_machine.cannot[abilities[i].attribute] = 0;
        CHECK_EQ(left(), 0);
        CHECK(!fake_broken_rule());
    }
}

TEST(gpus_apart)
{
    begin();
    fake_machine.peers = false;
    CHECK_EQ(probe(0).peers, 0);
    CHECK_EQ(probe(1).peers, 0);
}

TEST(what_it_is)
{
    static const struct {
        const char *word;
        uint32_t is;
    } words[] = {
        { "integrated", SLUICE_IS_INTEGRATED },
        { "mig", SLUICE_IS_MIG },
        { "exclusive", SLUICE_IS_EXCLUSIVE },
        { "prohibited", SLUICE_IS_CLOSED },
    };
    struct sluice_device device;
    char name[64];

    begin();
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        fake_machine.is = words[i].word;
        CHECK_EQ(probe(0).is, words[i].is);
    }
    fake_machine.is = "mig";
    struct sluice_device_report part = probe(1);
    CHECK_STR(part.uuid, "MIG-f0f1f2f3-f4f5-f6f7-f8f9-fafbfcfdfe01");
    snprintf(name, sizeof name, "cuda:%s", part.uuid);
    CHECK_OK(sluice_device_open(&device, name));
    CHECK_OK(sluice_device_close(&device));
}

TEST(an_old_gpu)
{
    begin();
    fake_machine.compute = 37;
    struct sluice_device_report report = probe(0);
    CHECK_EQ(report.compute, 37);
    CHECK(report.compute < report.compute_min);
}

/* ---- MPS ---- */

static void write_pid(int pid)
{
    char path[512];
    FILE *file;

    snprintf(path, sizeof path, "%s/nvidia-cuda-mps-control.pid", test_dir());
    CHECK((file = fopen(path, "w")));
    fprintf(file, "%d\n", pid);
    fclose(file);
}

TEST(mps)
{
    int status;

    begin();
    CHECK_EQ(probe(0).mps, SLUICE_MPS_NONE);
    write_pid(getpid());
    CHECK_EQ(probe(0).mps, SLUICE_MPS_DAEMON);
    fake_machine.mps = 1;
    CHECK_EQ(probe(0).mps, SLUICE_MPS_CLIENT);
    fake_machine.mps = -1; /* the driver does not know the query */
    CHECK_EQ(probe(0).mps, SLUICE_MPS_CLIENT);

    pid_t gone = fork();
    if (gone == 0)
        _exit(0);
    CHECK_EQ(waitpid(gone, &status, 0), gone);
    write_pid(gone);
    CHECK_EQ(probe(0).mps, SLUICE_MPS_NONE);
    fake_machine.mps = 1; /* in another PID namespace the daemon looks dead */
    CHECK_EQ(probe(0).mps, SLUICE_MPS_CLIENT);
    fake_machine.mps = 0;
    write_pid(0);
    CHECK_EQ(probe(0).mps, SLUICE_MPS_NONE);
}

/* ---- the self-test ---- */

TEST(all_of_it)
{
    begin();
    unsigned long long state = fake_thread_state();
    struct sluice_device_trial trial = try(1);
    CHECK_EQ(trial.did, ALL_ABILITIES & ~SLUICE_CAN_SHARE_EVENTS);
    CHECK(trial.memory_ns > 0 && trial.copy_ns > 0 && trial.word_ns > 0 && trial.wait_ns > 0);
    CHECK(trial.context_ns > 0);
    CHECK(trial.memory_free > 0 && trial.memory_free <= 256 << 20);
    CHECK_EQ(left(), 0);
    CHECK_EQ(fake_thread_state(), state);
    CHECK(!fake_broken_rule());
}

/* A call may then block until the word is written that this thread would write afterwards. */
TEST(calls_that_block)
{
    begin();
    CHECK(setenv("CUDA_LAUNCH_BLOCKING", "1", 1) == 0);
    struct sluice_device_trial trial = try(0);
    CHECK_EQ(trial.wait_ns, 0);
    CHECK_EQ(fake_calls(FAKE_StreamWaitValue64), 0);
    CHECK_EQ(trial.did & SLUICE_CAN_REGISTER_READ_ONLY, 0);
    CHECK(trial.word_ns > 0);
}

TEST(too_little_memory)
{
    struct sluice_device_trial trial = { .size = sizeof trial };

    begin();
    fake_machine.memory = 4 << 20;
    CHECK_SAYS(sluice_device_try(0, &trial), SLUICE_E_NO_MEMORY, "8388608 bytes were asked for");
    CHECK_EQ(trial.did, 0);
    CHECK_EQ(left(), 0);
}

/* A GPU that does nothing of what it reports as done. */
TEST(a_frame_that_does_not_come_back)
{
    struct sluice_device_trial trial = { .size = sizeof trial };

    begin();
    fake_machine.idle = true;
    CHECK_SAYS(sluice_device_try(0, &trial), SLUICE_E_CORRUPT, "8388608 are wrong");
    CHECK_EQ(trial.did, 0);
    CHECK_EQ(left(), 0);
}

TEST(a_frame_that_takes_too_long)
{
    struct sluice_device_trial trial = { .size = sizeof trial };

    TEST_KEEPS_FDS(); /* of the memory that the GPU still works on */
    begin();
    fake_machine.delay = 6 * SLUICE_S; /* of each piece of work: two are done one after the other */
    int64_t began = test_now();
    CHECK_SAYS(sluice_device_try(0, &trial), SLUICE_E_DRIVER, "did not come back within 5 s");
    CHECK(test_now() - began < 9 * SLUICE_S);
    CHECK_EQ(trial.did, 0);
    CHECK_NE(left(), 0);
    CHECK(!fake_broken_rule());
    fake_end_contexts();
}

TEST(a_word_that_does_not_come)
{
    struct sluice_device_trial trial = { .size = sizeof trial };

    begin();
    fake_machine.idle = true;
    fake_machine.cannot[SL_CU_CAN_EXPORT_FD] = 1; /* stream memory operations only */
    CHECK_SAYS(sluice_device_try(0, &trial), SLUICE_E_DRIVER, "did not come within 5 s");
    CHECK_NE(left(), 0); /* ending what it works on might take for ever */
    CHECK(!fake_broken_rule());
    fake_end_contexts();
}

/* Functions that end something: if one fails, that is left behind, and the self-test may pass. */
static bool ends(enum fake_function function)
{
    static const enum fake_function list[] = { FAKE_StreamDestroy,           FAKE_MemRelease,    FAKE_MemUnmap,
                                               FAKE_MemAddressFree,          FAKE_MemFreeHost,   FAKE_MemHostUnregister,
                                               FAKE_DevicePrimaryCtxRelease, FAKE_CtxPopCurrent, FAKE_GetErrorName };

    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (list[i] == function)
            return true;
    return false;
}

/* Queries of features: a failure counts as a no, and less is tried. */
static bool is_a_no(enum fake_function function)
{
    return function == FAKE_DeviceGetAttribute;
}

static void fail_one(enum fake_function function, long nth)
{
    struct sluice_device_trial trial = { .size = sizeof trial };

    fake_fail(function, nth, SL_CU_UNKNOWN);
    int result = sluice_device_try(0, &trial);
    if (!fake_failed())
        FAIL("%s was not called a %ldth time", fake_name(function), nth);
    if (result == 0 && !is_a_no(function))
        FAIL("%s failed in call %ld, and nobody said so", fake_name(function), nth);
    if (result < 0 && !strstr(sluice_last_error(), fake_name(function)))
        FAIL("%s failed in call %ld; the sentence: %s", fake_name(function), nth, sluice_last_error());
    if (left() != 0)
        FAIL("%s failed in call %ld, and something was left behind", fake_name(function), nth);
    const char *rule = fake_broken_rule();
    if (rule)
        FAIL("%s failed in call %ld, and a rule was broken: %s", fake_name(function), nth, rule);
}

TEST_TIMEOUT(each_function_fails, 60)
{
    long calls[FAKE_FUNCTION_COUNT];

    begin();
    unsigned long long state = fake_thread_state();
    try(0); /* the second one has no driver to load */
    fake_forget();
    try(0);
    for (int f = 0; f < FAKE_FUNCTION_COUNT; f++)
        calls[f] = fake_calls((enum fake_function)f);
    CHECK_GE(calls[FAKE_StreamWaitValue64], 10);
    CHECK_GE(calls[FAKE_MemcpyDtoHAsync], 1);
    for (int f = 0; f < FAKE_FUNCTION_COUNT; f++) {
        /* Half of the exchanges restore the state, which cannot be made to fail. */
        bool pairs = f == FAKE_ThreadExchangeStreamCaptureMode;
        if (calls[f] == 0 || ends((enum fake_function)f))
            continue;
        fail_one((enum fake_function)f, 1);
        if (calls[f] > 2 && !pairs) /* the number of queries of a stream varies */
            fail_one((enum fake_function)f, calls[f] < 40 ? calls[f] / 2 : 20);
        CHECK_EQ(fake_thread_state(), state);
    }
}
