/* SPDX-License-Identifier: MIT
 *
 * A frame from a writer to a reader, one after the other: the rounds that both programs play, so
 * that they are timed alike.
 */
#ifndef BENCH_GPU_ROUNDS_H
#define BENCH_GPU_ROUNDS_H

#include "stage.h"

struct cu_stream;

struct way {
    /* The writer. `prepare` is not timed; `hand` is the call that hands the frame over. */
    void (*writer_open)(void);
    void (*prepare)(uint32_t round);
    void (*hand)(uint32_t round);
    void (*writer_close)(void);

    /* A reader. `expect` comes before the writer begins the round; or, if the job is gated, before
     * its work ends. `take` returns when the frame is there, `give` ends its use. */
    void (*reader_open)(int index);
    void (*expect)(uint32_t round);
    void (*take)(uint32_t round);
    void (*give)(uint32_t round);
    void (*reader_close)(void);
};

void rounds(const struct way *way, int index);

/* The words of the job: what was handed over, the reader's answer, the writer's gate. */
enum { WORD_READY = 0, WORD_ANSWER = 1, WORD_GATE = 2, WORD_OWN = 3, WORD_MORE = 4 };

/* Is the time over? The last round is announced before it is handed over, in stage->last. */
bool is_last_round(uint32_t round, int64_t until);

/* Turns of a writer that hands over, and of readers that take it when its CPU says so: what each of them times is its own matter.
 * The writer's work up to a wait for WORD_GATE ends once all have taken it. `stream` is each process's own, and empty behind a turn. */
struct turns {
    void (*put)(uint32_t turn);
    void (*take)(uint32_t turn, int index);
    struct cu_stream *stream;
};
void turns(const struct turns *how, int index);

/* One call of the writer's, again and again: how long it keeps the CPU. `call` is timed in groups
 * of job->group; `settle` comes after each group. */
void call_costs(const char *set, void (*call)(uint32_t round), void (*settle)(uint32_t round));

#endif
