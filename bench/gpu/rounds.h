/* SPDX-License-Identifier: MIT
 *
 * The loops that both programs measure with, so that they are timed alike: one frame after the other
 * from a writer to its readers, and one call again and again.
 */
#ifndef BENCH_GPU_ROUNDS_H
#define BENCH_GPU_ROUNDS_H

#include "stage.h"

struct cu_stream;

struct way {
    /* The writer. `hand` is the call that hands the frame over; `prepare` is not timed. */
    void (*writer_open)(void);
    void (*prepare)(uint32_t round);
    void (*hand)(uint32_t round);
    void (*writer_close)(void);

    /* A reader. `expect` runs before the writer begins the round or, if the job is gated, before the
     * writer's work ends. `take` returns when the frame is there, `give` ends its use. */
    void (*reader_open)(int index);
    void (*expect)(uint32_t round);
    void (*take)(uint32_t round);
    void (*give)(uint32_t round);
    void (*reader_close)(void);
};

void measure_rounds(const struct way *way, int index);

/* The words of the job: the round that was handed over, the reader's answer, the gate that the writer's GPU waits for.
 */
enum { WORD_READY = 0, WORD_ANSWER = 1, WORD_GATE = 2, WORD_OWN = 3, WORD_MORE = 4 };

/* True once the time is over. Stores the last round in stage->last, before it is handed over. */
bool is_last_round(uint32_t round, int64_t until);

/* Turns of a writer, and of readers that take its frames when its CPU says so. `put` and `take` measure what they like.
 * The writer's stream may wait for WORD_GATE, which is set once all readers have taken. `stream` is each process's own;
 * it is idle after a turn. */
struct turns {
    void (*put)(uint32_t turn);
    void (*take)(uint32_t turn, int index);
    struct cu_stream *stream;
};
void measure_turns(const struct turns *how, int index);

/* Repeats one call and samples how long it keeps the CPU. `call` is timed in groups of job->group;
 * `settle` follows each group. */
void measure_calls(const char *set, void (*call)(uint32_t round), void (*settle)(uint32_t round));

/* Repeats a call for the job's time and samples each, in the set "call": one copy, or job->group of them, of which a
 * sample is the mean. */
void measure_copies(void (*copy)(uint32_t round));
#define COPY_WARM_UP 3 /* copies that are not counted: large frames take long */

#endif
