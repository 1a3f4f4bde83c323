/* SPDX-License-Identifier: MIT
 *
 * Readers that speak another version, nonsense, or not at all, written by hand on a raw socket.
 */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "multi/raw.h"

#define KIB          1024
#define DROP_SECONDS 20 /* a silent peer has 1 s */

static void say(int fd, const union sl_message *message)
{
    CHECK_EQ(send(fd, message, message->header.size, MSG_NOSIGNAL), message->header.size);
}

static void check_closed(int fd)
{
    union sl_message message;
    CHECK_EQ(raw_receive(fd, &message, NULL, NULL), 0);
    close(fd);
}

static void check_refused(int fd, int result, const char *a, const char *b)
{
    union sl_message message;
    CHECK_EQ(raw_receive(fd, &message, NULL, NULL), sizeof message.refuse);
    CHECK_EQ(message.header.type, SL_MSG_REFUSE);
    CHECK_EQ(message.refuse.result, result);
    CHECK_EQ(message.refuse.version_min, SLUICE_WIRE_VERSION_MIN);
    CHECK_EQ(message.refuse.version_max, SLUICE_WIRE_VERSION_MAX);
    CHECK_HAS(message.refuse.text, a);
    CHECK_HAS(message.refuse.text, b);
    check_closed(fd);
}

/* A writer and a real reader, which must not notice. */
struct fixture {
    sluice_writer *writer;
    struct child reader;
    int fds;
};

static struct fixture open_fixture(void)
{
    struct fixture fixture = { .writer = kit_writer("cam", 8 * KIB), .reader = kit_start("reader", NULL) };
    child_expect(&fixture.reader, "open", 5);
    kit_commits(fixture.writer, 1);
    EXPECT_ANSWER(&fixture.reader, "take 20000", "took 1 ");
    fixture.fds = process_fds(getpid());
    return fixture;
}

static void close_fixture(struct fixture *fixture, uint64_t refused)
{
    char line[32];

    kit_commits(fixture->writer, 1);
    snprintf(line, sizeof line, "took %llu", (unsigned long long)kit_writer_stats(fixture->writer).committed);
    EXPECT_ANSWER(&fixture->reader, "take 20000", line);
    CHECK_SOON(kit_writer_stats(fixture->writer).readers == 1, 3);
    CHECK_SOON(process_fds(getpid()) == fixture->fds, 2);
    CHECK_EQ(kit_writer_stats(fixture->writer).refused, refused);
    role_stop(&fixture->reader);
    CHECK_OK(sluice_writer_close(&fixture->writer));
}

TEST(versions_that_do_not_meet_are_named_on_both_sides)
{
    struct fixture fixture = open_fixture();
    union sl_message hello = raw_hello("by hand");

    hello.hello.version_min = 7;
    hello.hello.version_max = 9;
    int fd = raw_dial("cam");
    say(fd, &hello);
    check_refused(fd, SLUICE_E_VERSION, "versions 1 to 1", "7 to 9");
    hello.hello.version_min = hello.hello.version_max = 0;
    fd = raw_dial("cam");
    say(fd, &hello);
    check_refused(fd, SLUICE_E_VERSION, "versions 1 to 1", "0 to 0");
    close_fixture(&fixture, 2);
}

TEST(a_wide_range_of_versions_meets)
{
    struct fixture fixture = open_fixture();
    union sl_message hello = raw_hello("by hand"), message;

    hello.hello.version_min = 0;
    hello.hello.version_max = 99;
    hello.hello.features = ~UINT64_C(0); /* offered, not required */
    int fd = raw_dial("cam");
    say(fd, &hello);
    CHECK_EQ(raw_receive(fd, &message, NULL, NULL), sizeof message.welcome);
    CHECK_EQ(message.header.type, SL_MSG_WELCOME);
    CHECK_EQ(message.welcome.version, 1);
    CHECK_EQ(message.welcome.features, 0);
    close(fd);
    close_fixture(&fixture, 0);
}

