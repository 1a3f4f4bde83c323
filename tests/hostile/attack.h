/* SPDX-License-Identifier: MIT
 *
 * Attacks. Each is one test: the code in its braces runs in a process of its own, while honest processes run beside it
 * and are checked.
 *
 *     HOSTILE_READER(says_hello_twice, .refused = 1) { ... }
 *
 * runs against an honest writer with an honest newest reader and an honest in-order reader;
 *
 *     HOSTILE_WRITER(sends_no_memory) { ... }
 *
 * against an honest program that reads this channel and an honest one in the same process.
 *
 * An attack that returns keeps its resources (connections, mappings) until it is killed. One that goes on, or stops
 * itself, calls attack_done() when the honest side is to be checked.
 */
#ifndef HOSTILE_ATTACK_H
#define HOSTILE_ATTACK_H

#include "multi/raw.h"

/* What the honest side may count: at least these numbers; drops only if `drops` is set. */
struct bounds {
    const char *options[4]; /* of the honest writer, see kit_roles.c */
    unsigned refused, evicted;
    bool drops;   /* frames may be dropped, as the attack holds slots that it was granted */
    bool starves; /* while it lasts no frame is written */
    bool full;    /* no other reader can join */
    bool leaves;  /* it counts as no reader any more, though it is there */
    int fds;      /* that the writer may have for it; 0: as many as peers can ever cost it */
    int seconds;  /* that the attack may take; 0: 20 */
};

struct attack {
    const char *label;
    void (*run)(void);
    struct attack *next;
};

#define HOSTILE_ATTACK(name, against, ...) \
    static void act_##name(void); \
    static struct attack attack_entry_##name = { .label = #name, .run = act_##name }; \
    __attribute__((constructor)) static void attack_register_##name(void) \
    { \
        attack_register(&attack_entry_##name); \
    } \
    TEST_TIMEOUT(name, 60) \
    { \
        static const struct bounds bounds = { .seconds = 20, __VA_ARGS__ }; \
        against(#name, &bounds); \
    } \
    static void act_##name(void)

#define HOSTILE_READER(name, ...) HOSTILE_ATTACK(name, attack_against_writer, __VA_ARGS__)
#define HOSTILE_WRITER(name, ...) HOSTILE_ATTACK(name, attack_against_program, __VA_ARGS__)

void attack_done(void);

/* For loops: false once `ms` milliseconds have passed since the first call. */
bool attack_lasts(int64_t *since, int64_t ms);

/* ---- what the macros call ---- */

void attack_register(struct attack *act);
void attack_against_writer(const char *label, const struct bounds *bounds);
void attack_against_program(const char *label, const struct bounds *bounds);

/* ---- the honest side, for tests that lead it themselves ---- */

struct honest {
    struct child writer, newest, recorder;
    int fds;     /* the writer's when all had joined, less one for each slot */
    long memory; /* its own, KiB */
};

struct honest honest_begin(const struct bounds *bounds);
/* While the hostile process is still there. */
void honest_during(const struct honest *honest, const struct bounds *bounds);
/* Once it is gone. */
void honest_end(struct honest *honest, const struct bounds *bounds);

struct sluice_channel_info honest_info(const char *name);

/* Runs an attack in a process of its own, up to attack_done(). */
struct child attack_start(const char *label, int seconds);

#endif
