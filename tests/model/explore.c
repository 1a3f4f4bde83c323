/* SPDX-License-Identifier: MIT */
#undef _FORTIFY_SOURCE /* its longjmp refuses to change stacks */
#include "model/explore.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include "harness/test.h"
#include "model/state_set.h"
#include "util/atomic.h"

#define STACK      (64 * 1024)
#define MOST_STACK (16 * 1024) /* of it that is in use when an actor yields */
#define BUFFER     6
#define DEEPEST    4096
#define CHOICES    (EXPLORE_ACTORS * (BUFFER + 1) + EXPLORE_EXTRAS)

struct buffered {
    void *word;
    uint64_t value;
    bool release;
};

/* The explorer's own record of an actor: part of the state. */
struct actor {
    struct buffered buffer[BUFFER];
    int buffered;
    bool ended, killed;
    bool waiting, changed; /* for a word to change; one did */
    bool needs_empty;      /* its step waits until its buffer is empty */
    bool (*until)(void);
    char *low; /* of its stack, the part in use */
    jmp_buf at;
};

struct snapshot {
    struct actor actors[EXPLORE_ACTORS];
    char stacks[EXPLORE_ACTORS][MOST_STACK];
    char world[];
};

/* One choice: an actor's step, one of its buffered stores, or an extra. */
struct choice {
    int8_t actor, buffered, extra; /* -1: not this */
};

struct level {
    struct snapshot *before;
    struct choice choices[CHOICES];
    int count, next;
};

static const struct explore *model;
static struct explore_result *result;
static struct actor actors[EXPLORE_ACTORS];
static _Alignas(64) char stacks[EXPLORE_ACTORS][STACK];
static struct level levels[DEEPEST];
static int depth;
static int running = -1; /* the actor that has the CPU */
static jmp_buf scheduler;
static bool printing;

/* ---- states ---- */

static uint64_t hash_state(void)
{
    uint64_t hash = state_hash(UINT64_C(0xA0761D6478BD642F), model->world, model->world_size);

    for (int a = 0; a < EXPLORE_ACTORS; a++) {
        const struct actor *actor = &actors[a];
        uint64_t flags[] = { (uint64_t)a,
                             actor->ended,
                             actor->killed,
                             actor->waiting,
                             actor->changed,
                             actor->needs_empty,
                             (uint64_t)(uintptr_t)actor->until,
                             (uint64_t)actor->buffered };
        hash = state_hash(hash, flags, sizeof flags);
        for (int b = 0; b < actor->buffered; b++) {
            uint64_t entry[] = { (uint64_t)(uintptr_t)actor->buffer[b].word, actor->buffer[b].value,
                                 actor->buffer[b].release };
            hash = state_hash(hash, entry, sizeof entry);
        }
        if (actor->ended || actor->killed)
            continue;
        hash = state_hash(hash, actor->at, sizeof actor->at);
        hash = state_hash(hash, actor->low, (size_t)(stacks[a] + STACK - actor->low));
    }
    return hash ? hash ^ hash >> 32 : 1;
}

/* ---- coroutines ---- */

/* The frame of a function called from the yielding one lies below all of that one's. */
static __attribute__((noinline)) void note_low(struct actor *actor)
{
    volatile char here = 0;
    actor->low = (char *)((uintptr_t)&here & ~(uintptr_t)15);
    if (stacks[actor - actors] + STACK - actor->low > MOST_STACK)
        FAIL("an actor uses %td bytes of its stack", stacks[actor - actors] + STACK - actor->low);
}

/* Back to the scheduler; returns when this actor is chosen. */
static __attribute__((noinline)) void give_way(void)
{
    struct actor *actor = &actors[running];
    note_low(actor);
    if (_setjmp(actor->at) == 0)
        _longjmp(scheduler, 1);
}

static void actor_main(int a)
{
    give_way(); /* its first step comes when it is chosen */
    model->actors[a]();
    actors[a].ended = true;
    _longjmp(scheduler, 1);
}

static void resume(int a)
{
    running = a;
    if (_setjmp(scheduler) == 0)
        _longjmp(actors[a].at, 1);
    running = -1;
}

static void start(int a)
{
    static ucontext_t context;

    memset(stacks[a], 0, STACK);
    actors[a] = (struct actor){ .ended = !model->actors[a] };
    if (actors[a].ended)
        return;
    getcontext(&context);
    context.uc_stack.ss_sp = stacks[a];
    context.uc_stack.ss_size = STACK;
    context.uc_link = NULL;
    makecontext(&context, (void (*)(void))actor_main, 1, a);
    running = a;
    if (_setjmp(scheduler) == 0)
        setcontext(&context);
    running = -1;
}