TEST(features_that_one_side_needs_and_the_other_lacks)
{
    struct fixture fixture = open_fixture();
    union sl_message hello = raw_hello("by hand");

    hello.hello.features_required = 0x50;
    int fd = raw_dial("cam");
    say(fd, &hello);
    check_refused(fd, SLUICE_E_VERSION, "0x50", "the writer has 0");
    close_fixture(&fixture, 1);
}

TEST(nonsense_in_a_hello_is_refused)
{
    struct fixture fixture = open_fixture();
    uint64_t refused = 0;

    for (int i = 0; i < 10; i++) {
        union sl_message hello = raw_hello("by hand");
        size_t size = hello.header.size;
        const char *word = "hello";
        switch (i) {
        case 0:
            hello.hello.magic ^= 1;
            word = "does not speak Sluice";
            break;
        case 1:
            hello.hello.role = 9;
            word = "role 9";
            break;
        case 2:
            hello.hello.mode = 2;
            word = "mode 2";
            break;
        case 3:
            hello.hello.hold = 0;
            word = "hold 0";
            break;
        case 4:
            hello.hello.every = 0;
            word = "every 0";
            break;
        case 5:
            hello.hello.writable = 2;
            word = "writable 2";
            break;
        case 6:
            size--;
            word = "has 111 bytes";
            break;
        case 7:
            hello.header.size = 4000;
            word = "says 4000";
            break;
        case 8:
            hello.header.type = 77;
            word = "unknown type 77";
            break;
        case 9:
            size = 3;
            word = "3 bytes is too short";
            break;
        }
        int fd = raw_dial("cam");
        CHECK_EQ(send(fd, &hello, size, MSG_NOSIGNAL), (ssize_t)size);
        check_refused(fd, SLUICE_E_PROTOCOL, word, word);
        refused++;
    }
    /* Limits have their own answers. */
    union sl_message hello = raw_hello("by hand");
    hello.hello.hold = 7;
    int fd = raw_dial("cam");
    say(fd, &hello);
    check_refused(fd, SLUICE_E_LIMIT, "hold 7", "8 slots allow 6");
    hello = raw_hello("by hand");
    hello.hello.depth = UINT32_MAX;
    fd = raw_dial("cam");
    say(fd, &hello);
    check_refused(fd, SLUICE_E_LIMIT, "depth 4294967295", "8 slots allow 6");
    close_fixture(&fixture, refused + 2);
}

TEST(a_message_longer_than_any_is_refused)
{
    struct fixture fixture = open_fixture();
    char *much = calloc(1, 100000);

    memcpy(much, &(struct sl_msg_header){ SL_MSG_HELLO, 100000 }, sizeof(struct sl_msg_header));
    int fd = raw_dial("cam");
    CHECK_EQ(send(fd, much, 100000, MSG_NOSIGNAL), 100000);
    check_refused(fd, SLUICE_E_PROTOCOL, "more than", "bytes");
    free(much);
    close_fixture(&fixture, 1);
}

TEST(messages_in_the_wrong_order_end_the_connection)
{
    struct fixture fixture = open_fixture();
    union sl_message ack = SL_MESSAGE(SL_MSG_ACK, ack), query = SL_MESSAGE(SL_MSG_QUERY, query);
    union sl_message bye = SL_MESSAGE(SL_MSG_BYE, bye), welcome = SL_MESSAGE(SL_MSG_WELCOME, welcome);
    union sl_message hello = raw_hello("by hand"), message;
    const union sl_message *first[] = { &ack, &query, &bye, &welcome };
    uint64_t refused = 0;

    for (int i = 0; i < 4; i++) { /* before hello */
        int fd = raw_dial("cam");
        say(fd, first[i]);
        check_closed(fd);
        refused++;
    }
    const union sl_message *second[] = { &hello, &query, &welcome, &ack };
    ack.ack.memory = 9;           /* which was never sent */
    for (int i = 0; i < 4; i++) { /* after it */
        int fd = raw_dial("cam");
        say(fd, &hello);
        CHECK_EQ(raw_receive(fd, &message, NULL, NULL), sizeof message.welcome);
        CHECK_EQ(raw_receive(fd, &message, NULL, NULL), sizeof message.memory);
        say(fd, second[i]);
        check_closed(fd);
        refused++;
    }
    /* The same twice. */
    int fd = raw_dial("cam");
    say(fd, &hello);
    CHECK_EQ(raw_receive(fd, &message, NULL, NULL), sizeof message.welcome);
    CHECK_EQ(raw_receive(fd, &message, NULL, NULL), sizeof message.memory);
    ack.ack.memory = message.memory.memory;
    say(fd, &ack);
    say(fd, &ack);
    check_closed(fd);
    /* An observer has no memory to acknowledge. */
    hello.hello.role = SL_ROLE_OBSERVER;
    fd = raw_dial("cam");
    say(fd, &hello);
    say(fd, &query);
    CHECK_EQ(raw_receive(fd, &message, NULL, NULL), sizeof message.channel);
    CHECK_EQ(raw_receive(fd, &message, NULL, NULL), sizeof message.reader);
    say(fd, &ack);
    check_closed(fd);
    close_fixture(&fixture, refused + 2);
}

