/* SPDX-License-Identifier: MIT
 *
 * Explores what threads can do to each other, on the code that is shipped: compiled with SL_MODEL,
 * each access to a shared word comes here, and every order of all accesses is tried.
 *
 * Actors are coroutines that give way before each access. What they can reach is walked depth
 * first; a state is everything that can matter later (the words, the actors' stacks and registers,
 * the buffers), and one that was seen before is not walked again. States are remembered by 64 bits
 * of a hash.
 *
 * With store buffers a store that is not seq_cst becomes visible to others at any later time:
 * relaxed ones in any order but on one word, a release store after all that its actor stored before
 * it. A seq_cst store, an exchange and an addition first make everything visible. Loads are never
 * late: what comes of early loads is not explored.
 */
#ifndef MODEL_EXPLORE_H
#define MODEL_EXPLORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXPLORE_ACTORS 3
#define EXPLORE_EXTRAS 4 /* things that may happen beside the actors' own steps */

/* One access of the code under test, for a mutation to spoil. */
struct explore_access {
    int actor;
    void *word;
    bool is_store;
    uint64_t value; /* a store's; of a load, when it is answered without looking */
    int order;
    bool skip; /* it does not take place; a load gives `value` */
};

struct explore {
    /* Everything that actors share or remember outside their stacks; copied, compared, put back. */
    void *world;
    size_t world_size;
    /* Sets the world up. */
    void (*begin)(void);
    void (*actors[EXPLORE_ACTORS])(void); /* NULL: none */
    const char *actor_names[EXPLORE_ACTORS];
    /* Other things that may happen in one step: a death, a join. */
    bool (*may_happen[EXPLORE_EXTRAS])(void);
    void (*happen[EXPLORE_EXTRAS])(void);
    const char *extra_names[EXPLORE_EXTRAS];
    /* Once nothing can happen any more. */
    void (*at_rest)(void);
    /* What a word is, for the trace. */
    void (*name_word)(const void *word, char *text, size_t size);
    /* Changes an access before it takes place; NULL: none does. See struct explore_access. */
    void (*change)(struct explore_access *access);
    bool buffers;
    uint64_t most_states; /* give up after so many */
};

struct explore_result {
    char violation[256]; /* empty: there is none */
    uint64_t states, steps;
    bool complete; /* everything was walked */
};

/* Walks it all, or up to the first violation; then the way to it is printed. */
void explore_run(const struct explore *what, struct explore_result *result, bool print);

/* ---- for actors ---- */

/* Ends the walk: a promise is broken. Returns only outside an actor. */
void explore_violated(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* What I know is from here on. Then: has anybody changed a word since? If not, wait for it. */
void explore_look(void);
void explore_wait(void);

/* A step of its own, taken once `ready` says so. */
void explore_until(bool (*ready)(void));

/* This actor does nothing more; it was killed. To be called from what may happen. */
void explore_kill(int actor);
bool explore_alive(int actor); /* neither killed nor at its end */
bool explore_killed(int actor);

/* Something came about that those who wait must look at. */
void explore_changed(void);

/* What is in memory now, for all to see. */
uint64_t explore_peek(const void *word);

#endif
