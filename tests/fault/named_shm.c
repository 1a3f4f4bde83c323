/* SPDX-License-Identifier: MIT
 *
 * The same for the system calls of cuda-link's wire: names in /dev/shm, links, locks. Each call fails in turn during
 * the life of a writer, a reader and a holder of the barrier: the step reports it or the life recovers, nothing is left
 * behind, and the next life is not affected.
 */
#include <errno.h>

#include "cuda_link/wire/barrier.h"
#include "fault/wrap.h"
#include "harness/resources.h"
#include "unit/cipd_kit.h"

struct lives {
    const char *name, *barrier;
    struct sl_cipd_segment_writer producer;
    struct sl_cipd_segment_reader consumer;
    struct sl_cipd_barrier holder;
    const char *step; /* the first step that failed; NULL: none did */
    int result;
    char sentence[300];
};

static bool went(struct lives *lives, const char *step, int result)
{
    if (result == 0)
        return true;
    if (!lives->step) {
        lives->step = step;
        lives->result = result;
        snprintf(lives->sentence, sizeof(lives->sentence), "%s", sluice_last_error());
    }
    return false;
}

/* Readers try again, so one failing call does not keep them away. */
static bool joins(struct lives *lives)
{
    struct sl_cipd_frame frame;
    int result;
    for (int attempt = 0; attempt < 2; attempt++) {
        sl_cipd_read_retry_now(&lives->consumer);
        if ((result = sl_cipd_read_connect(&lives->consumer, test_now())) == 0)
            break;
    }
    if (!went(lives, "connect", result))
        return false;
    bool frame_there = sl_cipd_read_poll(&lives->consumer, test_now(), &frame) == SL_CIPD_FRAME;
    sl_cipd_read_drop(&lives->consumer, SL_CIPD_REASON_SHUT);
    return went(lives, "poll", frame_there ? 0 : SLUICE_E_PROTOCOL);
}

static void write_and_read(struct lives *lives)
{
    struct sl_cipd_metadata metadata = metadata_of(64, 32, 4);
    if (!went(lives, "open", sl_cipd_write_open(&lives->producer, lives->name)))
        return;
    if (went(lives, "begin", sl_cipd_write_begin(&lives->producer, 3, golden_all(), &metadata))) {
        sl_cipd_write_publish(&lives->producer, test_now());
        joins(lives);
        if (!went(lives, "begin with others", sl_cipd_write_begin(&lives->producer, 2, golden_all(), &metadata)))
            CHECK_EQ(lives->producer.layout.slots, 3); /* the old session goes on */
        sl_cipd_write_publish(&lives->producer, test_now());
        joins(lives);
        CHECK_EQ(unlink(cipd_path(lives->name)), 0);
        int tended = sl_cipd_write_refresh(&lives->producer);
        if (went(lives, "tend", tended < 0 ? tended : 0))
            CHECK_EQ(tended, 1);
    }
    sl_cipd_write_close(&lives->producer);
}

static void hold(struct lives *lives)
{
    if (went(lives, "enter", sl_cipd_barrier_enter(&lives->holder, test_now())))
        CHECK(lives->holder.held);
    sl_cipd_barrier_refresh(&lives->holder);
    sl_cipd_barrier_finish(&lives->holder, test_now());
    unlink(cipd_path(lives->barrier)); /* the segment stays, as it should */
}

static void live(struct lives *lives)
{
    lives->step = NULL;
    lives->producer = (struct sl_cipd_segment_writer)SL_CIPD_SEGMENT_WRITER_INIT;
    CHECK_OK(sl_cipd_read_init(&lives->consumer, lives->name));
    CHECK_OK(sl_cipd_barrier_init(&lives->holder, lives->barrier));
    write_and_read(lives);
    hold(lives);
}

static void check_clean(struct lives *lives, const struct resources *before, const char *when)
{
    resources_check(before, when);
    if (cipd_there(lives->name) || cipd_seconds(lives->name) || cipd_seconds(lives->barrier))
        FAIL("%s: a name was left", when);
}

static void fail_each(enum fault_call call, const char *what, const int *errors, size_t count)
{
    struct lives lives = { .name = cipd_name("life"), .barrier = cipd_name("barrier") };
    long reported = 0, survived = 0;
    bool fired = true;
    live(&lives);
    if (lives.step)
        FAIL("nothing was made to fail, and %s gave %s", lives.step, lives.sentence);
    struct resources before = resources_now();
    for (size_t e = 0; e < count; e++, fired = true)
        for (long nth = 1; fired; nth++) {
            char when[100];
            snprintf(when, sizeof(when), "%s, call %ld with %s", what, nth, strerrorname_np(errors[e]));
            fault_arm(call, nth, errors[e]);
            live(&lives);
            fired = fault_disarm();
            if (lives.step && !fired)
                FAIL("%s: nothing failed, and %s gave %s", when, lives.step, lives.sentence);
            if (lives.step) {
                fprintf(stderr, "%s: %s: %s: %s\n", when, lives.step, sluice_result_name(lives.result), lives.sentence);
                if (strlen(lives.sentence) < 12 || !strcmp(sluice_result_name(lives.result), "?"))
                    FAIL("%s: %s gave %d and the sentence \"%s\"", when, lives.step, lives.result, lives.sentence);
            }
            reported += lives.step != NULL;
            survived += fired && !lives.step;
            check_clean(&lives, &before, when);
            live(&lives);
            if (lives.step)
                FAIL("%s failed, and in the next life %s gave %s", when, lives.step, lives.sentence);
            check_clean(&lives, &before, when);
        }
    fprintf(stderr, "%s: %ld failures were reported, %ld survived\n", what, reported, survived);
    if (reported + survived == 0)
        FAIL("%s is never called", what);
}

#define NAMED_TEST(name, ...) \
    TEST_TIMEOUT(named_##name, 60) \
    { \
        static const int errors[] = { __VA_ARGS__ }; \
        fail_each(FAULT_##name, #name, errors, sizeof(errors) / sizeof(errors[0])); \
    }
FAULT_NAMED_CALLS(NAMED_TEST)
NAMED_TEST(open, EMFILE, EACCES, EOPNOTSUPP)
NAMED_TEST(mmap, ENOMEM)
NAMED_TEST(fallocate, ENOSPC)
