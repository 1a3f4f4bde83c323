/* SPDX-License-Identifier: MIT
 *
 * The self-test on a GPU: frames through a channel in a temporary folder.
 */
#include "doctor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/scratch.h"
#include "../common/term.h"

#define FRAMES  100 /* without pixels, to measure latency */
#define SENT    10  /* with pixels, to check them */
#define NUMBERS (256 * 1024)
#define BYTES   (NUMBERS * sizeof(uint32_t))

struct trial {
    const char *name; /* "cuda:0" */
    struct sluice_device device;
    struct sluice_stream writing, reading;
    sluice_writer *writer;
    sluice_reader *reader;
    uint32_t *sent, *fetched; /* pinned memory */
    struct sluice_array array;
    int64_t latency[FRAMES];
};

static int open_streams(struct trial *trial)
{
    int result = sluice_device_open(&trial->device, trial->name);
    if (result == SLUICE_OK)
        result = sluice_stream_create(trial->device, NULL, &trial->writing);
    if (result == SLUICE_OK)
        result = sluice_stream_create(trial->device, NULL, &trial->reading);
    return result;
}

static int open_channel(struct trial *trial)
{
    struct sluice_format format = SLUICE_FORMAT_INIT;
    struct sluice_writer_params to = SLUICE_WRITER_PARAMS_INIT;
    struct sluice_reader_params from = SLUICE_READER_PARAMS_INIT;
    const int64_t shape[1] = { NUMBERS };
    int result = sluice_format_add_tensor(&format, "numbers", (struct sluice_dtype){ SLUICE_UINT, 32, 1 }, 1, shape);
    to.name = from.name = "doctor";
    to.device = from.device = trial->name;
    to.format = &format;
    from.open_timeout_ns = DOCTOR_TIMEOUT;
    if (result == SLUICE_OK)
        result = sluice_writer_open(&trial->writer, &to);
    if (result == SLUICE_OK)
        result = sluice_reader_open(&trial->reader, &from);
    return result;
}

static int alloc_memory(struct trial *trial)
{
    void *sent = NULL, *fetched = NULL;
    const int64_t shape[1] = { NUMBERS };
    int result = sluice_device_host_alloc(trial->device, BYTES, &sent);
    trial->sent = sent;
    if (result == SLUICE_OK)
        result = sluice_device_host_alloc(trial->device, BYTES, &fetched);
    trial->fetched = fetched;
    if (result == SLUICE_OK)
        result = sluice_array_wrap(&trial->array, "numbers", NULL, (struct sluice_dtype){ SLUICE_UINT, 32, 1 }, 1,
                                   shape, NULL);
    return result;
}

/* The pixel `index` of frame `number`; it differs between frames and between pixels. */
static uint32_t pixel(uint32_t number, uint32_t index)
{
    return (index + 1) * UINT32_C(2654435761) ^ number;
}

/* Commits an empty frame whose metadata is its number. */
static int commit_frame(struct trial *trial, uint32_t number)
{
    struct sluice_frame frame;
    int result = sluice_writer_begin(trial->writer, DOCTOR_TIMEOUT, &frame);
    if (result)
        return result;
    memcpy(frame.meta, &number, sizeof number);
    frame.meta_size = sizeof number;
    return sluice_writer_commit(trial->writer, &frame, trial->writing);
}

/* Sends a frame with pixels. */
static int send_frame(struct trial *trial, uint32_t number)
{
    struct sluice_frame frame = { .meta = &number, .meta_size = sizeof number };
    struct sluice_array array = trial->array;
    struct sluice_ticket ticket;
    for (uint32_t i = 0; i < NUMBERS; i++)
        trial->sent[i] = pixel(number, i);
    array.data = trial->sent;
    int result = sluice_writer_send_frame(trial->writer, &frame, &array, 1, trial->writing, &ticket);
    return result ? result : sluice_ticket_wait(ticket, DOCTOR_TIMEOUT);
}

static int fetch_frame(struct trial *trial, const struct sluice_frame *frame, uint32_t number, bool *intact)
{
    struct sluice_array array = trial->array;
    array.data = trial->fetched;
    int result = sluice_reader_fetch(trial->reader, frame, &array, 1, trial->reading, NULL);
    for (uint32_t i = 0; i < NUMBERS && *intact && result == SLUICE_OK; i++)
        *intact = trial->fetched[i] == pixel(number, i);
    return result;
}

static int acquire_frame(struct trial *trial, uint32_t number, bool *intact)
{
    struct sluice_frame frame;
    uint32_t found = 0;
    int result = sluice_reader_acquire(trial->reader, trial->reading, DOCTOR_TIMEOUT, &frame);
    if (result)
        return result;
    if (number < FRAMES)
        trial->latency[number] = now_ns() - frame.commit_ns;
    if (frame.meta_size == sizeof found)
        memcpy(&found, frame.meta, sizeof found);
    *intact = found == number && frame.sequence == number + 1;
    if (number >= FRAMES)
        result = fetch_frame(trial, &frame, number, intact);
    int released = sluice_reader_release(trial->reader, &frame, trial->reading);
    return result ? result : released;
}

static int run_trial(struct trial *trial, bool *intact)
{
    int result = open_streams(trial);
    if (result == SLUICE_OK)
        result = open_channel(trial);
    if (result == SLUICE_OK)
        result = alloc_memory(trial);
    *intact = true;
    for (uint32_t i = 0; result == SLUICE_OK && *intact && i < FRAMES + SENT; i++) {
        result = i < FRAMES ? commit_frame(trial, i) : send_frame(trial, i);
        if (result == SLUICE_OK)
            result = acquire_frame(trial, i, intact);
    }
    return result;
}

static void end_trial(struct trial *trial)
{
    sluice_reader_close(&trial->reader);
    sluice_writer_close(&trial->writer);
    void *sent = trial->sent, *fetched = trial->fetched;
    sluice_device_host_free(&sent);
    sluice_device_host_free(&fetched);
    sluice_stream_destroy(&trial->writing);
    sluice_stream_destroy(&trial->reading);
    sluice_device_close(&trial->device);
}

static int compare_ns(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

void check_gpu_channel(struct report *report, struct gpu *gpu)
{
    struct trial *trial = calloc(1, sizeof *trial);
    struct scratch scratch;
    char text[TERM_TEXT], error[512];
    bool intact = false;
    if (!trial || !scratch_enter(&scratch)) {
        report_add(report, "channel", FINDING_NOTE, "set TMPDIR to a writable folder",
                   "not tested: no temporary folder can be created");
        free(trial);
        return;
    }
    trial->name = report->device;
    int result = run_trial(trial, &intact);
    snprintf(error, sizeof error, "%.400s", result < 0 ? sluice_last_error() : sluice_result_text(result));
    end_trial(trial);
    scratch_leave(&scratch);
    qsort(trial->latency, FRAMES, sizeof trial->latency[0], compare_ns);
    gpu->channel_ns = result || !intact ? 0 : trial->latency[FRAMES / 2];
    gpu->usable = gpu->usable && gpu->channel_ns > 0;
    if (result)
        report_add(report, "channel", FINDING_BAD, "see the lines above", "failed: %s", error);
    else if (!intact)
        report_add(report, "channel", FINDING_BAD, "please report this",
                   "a frame or its pixels differ from what was sent");
    else
        report_add(report, "channel", FINDING_OK, "",
                   "%d frames through a channel in its memory, commit to acquire in %s (p50); %d more sent "
                   "and fetched with all pixels intact",
                   FRAMES, text_duration(text, gpu->channel_ns), SENT);
    free(trial);
}