static void save(struct snapshot *to)
{
    memcpy(to->actors, actors, sizeof actors);
    memcpy(to->world, model->world, model->world_size);
    for (int a = 0; a < EXPLORE_ACTORS; a++) {
        if (actors[a].ended || actors[a].killed)
            continue;
        size_t size = (size_t)(stacks[a] + STACK - actors[a].low);
        memcpy(to->stacks[a], actors[a].low, size);
    }
}

static void restore(const struct snapshot *from)
{
    memcpy(actors, from->actors, sizeof actors);
    memcpy(model->world, from->world, model->world_size);
    for (int a = 0; a < EXPLORE_ACTORS; a++) {
        if (actors[a].ended || actors[a].killed)
            continue;
        size_t size = (size_t)(stacks[a] + STACK - actors[a].low);
        memcpy(actors[a].low, from->stacks[a], size);
    }
}

/* ---- memory ---- */

static void print_access(const char *what, const void *word, uint64_t value, int order)
{
    static const char *const orders[] = { "relaxed", "consume", "acquire", "release", "acq_rel", "seq_cst" };
    char name[64];

    if (!printing)
        return;
    model->name_word(word, name, sizeof name);
    fprintf(stderr, "  %-10s %-8s %-14s %s%llu%s%s\n", running < 0 ? "" : model->actor_names[running], what, name,
            value >> 63 ? "MARK+" : "", (unsigned long long)(value & ~(UINT64_C(1) << 63)), order < 0 ? "" : " ",
            order < 0 ? "" : orders[order]);
}

static uint64_t memory(const void *word)
{
    uint64_t value;
    memcpy(&value, word, sizeof value);
    return value;
}

static void write_memory(int by, void *word, uint64_t value)
{
    memcpy(word, &value, sizeof value);
    for (int a = 0; a < EXPLORE_ACTORS; a++)
        if (a != by)
            actors[a].changed = true;
}

/* May the k-th buffered store become visible now? */
static bool may_flush(const struct actor *actor, int k)
{
    if (actor->buffer[k].release)
        return k == 0;
    for (int i = 0; i < k; i++)
        if (actor->buffer[i].word == actor->buffer[k].word)
            return false;
    return true;
}

static void flush(int a, int k)
{
    struct actor *actor = &actors[a];
    struct buffered store = actor->buffer[k];

    memmove(&actor->buffer[k], &actor->buffer[k + 1], (size_t)(actor->buffered - k - 1) * sizeof store);
    actor->buffered--;
    memset(&actor->buffer[actor->buffered], 0, sizeof store);
    print_access("visible", store.word, store.value, -1);
    write_memory(a, store.word, store.value);
}

uint64_t sl_model_load(const void *word, int bytes, int order)
{
    struct explore_access access = { .actor = running, .word = (void *)(uintptr_t)word, .order = order };

    CHECK_EQ(bytes, 8);
    give_way();
    if (model->change)
        model->change(&access);
    uint64_t value = memory(word);
    for (int k = actors[running].buffered - 1; k >= 0; k--) {
        if (actors[running].buffer[k].word == word) {
            value = actors[running].buffer[k].value;
            break;
        }
    }
    if (access.skip)
        value = access.value;
    print_access("loads", word, value, order);
    return value;
}

void sl_model_store(void *word, int bytes, uint64_t value, int order)
{
    struct explore_access access = { .actor = running, .word = word, .is_store = true, .value = value, .order = order };
    struct actor *actor = &actors[running];

    CHECK_EQ(bytes, 8);
    if (model->change)
        model->change(&access);
    if (access.skip)
        return;
    bool late = model->buffers && access.order != memory_order_seq_cst;
    if (late && actor->buffered < BUFFER) {
        print_access("stores", word, access.value, access.order);
        actor->buffer[actor->buffered++] =
            (struct buffered){ word, access.value, access.order == memory_order_release };
        return; /* nobody can tell when: becoming visible is the step */
    }
    actor->needs_empty = model->buffers;
    give_way();
    actor->needs_empty = false;
    print_access("stores", word, access.value, access.order);
    write_memory(running, word, access.value);
}

uint64_t sl_model_exchange(void *word, int bytes, uint64_t value)
{
    CHECK_EQ(bytes, 8);
    actors[running].needs_empty = model->buffers;
    give_way();
    actors[running].needs_empty = false;
    uint64_t before = memory(word);
    print_access("swaps in", word, value, memory_order_seq_cst);
    write_memory(running, word, value);
    return before;
}

uint64_t sl_model_add(void *word, int bytes, uint64_t value)
{
    return sl_model_exchange(word, bytes, memory(word) + value);
}

/* ---- calls of actors ---- */

