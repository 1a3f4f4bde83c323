/* SPDX-License-Identifier: MIT
 *
 * Hostile writers: messages truncated, made of nonsense, in the wrong order, with invalid descriptors.
 */
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "hostile/attacker.h"

#define PATIENCE_MS 8000

static struct fake fake;

/* Answers the n-th connection after reading its hello, for n from 0 to count - 1. */
static void answer_each(int count, void (*answer)(int connection, const union sl_message *hello, int n))
{
    int64_t since = 0;
    int last = -1;

    fake_listen(&fake);
    for (int n = 0; n < count && attack_lasts(&since, PATIENCE_MS);) {
        union sl_message hello;
        int connection = fake_accept(&fake, 20);
        if (connection < 0)
            continue;
        if (raw_receive(connection, &hello, NULL, NULL) == sizeof hello.hello)
            answer(connection, &hello, n++);
        if (last >= 0)
            close(last);
        last = connection;
    }
}

/* Answers each connection properly but for what `corrupt` changes, with `how` from 0 to count - 1. */
static void corrupt_each(int count,
                         void (*corrupt)(struct fake *fake, union sl_message *message, int *fds, int *fd_count))
{
    int64_t since = 0;
    int last = -1;

    fake.corrupt = corrupt;
    fake_listen(&fake);
    for (fake.how = 0; fake.how < count && attack_lasts(&since, PATIENCE_MS);) {
        int connection = fake_accept(&fake, 20);
        if (connection < 0)
            continue;
        fake_answer(&fake, connection);
        fake.how++;
        if (last >= 0)
            close(last);
        last = connection;
    }
}

static union sl_message message_of(uint32_t type, size_t size)
{
    union sl_message message;
    attacker_scribble(&message, sizeof message);
    message.header = (struct sl_msg_header){ type, (uint32_t)size };
    return message;
}

/* ---- bytes ---- */

static void cut_short(int connection, const union sl_message *hello, int n)
{
    union sl_message message = SL_MESSAGE(SL_MSG_WELCOME, welcome);
    (void)hello;
    (void)raw_send(connection, &message, (size_t)n + 1, NULL, 0);
}

HOSTILE_WRITER(a_welcome_cut_short_anywhere, .refused = 0)
{
    answer_each(sizeof(struct sl_msg_welcome) - 1, cut_short);
}

static void any_bytes(int connection, const union sl_message *hello, int n)
{
    union sl_message message;
    (void)hello;
    attacker_scribble(&message, sizeof message);
    if (n % 2)
        message.header.type = (uint32_t)n / 2 % 10;
    (void)raw_send(connection, &message, 1 + attacker_random() % sizeof message, NULL, 0);
}

HOSTILE_WRITER(answers_of_random_bytes, .refused = 0)
{
    answer_each(200, any_bytes);
}

