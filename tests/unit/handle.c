/* SPDX-License-Identifier: MIT
 *
 * Handles: the library's table, and a copy of it with few indices and generations, to reach its limits.
 */
#include "util/handle.h"

#include <pthread.h>
#include <stdlib.h>

#include "harness/test.h"
#include "util/atomic.h"

TEST(handle_names_its_object)
{
    int a, b, why = 0;
    uint64_t x = sl_handle_new(SL_HANDLE_WRITER, &a), y = sl_handle_new(SL_HANDLE_EVENT, &b);
    CHECK(x > 1 && y > 1 && x != y);
    CHECK_EQ(x >> 56, SL_HANDLE_WRITER);
    CHECK_EQ(y >> 56, SL_HANDLE_EVENT);
    CHECK(sl_handle_get(x, SL_HANDLE_WRITER, &why) == &a);
    CHECK(sl_handle_get(y, SL_HANDLE_EVENT, &why) == &b);
    CHECK_EQ(why, 0);
    CHECK(sl_handle_is_alive(x, SL_HANDLE_WRITER));
    CHECK(sl_handle_end(x, SL_HANDLE_WRITER) == &a);
    CHECK(sl_handle_end(y, SL_HANDLE_EVENT) == &b);
}

static void check_why(uint64_t handle, enum sl_handle_kind kind, int expected)
{
    int why = 0;
    CHECK(!sl_handle_is_alive(handle, kind));
    CHECK(!sl_handle_get(handle, kind, &why));
    CHECK_EQ(why, expected);
}

TEST(handle_of_another_kind_is_invalid)
{
    int a;
    uint64_t x = sl_handle_new(SL_HANDLE_STREAM, &a);
    check_why(x, SL_HANDLE_EVENT, SLUICE_E_HANDLE);
    CHECK(!sl_handle_end(x, SL_HANDLE_EVENT));
    uint64_t forged = (x & (UINT64_MAX >> 8)) | (uint64_t)SL_HANDLE_EVENT << 56;
    check_why(forged, SL_HANDLE_EVENT, SLUICE_E_HANDLE);
    CHECK(!sl_handle_end(forged, SL_HANDLE_EVENT));
    int why;
    CHECK(sl_handle_get(x, SL_HANDLE_STREAM, &why) == &a);
    sl_handle_end(x, SL_HANDLE_STREAM);
}

TEST(handle_that_never_was)
{
    int a;
    check_why(0, SL_HANDLE_WRITER, SLUICE_E_INVALID);
    check_why(1, SL_HANDLE_WRITER, SLUICE_E_HANDLE); /* SLUICE_ON_CPU */
    check_why(UINT64_MAX, SL_HANDLE_WRITER, SLUICE_E_HANDLE);
    uint64_t x = sl_handle_new(SL_HANDLE_WRITER, &a);
    check_why(x + 1, SL_HANDLE_WRITER, SLUICE_E_HANDLE);                     /* a later generation */
    check_why(x & ~(uint64_t)UINT32_MAX, SL_HANDLE_WRITER, SLUICE_E_HANDLE); /* generation 0 */
    check_why(x + (UINT64_C(1) << 32), SL_HANDLE_WRITER, SLUICE_E_HANDLE);   /* an index that was not given */
    check_why(x | UINT64_C(0xffffff) << 32, SL_HANDLE_WRITER, SLUICE_E_HANDLE);
    CHECK(!sl_handle_end(0, SL_HANDLE_WRITER));
    CHECK(!sl_handle_end(1, SL_HANDLE_WRITER));
    CHECK(!sl_handle_end(UINT64_MAX, SL_HANDLE_WRITER));
    CHECK(!sl_handle_end(x + 1, SL_HANDLE_WRITER));
    /* Index 0 is never given. */
    check_why((uint64_t)SL_HANDLE_WRITER << 56 | 1, SL_HANDLE_WRITER, SLUICE_E_HANDLE);
    CHECK(!sl_handle_end((uint64_t)SL_HANDLE_WRITER << 56, SL_HANDLE_WRITER));
    sl_handle_end(x, SL_HANDLE_WRITER);
}

TEST(handle_any_64_bits_may_be_asked)
{
    int why;
    uint64_t bits = 88172645463325252u;
    for (int i = 0; i < 1000000; i++) {
        bits ^= bits << 13;
        bits ^= bits >> 7;
        bits ^= bits << 17;
        enum sl_handle_kind kind = (enum sl_handle_kind)(bits >> 56);
        CHECK(!sl_handle_get(bits, kind, &why));
        CHECK(!sl_handle_end(bits, kind));
    }
}

