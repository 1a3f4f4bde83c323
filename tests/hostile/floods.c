/* SPDX-License-Identifier: MIT
 *
 * Hostile readers that come in crowds, ask without end, and never receive what they are sent.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hostile/attacker.h"

#define GUEST_FDS (32 * 2 + 8) /* of a writer, for connections that are not readers, and for those just arriving */

HOSTILE_READER(connects_and_says_nothing, .refused = 200, .fds = GUEST_FDS)
{
    attacker_many_fds();
    for (int i = 0; i < 300; i++)
        (void)raw_dial("cam");
}

HOSTILE_READER(says_nothing_for_long, .refused = 20)
{
    for (int i = 0; i < 20; i++) /* there is room for them, but a silent peer has a second */
        (void)raw_dial("cam");
    test_nap((int64_t)(1300e6 * test_slowness()));
}

HOSTILE_READER(connects_and_closes_without_end, .refused = 0)
{
    int64_t since = 0;
    while (attack_lasts(&since, 1000))
        close(raw_dial("cam"));
}

HOSTILE_READER(greets_and_closes_without_end, .refused = 0)
{
    union sl_message hello = attacker_hello();
    int64_t since = 0;
    while (attack_lasts(&since, 1000)) {
        int fd = raw_dial("cam");
        attacker_say(fd, &hello);
        close(fd);
    }
}

HOSTILE_READER(joins_and_leaves_without_end, .refused = 0, .drops = true)
{
    int64_t since = 0;
    while (attack_lasts(&since, 1000)) {
        struct attacker attacker;
        (void)attacker_go(&attacker, HOLDING, NULL);
        attacker_close(&attacker);
    }
}

/* They end when their parent does. */
static void crowd(int count, void (*each)(void))
{
    pid_t parent = getpid();
    for (int i = 0; i < count; i++) {
        if (fork() == 0) {
            attack_done();
            while (getppid() == parent)
                each();
            _exit(0);
        }
    }
}

static void come_and_go(void)
{
    struct sockaddr_un address = raw_address("cam");
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    union sl_message hello = attacker_hello();

    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
        attacker_say(fd, &hello);
    close(fd);
}

HOSTILE_READER(a_crowd_comes_and_goes, .refused = 0)
{
    crowd(4, come_and_go);
}

static int observe(void)
{
    union sl_message hello = attacker_hello();
    int fd = raw_dial("cam");
    hello.hello.role = SL_ROLE_OBSERVER;
    attacker_say(fd, &hello);
    return fd;
}

HOSTILE_READER(observers_that_stay, .refused = 0, .fds = GUEST_FDS)
{
    for (int i = 0; i < 64; i++)
        (void)observe();
}

HOSTILE_READER(asks_without_end, .refused = 0)
{
    union sl_message query = SL_MESSAGE(SL_MSG_QUERY, query), message;
    int64_t since = 0;
    int fd = observe();

    while (attack_lasts(&since, 1000)) {
        attacker_say(fd, &query);
        if (raw_receive(fd, &message, NULL, NULL) == 0) {
            close(fd);
            fd = observe();
        }
    }
}

HOSTILE_READER(asks_and_never_takes_the_answer, .refused = 0)
{
    union sl_message query = SL_MESSAGE(SL_MSG_QUERY, query);

    for (int i = 0; i < 10; i++) {
        int fd = observe();
        for (int n = 0; n < 2000 && send(fd, &query, query.header.size, MSG_NOSIGNAL | MSG_DONTWAIT) > 0; n++)
            test_nap(n % 50 ? 0 : SLUICE_MS);
    }
}

HOSTILE_READER(takes_every_place, .refused = 1, .full = true)
{
    struct attacker attacker;
    int places = 0;
    while (attacker_go(&attacker, ARRIVED, NULL))
        places++;
    CHECK_EQ(places, 62);
}

TEST(the_readers_that_fill_a_channel_are_named)
{
    static const struct bounds bounds = { .full = true };
    struct honest honest = honest_begin(&bounds);
    struct child hostile = attack_start("takes_every_place", 20);
    struct child another = kit_start("reader", NULL);
    char words[64];

    const char *answer = child_line(&another, 10);
    snprintf(words, sizeof words, "62 of them by 'attacker' (process %d)", (int)hostile.pid);
    CHECK_HAS(answer, "E_LIMIT");
    CHECK_HAS(answer, words);
    role_stop(&another);
    child_kill(&hostile, SIGKILL);
    honest_end(&honest, &bounds);
}

