/* SPDX-License-Identifier: MIT
 *
 * Switches tracing on and off, and what a stage does while it is on.
 */
#include "trace/trace.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sluice/timers.h>

#include "os/os.h"
#include "util/result.h"

sl_word32 sl_trace_bits;

static const struct {
    const char *name;
    uint32_t bit, colour;
} stages[] = {
#define STAGE(id, text, level, argb, what) { text, (level) == 1 ? SL_TRACE_FRAMES : SL_TRACE_INSIDE, argb },
    SL_STAGES(STAGE)
#undef STAGE
};

static pthread_once_t asked = PTHREAD_ONCE_INIT;
static bool prints; /* SLUICE_TIMERS requests the output */
static sl_word32 channels;

/* ---- the switch ---- */

static uint32_t wanted_ranges(void)
{
    const char *value = secure_getenv("SLUICE_NVTX");

    if (!value || !*value || strcmp(value, "0") == 0)
        return 0;
    if (strcmp(value, "1") == 0)
        return SL_TRACE_FRAMES;
    if (strcmp(value, "2") == 0)
        return SL_TRACE_FRAMES | SL_TRACE_INSIDE;
    sl_log(SLUICE_LOG_WARN, "SLUICE_NVTX is '%.40s': 1 is for frames, 2 also for what happens inside; taken as 1",
           value);
    return SL_TRACE_FRAMES;
}

static void ask_environment(void)
{
    const char *value = secure_getenv("SLUICE_TIMERS");
    uint32_t bits = wanted_ranges();

    if (bits && !sl_nvtx_load())
        bits = 0;
    prints = value && *value && strcmp(value, "0") != 0;
    if (prints)
        bits |= SL_TRACE_TIMERS;
    if (bits)
        atomic_fetch_or(&sl_trace_bits, bits);
}

void sl_trace_open(void)
{
    pthread_once(&asked, ask_environment);
    sl_add(&channels, 1);
}

void sl_trace_close(void)
{
    if (sl_add(&channels, (uint32_t)-1) == 1 && prints)
        sl_timers_print();
}

int sl_timers_set(int on)
{
    if (on != 0 && on != 1)
        return sl_fail(SLUICE_E_INVALID, "timers are set to 0 or 1, not %d", on);
    if (on)
        atomic_fetch_or(&sl_trace_bits, SL_TRACE_TIMERS);
    else
        atomic_fetch_and(&sl_trace_bits, ~SL_TRACE_TIMERS);
    return 0;
}

/* ---- stages ---- */

int64_t sl_trace_begin(enum sl_stage stage)
{
    if (sl_load(&sl_trace_bits, relaxed) & stages[stage].bit)
        sl_nvtx_push(stages[stage].name, stages[stage].colour);
    return sl_os_now() | 1; /* never 0; one nanosecond does not matter */
}

/* The bits of ranges are set before the first stage and never cleared, so each push has its pop. */
void sl_trace_end(enum sl_stage stage, int64_t since_ns)
{
    uint32_t bits = sl_load(&sl_trace_bits, relaxed);

    if (bits & SL_TRACE_TIMERS)
        sl_timers_add(stage, sl_os_now() - since_ns);
    if (bits & stages[stage].bit)
        sl_nvtx_pop();
}

void sl_trace_span_begin(enum sl_stage stage, struct sl_span *span, const char *name, uint64_t sequence)
{
    char text[96];

    span->range = 0;
    if (sl_load(&sl_trace_bits, relaxed) & stages[stage].bit) {
        snprintf(text, sizeof text, "%s %s", stages[stage].name, name);
        span->range = sl_nvtx_start(text, stages[stage].colour, sequence);
    }
    span->since_ns = sl_os_now() | 1;
}

void sl_trace_span_end(enum sl_stage stage, struct sl_span *span)
{
    uint32_t bits = sl_load(&sl_trace_bits, relaxed);

    if (bits & SL_TRACE_TIMERS)
        sl_timers_add(stage, sl_os_now() - span->since_ns);
    if (bits & stages[stage].bit)
        sl_nvtx_stop(span->range);
    span->since_ns = 0;
}