TEST(silence_is_dropped_after_a_second)
{
    struct fixture fixture = open_fixture();
    int64_t began = test_now();
    int fd = raw_dial("cam");
    struct pollfd poll_fd = { .fd = fd, .events = POLLIN };

    kit_commits(fixture.writer, 1);
    EXPECT_ANSWER(&fixture.reader, "take 20000", "took 2 ");
    CHECK_EQ(poll(&poll_fd, 1, DROP_SECONDS * 1000), 1);
    CHECK_GE(test_now() - began, 900 * SLUICE_MS);
    check_closed(fd);
    close_fixture(&fixture, 1);
}

TEST(two_hundred_silent_connections_keep_no_reader_out)
{
    struct fixture fixture = open_fixture();
    struct sluice_channel_info info = { .size = sizeof info };
    int fds[200];

    for (int i = 0; i < 200; i++) {
        fds[i] = raw_dial("cam");
        if (i % 40 == 39) { /* while they arrive */
            sluice_reader *reader = kit_reader("cam", SLUICE_NEWEST);
            struct sluice_frame frame = kit_take(reader);
            kit_give(reader, &frame);
            CHECK_OK(sluice_channel_info("cam", 20 * SLUICE_S, &info, NULL, 0));
            CHECK_OK(sluice_reader_close(&reader));
        }
    }
    struct child reader = kit_start("reader", NULL);
    child_expect(&reader, "open", 5);
    kit_commits(fixture.writer, 1);
    EXPECT_ANSWER(&reader, "take 20000", "took 2 ");
    EXPECT_ANSWER(&fixture.reader, "take 20000", "took 2 ");
    for (int i = 0; i < 200; i++)
        check_closed(fds[i]);
    role_stop(&reader);
    close_fixture(&fixture, 200);
}

TEST(descriptors_that_come_with_a_hello_are_not_kept)
{
    struct fixture fixture = open_fixture();
    union sl_message hello = raw_hello("by hand"), message;
    int junk[8], refused = 0;

    for (int i = 0; i < 8; i++)
        junk[i] = open("/dev/null", O_RDWR | O_CLOEXEC);
    fixture.fds += 8;
    for (int count = 1; count <= 8; count++) {
        int fd = raw_dial("cam");
        if (raw_send(fd, &hello, hello.header.size, junk, count)) { /* not from Linux 6.16 on */
            CHECK(raw_receive(fd, &message, NULL, NULL) > 0);
            /* Nobody sends more than four. */
            CHECK_EQ(message.header.type, count <= 4 ? SL_MSG_WELCOME : SL_MSG_REFUSE);
            refused += count > 4;
        }
        close(fd);
    }
    CHECK_SOON(kit_writer_stats(fixture.writer).readers == 1, 3);
    CHECK_SOON(process_fds(getpid()) == fixture.fds, 2);
    for (int i = 0; i < 8; i++)
        close(junk[i]);
    fixture.fds -= 8;
    close_fixture(&fixture, (uint64_t)refused);
}

