/* SPDX-License-Identifier: MIT
 *
 * A CUDA driver for machines without a GPU: libfakecuda.so has every function of the library's table (cuda/driver.h)
 * and of the tests' (gpu/extra_functions.h), and models what they do: contexts, streams whose work is done in time by a
 * thread, events, memory that is a memfd, captures. Only NVIDIA's driver is replaced; nothing of ours is faked.
 *
 * It is also stricter than a GPU. It checks each call of the library: no work on a stream whose capture state was not
 * queried before, calls that may break another thread's capture only in the relaxed mode, nothing used or freed that
 * has ended, and the current context must be that of what is worked on. Tests call it by names that begin with test_
 * (gpu/kit.h does), to which these rules do not apply.
 *
 * These are the controls for tests.
 */
#ifndef FAKE_H
#define FAKE_H

#include <stdbool.h>
#include <stddef.h>

#include "gpu/extra_functions.h"

enum fake_function {
#define FAKE_NUMBER(name, version, parameters, arguments) FAKE_##name,
    SL_CUDA_FUNCTIONS(FAKE_NUMBER) SL_CUDA_OPTIONAL_FUNCTIONS(FAKE_NUMBER) EXTRA_FUNCTIONS(FAKE_NUMBER)
#undef FAKE_NUMBER
        FAKE_FUNCTION_COUNT
};

#define FAKE_API __attribute__((visibility("default")))

/* The library loads it from now on: sets SLUICE_CUDA_DRIVER. */
FAKE_API void fake_use(void);

FAKE_API const char *fake_name(enum fake_function function); /* "cuStreamQuery" */

/* The library's `nth` call of a function from now on (1: the next; 0: each, until fake_failed) returns `code`, and does
 * nothing. */
FAKE_API void fake_fail(enum fake_function function, long nth, int code);
FAKE_API bool fake_failed(void); /* was there such a call? Also ends it */

/* After the library's next call of a function, when it has its result: as if its thread were suspended there. NULL:
 * cancels that. */
FAKE_API void fake_behind(enum fake_function function, void (*what)(void *data), void *data);

/* How often the library called a function since the start or the last fake_forget. */
FAKE_API long fake_calls(enum fake_function function);
FAKE_API void fake_forget(void);

/* How often the library used a default stream for anything but a question. */
FAKE_API long fake_default_uses(void);

/* The first rule that the library broke, as a sentence; NULL if none. */
FAKE_API const char *fake_broken_rule(void);
FAKE_API void fake_forget_rule(void); /* the next one is the first again */

/* The calling thread's contexts and capture mode, as one number that is the same whenever they are. */
FAKE_API unsigned long long fake_thread_state(void);

/* What the library made and did not end, in this process. */
struct fake_things {
    long contexts, streams, events, handles, reservations, mappings, registrations;
    long pinned, modules, graphs, allocations; /* the last: including opened ones */
};
FAKE_API struct fake_things fake_things(void);

/* How many of those streams have the highest priority. */
FAKE_API long fake_urgent_streams(void);

/* The machine. Before the first call. The environment says the same to all processes of a test:
 *
 *     SLUICE_FAKE_GPUS=4       SLUICE_FAKE_VERSION=12020       SLUICE_FAKE_MEMORY=64 (MiB)
 *     SLUICE_FAKE_DELAY=500 (us)                               SLUICE_FAKE_APART=1
 *     SLUICE_FAKE_JITTER=500 (us), by the chance of            SLUICE_FAKE_SEED=1; the harness chooses one
 *     SLUICE_FAKE_SLICES=5000:FILE (us): all GPUs work for one process at a time of those that name this file, as a GPU
 *     does without MPS: for so long where another has work, else for as long as it has work itself. Read with the first
 *     context
 *     SLUICE_FAKE_WITHOUT=memops,vmm,export,register,readonly,events,addresses,peers,unseen,pools
 *     SLUICE_FAKE_FATAL=1: a broken rule ends the process; a path: and is written there, as stderr may be lost with the
 *     process
 *     SLUICE_FAKE_IS=integrated,mig,exclusive,prohibited       SLUICE_FAKE_COMPUTE=90
 *     SLUICE_FAKE_MPS=1
 *     SLUICE_FAKE_LOG=FILE: it gets the line "loaded" from each process that loads the driver, and
 *     "context" for each context that one makes
 *
 * CUDA_VISIBLE_DEVICES hides and orders GPUs as it does with NVIDIA's driver. */
struct fake_machine {
    int version;               /* 13000 */
    int devices;               /* 2; at most 8 */
    int init;                  /* what cuInit says; 0 */
    size_t memory;             /* of each GPU; 256 MiB */
    size_t unit;               /* of memory; 2 MiB */
    unsigned char cannot[256]; /* attributes that are 0 */
    bool peers;                /* GPUs are peers; true */
    bool unseen;               /* memory of GPUs that CUDA_VISIBLE_DEVICES hides cannot be opened; false */
    int64_t delay;             /* ns that each piece of work takes at least; 0 */
    int64_t jitter;            /* ns that it takes at most in addition, at random; 0 */
    uint64_t seed;             /* of the random numbers */
    bool apart;                /* the CPU cannot touch a GPU's memory; false */
    int compute;               /* 90: capability 9.0 */
    int mps;                   /* 1: its work is shared by MPS; -1: it does not know MPS */
    bool idle;                 /* work ends without anything being done; false */
    const char *is;            /* words, as of SLUICE_FAKE_IS; "" */
};
FAKE_API extern struct fake_machine fake_machine;

/* A delay for work that ends when the test says so, however busy the machine is: fake_release ends what has begun, and
 * sets the delay to 0. */
#define FAKE_ENDLESS INT64_C(0x3fffffffffffffff)
FAKE_API void fake_release(void);

/* Ends all contexts that are left, as the end of a process does. */
FAKE_API void fake_end_contexts(void);

/* A kernel crashed: every call in the context of `device` returns `code` from now on. */
FAKE_API void fake_lose(int device, int code);

#endif
