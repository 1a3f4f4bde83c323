/* SPDX-License-Identifier: MIT
 *
 * Tracing: timers for Sluice's stages, and NVTX ranges for NVIDIA's tools. One word of bits enables both;
 * while it is 0 a stage costs a relaxed load and a well-predicted branch.
 *
 *     SL_STAGE_BEGIN(SIGNAL);        work on one thread; stages may be nested. Every BEGIN is followed by
 *     ... no return in between ...   exactly one END.
 *     SL_STAGE_END(SIGNAL);
 *
 *     SL_SPAN_BEGIN(READ, &entry->span, name, sequence);   from one call to another: may overlap others
 *     SL_SPAN_END(READ, &entry->span);                     and end on another thread
 */
#ifndef SL_TRACE_H
#define SL_TRACE_H

#include <sluice/timers.h>

#include <stdbool.h>
#include <stdint.h>

#include "util/atomic.h"

/* Name, text, the level of SLUICE_NVTX from which it is a range, its colour (ARGB), description.
 * Stages within a call are shown inside that call's range. */
#define SL_STAGES(X) \
    X(WRITE, "write", 1, 0xff2e7d32, "begin to commit or cancel: the program writes") \
    X(SEND, "send", 1, 0xff6a1b9a, "send") \
    X(READ, "read", 1, 0xff1565c0, "acquire to release: the program reads") \
    X(FETCH, "fetch", 1, 0xff6a1b9a, "fetch") \
    X(BEGIN, "begin", 2, 0xff66bb6a, "begin") \
    X(WAIT_SLOT, "wait_slot", 2, 0xffc62828, "in begin: waits for a free slot") \
    X(COMMIT, "commit", 2, 0xff66bb6a, "commit") \
    X(SIGNAL, "signal", 2, 0xffffb300, "in commit: ready is raised, or queued") \
    X(PUBLISH, "publish", 2, 0xffffb300, "in commit: the frame becomes the newest") \
    X(WAKE, "wake", 2, 0xffffb300, "in commit: readers that sleep are woken") \
    X(SEND_COPY, "send_copy", 2, 0xffab47bc, "in send: the copy") \
    X(ACQUIRE, "acquire", 2, 0xff42a5f5, "acquire") \
    X(WAIT_FRAME, "wait_frame", 2, 0xffc62828, "in acquire: spins, then sleeps") \
    X(WAIT_DEVICE, "wait_device", 2, 0xffd84315, "in wait_frame: its writer's device works on it") \
    X(MAP, "map", 2, 0xff8d6e63, "in acquire: maps memory not seen before") \
    X(RELEASE, "release", 2, 0xff42a5f5, "release") \
    X(FETCH_COPY, "fetch_copy", 2, 0xffab47bc, "in fetch: the copy") \
    X(OPEN, "open", 2, 0xff8d6e63, "opening a writer or a reader") \
    X(CONNECT, "connect", 2, 0xff8d6e63, "a reader knocks at its writer") \
    X(MAKE_SLOTS, "make_slots", 2, 0xff8d6e63, "a writer makes memory for slots")

enum sl_stage {
#define SL_STAGE_NUMBER(name, text, level, colour, what) SL_STAGE_##name,
    SL_STAGES(SL_STAGE_NUMBER)
#undef SL_STAGE_NUMBER
        SL_STAGE_COUNT
};

#define SL_TRACE_TIMERS 1u
#define SL_TRACE_FRAMES 2u /* ranges of level 1 */
#define SL_TRACE_INSIDE 4u /* ranges of level 2 */

#if defined(__GNUC__)
#define SL_TRACE_RARELY(x) __builtin_expect((x) != 0, 0)
#else
#define SL_TRACE_RARELY(x) (x)
#endif
#if defined(__GNUC__) && !defined(SL_TRACE_HIDDEN)            /* os/win32/gnu.h defines it */
#define SL_TRACE_HIDDEN __attribute__((visibility("hidden"))) /* allows access without the GOT */
#elif !defined(SL_TRACE_HIDDEN)
#define SL_TRACE_HIDDEN
#endif

extern SL_TRACE_HIDDEN sl_word32 sl_trace_bits;

#define SL_STAGE_BEGIN(stage) \
    int64_t sl_since_##stage = SL_TRACE_RARELY(sl_load(&sl_trace_bits, relaxed)) ? sl_trace_begin(SL_STAGE_##stage) : 0
#define SL_STAGE_END(stage) \
    do { \
        if (SL_TRACE_RARELY(sl_since_##stage)) \
            sl_trace_end(SL_STAGE_##stage, sl_since_##stage); \
    } while (0)

/* A member of the object whose span it times; initially zero, used by one thread at a time. */
struct sl_span {
    int64_t since_ns; /* 0: it has not begun, or tracing was off */
    uint64_t range;
};

/* `name`: the channel's; `sequence`: 0 if it is not known yet. */
#define SL_SPAN_BEGIN(stage, span, name, sequence) \
    do { \
        if (SL_TRACE_RARELY(sl_load(&sl_trace_bits, relaxed))) \
            sl_trace_span_begin(SL_STAGE_##stage, (span), (name), (sequence)); \
    } while (0)
#define SL_SPAN_END(stage, span) \
    do { \
        if (SL_TRACE_RARELY((span)->since_ns)) \
            sl_trace_span_end(SL_STAGE_##stage, (span)); \
    } while (0)

/* A writer or a reader is opened, and closed: the first open reads the environment, the last close prints. */
void sl_trace_open(void);
void sl_trace_close(void);

/* ---- what the macros call ---- */

int64_t sl_trace_begin(enum sl_stage stage); /* returns the time; never 0 */
void sl_trace_end(enum sl_stage stage, int64_t since_ns);
void sl_trace_span_begin(enum sl_stage stage, struct sl_span *span, const char *name, uint64_t sequence);
void sl_trace_span_end(enum sl_stage stage, struct sl_span *span);

/* ---- timers.c ---- */

void sl_timers_add(enum sl_stage stage, int64_t ns);
void sl_timers_print(void); /* to stderr; nothing if nothing was timed */

/* ---- nvtx.c ---- */

/* Looks for a tool, once. False if there is none that accepts ranges; the log says why. */
bool sl_nvtx_load(void);

/* Nested ranges of this thread. */
void sl_nvtx_push(const char *name, uint32_t colour);
void sl_nvtx_pop(void);

/* Ranges that may overlap others and end on another thread. A payload of 0 means none. */
uint64_t sl_nvtx_start(const char *name, uint32_t colour, uint64_t payload);
void sl_nvtx_stop(uint64_t range);

/* ---- behind the public calls of sluice/timers.h, which checks their pointers ---- */

int sl_timers_set(int on);
int sl_timers_clear(void);
int sl_timers_read(struct sluice_timer *timers, size_t capacity, size_t *count);

#endif