/* Entries and their messages, which it never receives: given to others when they come. */
HOSTILE_READER(takes_every_place_and_reads_nothing, .refused = 0)
{
    struct attacker attacker;
    for (int i = 0; i < 62; i++)
        CHECK(attacker_go(&attacker, GREETED, NULL));
    test_nap(1200 * SLUICE_MS);
}

/* ---- what lies in the queue while the writer does not read ---- */

static struct child stopped_writer(const char *options)
{
    test_dir();
    struct child writer = kit_start("writer", "name=cam", options, NULL);
    child_expect(&writer, "open", 10);
    return writer;
}

static void stop(const struct child *writer)
{
    int status;
    CHECK_EQ(kill(writer->pid, SIGSTOP), 0);
    CHECK_EQ(waitpid(writer->pid, &status, WUNTRACED), writer->pid);
    CHECK(WIFSTOPPED(status));
}

/* Handling it would delay those behind it, though it has left. */
TEST(a_reader_that_left_while_it_waited_does_not_join)
{
    struct child writer = stopped_writer(NULL);

    stop(&writer);
    for (int i = 0; i < 100; i++)
        come_and_go();
    int fd = raw_dial("cam");
    union sl_message hello = attacker_hello(), message;
    attacker_say(fd, &hello);
    child_kill(&writer, SIGCONT);
    CHECK(raw_receive(fd, &message, NULL, NULL) > 0); /* those before it have been handled */
    CHECK_EQ(message.header.type, SL_MSG_WELCOME);
    CHECK_EQ(NUMBER(ask(&writer, "stats"), "total"), 1);
    close(fd);
    role_stop(&writer);
}

/* The new peer's hello is read before their ends are. */
static void take_the_place_of(struct child *writer, struct attacker *one, struct attacker *other)
{
    union sl_message hello = attacker_hello(), bye = SL_MESSAGE(SL_MSG_BYE, bye), message;
    stop(writer);
    int fd = raw_dial("cam");
    attacker_say(fd, &hello);
    attacker_say(one->fd, &bye);
    attacker_close(one);
    attacker_close(other); /* without a message */
    child_kill(writer, SIGCONT);
    CHECK(raw_receive(fd, &message, NULL, NULL) > 0);
    CHECK_EQ(message.header.type, SL_MSG_WELCOME);
    close(fd);
}

TEST(a_reader_that_left_frees_its_entry)
{
    struct child writer = stopped_writer("readers=2");
    struct attacker one, other;

    CHECK(attacker_go(&one, ARRIVED, NULL) && attacker_go(&other, ARRIVED, NULL));
    take_the_place_of(&writer, &one, &other);
    CHECK_EQ(NUMBER(ask(&writer, "stats"), "refused"), 0);
    role_stop(&writer);
}

/* ---- in the writer's process, while a crowd connects ---- */

TEST_TIMEOUT(calls_of_the_writers_program_go_on_in_a_crowd, 60)
{
    sluice_writer *writer = kit_writer("cam", 4096);
    struct child hostile = attack_start("a_crowd_comes_and_goes", 20);
    int64_t worst = 0, start = test_now();

    for (int i = 0; i < 100 && test_now() - start < 10 * SLUICE_S; i++) {
        int64_t began = test_now();
        (void)kit_writer_stats(writer);
        kit_commits(writer, 1);
        int64_t took = test_now() - began;
        worst = took > worst ? took : worst;
        test_nap(2 * SLUICE_MS);
    }
    fprintf(stderr, "worst %.1f ms of %.1f ms\n", (double)worst / 1e6, (double)(test_now() - start) / 1e6);
    CHECK_LE(worst, (int64_t)(5e9 * test_slowness()));
    child_kill(&hostile, SIGKILL);
    CHECK_SOON(kit_writer_stats(writer).readers == 0, 5);
    CHECK_OK(sluice_writer_close(&writer));
}