TEST(handle_is_stale_after_its_end)
{
    int a, b, why;
    uint64_t x = sl_handle_new(SL_HANDLE_READER, &a);
    CHECK(sl_handle_end(x, SL_HANDLE_READER) == &a);
    check_why(x, SL_HANDLE_READER, SLUICE_E_STALE);
    CHECK(!sl_handle_end(x, SL_HANDLE_READER));
    uint64_t y = sl_handle_new(SL_HANDLE_WATCH, &b); /* the same index */
    CHECK_EQ(x >> 32 & 0xffffff, y >> 32 & 0xffffff);
    CHECK_EQ((uint32_t)y, (uint32_t)x + 1);
    check_why(x, SL_HANDLE_READER, SLUICE_E_STALE);
    CHECK(!sl_handle_end(x, SL_HANDLE_READER));
    CHECK(sl_handle_get(y, SL_HANDLE_WATCH, &why) == &b);
    sl_handle_end(y, SL_HANDLE_WATCH);
}

TEST(handle_knows_whether_it_went_with_something_else)
{
    int a;
    uint64_t x = sl_handle_new(SL_HANDLE_EVENT, &a);
    sl_handle_end(x, SL_HANDLE_EVENT);
    CHECK_EQ(sl_handle_noted(x, SL_HANDLE_EVENT), 0);
    uint64_t y = sl_handle_new(SL_HANDLE_EVENT, &a); /* the same index */
    sl_handle_note(y, SL_HANDLE_EVENT);
    sl_handle_end(y, SL_HANDLE_EVENT);
    CHECK_EQ(sl_handle_noted(y, SL_HANDLE_EVENT), 1);
    CHECK_EQ(sl_handle_noted(x, SL_HANDLE_EVENT), -1);
    uint64_t z = sl_handle_new(SL_HANDLE_EVENT, &a);
    CHECK_EQ(z, y + 1);
    sl_handle_end(z, SL_HANDLE_EVENT);
    CHECK_EQ(sl_handle_noted(z, SL_HANDLE_EVENT), 0);
    CHECK_EQ(sl_handle_noted(y, SL_HANDLE_EVENT), 1);
}

TEST(handle_many_at_once)
{
    enum { MANY = 20000 };
    uint64_t *handles = calloc(MANY, sizeof(*handles));
    int why;
    CHECK(handles);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < MANY; i++) {
            handles[i] = sl_handle_new(SL_HANDLE_EVENT, &handles[i]);
            CHECK(handles[i] > 1);
        }
        for (int i = 0; i < MANY; i++)
            CHECK(sl_handle_get(handles[i], SL_HANDLE_EVENT, &why) == &handles[i]);
        for (int i = 0; i < MANY; i++)
            CHECK(sl_handle_end(handles[i], SL_HANDLE_EVENT) == &handles[i]);
    }
    CHECK((handles[0] >> 32 & 0xffffff) <= MANY); /* indices are reused */
    free(handles);
}

/* ---- threads ---- */

enum { THREADS = 4 };

static sl_word contested; /* a handle that all of them end */
static sl_word32 won;
static pthread_barrier_t together;

static void *end_it(void *argument)
{
    for (long round = test_scale(2000); round > 0; round--) {
        pthread_barrier_wait(&together);
        if (sl_handle_end(sl_load(&contested, relaxed), SL_HANDLE_STREAM))
            sl_add(&won, 1);
        pthread_barrier_wait(&together);
    }
    return argument;
}

TEST(handle_ends_for_exactly_one)
{
    pthread_t threads[2];
    int object;
    pthread_barrier_init(&together, NULL, 3);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, end_it, NULL), 0);
    for (uint32_t round = 1; round <= test_scale(2000); round++) {
        sl_store(&contested, sl_handle_new(SL_HANDLE_STREAM, &object), relaxed);
        pthread_barrier_wait(&together);
        pthread_barrier_wait(&together);
        CHECK_EQ(sl_load(&won, relaxed), round);
    }
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&together);
}

/* Objects that know their handle: a lookup never returns another object. */
static sl_word shared_handles[64];
static sl_word objects[64 * THREADS];

static void *churn(void *argument)
{
    int me = (int)(intptr_t)argument;
    unsigned seed = (unsigned)me + 1;
    for (long i = 0; i < test_scale(100000); i++) {
        int slot = rand_r(&seed) & 63, why = 0;
        uint64_t handle = sl_load(&shared_handles[slot], acquire);
        sl_word *object = sl_handle_get(handle, SL_HANDLE_DEVICE, &why);
        if (object)
            CHECK((object - objects) % 64 == slot);
        else
            CHECK(why == SLUICE_E_INVALID || why == SLUICE_E_STALE);
        if (rand_r(&seed) % 4)
            continue;
        uint64_t mine = sl_handle_new(SL_HANDLE_DEVICE, &objects[64 * me + slot]);
        CHECK(mine > 1);
        sl_handle_end(sl_exchange(&shared_handles[slot], mine), SL_HANDLE_DEVICE);
    }
    return NULL;
}

