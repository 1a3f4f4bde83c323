/* SPDX-License-Identifier: MIT
 *
 * Hostile acts. Each is one test: what stands between its braces is done by a process of its own, while
 * honest ones go on beside it and are looked over.
 *
 *     HOSTILE_READER(says_hello_twice, .refused = 1) { ... }
 *
 * runs against an honest writer with an honest newest reader and an honest in-order reader;
 *
 *     HOSTILE_WRITER(sends_no_memory) { ... }
 *
 * against an honest program that reads this channel and an honest one in the same process.
 *
 * An act that ends keeps what it has (connections, mappings) until it is killed. One that goes on, or
 * stops itself, says act_done() when the others shall be looked at.
 */
#ifndef HOSTILE_ATTACK_H
#define HOSTILE_ATTACK_H

#include "multi/raw.h"

/* What the honest side may count: at least so many; drops only where `drops` says so. */
struct bounds {
    const char *options[4]; /* of the honest writer, see kit_roles.c */
    unsigned refused, evicted;
    bool drops;   /* frames may be dropped, as the act holds slots that it was granted */
    bool starves; /* while it lasts no frame is written */
    bool full;    /* no other reader can join */
    bool leaves;  /* it is no reader any more, though it is there */
    int fds;      /* that the writer may have for it; 0: as many as peers can ever cost it */
    int seconds;  /* that the act may take; 0: 20 */
};

struct act {
    const char *label;
    void (*run)(void);
    struct act *next;
};

#define HOSTILE_ACT(name, against, ...) \
    static void act_##name(void); \
    static struct act act_entry_##name = { .label = #name, .run = act_##name }; \
    __attribute__((constructor)) static void act_register_##name(void) \
    { \
        act_register(&act_entry_##name); \
    } \
    TEST_TIMEOUT(name, 60) \
    { \
        static const struct bounds bounds = { .seconds = 20, __VA_ARGS__ }; \
        against(#name, &bounds); \
    } \
    static void act_##name(void)

#define HOSTILE_READER(name, ...) HOSTILE_ACT(name, act_against_writer, __VA_ARGS__)
#define HOSTILE_WRITER(name, ...) HOSTILE_ACT(name, act_against_program, __VA_ARGS__)

void act_done(void);

/* For loops: false after so many milliseconds since the first call. */
bool act_lasts(int64_t *since, int64_t ms);

/* ---- what the macros call ---- */

void act_register(struct act *act);
void act_against_writer(const char *label, const struct bounds *bounds);
void act_against_program(const char *label, const struct bounds *bounds);

/* ---- the honest side, for tests that lead it themselves ---- */

struct honest {
    struct child writer, newest, recorder;
    int fds;     /* the writer's when all had joined, less one for each slot */
    long memory; /* its own, KiB */
};

struct honest honest_begin(const struct bounds *bounds);
/* While the hostile one is still there. */
void honest_during(const struct honest *honest, const struct bounds *bounds);
/* Once it is gone. */
void honest_end(struct honest *honest, const struct bounds *bounds);

struct sluice_channel_info honest_info(const char *name);

/* Runs an act in a process of its own, up to act_done(). */
struct child act_start(const char *label, int seconds);

#endif
