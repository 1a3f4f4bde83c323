/* SPDX-License-Identifier: MIT
 *
 * The self-test in host memory: frames through a channel in a temporary folder.
 */
#include "doctor.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sluice/sluice.h>

#include "../common/scratch.h"
#include "../common/term.h"

#define FRAMES  500
#define NUMBERS 4096

struct trial {
    sluice_writer *writer;
    sluice_reader *reader;
    _Atomic uint32_t acquired;
    uint32_t torn;
    int64_t latency[FRAMES];
    const char *failed_step; /* NULL: none */
    char error[200];
};

static bool trial_fail(struct trial *trial, const char *step, int result)
{
    const char *sentence = sluice_last_error();
    trial->failed_step = step;
    snprintf(trial->error, sizeof trial->error, "%s", sentence[0] ? sentence : sluice_result_text(result));
    return false;
}

static bool open_both(struct trial *trial)
{
    static const char name[] = "doctor";
    struct sluice_format format = SLUICE_FORMAT_INIT;
    struct sluice_writer_params to = SLUICE_WRITER_PARAMS_INIT;
    struct sluice_reader_params from = SLUICE_READER_PARAMS_INIT;
    const int64_t shape[1] = { NUMBERS };
    int result = sluice_format_add_tensor(&format, "numbers", (struct sluice_dtype){ SLUICE_UINT, 32, 1 }, 1, shape);
    to.name = name;
    to.format = &format;
    if (result == SLUICE_OK)
        result = sluice_writer_open(&trial->writer, &to);
    if (result)
        return trial_fail(trial, "opening a writer", result);
    from.name = name;
    from.open_timeout_ns = DOCTOR_TIMEOUT;
    result = sluice_reader_open(&trial->reader, &from);
    return result ? trial_fail(trial, "opening a reader", result) : true;
}

static bool send_frame(struct trial *trial, uint32_t number)
{
    struct sluice_frame frame;
    struct sluice_array array;
    int result = sluice_writer_begin(trial->writer, SLUICE_DEFAULT, &frame);
    if (result == SLUICE_OK)
        result = sluice_frame_array(&frame, NULL, &array);
    if (result)
        return trial_fail(trial, "beginning a frame", result);
    for (size_t i = 0; i < NUMBERS; i++)
        ((uint32_t *)array.data)[i] = number;
    result = sluice_writer_commit(trial->writer, &frame, SLUICE_ON_CPU);
    return result ? trial_fail(trial, "committing a frame", result) : true;
}

/* Reads frames until the writer closes. */
static void *read_frames(void *user)
{
    struct trial *trial = user;
    struct sluice_frame frame;
    struct sluice_array array;
    int result;
    while ((result = sluice_reader_acquire(trial->reader, SLUICE_ON_CPU, DOCTOR_TIMEOUT, &frame)) == 0) {
        int64_t latency = now_ns() - frame.commit_ns;
        bool whole = sluice_frame_array(&frame, NULL, &array) == SLUICE_OK;
        const uint32_t *numbers = array.data;
        for (size_t i = 1; whole && i < NUMBERS; i++)
            whole = numbers[i] == numbers[0];
        trial->torn += !whole;
        if (trial->acquired < FRAMES)
            trial->latency[trial->acquired++] = latency;
        sluice_reader_release(trial->reader, &frame, SLUICE_ON_CPU);
    }
    if (result != SLUICE_CLOSED && !trial->failed_step)
        trial_fail(trial, "acquiring a frame", result);
    return NULL;
}

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void run_trial(struct trial *trial)
{
    pthread_t thread;
    if (!open_both(trial))
        return;
    if (pthread_create(&thread, NULL, read_frames, trial) != 0) {
        trial->failed_step = "starting a thread";
        snprintf(trial->error, sizeof trial->error, "the system allows no more");
        return;
    }
    int64_t until = now_ns() + DOCTOR_TIMEOUT;
    for (uint32_t i = 0; (i < FRAMES || (trial->acquired == 0 && now_ns() < until)) && send_frame(trial, i + 1); i++)
        sleep_until(now_ns() + SLUICE_MS / 2);
    sluice_writer_close(&trial->writer);
    pthread_join(thread, NULL);
    qsort(trial->latency, trial->acquired, sizeof trial->latency[0], compare);
}

static void report_trial(struct report *report, const struct trial *trial)
{
    char half[TERM_TEXT], most[TERM_TEXT];
    if (trial->failed_step)
        report_add(report, "self-test", FINDING_BAD, "see the lines above", "%s failed: %s", trial->failed_step,
                   trial->error);
    else if (trial->torn)
        report_add(report, "self-test", FINDING_BAD, "please report this", "%u of %u frames were torn", trial->torn,
                   trial->acquired);
    else if (trial->acquired == 0)
        report_add(report, "self-test", FINDING_BAD, "please report this", "no frame arrived");
    else
        report_add(report, "self-test", FINDING_OK, "", "%u frames, none torn; commit to acquire in %s (p50), %s (p99)",
                   trial->acquired, text_duration(half, trial->latency[trial->acquired / 2]),
                   text_duration(most, trial->latency[trial->acquired * 99 / 100]));
}

void check_channel(struct report *report)
{
    struct trial *trial = calloc(1, sizeof *trial);
    struct scratch scratch;
    if (!trial || !scratch_enter(&scratch)) {
        report_add(report, "self-test", FINDING_BAD, "set TMPDIR to a writable folder",
                   "no temporary folder can be created");
    } else {
        run_trial(trial);
        sluice_reader_close(&trial->reader);
        sluice_writer_close(&trial->writer);
        report_trial(report, trial);
        scratch_leave(&scratch);
    }
    free(trial);
}