static const size_t sizes[] = {
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

static void any_message(int connection, const union sl_message *hello, int n)
{
    uint32_t type = 1 + (uint32_t)n % 9;
    union sl_message message = message_of(type, sizes[type]);
    (void)hello;
    (void)raw_send(connection, &message, message.header.size, NULL, 0);
}

HOSTILE_WRITER(any_message_for_a_welcome, .refused = 0)
{
    answer_each(90, any_message);
}

static void and_any_message(int connection, const union sl_message *hello, int n)
{
    (void)hello;
    (void)raw_send(connection, &(struct sl_msg_header){ 99, 8 }, 0, NULL, 0); /* an empty one */
    any_message(connection, hello, n);
    any_message(connection, hello, n + 1);
}

HOSTILE_WRITER(many_messages_at_once, .refused = 0)
{
    answer_each(90, and_any_message);
}

/* ---- numbers ---- */

static void huge_welcome(struct fake *f, union sl_message *message, int *fds, int *count)
{
    static const uint64_t numbers[] = { UINT64_MAX, INT64_MAX, UINT64_C(1) << 40, 4096 };
    size_t words = sizeof message->welcome / 8 - 1;

    (void)fds;
    (void)count;
    if (message->header.type == SL_MSG_WELCOME)
        memcpy((char *)message + 8 + (size_t)f->how % words * 8, &numbers[(size_t)f->how / words], 8);
}

HOSTILE_WRITER(a_welcome_with_huge_numbers, .refused = 0)
{
    corrupt_each(4 * (sizeof(struct sl_msg_welcome) / 8 - 1), huge_welcome);
}

static void huge_memory(struct fake *f, union sl_message *message, int *fds, int *count)
{
    size_t at = 8 + (size_t)f->how * 4;

    (void)fds;
    (void)count;
    if (message->header.type == SL_MSG_MEMORY)
        memset((char *)message + at, f->how % 2 ? 0xff : 0x7f, 4);
}

/* Its header, and the first array's numbers. */
HOSTILE_WRITER(a_memory_with_huge_numbers, .refused = 0)
{
    corrupt_each(80, huge_memory);
}

/* ---- descriptors ---- */

static void wrong_descriptor(struct fake *f, union sl_message *message, int *fds, int *count)
{
    int place = f->how / ATTACKER_FDS, fd = attacker_fd(f->how % ATTACKER_FDS);

    (void)count;
    if (fd < 0 || message->header.type != (place < 3 ? SL_MSG_WELCOME : SL_MSG_MEMORY)) {
        if (fd >= 0)
            close(fd);
        return;
    }
    close(fds[place % 3]);
    fds[place % 3] = fd;
}

HOSTILE_WRITER(wrong_descriptors_in_every_place, .refused = 0)
{
    corrupt_each(4 * ATTACKER_FDS, wrong_descriptor);
}

static void too_many(struct fake *f, union sl_message *message, int *fds, int *count)
{
    int most = f->how % 2 ? 253 : 3 + f->how;
    if (message->header.type == (f->how % 4 < 2 ? SL_MSG_WELCOME : SL_MSG_MEMORY))
        while (*count < most)
            fds[(*count)++] = attacker_fd(0);
}

HOSTILE_WRITER(far_too_many_descriptors, .refused = 0)
{
    corrupt_each(60, too_many);
}

static void none(struct fake *f, union sl_message *message, int *fds, int *count)
{
    if (message->header.type == (f->how % 2 ? SL_MSG_WELCOME : SL_MSG_MEMORY))
        while (*count > f->how / 2 % 3)
            close(fds[--*count]);
}

HOSTILE_WRITER(too_few_descriptors, .refused = 0)
{
    corrupt_each(30, none);
}

/* In a welcome for the wake socket, beside a message, and after one for which the reader hangs up. */
static void lingering(int connection, const union sl_message *hello, int n)
{
    union sl_message message = SL_MESSAGE(SL_MSG_WELCOME, welcome);
    int fds[3] = { attacker_fd(0), attacker_fd(0), attacker_lingering() };

    (void)hello;
    if (n % 3 == 0)
        (void)raw_send(connection, &message, message.header.size, fds, 3);
    else if (n % 3 == 1)
        (void)raw_send(connection, &message, 9, fds + 2, 1);
    for (int i = 0; i < 3; i++)
        (void)raw_send(connection, "x", 1, fds + 2, 1);
    close(fds[0]);
    close(fds[1]);
    attacker_close_lingering(fds[2]);
}

HOSTILE_WRITER(descriptors_that_linger_at_the_reader, .refused = 0)
{
    answer_each(20, lingering);
}

/* A page whose size or contents could change: each of its seals is missing once. */
static void unsealed(struct fake *f, union sl_message *message, int *fds, int *count)
{
    static const int seals[] = { 0, F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_SEAL, SIZE_SEALS };
    uint64_t size = f->how % 2 ? f->control_size : f->memory_size;

    (void)count;
    if (message->header.type != (f->how % 2 ? SL_MSG_WELCOME : SL_MSG_MEMORY))
        return;
    close(fds[0]);
    fds[0] = fake_memory(size, NULL, seals[f->how / 2 % 5]);
    (void)!ftruncate(fds[0], 0); /* if possible it is done */
}

HOSTILE_WRITER(memory_that_shrinks, .refused = 0)
{
    corrupt_each(30, unsealed);
}

/* ---- the order ---- */

static void out_of_order(int connection, const union sl_message *hello, int n)
{
    static const uint32_t orders[][4] = {
        { SL_MSG_MEMORY, SL_MSG_WELCOME }, { SL_MSG_BYE },
        { SL_MSG_BYE, SL_MSG_WELCOME },    { SL_MSG_REFUSE, SL_MSG_WELCOME },
        { SL_MSG_CHANNEL, SL_MSG_READER }, { SL_MSG_HELLO },
        { SL_MSG_ACK, SL_MSG_ACK },
    };
    const uint32_t *order = orders[(size_t)n % (sizeof orders / sizeof orders[0])];

    (void)hello;
    for (int i = 0; i < 4 && order[i]; i++) {
        union sl_message message = message_of(order[i], sizes[order[i]]);
        int fd = attacker_fd(11);
        (void)raw_send(connection, &message, message.header.size, &fd, order[i] == SL_MSG_MEMORY);
        close(fd);
    }
}

HOSTILE_WRITER(messages_out_of_order, .refused = 0)
{
    answer_each(70, out_of_order);
}

static void welcome_again(struct fake *f, union sl_message *message, int *fds, int *count)
{
    (void)f;
    (void)fds;
    (void)count;
    if (message->header.type == SL_MSG_MEMORY)
        *message = (union sl_message)SL_MESSAGE(SL_MSG_WELCOME, welcome);
}

HOSTILE_WRITER(a_welcome_again_and_again, .refused = 0)
{
    corrupt_each(50, welcome_again);
}

static void hang_up(int connection, const union sl_message *hello, int n)
{
    (void)hello;
    shutdown(connection, n % 3);
}

HOSTILE_WRITER(hangs_up_at_once, .refused = 0)
{
    answer_each(50, hang_up);
}

static void say_goodbye(struct fake *f, union sl_message *message, int *fds, int *count)
{
    (void)f;
    while (message->header.type == SL_MSG_MEMORY && *count)
        close(fds[--*count]);
    if (message->header.type == SL_MSG_MEMORY)
        *message = (union sl_message)SL_MESSAGE(SL_MSG_BYE, bye);
}

HOSTILE_WRITER(welcome_and_goodbye, .refused = 0)
{
    corrupt_each(50, say_goodbye);
}

static void refuse(int connection, const union sl_message *hello, int n)
{
    union sl_message message = SL_MESSAGE(SL_MSG_REFUSE, refuse);
    (void)hello;
    message.refuse.result = n - 40;
    memset(message.refuse.text, n % 32, sizeof message.refuse.text); /* no terminator, and no letters */
    (void)raw_send(connection, &message, message.header.size, NULL, 0);
}

HOSTILE_WRITER(refusals_for_no_reason, .refused = 0)
{
    answer_each(80, refuse);
}

/* One memory after the other, each with its descriptor, far more than a channel has. */
/* As many as it accepts, until it hangs up. Returns how many. */
static uint32_t send_memories(int connection)
{
    union sl_message message = SL_MESSAGE(SL_MSG_MEMORY, memory), ack;
    uint32_t n;

    message.memory.bytes = 4096;
    message.memory.kind = SL_MEM_HOST;
    message.memory.generation = 1;
    sl_format_to_wire(&message.memory.format, &fake.format);
    for (n = 2; n < 1000; n++) {
        int fd = fake_memory(4096, NULL, ALL_SEALS);
        message.memory.memory = n;
        bool sent = raw_send(connection, &message, message.header.size, &fd, 1);
        close(fd);
        if (!sent || raw_receive(connection, &ack, NULL, NULL) == 0)
            break;
    }
    return n;
}

HOSTILE_WRITER(memories_without_end, .refused = 0)
{
    fake_listen(&fake);
    for (int readers = 0;;) {
        int connection = fake_accept(&fake, 1000);
        if (connection < 0)
            continue;
        fake_answer(&fake, connection);
        CHECK_LE(send_memories(connection), 300);
        if (++readers == 8) /* some close before they have had enough */
            attack_done();
    }
}

/* ---- questions ---- */

static void answer_a_question(int connection, const union sl_message *hello, int n)
{
    union sl_message channel = message_of(SL_MSG_CHANNEL, sizes[SL_MSG_CHANNEL]),
                     reader = message_of(SL_MSG_READER, sizes[SL_MSG_READER]);

    if (hello->hello.role != SL_ROLE_OBSERVER)
        return;
    if (n % 4 == 0) { /* half of it is valid */
        struct sluice_format format = kit_format(100);
        sl_format_to_wire(&channel.channel.format, &format);
        channel.channel.readers = n % 8 ? 64 : UINT32_MAX;
    }
    (void)raw_send(connection, &channel, channel.header.size, NULL, 0);
    for (int i = 0; i < n % 7; i++)
        (void)raw_send(connection, &reader, reader.header.size, NULL, 0);
}

HOSTILE_WRITER(answers_without_sense, .refused = 0)
{
    answer_each(60, answer_a_question);
}

/* ---- hanging ---- */

HOSTILE_WRITER(never_accepts, .refused = 0)
{
    fake_listen(&fake);
    attack_done();
    raise(SIGSTOP);
}

static void stop_when(struct fake *f, union sl_message *message, int *fds, int *count)
{
    (void)fds;
    (void)count;
    if (message->header.type != (uint32_t)f->how)
        return;
    attack_done();
    raise(SIGSTOP);
}

static void stop_before(int type)
{
    fake.corrupt = stop_when;
    fake.how = type;
    fake_start(&fake);
    for (;;)
        pause();
}

HOSTILE_WRITER(stops_before_the_welcome, .refused = 0)
{
    stop_before(SL_MSG_WELCOME);
}
HOSTILE_WRITER(stops_before_the_memory, .refused = 0)
{
    stop_before(SL_MSG_MEMORY);
}
