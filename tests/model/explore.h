/* SPDX-License-Identifier: MIT
 *
 * Explores all interleavings of threads, on the code that ships: compiled with SL_MODEL, each access to a shared word
 * comes here, and every order of all accesses is tried.
 *
 * Actors are coroutines that yield before each access. The reachable states are walked depth first; a state is
 * everything that can matter later (the words, the actors' stacks and registers, the buffers), and a known one is not
 * walked again. States are stored as 64 bits of a hash.
 *
 * With store buffers a store that is not seq_cst becomes visible to others at any later time: relaxed ones in any order
 * except on one word, a release store after all that its actor stored before it. A seq_cst store, an exchange and an
 * addition first make everything visible. Loads are never early: their reordering is not explored.
 */
#ifndef MODEL_EXPLORE_H
#define MODEL_EXPLORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXPLORE_ACTORS 3
#define EXPLORE_EXTRAS 4 /* things that may happen beside the actors' own steps */

/* One access of the code under test, for a mutation to change. */
struct explore_access {
    int actor;
    void *word;
    bool is_store;
    uint64_t value; /* of a store; or of a load that is answered without reading */
    int order;
    bool skip; /* it does not take place; a load returns `value` */
};

struct explore {
    /* Everything that actors share or store outside their stacks; copied, compared, restored. */
    void *world;
    size_t world_size;
    /* Sets up the world. */
    void (*begin)(void);
    void (*actors[EXPLORE_ACTORS])(void); /* NULL: none */
    const char *actor_names[EXPLORE_ACTORS];
    /* Other things that may happen in one step: a death, a join. */
    bool (*may_happen[EXPLORE_EXTRAS])(void);
    void (*happen[EXPLORE_EXTRAS])(void);
    const char *extra_names[EXPLORE_EXTRAS];
    /* Called once nothing can happen any more. */
    void (*at_rest)(void);
    /* Names a word, for the trace. */
    void (*name_word)(const void *word, char *text, size_t size);
    /* Changes an access before it takes place; NULL: none. See struct explore_access. */
    void (*change)(struct explore_access *access);
    bool buffers;
    uint64_t most_states; /* give up after so many */
};

struct explore_result {
    char violation[256]; /* empty: there is none */
    uint64_t states, steps;
    bool complete; /* everything was walked */
};

/* Walks it all, or up to the first violation; then the path to it is printed. */
void explore_run(const struct explore *what, struct explore_result *result, bool print);

/* ---- for actors ---- */

/* Ends the walk: a promise is broken. Returns only outside an actor. */
void explore_violated(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The actor's knowledge begins here; explore_wait waits unless a word has changed since. */
void explore_look(void);
void explore_wait(void);

/* A step of its own, taken once `ready` returns true. */
void explore_until(bool (*ready)(void));

/* This actor was killed and does nothing more. To be called from what may happen. */
void explore_kill(int actor);
bool explore_alive(int actor); /* neither killed nor at its end */
bool explore_killed(int actor);

/* Something happened that waiting actors must check. */
void explore_changed(void);

/* What is in memory now, visible to all. */
uint64_t explore_peek(const void *word);

#endif