TEST(a_reader_cannot_misuse_what_it_is_given)
{
    struct fixture fixture = open_fixture();
    union sl_message hello = raw_hello("by hand"), message;
    int fds[16], count, memory;

    int fd = raw_dial("cam");
    say(fd, &hello);
    CHECK_EQ(raw_receive(fd, &message, fds, &count), sizeof message.welcome);
    CHECK_GE(count, 3);
    CHECK_LE(count, 4);
    struct sl_msg_welcome welcome = message.welcome;
    int more;
    CHECK_EQ(raw_receive(fd, &message, &memory, &more), sizeof message.memory);
    CHECK_EQ(more, 1);
    /* Control page and slots: read-only, and of a fixed size. A GPU's memory cannot be sealed (docs/limits.md). */
    const int read_only[2] = { fds[0], memory };
    for (int i = 0; i < (kit_device() ? 1 : 2); i++) {
        CHECK_EQ((intptr_t)mmap(NULL, RAW_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, read_only[i], 0), -1);
        CHECK(ftruncate(read_only[i], 0) != 0);
        CHECK(write(read_only[i], "x", 1) < 0);
        CHECK_EQ(fcntl(read_only[i], F_ADD_SEALS, F_SEAL_WRITE), -1);
    }
    /* Its own page it may write, but not shrink. */
    struct sl_reader_page *page = mmap(NULL, welcome.page_size, PROT_READ | PROT_WRITE, MAP_SHARED, fds[1], 0);
    CHECK(page != MAP_FAILED);
    CHECK(ftruncate(fds[1], 0) != 0);
    CHECK(fcntl(fds[1], F_ADD_SEALS, F_SEAL_FUTURE_WRITE) != 0);

    /* Whatever it writes there, the writer lives and others read; at worst the channel has fewer slots. */
    memset((char *)page + 0x40, 0xff, sizeof *page - 0x40);
    kit_commits(fixture.writer, 5);
    struct sluice_channel_info info = { .size = sizeof info };
    struct sluice_reader_info readers[2];
    CHECK_OK(sluice_channel_info("cam", 20 * SLUICE_S, &info, readers, 2));
    for (uint32_t s = 0; s < SL_MAX_IDS; s++) /* leases on everything, as far as it can guess */
        sl_store(&page->lease[s], 2 + s % 5, seq_cst);
    kit_commits(fixture.writer, 5);
    munmap(page, welcome.page_size);
    for (int i = 0; i < count; i++)
        close(fds[i]);
    close(memory);
    close(fd);
    kit_commits(fixture.writer, 20);
    close_fixture(&fixture, 0);
}

/* A reader that fills the wake socket and never reads anything. */
TEST(a_reader_that_never_reads_stops_nobody)
{
    struct fixture fixture = open_fixture();
    union sl_message hello = raw_hello("by hand"), message;
    int fds[16], count;

    int fd = raw_dial("cam");
    say(fd, &hello);
    CHECK_EQ(raw_receive(fd, &message, fds, &count), sizeof message.welcome);
    struct sl_reader_page *page = mmap(NULL, message.welcome.page_size, PROT_READ | PROT_WRITE, MAP_SHARED, fds[1], 0);
    CHECK(page != MAP_FAILED);
    for (int i = 0; i < 2000; i++) { /* asks to be woken for every frame and never reads */
        sl_store(&page->want_fd, 1, seq_cst);
        sl_store(&page->want, 1, seq_cst);
        (void)!send(fds[2], "", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
        kit_commits(fixture.writer, 1);
    }
    for (int i = 0; i < 30; i++) {
        struct sluice_format format = kit_format(4096 * (1 + i % 2));
        CHECK_OK(sluice_writer_reformat(fixture.writer, &format));
        kit_commits(fixture.writer, 1);
    }
    munmap(page, sizeof *page);
    for (int i = 0; i < count; i++)
        close(fds[i]);
    close(fd);
    CHECK_SOON(kit_writer_stats(fixture.writer).readers == 1, 3);
    kit_commits(fixture.writer, 1); /* frees the memory of old formats */
    kit_commits(fixture.writer, 1);
    close_fixture(&fixture, 0);
}
