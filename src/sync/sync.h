/* SPDX-License-Identifier: MIT
 *
 * Raises words of a timeline in stream order: at once on `host`, by a queued write on a GPU. Each
 * kind is one file with one table; sync.c is the only file that lists all kinds.
 */
#ifndef SL_SYNC_H
#define SL_SYNC_H

#include <stdbool.h>

#include <sluice/device.h>

#include "util/atomic.h"

/* One word to raise. */
struct sl_signal {
    sl_word *word;
    uint64_t value;
};

/* How many there may be in one call: the channel's own word, and one for each reader. */
#define SL_SIGNALS 66

/* A mapping of pages with words that streams of one device may raise. */
struct sl_sync_pages;
struct sl_stream;

struct sl_sync_ops {
    const char *device; /* the kind: "host" */
    /* Registers these whole pages with `device`, such as "cuda:0", before words in them are signalled; on a thread that
     * may wait for the driver. Detach before the pages are unmapped: it may have to
     * wait for streams that are blocked, so with no lock held, and not at the process's exit. */
    int (*attach)(const char *device, void *address, uint64_t size, bool writable, struct sl_sync_pages **pages);
    void (*detach)(struct sl_sync_pages *pages);
    /* 0 while the device works; else SLUICE_E_DRIVER with the reason: then queued work is lost, too, and raises no
     * words. */
    int (*alive)(const struct sl_sync_pages *pages);
    /* The same, after asking the driver, which reports a dead context only when it is called: about a stream of
     * Sluice's own, as a program's may begin to capture just then. For work that is late, as the call takes a
     * microsecond. */
    int (*probe)(const struct sl_sync_pages *pages);
    /* How long a process's work on the device may still run after its connections and its pidfd have shown its death;
     * ns. */
    int64_t (*lingers)(const struct sl_sync_pages *pages);
    /* May `stream` raise words of these pages? SLUICE_ON_CPU may. As sl_stream_check. */
    int (*check)(const struct sl_sync_pages *pages, struct sluice_stream stream);
    /* Stores values into words that others wait for, behind the work queued on `stream`: whoever sees them also sees
     * everything that this work has written. In this order; all or none. SLUICE_E_CAPTURING if the stream captures, as
     * they would become part of the graph. `pages` name the device; the words may also be in other pages attached to
     * it. */
    int (*signal)(const struct sl_sync_pages *pages, struct sluice_stream stream, const struct sl_signal *signals,
                  uint32_t count);
    /* The same on a stream that the caller holds (sl_stream_hold) and that signal or check has accepted before: its
     * handle may have ended since. `thread` is its place's (sl_stream_queue) where the work was queued, which may be
     * another thread. */
    int (*signal_held)(const struct sl_sync_pages *pages, const struct sl_stream *stream, uint64_t thread,
                       const struct sl_signal *signals, uint32_t count);
    /* The same for a caller that has entered the device's context (sl_cuda_enter). NULL: this kind has no contexts. */
    int (*signal_inside)(const struct sl_sync_pages *pages, const struct sl_stream *stream,
                         const struct sl_signal *signals, uint32_t count);
    /* Does the device raise words of these pages by itself, without a CPU thread? Then a CUDA graph can, too. */
    bool (*direct)(const struct sl_sync_pages *pages);
    /* Can streams wait for words of these pages? 0, or SLUICE_E_UNSUPPORTED with the reason. */
    int (*can_wait)(const struct sl_sync_pages *pages);
    /* Makes `stream`, which the caller holds and check has accepted, wait until the word reaches `value` (sl_reached,
     * or it is poisoned); results as of signal. A stream that waits may block other streams of its process, and some
     * driver calls: somebody must raise the word in the end, the CPU if nobody else. */
    int (*await)(const struct sl_sync_pages *pages, const struct sl_stream *stream, sl_word *word, uint64_t value);
    /* To be called once before signalling work that the CPU did: makes non-temporal stores visible,
     * too. */
    void (*settle)(void);
};

/* Non-temporal stores are not ordered by a release store on x86 (protocol rule 1.13). */
static inline void sl_settle(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_sfence();
#endif
}

/* How many streams of a process may wait for frames at once, on channels of every kind; eight block all others
 * (measured). A caller reserves one before it queues the wait, and releases it when the stream goes on. */
#define SL_SYNC_MAX_WAITS 3
bool sl_sync_wait_available(void);
bool sl_sync_wait_reserve(void);
void sl_sync_wait_release(void);

/* By the name of a kind of device; NULL for an unknown one. */
const struct sl_sync_ops *sl_sync_of_device(const char *device);

/* The value of `ready` for a frame that its writer will never finish. */
#define SL_POISON (UINT64_C(1) << 62)

/* Has a timeline reached `value`? Compared as a GPU compares, cyclically; a poisoned word has not. */
static inline int sl_reached(uint64_t word, uint64_t value)
{
    return word != SL_POISON && (int64_t)(word - value) >= 0;
}

#endif
