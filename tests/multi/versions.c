/* SPDX-License-Identifier: MIT
 *
 * Peers that speak another version, nonsense, or not at all: written by hand on a raw socket, as readers
 * of our writer and as the writer of our readers.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "multi/kit.h"
#include "wire/native/message.h"

#define KIB 1024
#define PAGE 4096
#define DROP_SECONDS 3 /* silence is given 1 s */

/* ---- a hand-written peer ---- */

static struct sockaddr_un address_of(const char *name)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    CHECK(snprintf(address.sun_path, sizeof address.sun_path, "%s/%s", test_dir(), name) < 108);
    return address;
}

static int dial(const char *name)
{
    struct sockaddr_un address = address_of(name);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    struct timeval patience = { .tv_sec = 5 };

    CHECK(fd >= 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    CHECK_EQ(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

static void send_fds(int fd, const void *message, size_t size, const int *fds, int count)
{
    char control[CMSG_SPACE(16 * sizeof(int))] = { 0 };
    struct iovec part = { .iov_base = (void *)(uintptr_t)message, .iov_len = size };
    struct msghdr header = { .msg_iov = &part, .msg_iovlen = 1 };

    if (count) {
        header.msg_control = control;
        header.msg_controllen = CMSG_SPACE((size_t)count * sizeof(int));
        struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN((size_t)count * sizeof(int));
        memcpy(CMSG_DATA(rights), fds, (size_t)count * sizeof(int));
    }
    (void)!sendmsg(fd, &header, MSG_NOSIGNAL);
}

/* One message; 0 at the end. Descriptors go to fds, or are closed where that is NULL. */
static size_t receive(int fd, union sl_message *message, int *fds, int *count)
{
    char control[CMSG_SPACE(16 * sizeof(int))];
    struct iovec part = { .iov_base = message, .iov_len = sizeof *message };
    struct msghdr header = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control };
    int got[16], n = 0;

    ssize_t size = recvmsg(fd, &header, MSG_CMSG_CLOEXEC);
    if (size < 0 && errno == ECONNRESET)
        size = 0;
    CHECK(size >= 0);
    struct cmsghdr *rights = size ? CMSG_FIRSTHDR(&header) : NULL;
    if (rights) {
        n = (int)((rights->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        memcpy(got, CMSG_DATA(rights), (size_t)n * sizeof(int));
    }
    for (int i = 0; i < n; i++) {
        if (fds)
            fds[i] = got[i];
        else
            close(got[i]);
    }
    if (count)
        *count = n;
    return (size_t)size;
}

static union sl_message good_hello(void)
{
    union sl_message message = SL_MESSAGE(SL_MSG_HELLO, hello);
    message.hello.magic = SL_NATIVE_MAGIC;
    message.hello.version_min = SLUICE_WIRE_VERSION_MIN;
    message.hello.version_max = SLUICE_WIRE_VERSION_MAX;
    message.hello.role = SL_ROLE_READER;
    message.hello.hold = message.hello.every = 1;
    message.hello.pid = (uint32_t)getpid();
    message.hello.clock_ns = test_now();
    strcpy(message.hello.program, "by hand");
    return message;
}

static void say(int fd, const union sl_message *message)
{
    CHECK_EQ(send(fd, message, message->header.size, MSG_NOSIGNAL), message->header.size);
}

static void check_closed(int fd)
{
    union sl_message message;
    CHECK_EQ(receive(fd, &message, NULL, NULL), 0);
    close(fd);
}

static void check_refused(int fd, int result, const char *a, const char *b)
{
    union sl_message message;
    CHECK_EQ(receive(fd, &message, NULL, NULL), sizeof message.refuse);
    CHECK_EQ(message.header.type, SL_MSG_REFUSE);
    CHECK_EQ(message.refuse.result, result);
    CHECK_EQ(message.refuse.version_min, SLUICE_WIRE_VERSION_MIN);
    CHECK_EQ(message.refuse.version_max, SLUICE_WIRE_VERSION_MAX);
    CHECK_HAS(message.refuse.text, a);
    CHECK_HAS(message.refuse.text, b);
    check_closed(fd);
}

/* A writer and a real reader, who must not notice. */
struct scene {
    sluice_writer *writer;
    struct child reader;
    int fds;
};

static struct scene open_scene(void)
{
    struct scene scene = { .writer = kit_writer("cam", 8 * KIB), .reader = kit_start("reader", NULL) };
    child_expect(&scene.reader, "open", 5);
    kit_commits(scene.writer, 1);
    TELL(&scene.reader, "take 1000", "took 1 ");
    scene.fds = kit_descriptors(getpid());
    return scene;
}

static void close_scene(struct scene *scene, uint64_t refused)
{
    char line[32];

    kit_commits(scene->writer, 1);
    snprintf(line, sizeof line, "took %llu", (unsigned long long)kit_writer_stats(scene->writer).committed);
    TELL(&scene->reader, "take 1000", line);
    CHECK_SOON(kit_writer_stats(scene->writer).readers == 1, 3);
    CHECK_SOON(kit_descriptors(getpid()) == scene->fds, 2);
    CHECK_EQ(kit_writer_stats(scene->writer).refused, refused);
    role_stop(&scene->reader);
    CHECK_OK(sluice_writer_close(&scene->writer));
}

/* ---- to our writer ---- */

TEST(versions_that_do_not_meet_are_named_on_both_sides)
{
    struct scene scene = open_scene();
    union sl_message hello = good_hello();

    hello.hello.version_min = 7;
    hello.hello.version_max = 9;
    int fd = dial("cam");
    say(fd, &hello);
    check_refused(fd, SLUICE_E_VERSION, "versions 1 to 1", "7 to 9");
    hello.hello.version_min = hello.hello.version_max = 0;
    fd = dial("cam");
    say(fd, &hello);
    check_refused(fd, SLUICE_E_VERSION, "versions 1 to 1", "0 to 0");
    close_scene(&scene, 2);
}

TEST(a_wide_range_of_versions_meets)
{
    struct scene scene = open_scene();
    union sl_message hello = good_hello(), message;

    hello.hello.version_min = 0;
    hello.hello.version_max = 99;
    hello.hello.features = ~UINT64_C(0); /* offered, not needed */
    int fd = dial("cam");
    say(fd, &hello);
    CHECK_EQ(receive(fd, &message, NULL, NULL), sizeof message.welcome);
    CHECK_EQ(message.header.type, SL_MSG_WELCOME);
    CHECK_EQ(message.welcome.version, 1);
    CHECK_EQ(message.welcome.features, 0);
    close(fd);
    close_scene(&scene, 0);
}

TEST(features_that_one_side_needs_and_the_other_lacks)
{
    struct scene scene = open_scene();
    union sl_message hello = good_hello();

    hello.hello.features_required = 0x50;
    int fd = dial("cam");
    say(fd, &hello);
    check_refused(fd, SLUICE_E_VERSION, "0x50", "the writer has 0");
    close_scene(&scene, 1);
}

TEST(nonsense_in_a_hello_is_refused)
{
    struct scene scene = open_scene();
    uint64_t refused = 0;

    for (int i = 0; i < 10; i++) {
        union sl_message hello = good_hello();
        size_t size = hello.header.size;
        const char *word = "hello";
        switch (i) {
        case 0: hello.hello.magic ^= 1; word = "does not speak Sluice"; break;
        case 1: hello.hello.role = 9; word = "role 9"; break;
        case 2: hello.hello.mode = 2; word = "mode 2"; break;
        case 3: hello.hello.hold = 0; word = "hold 0"; break;
        case 4: hello.hello.every = 0; word = "every 0"; break;
        case 5: hello.hello.writable = 2; word = "writable 2"; break;
        case 6: size--; word = "has 111 bytes"; break;
        case 7: hello.header.size = 4000; word = "says 4000"; break;
        case 8: hello.header.type = 77; word = "unknown type 77"; break;
        case 9: size = 3; word = "3 bytes is too short"; break;
        }
        int fd = dial("cam");
        CHECK_EQ(send(fd, &hello, size, MSG_NOSIGNAL), (ssize_t)size);
        check_refused(fd, SLUICE_E_PROTOCOL, word, word);
        refused++;
    }
    /* Limits have their own answers. */
    union sl_message hello = good_hello();
    hello.hello.hold = 7;
    int fd = dial("cam");
    say(fd, &hello);
    check_refused(fd, SLUICE_E_LIMIT, "hold 7", "8 slots allow 6");
    hello = good_hello();
    hello.hello.depth = UINT32_MAX;
    fd = dial("cam");
    say(fd, &hello);
    check_refused(fd, SLUICE_E_LIMIT, "depth 4294967295", "8 slots allow 6");
    close_scene(&scene, refused + 2);
}

TEST(a_message_longer_than_any_is_refused)
{
    struct scene scene = open_scene();
    char *much = calloc(1, 100000);

    memcpy(much, &(struct sl_msg_header){ SL_MSG_HELLO, 100000 }, sizeof(struct sl_msg_header));
    int fd = dial("cam");
    CHECK_EQ(send(fd, much, 100000, MSG_NOSIGNAL), 100000);
    check_refused(fd, SLUICE_E_PROTOCOL, "more than", "bytes");
    free(much);
    close_scene(&scene, 1);
}

TEST(messages_in_the_wrong_order_end_the_connection)
{
    struct scene scene = open_scene();
    union sl_message ack = SL_MESSAGE(SL_MSG_ACK, ack), query = SL_MESSAGE(SL_MSG_QUERY, query);
    union sl_message bye = SL_MESSAGE(SL_MSG_BYE, bye), welcome = SL_MESSAGE(SL_MSG_WELCOME, welcome);
    union sl_message hello = good_hello(), message;
    const union sl_message *first[] = { &ack, &query, &bye, &welcome };
    uint64_t refused = 0;

    for (int i = 0; i < 4; i++) { /* before hello */
        int fd = dial("cam");
        say(fd, first[i]);
        check_closed(fd);
        refused++;
    }
    const union sl_message *second[] = { &hello, &query, &welcome, &ack };
    ack.ack.memory = 9; /* of which there was no word */
    for (int i = 0; i < 4; i++) { /* after it */
        int fd = dial("cam");
        say(fd, &hello);
        CHECK_EQ(receive(fd, &message, NULL, NULL), sizeof message.welcome);
        CHECK_EQ(receive(fd, &message, NULL, NULL), sizeof message.memory);
        say(fd, second[i]);
        check_closed(fd);
        refused++;
    }
    /* The same twice. */
    int fd = dial("cam");
    say(fd, &hello);
    CHECK_EQ(receive(fd, &message, NULL, NULL), sizeof message.welcome);
    CHECK_EQ(receive(fd, &message, NULL, NULL), sizeof message.memory);
    ack.ack.memory = message.memory.memory;
    say(fd, &ack);
    say(fd, &ack);
    check_closed(fd);
    /* An observer has no memory to acknowledge. */
    hello.hello.role = SL_ROLE_OBSERVER;
    fd = dial("cam");
    say(fd, &hello);
    say(fd, &query);
    CHECK_EQ(receive(fd, &message, NULL, NULL), sizeof message.channel);
    CHECK_EQ(receive(fd, &message, NULL, NULL), sizeof message.reader);
    say(fd, &ack);
    check_closed(fd);
    close_scene(&scene, refused + 2);
}

TEST(silence_is_dropped_after_a_second)
{
    struct scene scene = open_scene();
    int fd = dial("cam");
    struct pollfd poll_fd = { .fd = fd, .events = POLLIN };
    int64_t began = test_now();

    kit_commits(scene.writer, 1);
    TELL(&scene.reader, "take 1000", "took 2 ");
    CHECK_EQ(poll(&poll_fd, 1, (int)(DROP_SECONDS * 1000 * test_slowness())), 1);
    CHECK_GE(test_now() - began, 900 * SLUICE_MS);
    check_closed(fd);
    close_scene(&scene, 1);
}

TEST(two_hundred_silent_connections_keep_no_reader_out)
{
    struct scene scene = open_scene();
    struct sluice_channel_info info = { .size = sizeof info };
    int fds[200];

    for (int i = 0; i < 200; i++) {
        fds[i] = dial("cam");
        if (i % 40 == 39) { /* while they come */
            sluice_reader *reader = kit_reader("cam", SLUICE_NEWEST);
            struct sluice_frame frame = kit_take(reader);
            kit_give(reader, &frame);
            CHECK_OK(sluice_channel_info("cam", SLUICE_DEFAULT, &info, NULL, 0));
            CHECK_OK(sluice_reader_close(&reader));
        }
    }
    struct child reader = kit_start("reader", NULL);
    child_expect(&reader, "open", 2);
    kit_commits(scene.writer, 1);
    TELL(&reader, "take 1000", "took 2 ");
    TELL(&scene.reader, "take 1000", "took 2 ");
    for (int i = 0; i < 200; i++)
        check_closed(fds[i]);
    role_stop(&reader);
    close_scene(&scene, 200);
}

TEST(descriptors_that_come_with_a_hello_are_not_kept)
{
    struct scene scene = open_scene();
    union sl_message hello = good_hello(), message;
    int junk[8];

    for (int i = 0; i < 8; i++)
        junk[i] = open("/dev/null", O_RDWR | O_CLOEXEC);
    scene.fds += 8;
    for (int count = 1; count <= 8; count++) {
        int fd = dial("cam");
        send_fds(fd, &hello, hello.header.size, junk, count);
        CHECK(receive(fd, &message, NULL, NULL) > 0);
        /* Nobody sends more than four. */
        CHECK_EQ(message.header.type, count <= 4 ? SL_MSG_WELCOME : SL_MSG_REFUSE);
        close(fd);
    }
    CHECK_SOON(kit_writer_stats(scene.writer).readers == 1, 3);
    CHECK_SOON(kit_descriptors(getpid()) == scene.fds, 2);
    for (int i = 0; i < 8; i++)
        close(junk[i]);
    scene.fds -= 8;
    close_scene(&scene, 4);
}

TEST(what_a_reader_is_given_it_cannot_misuse)
{
    struct scene scene = open_scene();
    union sl_message hello = good_hello(), message;
    int fds[16], count, memory;

    int fd = dial("cam");
    say(fd, &hello);
    CHECK_EQ(receive(fd, &message, fds, &count), sizeof message.welcome);
    CHECK_GE(count, 3);
    CHECK_LE(count, 4);
    struct sl_msg_welcome welcome = message.welcome;
    int more;
    CHECK_EQ(receive(fd, &message, &memory, &more), sizeof message.memory);
    CHECK_EQ(more, 1);
    /* Control page and slots: to look at only, and of one size for good. */
    const int read_only[2] = { fds[0], memory };
    for (int i = 0; i < 2; i++) {
        CHECK_EQ((intptr_t)mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, read_only[i], 0), -1);
        CHECK(ftruncate(read_only[i], 0) != 0);
        CHECK(write(read_only[i], "x", 1) < 0);
        CHECK_EQ(fcntl(read_only[i], F_ADD_SEALS, F_SEAL_WRITE), -1);
    }
    /* Its own page it may write, not shrink. */
    struct sl_reader_page *page = mmap(NULL, welcome.page_size, PROT_READ | PROT_WRITE, MAP_SHARED, fds[1], 0);
    CHECK(page != MAP_FAILED);
    CHECK(ftruncate(fds[1], 0) != 0);
    CHECK(fcntl(fds[1], F_ADD_SEALS, F_SEAL_FUTURE_WRITE) != 0);

    /* Whatever it writes there, the writer lives and others read; at worst the channel has fewer slots. */
    memset((char *)page + 0x40, 0xff, sizeof *page - 0x40);
    kit_commits(scene.writer, 5);
    struct sluice_channel_info info = { .size = sizeof info };
    struct sluice_reader_info readers[2];
    CHECK_OK(sluice_channel_info("cam", SLUICE_DEFAULT, &info, readers, 2));
    for (uint32_t s = 0; s < SL_MAX_IDS; s++) /* leases on everything, as far as it can guess */
        sl_store(&page->lease[s], 2 + s % 5, seq_cst);
    kit_commits(scene.writer, 5);
    munmap(page, welcome.page_size);
    for (int i = 0; i < count; i++)
        close(fds[i]);
    close(memory);
    close(fd);
    kit_commits(scene.writer, 20);
    close_scene(&scene, 0);
}

/* A reader that fills the wake socket and never reads anything. */
TEST(a_reader_that_never_reads_stops_nobody)
{
    struct scene scene = open_scene();
    union sl_message hello = good_hello(), message;
    int fds[16], count;

    int fd = dial("cam");
    say(fd, &hello);
    CHECK_EQ(receive(fd, &message, fds, &count), sizeof message.welcome);
    struct sl_reader_page *page = mmap(NULL, message.welcome.page_size, PROT_READ | PROT_WRITE, MAP_SHARED, fds[1], 0);
    CHECK(page != MAP_FAILED);
    for (int i = 0; i < 2000; i++) { /* asks to be woken for every frame and never looks */
        sl_store(&page->want_fd, 1, seq_cst);
        sl_store(&page->want, 1, seq_cst);
        (void)!send(fds[2], "", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
        kit_commits(scene.writer, 1);
    }
    for (int i = 0; i < 30; i++) {
        struct sluice_format format = kit_format(4096 * (1 + i % 2));
        CHECK_OK(sluice_writer_reformat(scene.writer, &format));
        kit_commits(scene.writer, 1);
    }
    munmap(page, sizeof *page);
    for (int i = 0; i < count; i++)
        close(fds[i]);
    close(fd);
    CHECK_SOON(kit_writer_stats(scene.writer).readers == 1, 3);
    kit_commits(scene.writer, 1); /* gives the memory of old formats back */
    kit_commits(scene.writer, 1);
    close_scene(&scene, 0);
}

/* ---- to our reader: a writer written by hand ---- */

struct fake {
    int listener;
    pthread_t thread;
    atomic_int stop, connections;
    void (*spoil)(struct fake *fake, union sl_message *message, int *fds, int *count);
    int how; /* for spoil */

    struct sl_control *control;
    uint64_t control_size;
    struct sl_reader_page *page;
    char *memory;
    uint64_t memory_size;
    struct sluice_format format;
};

static int make_memory(uint64_t size, void **address, int seals)
{
    int fd = memfd_create("fake", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    CHECK(fd >= 0 && ftruncate(fd, (off_t)size) == 0);
    void *mapped = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(mapped != MAP_FAILED);
    CHECK_EQ(fcntl(fd, F_ADD_SEALS, seals), 0);
    if (address)
        *address = mapped;
    else
        munmap(mapped, size);
    return fd;
}

#define SIZE_SEALS (F_SEAL_SHRINK | F_SEAL_GROW)
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif
#define ALL_SEALS (SIZE_SEALS | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL)

static void fill_control(struct fake *fake)
{
    struct sl_control *control = fake->control;
    control->magic = SL_NATIVE_MAGIC;
    control->version = 1;
    control->header_size = sizeof *control;
    control->size = fake->control_size;
    control->session = 42;
    control->ids = 8;
    control->record_stride = SL_NATIVE_STRIDE;
    control->meta_offset = SL_NATIVE_META_OFFSET;
    control->meta_capacity = SLUICE_MAX_META;
    control->memory_kind = SL_MEM_HOST;
    sl_store(&control->oldest_memory, 1, relaxed);
}

static void unmap_all(struct fake *fake)
{
    if (fake->control)
        munmap(fake->control, fake->control_size);
    if (fake->page)
        munmap(fake->page, 2 * PAGE);
    if (fake->memory)
        munmap(fake->memory, fake->memory_size);
    fake->control = NULL;
    fake->page = NULL;
    fake->memory = NULL;
}

static void spoil(struct fake *fake, union sl_message *message, int *fds, int *count)
{
    if (fake->spoil)
        fake->spoil(fake, message, fds, count);
}

static void send_and_close(int connection, const union sl_message *message, const int *fds, int count)
{
    if (message->header.size)
        send_fds(connection, message, message->header.size > sizeof *message ? sizeof *message : message->header.size, fds,
                 count);
    for (int i = 0; i < count; i++)
        close(fds[i]);
}

static void welcome_reader(struct fake *fake, int connection)
{
    union sl_message message = SL_MESSAGE(SL_MSG_WELCOME, welcome);
    void *address;
    int fds[16], pair[2], count = 3;

    unmap_all(fake);
    fake->control_size = sl_native_control_size(8, PAGE);
    fds[0] = make_memory(fake->control_size, &address, ALL_SEALS);
    fake->control = address;
    fill_control(fake);
    fds[1] = make_memory(2 * PAGE, &address, SIZE_SEALS);
    fake->page = address;
    fake->page->magic = SL_NATIVE_MAGIC;
    fake->page->session = 42;
    sl_store(&fake->page->cursor, 1, relaxed);
    CHECK_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
    fds[2] = pair[0];
    message.welcome.magic = SL_NATIVE_MAGIC;
    message.welcome.version = 1;
    message.welcome.depth = 4;
    message.welcome.session = 42;
    message.welcome.control_size = fake->control_size;
    message.welcome.page_size = 2 * PAGE;
    message.welcome.max_slots = 8;
    message.welcome.clock_ns = test_now();
    spoil(fake, &message, fds, &count);
    send_and_close(connection, &message, fds, count);
    close(pair[1]);

    message = (union sl_message)SL_MESSAGE(SL_MSG_MEMORY, memory);
    fake->memory_size = fake->format.slot_bytes * 8;
    fds[0] = make_memory(fake->memory_size, &address, ALL_SEALS);
    fake->memory = address;
    count = 1;
    message.memory.memory = message.memory.generation = 1;
    message.memory.bytes = fake->memory_size;
    message.memory.kind = SL_MEM_HOST;
    sl_format_to_wire(&message.memory.format, &fake->format);
    spoil(fake, &message, fds, &count);
    send_and_close(connection, &message, fds, count);
}

static void *fake_writer(void *context)
{
    struct fake *fake = context;
    int last = -1;

    while (!atomic_load(&fake->stop)) {
        struct pollfd poll_fd = { .fd = fake->listener, .events = POLLIN };
        if (poll(&poll_fd, 1, 5) <= 0)
            continue;
        int connection = accept4(fake->listener, NULL, NULL, SOCK_CLOEXEC);
        union sl_message message;
        if (connection < 0)
            continue;
        if (last >= 0)
            close(last);
        last = connection;
        if (receive(connection, &message, NULL, NULL) == sizeof message.hello)
            welcome_reader(fake, connection);
        atomic_fetch_add(&fake->connections, 1);
    }
    if (last >= 0)
        close(last);
    return NULL;
}

static void start_fake(struct fake *fake)
{
    struct sockaddr_un address = address_of("cam");

    fake->format = kit_format(8 * KIB);
    fake->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    unlink(address.sun_path);
    CHECK_EQ(bind(fake->listener, (struct sockaddr *)&address, sizeof address), 0);
    CHECK_EQ(listen(fake->listener, 16), 0);
    CHECK_EQ(pthread_create(&fake->thread, NULL, fake_writer, fake), 0);
}

static void stop_fake(struct fake *fake)
{
    atomic_store(&fake->stop, 1);
    pthread_join(fake->thread, NULL);
    close(fake->listener);
    unmap_all(fake);
}

static void check_open(struct fake *fake, int result, const char *word)
{
    struct sluice_reader_params params = kit_reader_params("cam");
    sluice_reader *reader = NULL;

    start_fake(fake);
    CHECK_SAYS(sluice_reader_open(&reader, &params), result, word);
    CHECK(reader == NULL);
    stop_fake(fake);
}

static void spoil_welcome(struct fake *fake, union sl_message *message, int *fds, int *count)
{
    struct sl_msg_welcome *w = &message->welcome;

    if (message->header.type != SL_MSG_WELCOME)
        return;
    switch (fake->how) {
    case 0: w->magic++; break;
    case 1: w->version = 9; break;
    case 2: w->session = 0; break;
    case 3: w->max_slots = 65; break;
    case 4: w->depth = 65; break;
    case 5: w->control_size = 17; break;
    case 6: w->page_size = 0; break;
    case 7: w->control_size = UINT64_MAX; break;
    case 8: w->header.size = 12; break;
    case 9: w->header.type = 99; break;
    case 10: /* no descriptors */
        while (*count)
            close(fds[--*count]);
        break;
    case 11: close(fds[--*count]); break; /* one too few */
    case 12:                              /* more than anybody sends */
        for (; *count < 9; ++*count)
            fds[*count] = open("/dev/null", O_RDWR | O_CLOEXEC);
        break;
    case 13: dup3(fds[2], fds[0], O_CLOEXEC); break; /* a socket for memory */
    case 14: /* a page that could be shrunk under us */
        close(fds[0]);
        fds[0] = make_memory(fake->control_size, NULL, 0);
        break;
    case 15: /* one that others could write */
        close(fds[0]);
        fds[0] = make_memory(fake->control_size, NULL, SIZE_SEALS);
        break;
    case 16: /* one of another size */
        close(fds[0]);
        fds[0] = make_memory(fake->control_size + PAGE, NULL, ALL_SEALS);
        break;
    case 17: /* our own page could be shrunk */
        close(fds[1]);
        fds[1] = make_memory(2 * PAGE, NULL, 0);
        break;
    case 18: w->session++; break;
    case 19: fake->control->magic++; break;
    case 20: fake->control->version = 2; break;
    case 21: fake->control->session = 43; break;
    case 22: fake->control->ids = 0; break;
    case 23: fake->control->ids = 129; break;
    case 24: fake->control->ids = 9; break; /* more than it has room for */
    case 25: fake->control->record_stride = 64; break;
    case 26: fake->control->meta_offset = 1 << 30; break;
    case 27: fake->control->header_size = 0; break;
    case 28: fake->control->memory_kind = 77; break;
    case 29: fake->page->magic = 0; break;
    case 30: fake->page->session = 1; break;
    }
}

TEST(a_welcome_that_is_none_is_refused)
{
    static const struct { int result; const char *word; } expected[] = {
        { SLUICE_E_PROTOCOL, "does not speak Sluice" },
        { SLUICE_E_PROTOCOL, "version 9, which was not offered" },
        { SLUICE_E_PROTOCOL, "session 0" },
        { SLUICE_E_PROTOCOL, "65 slots" },
        { SLUICE_E_PROTOCOL, "depth 65" },
        { SLUICE_E_PROTOCOL, "pages of 17" },
        { SLUICE_E_PROTOCOL, "and 0 bytes" },
        { SLUICE_E_PROTOCOL, "pages of 18446744073709551615" },
        { SLUICE_E_PROTOCOL, "has 12 bytes" },
        { SLUICE_E_PROTOCOL, "unknown type 99" },
        { SLUICE_E_PROTOCOL, "a welcome with 0 descriptors" },
        { SLUICE_E_PROTOCOL, "a welcome with 2 descriptors" },
        { SLUICE_E_PROTOCOL, "9 descriptors in one message" },
        { SLUICE_E_PROTOCOL, "a socket where memory was announced" },
        { SLUICE_E_PROTOCOL, "whose size it could still change" },
        { SLUICE_E_PROTOCOL, "that others may write" },
        { SLUICE_E_PROTOCOL, "were announced" },
        { SLUICE_E_PROTOCOL, "whose size it could still change" },
        { SLUICE_E_PROTOCOL, "not of this session" },
        { SLUICE_E_PROTOCOL, "not of this session" },
        { SLUICE_E_VERSION, "wire version 2; this release reads 1 to 1" },
        { SLUICE_E_PROTOCOL, "not of this session" },
        { SLUICE_E_PROTOCOL, "layout is not version 1's" },
        { SLUICE_E_PROTOCOL, "layout is not version 1's" },
        { SLUICE_E_PROTOCOL, "too small for its 9 slots" },
        { SLUICE_E_PROTOCOL, "layout is not version 1's" },
        { SLUICE_E_PROTOCOL, "layout is not version 1's" },
        { SLUICE_E_PROTOCOL, "layout is not version 1's" },
        { SLUICE_E_UNSUPPORTED, "memory of kind 77" },
        { SLUICE_E_PROTOCOL, "page is not of this session" },
        { SLUICE_E_PROTOCOL, "page is not of this session" },
    };

    test_dir();
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        struct fake fake = { .spoil = spoil_welcome, .how = (int)i };
        check_open(&fake, expected[i].result, expected[i].word);
    }
}

static void spoil_memory(struct fake *fake, union sl_message *message, int *fds, int *count)
{
    struct sl_msg_memory *m = &message->memory;

    if (message->header.type != SL_MSG_MEMORY)
        return;
    switch (fake->how) {
    case 0: m->memory = 0; break;
    case 1: m->generation = 0; break;
    case 2: m->kind = 2; break;
    case 3: close(fds[--*count]); break;
    case 4: fds[(*count)++] = open("/dev/null", O_RDWR | O_CLOEXEC); break;
    case 5:
        close(fds[0]);
        fds[0] = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
        break;
    case 6:
        close(fds[0]);
        fds[0] = make_memory(fake->memory_size, NULL, F_SEAL_GROW);
        break;
    case 7: m->bytes += PAGE; break;
    case 8: m->format.array_count = 0; break;
    case 9: m->format.array_count = 17; break;
    case 10: m->format.slot_bytes++; break;
    case 11: m->format.arrays[0].dtype.bits = 5; break;
    case 12: m->format.arrays[0].geometry.ndim = 9; break;
    case 13: m->format.arrays[0].geometry.shape[0] = -1; break;
    case 14: m->format.arrays[0].geometry.shape[0] = INT64_MAX; break;
    case 15: m->format.arrays[0].geometry.strides[0] = INT64_MIN; break;
    case 16: m->format.arrays[0].pixel_format = 999; break;
    case 17: memset(m->format.arrays[0].name, 'x', SLUICE_ARRAY_NAME); break; /* no end: cut, then fine */
    case 18: m->header.size -= 4; break;
    case 19: m->header = (struct sl_msg_header){ SL_MSG_WELCOME, sizeof(struct sl_msg_welcome) }; break;
    case 20: m->header = (struct sl_msg_header){ SL_MSG_CHANNEL, sizeof(struct sl_msg_channel) }; break;
    case 21: m->format.arrays[0].geometry.offset = UINT64_MAX - 7; break;
    case 22: m->format.pitch_align = 3; break;
    }
}

TEST(a_memory_that_is_none_is_refused)
{
    static const char *const words[] = {
        "memory 0 of generation 1", "memory 1 of generation 0", "kind 2", "0 descriptors", "2 descriptors",
        "a file where memory was announced", "whose size it could still change", "were announced", "0 arrays", "17 arrays",
        "bytes a slot that says", "data", "data", "data", "data", "data", "data", NULL, "says", "second welcome",
        "message of type 8", "data", "pitch_align",
    };

    test_dir();
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        struct fake fake = { .spoil = spoil_memory, .how = (int)i };
        if (words[i]) {
            check_open(&fake, SLUICE_E_PROTOCOL, words[i]);
            continue;
        }
        struct sluice_reader_params params = kit_reader_params("cam");
        struct sluice_format format = { .size = sizeof format };
        sluice_reader *reader;
        start_fake(&fake);
        CHECK_OK(sluice_reader_open(&reader, &params));
        CHECK_OK(sluice_reader_format(reader, &format));
        CHECK_EQ(strlen(format.arrays[0].name), SLUICE_ARRAY_NAME - 1);
        CHECK_OK(sluice_reader_close(&reader));
        stop_fake(&fake);
    }
}

static void be_silent(struct fake *fake, union sl_message *message, int *fds, int *count)
{
    (void)fake;
    while (*count)
        close(fds[--*count]);
    message->header.size = 0;
}

TEST(a_writer_that_says_nothing_is_not_waited_for)
{
    struct fake fake = { .spoil = be_silent };
    int64_t began = test_now();

    test_dir();
    check_open(&fake, SLUICE_TIMEOUT, "does not answer");
    CHECK_GE(test_now() - began, 900 * SLUICE_MS);
    CHECK_LE(test_now() - began, 4 * SLUICE_S);
}

static void refuse_oddly(struct fake *fake, union sl_message *message, int *fds, int *count)
{
    be_silent(fake, message, fds, count);
    if (message->header.type != SL_MSG_WELCOME)
        return;
    *message = (union sl_message)SL_MESSAGE(SL_MSG_REFUSE, refuse);
    message->refuse.result = fake->how;
    memset(message->refuse.text, 'r', sizeof message->refuse.text);
}

TEST(a_refusal_is_passed_on)
{
    test_dir();
    struct fake fake = { .spoil = refuse_oddly, .how = SLUICE_E_VERSION };
    check_open(&fake, SLUICE_E_VERSION, "rrrr");
    fake = (struct fake){ .spoil = refuse_oddly, .how = 5 }; /* no failure is none */
    check_open(&fake, SLUICE_E_PROTOCOL, "rrrr");
}

/* ---- frames by hand ---- */

static struct sl_record *record_of(struct fake *fake, uint32_t slot)
{
    return (struct sl_record *)((char *)fake->control + sizeof *fake->control + slot * SL_NATIVE_STRIDE);
}

/* A right frame in a slot, not published yet. */
static struct sl_record *make_record(struct fake *fake, uint32_t slot, uint64_t sequence)
{
    struct sl_record *record = record_of(fake, slot);

    memset(record, 0, sizeof *record);
    record->sequence = sequence;
    record->generation = record->memory = 1;
    record->offset = slot * fake->format.slot_bytes;
    record->commit_ns = record->capture_ns = test_now();
    record->array_count = 1;
    sl_geometry_from_array(&record->arrays[0], &fake->format.arrays[0]);
    return record;
}

static void publish(struct fake *fake, uint32_t slot, uint64_t sequence)
{
    sl_store(&fake->control->ready[slot], sequence, release);
    sl_store(&fake->control->slot_seq[slot], sequence, release);
    sl_store(&fake->control->head, sl_head_pack(sequence, slot), seq_cst);
}

static sluice_reader *open_on_fake(struct fake *fake, uint32_t mode)
{
    test_dir();
    start_fake(fake);
    sluice_reader *reader = kit_reader("cam", mode);
    CHECK_SOON(atomic_load(&fake->connections) == 1, 2);
    return reader;
}

TEST(a_damaged_header_of_a_frame_is_refused)
{
    for (uint32_t mode = SLUICE_NEWEST; mode <= SLUICE_IN_ORDER; mode++) {
        struct fake fake = { 0 };
        sluice_reader *reader = open_on_fake(&fake, mode);
        struct sluice_frame frame;
        uint64_t sequence = 1;

        for (int i = 0; i < 8; i++) {
            struct sl_record *record = make_record(&fake, 2, sequence);
            switch (i) {
            case 0: record->sequence++; break;
            case 1: record->generation = 9; break;
            case 2: record->array_count = 2; break;
            case 3: record->array_count = UINT32_MAX; break;
            case 4: record->meta_size = SLUICE_MAX_META + 1; break;
            case 5: record->offset = fake.memory_size - 8; break;
            case 6: record->offset = UINT64_MAX - 4; break;
            case 7: record->memory = 77; break; /* which never comes */
            }
            publish(&fake, 2, sequence);
            int r = sluice_reader_acquire(reader, SLUICE_ON_CPU, 20 * SLUICE_MS, &frame);
            if (i < 7)
                CHECK_SAYS(r, SLUICE_E_PROTOCOL, "is damaged");
            else
                CHECK_SAYS(r, SLUICE_AGAIN, "has not come yet");
            CHECK_EQ(sl_load(&fake.page->lease[2], acquire), 0); /* nothing is held */
            CHECK_EQ(kit_reader_stats(reader).held, 0);
            if (mode == SLUICE_NEWEST)
                sequence++;
        }
        make_record(&fake, 2, sequence);
        publish(&fake, 2, sequence);
        CHECK_OK(sluice_reader_acquire(reader, SLUICE_ON_CPU, SLUICE_S, &frame));
        CHECK_OK(sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
        CHECK_OK(sluice_reader_close(&reader));
        stop_fake(&fake);
    }
}

TEST(damaged_shapes_are_refused_when_they_are_asked_for)
{
    struct fake fake = { 0 };
    sluice_reader *reader = open_on_fake(&fake, SLUICE_NEWEST);
    struct sluice_array array = { .data = NULL };
    struct sluice_frame frame;

    make_record(&fake, 1, 1);
    publish(&fake, 1, 1);
    CHECK_OK(sluice_reader_acquire(reader, SLUICE_ON_CPU, SLUICE_S, &frame));
    for (int i = 0; i < 8; i++) { /* it changes under our hands, too */
        struct sl_record *record = make_record(&fake, 1, 1);
        struct sl_geometry *g = &record->arrays[0];
        switch (i) {
        case 0: g->offset = fake.memory_size; break;
        case 1: g->nbytes = UINT64_MAX; break;
        case 2: g->ndim = 9; break;
        case 3: g->ndim = -1; break;
        case 4: g->shape[0] = 1 << 20; break;
        case 5: g->shape[0] = -5; break;
        case 6: g->strides[0] = 1 << 20; break;
        case 7: g->shape[0] = INT64_MAX; g->strides[0] = INT64_MAX; break;
        }
        CHECK_RESULT(sluice_frame_array(&frame, NULL, &array), SLUICE_E_PROTOCOL);
        CHECK_RESULT(sluice_frame_array_at(&frame, 0, &array), SLUICE_E_PROTOCOL);
        CHECK(array.data == NULL);
    }
    /* What is no image has no planes, whatever the record says. */
    struct sl_record *record = make_record(&fake, 1, 1);
    record->arrays[0].plane_count = 77;
    record->arrays[0].width = 70000;
    CHECK_OK(sluice_frame_array(&frame, "data", &array));
    CHECK_EQ(array.image.plane_count, 0);
    CHECK_EQ(array.image.width, 0);
    CHECK_OK(sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
    CHECK_OK(sluice_reader_close(&reader));
    stop_fake(&fake);
}

TEST(a_head_that_lies_leads_nowhere)
{
    for (uint32_t mode = SLUICE_NEWEST; mode <= SLUICE_IN_ORDER; mode++) {
        struct fake fake = { 0 };
        sluice_reader *reader = open_on_fake(&fake, mode);
        struct sluice_frame frame;
        static const uint64_t heads[] = { 0x108, 0x1ff, 0x180, UINT64_MAX, 0xff, 0 };

        for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
            sl_store(&fake.control->head, heads[i], seq_cst);
            int64_t began = test_now();
            CHECK_RESULT(sluice_reader_acquire(reader, SLUICE_ON_CPU, 20 * SLUICE_MS, &frame), SLUICE_TIMEOUT);
            CHECK_LE(test_now() - began, 2 * SLUICE_S);
        }
        /* A frame in no slot, or in another than it says: tried again and again, within the time. */
        sl_store(&fake.control->head, sl_head_pack(5, 3), seq_cst);
        sl_store(&fake.control->ready[3], 5, seq_cst);
        int64_t began = test_now();
        CHECK_RESULT(sluice_reader_acquire(reader, SLUICE_ON_CPU, 50 * SLUICE_MS, &frame), SLUICE_AGAIN);
        CHECK_LE(test_now() - began, 2 * SLUICE_S);
        CHECK_RESULT(sluice_reader_acquire(reader, SLUICE_ON_CPU, 0, &frame), SLUICE_AGAIN);
        for (uint32_t s = 0; s < SL_MAX_IDS; s++)
            CHECK_EQ(sl_load(&fake.page->lease[s], acquire), 0);
        /* One that is not ready: waited for, within the time. */
        make_record(&fake, 3, 5);
        publish(&fake, 3, 5);
        sl_store(&fake.control->ready[3], 4, seq_cst);
        CHECK_RESULT(sluice_reader_acquire(reader, SLUICE_ON_CPU, 20 * SLUICE_MS, &frame), SLUICE_TIMEOUT);
        sl_store(&fake.control->ready[3], UINT64_C(1) << 62, seq_cst); /* poisoned */
        CHECK_RESULT(sluice_reader_acquire(reader, SLUICE_ON_CPU, 20 * SLUICE_MS, &frame), SLUICE_TIMEOUT);
        sl_store(&fake.control->ready[3], 5, seq_cst);
        CHECK_OK(sluice_reader_acquire(reader, SLUICE_ON_CPU, SLUICE_S, &frame));
        CHECK_EQ(frame.sequence, 5);
        CHECK_OK(sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
        CHECK_OK(sluice_reader_close(&reader));
        stop_fake(&fake);
    }
}

TEST(memories_that_are_taken_back_under_a_frame_stay)
{
    struct fake fake = { 0 };
    sluice_reader *reader = open_on_fake(&fake, SLUICE_NEWEST);
    struct sluice_array array;
    struct sluice_frame frame;

    make_record(&fake, 1, 1);
    memset(fake.memory, 0, fake.memory_size);
    publish(&fake, 1, 1);
    CHECK_OK(sluice_reader_acquire(reader, SLUICE_ON_CPU, SLUICE_S, &frame));
    sl_store(&fake.control->oldest_memory, 1000, seq_cst); /* a lie: a frame of it is held */
    struct sluice_frame other;
    CHECK_RESULT(sluice_reader_acquire(reader, SLUICE_ON_CPU, 0, &other), SLUICE_E_LIMIT);
    CHECK_OK(sluice_frame_array(&frame, NULL, &array));
    CHECK_EQ(((const char *)array.data)[100], 0);
    CHECK_OK(sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
    make_record(&fake, 1, 2);
    publish(&fake, 1, 2); /* in a memory that is gone now */
    CHECK_RESULT(sluice_reader_acquire(reader, SLUICE_ON_CPU, 20 * SLUICE_MS, &frame), SLUICE_AGAIN);
    CHECK_OK(sluice_reader_close(&reader));
    stop_fake(&fake);
}