TEST(handle_table_is_shared_by_threads)
{
    pthread_t threads[THREADS];
    for (intptr_t i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, churn, (void *)i), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 64; i++)
        if (shared_handles[i])
            CHECK(sl_handle_end(shared_handles[i], SL_HANDLE_DEVICE));
}

/* One index that is reused again and again: the generation identifies the object. */
static sl_word current;
static sl_word32 done;

static void *look_up(void *argument)
{
    int *pair = argument, why;
    while (!sl_load(&done, relaxed)) {
        uint64_t handle = sl_load(&current, acquire);
        int *object = sl_handle_get(handle, SL_HANDLE_STREAM, &why);
        CHECK(!object || object == &pair[handle & 1]);
    }
    return NULL;
}

TEST(handle_never_gives_the_next_ones_object)
{
    int pair[2];
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, look_up, pair), 0);
    for (long i = 1; i <= test_scale(1000000); i++) {
        uint64_t handle = sl_handle_new(SL_HANDLE_STREAM, &pair[i & 1]);
        CHECK_EQ((uint32_t)handle, i);
        sl_store(&current, handle, release);
        CHECK(sl_handle_end(handle, SL_HANDLE_STREAM) == &pair[i & 1]);
    }
    sl_store(&done, 1, relaxed);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
}

/* ---- limits: a copy of the table with 2,000 indices of 3 generations ---- */

static int allocations_left = INT32_MAX;

static void *scarce_calloc(size_t count, size_t size)
{
    return allocations_left-- > 0 ? calloc(count, size) : NULL;
}

static uint64_t small_new(enum sl_handle_kind kind, void *object);
static void *small_get(uint64_t handle, enum sl_handle_kind kind, int *why);
static void *small_end(uint64_t handle, enum sl_handle_kind kind);
static bool small_lives(uint64_t handle, enum sl_handle_kind kind) __attribute__((unused));
static void small_note(uint64_t handle, enum sl_handle_kind kind) __attribute__((unused));
static int small_noted(uint64_t handle, enum sl_handle_kind kind) __attribute__((unused));

#define SL_HANDLE_LAST_INDEX      2000u
#define SL_HANDLE_LAST_GENERATION 3u
#define sl_handle_new             small_new
#define sl_handle_get             small_get
#define sl_handle_end             small_end
#define sl_handle_is_alive        small_lives
#define sl_handle_note            small_note
#define sl_handle_noted           small_noted
#define calloc                    scarce_calloc
#include "util/handle.c"
#undef calloc
#undef sl_handle_new
#undef sl_handle_get
#undef sl_handle_end

TEST(handle_indices_run_out)
{
    int object, why;
    uint64_t first = small_new(SL_HANDLE_EVENT, &object), last = 0;
    for (int i = 1; i < 2000; i++)
        CHECK((last = small_new(SL_HANDLE_EVENT, &object)) != 0);
    CHECK_EQ(small_new(SL_HANDLE_EVENT, &object), 0);
    CHECK_EQ(small_new(SL_HANDLE_EVENT, &object), 0);
    CHECK(small_get(last, SL_HANDLE_EVENT, &why) == &object);
    CHECK(small_end(first, SL_HANDLE_EVENT) == &object); /* there is room again */
    CHECK(small_new(SL_HANDLE_EVENT, &object) != 0);
    CHECK_EQ(small_new(SL_HANDLE_EVENT, &object), 0);
}

TEST(handle_index_retires_before_generations_wrap)
{
    int object, why;
    uint64_t handle = 0, index = 0;
    for (int generation = 1; generation <= 3; generation++) {
        handle = small_new(SL_HANDLE_EVENT, &object);
        CHECK_EQ((uint32_t)handle, generation);
        CHECK(generation == 1 || index == (handle >> 32 & 0xffffff));
        index = handle >> 32 & 0xffffff;
        CHECK(small_end(handle, SL_HANDLE_EVENT) == &object);
    }
    uint64_t other = small_new(SL_HANDLE_EVENT, &object);
    CHECK_NE(other >> 32 & 0xffffff, index);
    CHECK_EQ((uint32_t)other, 1);
    CHECK(!small_get(handle, SL_HANDLE_EVENT, &why));
    CHECK_EQ(why, SLUICE_E_STALE);
}

TEST(handle_memory_runs_out)
{
    int object;
    allocations_left = 0;
    CHECK_EQ(small_new(SL_HANDLE_EVENT, &object), 0);
    allocations_left = 1;
    uint64_t first = small_new(SL_HANDLE_EVENT, &object);
    CHECK(first != 0);
    for (int i = 2; i < 1024; i++)
        CHECK(small_new(SL_HANDLE_EVENT, &object) != 0);
    CHECK_EQ(small_new(SL_HANDLE_EVENT, &object), 0);
    allocations_left = 1;
    uint64_t next = small_new(SL_HANDLE_EVENT, &object); /* nothing was lost by the failure */
    CHECK_EQ((next >> 32) - (first >> 32), 1023);
}
