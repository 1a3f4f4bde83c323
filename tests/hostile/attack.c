/* SPDX-License-Identifier: MIT */
#include "hostile/attack.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "harness/resources.h"

#define NAP (100 * SLUICE_MS) /* how long the honest side runs before, during and after the attack */
#define MOST_FDS \
    (64 * 3 + 32 * 2 + 4) /* of a writer, beyond its own: reader entries, pending peers, and those that come and go */
#define MOST_MEMORY 4096  /* KiB that a writer may grow by */
#define WORST       (5 * SLUICE_S) /* begin and commit, on a busy machine */
#define PATIENCE    20             /* s, for what must arrive: only a hang takes longer */

/* ---- attacks ---- */

static struct attack *acts;
static bool done;

void attack_register(struct attack *act)
{
    act->next = acts;
    acts = act;
}

void attack_done(void)
{
    if (!done)
        role_say("done");
    done = true;
}

bool attack_lasts(int64_t *since, int64_t ms)
{
    if (*since == 0)
        *since = test_now();
    return test_now() - *since < ms * SLUICE_MS;
}

ROLE(hostile)
{
    signal(SIGPIPE, SIG_IGN);
    for (struct attack *act = acts; act; act = act->next) {
        if (strcmp(act->label, argv[1]) != 0)
            continue;
        act->run();
        attack_done();
        for (;;)
            pause();
    }
    FAIL("there is no act %s", argv[1]);
}

struct child attack_start(const char *label, int seconds)
{
    struct child hostile = role_start("hostile", label, NULL);
    child_expect(&hostile, "done", seconds);
    return hostile;
}

/* ---- the honest side of a hostile reader ---- */

static int64_t patience(void)
{
    return (int64_t)(PATIENCE * SLUICE_S * test_slowness());
}

struct sluice_channel_info honest_info(const char *name)
{
    struct sluice_channel_info info = { .size = sizeof info };

    CHECK_OK(sluice_channel_info(name, patience(), &info, NULL, 0));
    return info;
}

/* Each slot that it has added has a descriptor, too. */
static int fds_beside_slots(const struct child *writer)
{
    uint32_t slots;
    int fds;
    do {
        slots = honest_info("cam").slots;
        fds = process_fds(writer->pid);
    } while (honest_info("cam").slots != slots);
    return fds - (int)slots;
}

struct honest honest_begin(const struct bounds *bounds)
{
    const char *const *o = bounds->options;
    struct honest honest;

    test_dir();
    honest.writer =
        kit_start("writer", "name=cam", o[0] ? o[0] : "bytes=65536", o[0] ? o[1] : NULL, o[0] ? o[2] : NULL, NULL);
    child_expect(&honest.writer, "open", 10);
    honest.newest = kit_start("reader", NULL);
    honest.recorder = kit_start("reader", "mode=1", NULL);
    child_expect(&honest.newest, "open", 10);
    child_expect(&honest.recorder, "open", 10);
    EXPECT_ANSWER(&honest.newest, "run", "running");
    EXPECT_ANSWER(&honest.recorder, "run", "running");
    EXPECT_ANSWER(&honest.writer, "run 1000", "running");
    test_nap(NAP);
    honest.fds = fds_beside_slots(&honest.writer);
    honest.memory = process_memory(honest.writer.pid).own;
    return honest;
}

void honest_during(const struct honest *honest, const struct bounds *bounds)
{
    uint64_t before = honest_info("cam").committed;

    test_nap(NAP);
    CHECK_LE(fds_beside_slots(&honest->writer), honest->fds + (bounds->fds ? bounds->fds : MOST_FDS));
    CHECK_SOON(bounds->starves || honest_info("cam").committed > before, PATIENCE); /* it goes on */
    CHECK_SOON(honest_info("cam").refused >= bounds->refused, PATIENCE);
    CHECK_SOON(honest_info("cam").evicted >= bounds->evicted, PATIENCE);
    if (bounds->leaves)
        CHECK_SOON(honest_info("cam").readers == 2, PATIENCE);
    if (bounds->full)
        return;
    struct child another = kit_start("reader", "open_ms=20000", NULL); /* many peers may be waiting to join */
    child_expect(&another, "open", PATIENCE);
    EXPECT_ANSWER(&another, "take 20000", "took");
    role_stop(&another);
}

static bool all_have_read(const char *name)
{
    struct sluice_channel_info info = { .size = sizeof info };
    struct sluice_reader_info readers[4];
    bool read = true;

    CHECK_OK(sluice_channel_info(name, patience(), &info, readers, 4));
    for (uint32_t i = 0; i < info.readers && i < 4; i++)
        read = read && readers[i].lag == 0;
    return read;
}

/* A tenth of the frames is enough: this machine may be busy. */
static bool has_kept_up(const struct child *reader)
{
    return kit_taken("cam", reader->pid) * 10 >= honest_info("cam").committed;
}

/* Its frames came one after the other, whole. */
static void check_reading(struct child *reader, long long committed)
{
    const char *answer = ask(reader, "stop");

    CHECK_EQ(NUMBER(answer, "torn"), 0);
    CHECK_EQ(NUMBER(answer, "back"), 0);
    CHECK_EQ(NUMBER(answer, "lost"), 0);
    CHECK_EQ(NUMBER(answer, "sessions"), 1);
    CHECK_GE(NUMBER(answer, "last"), committed);
}

void honest_end(struct honest *honest, const struct bounds *bounds)
{
    CHECK_SOON(honest_info("cam").readers == 2, PATIENCE);
    CHECK_SOON(fds_beside_slots(&honest->writer) <= honest->fds, PATIENCE);
    test_nap(NAP);
    CHECK_SOON(has_kept_up(&honest->newest), PATIENCE);
    CHECK_SOON(has_kept_up(&honest->recorder), PATIENCE);
    if (test_slowness() <= 1)
        CHECK_LE(process_memory(honest->writer.pid).own, honest->memory + MOST_MEMORY);
    const char *answer = ask(&honest->writer, "stop");
    long long committed = (long long)honest_info("cam").committed;
    CHECK_SOON(all_have_read("cam"), PATIENCE);
    CHECK_LE(NUMBER(answer, "worst"), (long long)((double)WORST * test_slowness()));
    if (!bounds->drops && !bounds->starves)
        CHECK_EQ(NUMBER(answer, "dropped"), 0);
    check_reading(&honest->newest, committed);
    check_reading(&honest->recorder, committed);
    role_stop(&honest->newest);
    role_stop(&honest->recorder);
    role_stop(&honest->writer);
}

void attack_against_writer(const char *label, const struct bounds *bounds)
{
    struct honest honest = honest_begin(bounds);
    struct child hostile = attack_start(label, bounds->seconds);

    honest_during(&honest, bounds);
    child_kill(&hostile, SIGKILL);
    honest_end(&honest, bounds);
}
