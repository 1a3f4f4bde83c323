/* SPDX-License-Identifier: MIT
 *
 * Each call of each kind fails in turn, once in each life of a channel: the life ends with an error and a message, or
 * recovers; nothing is left behind; and the next life is not affected.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <sluice/sluice.h>

#include "fault/scenario.h"
#include "fault/wrap.h"
#include "harness/test.h"

#define PATIENCE (20 * SLUICE_S) /* a reader that was refused for a moment tries again after at most 0.5 s */

static void check_sentence(const struct outcome *outcome, const char *call, long nth)
{
    if (strcmp(sluice_result_name(outcome->result), "?") == 0)
        FAIL("%s, call %ld: %s gave %d, which is no result", call, nth, outcome->step, outcome->result);
    if (strlen(outcome->sentence) < 12)
        FAIL("%s, call %ld: %s gave %s and the sentence \"%s\"", call, nth, outcome->step,
             sluice_result_name(outcome->result), outcome->sentence);
    /* Something should have come in time and did not: nobody recovered from the failure. */
    if (outcome->result == SLUICE_TIMEOUT || outcome->result == SLUICE_AGAIN || outcome->result == SLUICE_NO_WRITER ||
        outcome->result == SLUICE_CLOSED)
        FAIL("%s, call %ld: %s gave up with %s: \"%s\"", call, nth, outcome->step, sluice_result_name(outcome->result),
             outcome->sentence);
}

static void check_clean(const struct resources_held *before, const char *call, long nth, const struct outcome *failed)
{
    struct outcome outcome;
    char when[256];

    snprintf(when, sizeof when, "%s, call %ld failed in %s", call, nth, failed->step ? failed->step : "passing");
    resources_held_check(before, when);
    scenario_run(&outcome, PATIENCE);
    if (outcome.step)
        FAIL("%s, call %ld failed, and in the next life %s gave %s: %s", call, nth, outcome.step,
             sluice_result_name(outcome.result), outcome.sentence);
    resources_held_check(before, when);
}

static void fail_each(enum fault_call call, const char *name, const int *errors, size_t error_count)
{
    struct outcome outcome;
    long survived = 0, reported = 0;
    long stride = test_scale(100) < 100 ? 3 : 1; /* in a quick run, every third one */

    test_dir();
    fault_old_kernel(call == FAULT_pidfd_open); /* a newer kernel is never asked for it */
    scenario_run(&outcome, PATIENCE);           /* pools and tables get their size */
    if (outcome.step)
        FAIL("nothing was made to fail, and %s gave %s: %s", outcome.step, sluice_result_name(outcome.result),
             outcome.sentence);
    struct resources_held before = resources_held_now();
    for (size_t e = 0; e < error_count; e++) {
        for (long nth = 1;; nth += stride) {
            fault_arm(call, nth, errors[e]);
            scenario_run(&outcome, PATIENCE);
            bool fired = fault_disarm();
            if (outcome.step && !fired)
                FAIL("%s: nothing failed, and %s gave %s: %s", name, outcome.step, sluice_result_name(outcome.result),
                     outcome.sentence);
            if (outcome.step) {
                fprintf(stderr, "%s %ld %s: %s: %s: %s\n", name, nth, strerrorname_np(errors[e]), outcome.step,
                        sluice_result_name(outcome.result), outcome.sentence);
                check_sentence(&outcome, name, nth);
            }
            check_clean(&before, name, nth, &outcome);
            reported += outcome.step != NULL;
            survived += fired && !outcome.step;
            if (!fired)
                break;
        }
    }
    fprintf(stderr, "%s: %ld failures were reported, %ld survived\n", name, reported, survived);
    if (reported + survived == 0)
        FAIL("%s is never called", name);
}

/* A reader that keeps looking for its writer has the thread for it from the first time on. */
TEST(attempts_need_no_new_thread)
{
    struct sluice_reader_params params = SLUICE_READER_PARAMS_INIT;
    sluice_reader *reader;

    test_dir();
    params.name = CHANNEL;
    params.open_timeout_ns = SLUICE_LATER;
    CHECK_OK(sluice_reader_open(&reader, &params));
    fault_arm(FAULT_pthread_create, 1, EAGAIN);
    test_nap(200 * SLUICE_MS);
    CHECK(!fault_disarm());
    CHECK_OK(sluice_reader_close(&reader));
}

/* A writer hangs up on slow peers; that does not mean that there is none. */
TEST(a_reader_sends_hello_again_after_a_hang_up)
{
    static const int errors[] = { EPIPE, EAGAIN };
    struct sluice_format format = SLUICE_FORMAT_INIT;
    struct sluice_dtype byte = { SLUICE_UINT, 8, 1 };
    struct sluice_writer_params mine = SLUICE_WRITER_PARAMS_INIT;
    struct sluice_reader_params params = SLUICE_READER_PARAMS_INIT;
    struct sluice_channel_info info = { .size = sizeof info };
    int64_t bytes = 4096;
    sluice_writer *writer;
    sluice_reader *reader;

    test_dir();
    CHECK_OK(sluice_format_add_tensor(&format, "data", byte, 1, &bytes));
    params.name = mine.name = CHANNEL;
    mine.format = &format;
    CHECK_OK(sluice_writer_open(&writer, &mine));
    for (int i = 0; i < 2; i++) {
        fault_arm(FAULT_sendmsg, 1, errors[i]);
        CHECK_OK(sluice_reader_open(&reader, &params));
        CHECK(fault_disarm());
        CHECK_OK(sluice_reader_close(&reader));
        fault_arm(FAULT_sendmsg, 1, errors[i]);
        CHECK_OK(sluice_channel_info(CHANNEL, 20 * SLUICE_S, &info, NULL, 0));
        CHECK(fault_disarm());
    }
    CHECK_OK(sluice_writer_close(&writer));
}

#define FAULT_TEST(name, ...) \
    TEST_TIMEOUT(name, 300) \
    { \
        static const int errors[] = { __VA_ARGS__ }; \
        fail_each(FAULT_##name, #name, errors, sizeof errors / sizeof errors[0]); \
    }
FAULT_CALLS(FAULT_TEST)
