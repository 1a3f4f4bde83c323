/* SPDX-License-Identifier: MIT
 *
 * Hostile readers: messages truncated, too long, made of nonsense, in the wrong order.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "hostile/attacker.h"

/* Sends `size` bytes as the first message; the writer must end the connection. */
static void send_first(const void *bytes, size_t size)
{
    int fd = raw_dial("cam");
    CHECK(send(fd, bytes, size, MSG_NOSIGNAL) == (ssize_t)size);
    CHECK(attacker_ended(fd, 5000));
    close(fd);
}

HOSTILE_READER(a_hello_cut_short_anywhere, .refused = sizeof(struct sl_msg_hello) - 1)
{
    union sl_message hello = attacker_hello();
    for (size_t size = 1; size < sizeof hello.hello; size++)
        send_first(&hello, size);
}

HOSTILE_READER(messages_longer_than_any, .refused = 12)
{
    char *much = calloc(1, 200000);
    union sl_message hello = attacker_hello();

    CHECK(much != NULL);
    memcpy(much, &hello, sizeof hello);
    for (size_t size = sizeof(struct sl_msg_hello) + 1; size < 200000; size = size * 2 + 1) {
        memcpy(much, &(uint32_t[]){ SL_MSG_HELLO, (uint32_t)size }, 8); /* gives its true length */
        send_first(much, size);
        memcpy(much, &(uint32_t[]){ SL_MSG_HELLO, sizeof(struct sl_msg_hello) }, 8); /* or a false one */
        send_first(much, size);
    }
    free(much);
}

HOSTILE_READER(a_hello_with_huge_numbers, .refused = 10)
{
    static const uint32_t numbers[] = { UINT32_MAX, INT32_MAX, 1u << 31, 65, 0 };

    for (size_t at = 0; at + 4 <= sizeof(struct sl_msg_hello); at += 4) {
        for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
            union sl_message hello = attacker_hello(), answer;
            struct attacker attacker;
            memcpy((char *)&hello + at, &numbers[i], 4);
            (void)attacker_go(&attacker, CONNECTED, NULL);
            (void)!send(attacker.fd, &hello, sizeof hello.hello, MSG_NOSIGNAL);
            (void)raw_receive(attacker.fd, &answer, NULL,
                              NULL); /* whatever it is: a peer that leaves before is not handled */
            attacker_close(&attacker);
        }
    }
}

HOSTILE_READER(messages_of_random_bytes, .refused = 500)
{
    unsigned char bytes[512];

    for (int i = 0; i < 600; i++) {
        attacker_scribble(bytes, sizeof bytes);
        if (i % 2) /* with a valid header */
            memcpy(bytes, &(uint32_t[]){ SL_MSG_HELLO, sizeof(struct sl_msg_hello) }, 8);
        send_first(bytes, i % 2 ? sizeof(struct sl_msg_hello) : 1 + attacker_random() % sizeof bytes);
    }
}

/* Of each type, filled with the attack's bytes. */
static union sl_message message_of(uint32_t type, int fill)
{
    static const uint32_t sizes[] = {
        0,
        sizeof(struct sl_msg_hello),
        sizeof(struct sl_msg_welcome),
        sizeof(struct sl_msg_refuse),
        sizeof(struct sl_msg_memory),
        sizeof(struct sl_msg_ack),
        sizeof(struct sl_msg_bye),
        sizeof(struct sl_msg_query),
        sizeof(struct sl_msg_channel),
        sizeof(struct sl_msg_reader),
    };
    union sl_message message;
    memset(&message, fill, sizeof message);
    message.header = (struct sl_msg_header){ type, sizes[type] };
    return message;
}

HOSTILE_READER(any_message_before_the_hello, .refused = 8 * 3)
{
    for (uint32_t type = SL_MSG_WELCOME; type <= SL_MSG_READER; type++) {
        for (int fill = 0; fill < 3; fill++) {
            union sl_message message = message_of(type, fill * 0x7f);
            send_first(&message, message.header.size);
        }
    }
}

HOSTILE_READER(any_message_at_any_step, .refused = 40)
{
    for (enum attacker_step step = GREETED; step < ATTACKER_STEPS; step++) {
        for (uint32_t type = SL_MSG_HELLO; type <= SL_MSG_READER; type++) {
            union sl_message message = message_of(type, 0xff);
            struct attacker attacker;
            if (type == SL_MSG_BYE)
                continue; /* that ends it properly */
            CHECK(attacker_go(&attacker, step, NULL));
            attacker_say(attacker.fd, &message);
            CHECK(attacker_ended(attacker.fd, 5000));
            attacker_close(&attacker);
        }
    }
}

HOSTILE_READER(a_hello_again_and_again, .refused = 50)
{
    union sl_message hello = attacker_hello();

    for (int i = 0; i < 50; i++) {
        int fd = raw_dial("cam");
        for (int n = 0; n < 20; n++)
            attacker_say(fd, &hello);
        CHECK(attacker_ended(fd, 5000));
        close(fd);
    }
}

HOSTILE_READER(acknowledges_what_never_came, .refused = 5)
{
    static const uint32_t numbers[] = { 0, 2, 77, INT32_MAX, UINT32_MAX };

    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        union sl_message ack = SL_MESSAGE(SL_MSG_ACK, ack);
        struct attacker attacker;
        CHECK(attacker_go(&attacker, GIVEN, NULL));
        ack.ack.memory = numbers[i];
        attacker_say(attacker.fd, &ack);
        CHECK(attacker_ended(attacker.fd, 5000));
        attacker_close(&attacker);
    }
}

HOSTILE_READER(empty_messages, .refused = 0)
{
    for (enum attacker_step step = CONNECTED; step < ATTACKER_STEPS; step++) {
        struct attacker attacker;
        CHECK(attacker_go(&attacker, step, NULL));
        for (int i = 0; i < 10; i++)
            (void)!send(attacker.fd, "", 0, MSG_NOSIGNAL);
        CHECK(attacker_ended(attacker.fd, 5000));
        attacker_close(&attacker);
    }
}

HOSTILE_READER(goodbye_and_on_it_goes, .refused = 0)
{
    union sl_message bye = SL_MESSAGE(SL_MSG_BYE, bye);

    for (uint32_t reason = 0; reason < 50; reason++) {
        struct attacker attacker;
        CHECK(attacker_go(&attacker, HOLDING, NULL));
        bye.bye.reason = reason ? reason : UINT32_MAX;
        for (int i = 0; i < 5; i++)
            attacker_say(attacker.fd, &bye);
        sl_store(&attacker.page->evicted, 0, seq_cst);
        CHECK(attacker_ended(attacker.fd, 5000));
        if (reason % 10 != 0)
            attacker_close(&attacker); /* the others stay, with all that they had */
    }
}
