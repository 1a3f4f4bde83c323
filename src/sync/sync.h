/* SPDX-License-Identifier: MIT
 *
 * How a word of a timeline is raised behind work: at once on `host`, by a queued write on a GPU. A kind
 * is one file with one table; sync.c is the only file that knows them all.
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

/* At most so many at once: readers of one channel, each with a word of its own, and the channel's. */
#define SL_SIGNALS 66

/* Pages of words that streams of one device may raise. */
struct sl_sync_pages;
struct sl_stream;

struct sl_sync_ops {
    const char *device; /* the kind: "host" */
    /* Before words in these whole pages are signalled, on a thread that may wait for a driver;
     * `device` is which one, such as "cuda:0". Detach before the pages are unmapped: it may have to
     * wait for streams that are held up, so with no lock held, and not at the process's exit. */
    int (*attach)(const char *device, void *address, uint64_t size, bool writable,
                  struct sl_sync_pages **pages);
    void (*detach)(struct sl_sync_pages *pages);
    /* 0 while streams can be waited for; else SLUICE_E_DRIVER with what ended that: work that was queued
     * has ended too, and raises nothing any more. */
    int (*alive)(const struct sl_sync_pages *pages);
    /* The same after a look at the driver, which tells of a death only whom it is asked: whether work queued
     * on `stream` goes on. For work that is late: a look takes a microsecond. */
    int (*probe)(const struct sl_sync_pages *pages, struct sluice_stream stream);
    /* So long after its end a process's work may still be under way, though its connections and its pidfd say
     * otherwise; ns. */
    int64_t (*lingers)(const struct sl_sync_pages *pages);
    /* May `stream` raise words of these pages? SLUICE_ON_CPU may. As sl_stream_check. */
    int (*check)(const struct sl_sync_pages *pages, struct sluice_stream stream);
    /* Stores values into words that others wait on, behind the work queued on `stream`: everything
     * written before is visible to whoever sees them. In their order; all or none. SLUICE_E_CAPTURING if
     * the stream captures a graph, which would take them in. `pages` are those of the device, also if the
     * words lie in others of it. */
    int (*signal)(const struct sl_sync_pages *pages, struct sluice_stream stream,
                  const struct sl_signal *signals, uint32_t count);
    /* The same on a stream that the caller holds (sl_stream_hold), which signal did not refuse for what it is: its name
     * may have ended. */
    int (*signal_held)(const struct sl_sync_pages *pages, const struct sl_stream *stream,
                       const struct sl_signal *signals, uint32_t count);
    /* The same for a caller that has entered the device's context (sl_cuda_enter). NULL: there is none to enter. */
    int (*signal_inside)(const struct sl_sync_pages *pages, const struct sl_stream *stream,
                         const struct sl_signal *signals, uint32_t count);
    /* Does the device raise words of these pages by itself, with no thread of the CPU's? Then a graph of its
     * driver may, too. */
    bool (*direct)(const struct sl_sync_pages *pages);
    /* May streams wait for words of these pages? 0, or SLUICE_E_UNSUPPORTED with what forbids it. */
    int (*can_wait)(const struct sl_sync_pages *pages);
    /* Lets `stream`, which the caller holds and check did not refuse, wait until the word reaches `value` (sl_reached, but a
     * poisoned one counts as well); results as of signal. A stream that waits holds up others of its process, and some calls of the driver: somebody
     * must raise the word, in the end the CPU. */
    int (*await)(const struct sl_sync_pages *pages, const struct sl_stream *stream, sl_word *word, uint64_t value);
    /* Once, before signalling work that the CPU did: makes streaming stores visible too. */
    void (*settle)(void);
};

/* Streaming stores are not ordered by a release store on x86 (protocol rule 1.13). */
static inline void sl_settle(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_sfence();
#endif
}

/* Streams of a process that wait for frames, on channels of every kind, are so many at most; eight stop all others (measured).
 * Before the wait is queued one takes a place, if there is one, and gives it back when it goes on. */
#define SL_PARKED_MOST 3
bool sl_sync_may_park(void);
bool sl_sync_park(void);
void sl_sync_unpark(void);

/* By the name of a kind of device; NULL if there is none. */
const struct sl_sync_ops *sl_sync_of_device(const char *device);

/* What a frame whose writer will never finish it holds in `ready`. */
#define SL_POISON (UINT64_C(1) << 62)

/* Has a timeline reached `value`? Compared as a GPU compares, cyclically; a poisoned word has not. */
static inline int sl_reached(uint64_t word, uint64_t value)
{
    return word != SL_POISON && (int64_t)(word - value) >= 0;
}

#endif
