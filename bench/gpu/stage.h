/* SPDX-License-Identifier: MIT
 *
 * What the two programs of this folder share: `gpu-limit`, which uses the driver alone, and
 * `gpu-sluice`. Each reads jobs from standard input and answers each with a line of JSON, so that
 * bench/gpu/run can let them take turns. A writer process and reader processes are started for the
 * first job and stay, because a GPU's context takes longer to make than a job.
 *
 *     handoff ns=200000000 busy=1        the job's name, and numbers (see struct job)
 *     {"sets": {"seen": [4012, ...], "call": [...]}, "values": {...}}
 *     {"missing": "there is no GPU: ..."} or {"error": "..."}
 */
#ifndef BENCH_GPU_STAGE_H
#define BENCH_GPU_STAGE_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kit/clock.h"
#include "kit/failure.h"
#include "kit/words.h"

#define MAX_READERS 64
#define SAMPLES     4096 /* of a set, a job */
#define WARM_UP     10   /* rounds that are not counted */
#define SETS        4
#define VALUES      8
#define WORDS       128 /* each on its own cache line */
#define LINE        (64 / sizeof(uint64_t))

enum { BUSY_WRITER = 1, BUSY_READER = 2 };
enum { IN_PLACE, FROM_DEVICE, FROM_PINNED, FROM_HOST };
enum { UNTIL_CPU, UNTIL_GPU };
enum { NOT_CIPD, CIPD_ASYNC, CIPD_BLOCK /* a frame is published once it is finished */ };
enum { NO_GRAPH, GRAPH_WITH_WORD, GRAPH_THEN_WORD /* bare */ };

#define JOB_NUMBERS(X) \
    X(ns)        /* how long to sample */ \
    X(most)      /* samples of a set, at most SAMPLES */ \
    X(readers)   /* processes; 1 unless set */ \
    X(ahead)     /* 1: readers wait on their GPU */ \
    X(until)     /* UNTIL_GPU: until a reader's stream has continued */ \
    X(gated)     /* 1: the reader's stream waits already when the writer's work ends */ \
    X(in_device) /* 1: the word lies in GPU memory; bare */ \
    X(busy)      /* BUSY_WRITER, BUSY_READER: their kernels run meanwhile */ \
    X(from)      /* where the frame is copied from, or IN_PLACE */ \
    X(width) \
    X(height)   /* pixels of four channels */ \
    X(is_float) /* 1: float32; 0: uint8 */ \
    X(ops)      /* memory operations in one call */ \
    X(apart)    /* 1: a wait and a write are two calls; bare */ \
    X(group)    /* calls that are timed together */ \
    X(sleeping) /* 1: asleep in acquire; 2: in poll */ \
    X(in_order) \
    X(work)       /* ns on the CPU for each frame, during the next one's copy */ \
    X(parked)     /* streams that wait for the other side */ \
    X(far)        /* 1: the readers' GPU is the second one */ \
    X(staged)     /* 1: the readers have copies */ \
    X(graph)      /* GRAPH_...: how a frame is sent */ \
    X(slots)      /* graphs that take turns, like those of slots; bare */ \
    X(call)       /* the driver's call, by its number; bare */ \
    X(in_slot)    /* 1: the copy goes into memory that others can map, like a slot; bare */ \
    X(late)       /* 1: the reader's stream waits only after its CPU knows that the word is queued; bare */ \
    X(first)      /* 1: the reader waits for the first word of a call, not the last; bare */ \
    X(gives)      /* 1: the reader's stream writes one more word after its answer; bare */ \
    X(cipd)       /* CIPD_...: by cuda-link's protocol */ \
    X(is_default) /* 1: on the default stream */ \
    X(conversion) /* by its number */ \
    X(bytes)      /* of each copy; bare */

struct job {
    char name[32];
#define JOB_NUMBER(name) int64_t name;
    JOB_NUMBERS(JOB_NUMBER)
#undef JOB_NUMBER
};

/* A kind of job: `act` runs in the writer's process (0) and, unless it is `alone`, in each reader's
 * (1 and up). */
struct kind {
    const char *name;
    void (*act)(int index);
    bool alone;
};

struct set {
    char name[24];
    uint32_t count;
    int64_t at[SAMPLES];
};

struct stage {
    struct job job;
    int actors; /* in this job */
    alignas(64) atomic_uint turn;
    alignas(64) atomic_uint finished, met, last;
    struct lane {
        alignas(64) atomic_uint ready, got; /* rounds */
        int64_t seen;                       /* when the reader had the frame */
        int64_t values[VALUES];
    } lanes[MAX_READERS + 1];
    struct set sets[SETS];
    struct value {
        char name[24];
        int64_t number;
    } values[VALUES];
    alignas(4096) _Atomic uint64_t words[WORDS * LINE]; /* GPUs write them, too */
};
extern struct stage *stage;
extern const struct job *job;

int stage_main(const struct kind *kinds, size_t count);

/* ---- for actors ---- */

void *memory_of(size_t size); /* whole pages, touched; until munmap */

/* All actors of the job wait for each other. */
void meet(void);

/* Spins until the word has this value, or more. */
void await_word(const _Atomic uint64_t *word, uint64_t value);
/* Spins until all readers' lanes have this round. */
void await_ready(uint32_t round);
void await_got(uint32_t round);

/* The job's answers, given by one of its actors. False if the set is full. */
bool sample(const char *set, int64_t number);
void value(const char *name, int64_t number);

/* A word by its number: for the CPU, and the address for this process's GPU. */
_Atomic uint64_t *word(int number);
uint64_t word_address(int number);

/* Keeps the GPU busy with this process's kernels until busy_end, if the job wants it. */
void busy_begin(int index);
void busy_end(void);

size_t frame_bytes(void);

/* Over a socket between the writer and the first reader. */
void pass_fd(int fd);
int take_fd(void);

#endif