void explore_violated(const char *format, ...)
{
    va_list list;

    va_start(list, format);
    vsnprintf(result->violation, sizeof result->violation, format, list);
    va_end(list);
    if (running >= 0)
        give_way();
}

void explore_look(void)
{
    actors[running].changed = false;
}

void explore_wait(void)
{
    if (actors[running].changed)
        return;
    actors[running].waiting = true;
    give_way();
    actors[running].waiting = false;
}

void explore_until(bool (*ready)(void))
{
    actors[running].until = ready;
    give_way();
    actors[running].until = NULL;
}

void explore_kill(int actor)
{
    actors[actor].killed = true; /* what it stored still becomes visible */
}

void explore_changed(void)
{
    for (int a = 0; a < EXPLORE_ACTORS; a++)
        actors[a].changed = true;
}

bool explore_alive(int actor)
{
    return !actors[actor].ended && !actors[actor].killed;
}

bool explore_killed(int actor)
{
    return actors[actor].killed;
}

uint64_t explore_peek(const void *word)
{
    return memory(word);
}

/* ---- the walk ---- */

static bool can_step(int a)
{
    const struct actor *actor = &actors[a];

    if (actor->ended || actor->killed)
        return false;
    if (actor->waiting && !actor->changed)
        return false;
    if (actor->needs_empty && actor->buffered)
        return false;
    return !actor->until || actor->until();
}

static int list_choices(struct choice *choices)
{
    int count = 0;

    for (int a = 0; a < EXPLORE_ACTORS; a++) {
        if (can_step(a))
            choices[count++] = (struct choice){ (int8_t)a, -1, -1 };
        for (int k = 0; k < actors[a].buffered; k++)
            if (may_flush(&actors[a], k))
                choices[count++] = (struct choice){ (int8_t)a, (int8_t)k, -1 };
    }
    for (int e = 0; e < EXPLORE_EXTRAS; e++)
        if (model->may_happen[e] && model->may_happen[e]())
            choices[count++] = (struct choice){ -1, -1, (int8_t)e };
    return count;
}

static void take(struct choice choice)
{
    if (choice.extra >= 0) {
        if (printing)
            fprintf(stderr, "  %s\n", model->extra_names[choice.extra]);
        model->happen[choice.extra]();
    } else if (choice.buffered >= 0) {
        flush(choice.actor, choice.buffered);
    } else {
        resume(choice.actor);
    }
}

static void begin(void)
{
    memset(model->world, 0, model->world_size);
    memset(actors, 0, sizeof actors);
    model->begin();
    for (int a = 0; a < EXPLORE_ACTORS; a++)
        start(a);
}

static bool all_ended(void)
{
    for (int a = 0; a < EXPLORE_ACTORS; a++)
        if (explore_alive(a))
            return false;
    return true;
}

/* One level deeper: what can happen in this state, if it is new. False if there is nothing to walk. */
static bool descend(void)
{
    if (!state_set_add(hash_state()))
        return false;
    result->states++;
    if (depth == DEEPEST)
        FAIL("deeper than %d steps", DEEPEST);
    struct level *level = &levels[depth];
    level->count = list_choices(level->choices);
    level->next = 0;
    if (level->count == 0) {
        if (!all_ended())
            explore_violated("nobody can do anything, and not all are at their end");
        else
            model->at_rest();
        return false;
    }
    if (!level->before)
        level->before = malloc(sizeof *level->before + model->world_size);
    if (!level->before)
        FAIL("no memory for a level");
    save(level->before);
    depth++;
    return true;
}

static void print_way(int steps)
{
    char violation[sizeof result->violation];

    memcpy(violation, result->violation, sizeof violation);
    fprintf(stderr, "%s\n", violation);
    printing = true;
    begin();
    for (int i = 0; i < steps; i++)
        take(levels[i].choices[levels[i].next - 1]);
    printing = false;
    memcpy(result->violation, violation, sizeof violation);
}

void explore_run(const struct explore *what, struct explore_result *out, bool print)
{
    model = what;
    result = out;
    *result = (struct explore_result){ .complete = false };
    depth = 0;
    begin();
    descend();
    while (depth > 0 && !result->violation[0] && result->states < what->most_states) {
        struct level *level = &levels[depth - 1];
        if (level->next == level->count) {
            depth--;
            continue;
        }
        restore(level->before);
        result->steps++;
        take(level->choices[level->next++]);
        if (!result->violation[0])
            descend();
    }
    result->complete = depth == 0 && !result->violation[0];
    /* The path to a violation at rest has been walked to its end; up to this level there is one choice in each step. */
    if (result->violation[0] && print)
        print_way(depth);
    for (int i = 0; i < DEEPEST; i++) {
        free(levels[i].before);
        levels[i].before = NULL;
    }
    state_set_clear();
}
