/* SPDX-License-Identifier: MIT
 *
 * Hostile readers that end, or hang, at each step of a connection.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hostile/attacker.h"

/* The leases of a living reader that hung up count for a second (docs/protocol.md). */
HOSTILE_READER(closes_at_each_step, .refused = 0, .drops = true)
{
    for (int round = 0; round < 10; round++) {
        for (enum attacker_step step = CONNECTED; step < ATTACKER_STEPS; step++) {
            struct attacker attacker;
            CHECK(attacker_go(&attacker, step, NULL));
            attacker_close(&attacker);
        }
    }
}

HOSTILE_READER(dies_at_each_step, .refused = 0)
{
    for (int round = 0; round < 5; round++) {
        for (enum attacker_step step = CONNECTED; step < ATTACKER_STEPS; step++) {
            pid_t child = fork();
            if (child == 0) {
                struct attacker attacker;
                (void)attacker_go(&attacker, step, NULL);
                raise(SIGKILL);
            }
            CHECK(child > 0 && waitpid(child, NULL, 0) == child);
        }
    }
}

static void shut_down(int how)
{
    for (enum attacker_step step = CONNECTED; step < ATTACKER_STEPS; step++) {
        struct attacker attacker;
        CHECK(attacker_go(&attacker, step, NULL));
        CHECK_EQ(shutdown(attacker.fd, how), 0);
        if (step > GREETED)
            CHECK_EQ(shutdown(attacker.wake, how), 0);
        /* The same, but it stays. */
    }
}

HOSTILE_READER(sends_no_more_at_each_step, .leaves = true)
{
    shut_down(SHUT_WR);
}
HOSTILE_READER(takes_no_more_at_each_step, .refused = 0)
{
    shut_down(SHUT_RD);
}
HOSTILE_READER(shuts_both_halves_at_each_step, .leaves = true)
{
    shut_down(SHUT_RDWR);
}

/* It reads nothing from before its hello on: messages to it cannot arrive, and it does not hang up. */
HOSTILE_READER(is_deaf_from_the_start, .leaves = true)
{
    for (int i = 0; i < 20; i++) {
        struct attacker attacker;
        union sl_message hello = attacker_hello();
        CHECK(attacker_go(&attacker, CONNECTED, NULL));
        CHECK_EQ(shutdown(attacker.fd, SHUT_RD), 0);
        attacker_say(attacker.fd, &hello);
    }
}

static void stop_at(enum attacker_step step)
{
    struct attacker attacker;
    CHECK(attacker_go(&attacker, step, NULL));
    attack_done();
    raise(SIGSTOP);
}

HOSTILE_READER(stops_after_connecting, .refused = 0)
{
    stop_at(CONNECTED);
}
HOSTILE_READER(stops_after_its_hello, .refused = 0)
{
    stop_at(GREETED);
}
HOSTILE_READER(stops_after_the_welcome, .refused = 0)
{
    stop_at(WELCOMED);
}
HOSTILE_READER(stops_before_it_acknowledges, .refused = 0)
{
    stop_at(GIVEN);
}
HOSTILE_READER(stops_when_it_has_arrived, .refused = 0)
{
    stop_at(ARRIVED);
}
HOSTILE_READER(stops_asleep, .refused = 0)
{
    stop_at(SLEEPING);
}
HOSTILE_READER(stops_with_a_lease, .refused = 0)
{
    stop_at(HOLDING);
}

/* ---- a goodbye that is read when its sender is dead ---- */

/* Acknowledges memories before they arrive, so that the goodbye lies behind more than one round of reading. A child
 * keeps the connection open for a moment, else none of them would be sent. */
ROLE(leaver)
{
    union sl_message ack = SL_MESSAGE(SL_MSG_ACK, ack), bye = SL_MESSAGE(SL_MSG_BYE, bye);
    struct attacker attacker;

    CHECK(attacker_go(&attacker, GIVEN, NULL));
    role_say("there");
    long memories = strtol(role_line(), NULL, 10);
    for (uint32_t memory = 1; memory <= memories; memory++) {
        ack.ack.memory = memory;
        attacker_say(attacker.fd, &ack);
    }
    bye.bye.reason = SL_BYE_LEFT;
    attacker_say(attacker.fd, &bye);
    if (fork() == 0)
        sleep(2);
    _exit(0);
}

TEST(a_reader_that_says_goodbye_and_dies_has_left)
{
    test_dir();
    struct child writer = kit_start("writer", "slots=3", "max_slots=16", NULL);
    child_expect(&writer, "open", 10);
    struct child holders[12];
    for (int i = 0; i < 12; i++) { /* so that it grows, by one memory each */
        holders[i] = kit_start("reader", NULL);
        child_expect(&holders[i], "open", 10);
        EXPECT_ANSWER(&writer, "commit 1", "committed");
        EXPECT_ANSWER(&holders[i], "hold 20000", "holds");
    }
    struct child leaver = role_start("leaver", NULL);
    child_expect(&leaver, "there", 10);
    unsigned memories = honest_info("cam").slots - 3 + 1; /* the first, and one for each further slot */
    char line[16];
    CHECK_GE(memories, 9);
    snprintf(line, sizeof line, "%u", memories);
    child_kill(&writer, SIGSTOP); /* all of it waits there at once */
    child_send(&leaver, line);
    CHECK_EQ(child_wait(&leaver, 5), 0);
    child_kill(&writer, SIGCONT);
    CHECK_SOON(honest_info("cam").readers == 12, 5);
    CHECK_EQ(honest_info("cam").died, 0);
    CHECK_EQ(honest_info("cam").refused, 0);
    for (int i = 0; i < 12; i++) {
        EXPECT_ANSWER(&holders[i], "check", "whole 1");
        EXPECT_ANSWER(&holders[i], "give", "gave");
        role_stop(&holders[i]);
    }
    role_stop(&writer);
}
