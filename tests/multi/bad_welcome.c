/* SPDX-License-Identifier: MIT
 *
 * Writers that send nonsense: what our readers report of a malformed welcome or memory.
 */
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "multi/raw.h"
#include "os/os.h"
#include "util/hooks.h"

static void check_open(struct fake *fake, int result, const char *word)
{
    struct sluice_reader_params params = kit_reader_params("cam");
    sluice_reader *reader = NULL;

    if (result != SLUICE_TIMEOUT) /* and this process may be suspended for longer than the reader waits for an answer */
        params.open_timeout_ns = 20 * SLUICE_S;
    fake_start(fake);
    CHECK_SAYS(sluice_reader_open(&reader, &params), result, word);
    CHECK(reader == NULL);
    fake_stop(fake);
}

static void corrupt_welcome(struct fake *fake, union sl_message *message, int *fds, int *count)
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
    case 12:                              /* more than anyone sends */
        for (; *count < 9; ++*count)
            fds[*count] = open("/dev/null", O_RDWR | O_CLOEXEC);
        break;
    case 13: dup3(fds[2], fds[0], O_CLOEXEC); break; /* a socket for memory */
    case 14:                                         /* our copy of a page that others could shrink */
        close(fds[0]);
        fds[0] = fake_memory(fake->control_size, NULL, 0);
        break;
    case 15: /* one that others could write */
        close(fds[0]);
        fds[0] = fake_memory(fake->control_size, NULL, SIZE_SEALS);
        break;
    case 16: /* one of another size */
        close(fds[0]);
        fds[0] = fake_memory(fake->control_size + RAW_PAGE, NULL, ALL_SEALS);
        break;
    case 17: /* our own page, which others could shrink */
        close(fds[1]);
        fds[1] = fake_memory(2 * RAW_PAGE, NULL, 0);
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
    static const struct {
        int result;
        const char *word;
    } expected[] = {
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
        struct fake fake = { .corrupt = corrupt_welcome, .how = (int)i };
        check_open(&fake, expected[i].result, expected[i].word);
    }
}

static void corrupt_memory(struct fake *fake, union sl_message *message, int *fds, int *count)
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
        fds[0] = fake_memory(fake->memory_size, NULL, F_SEAL_GROW);
        break;
    case 7: m->bytes += RAW_PAGE; break;
    case 8: m->format.array_count = 0; break;
    case 9: m->format.array_count = 17; break;
    case 10: m->format.slot_bytes++; break;
    case 11: m->format.arrays[0].dtype.bits = 5; break;
    case 12: m->format.arrays[0].geometry.ndim = 9; break;
    case 13: m->format.arrays[0].geometry.shape[0] = -1; break;
    case 14: m->format.arrays[0].geometry.shape[0] = INT64_MAX; break;
    case 15: m->format.arrays[0].geometry.strides[0] = INT64_MIN; break;
    case 16: m->format.arrays[0].pixel_format = 999; break;
    case 17: memset(m->format.arrays[0].name, 'x', SLUICE_ARRAY_NAME); break; /* no terminator: cut, then valid */
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
        "memory 0 of generation 1",
        "memory 1 of generation 0",
        "kind 2",
        "0 descriptors",
        "2 descriptors",
        "a file where memory was announced",
        "whose size it could still change",
        "were announced",
        "0 arrays",
        "17 arrays",
        "bytes a slot that says",
        "data",
        "data",
        "data",
        "data",
        "data",
        "data",
        NULL,
        "says",
        "second welcome",
        "message of type 8",
        "data",
        "pitch_align",
    };

    test_dir();
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        struct fake fake = { .corrupt = corrupt_memory, .how = (int)i };
        if (words[i]) {
            check_open(&fake, SLUICE_E_PROTOCOL, words[i]);
            continue;
        }
        struct sluice_reader_params params = kit_reader_params("cam");
        struct sluice_format format = { .size = sizeof format };
        sluice_reader *reader;
        params.open_timeout_ns = 20 * SLUICE_S;
        fake_start(&fake);
        CHECK_OK(sluice_reader_open(&reader, &params));
        CHECK_OK(sluice_reader_format(reader, &format));
        CHECK_EQ(strlen(format.arrays[0].name), SLUICE_ARRAY_NAME - 1);
        CHECK_OK(sluice_reader_close(&reader));
        fake_stop(&fake);
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
    struct fake fake = { .corrupt = be_silent };
    int64_t began = test_now();

    test_dir();
    check_open(&fake, SLUICE_TIMEOUT, "does not answer");
    CHECK_GE(test_now() - began, 900 * SLUICE_MS);
    CHECK_LE(test_now() - began, 10 * SLUICE_S);
}

/* The writer may have admitted it meanwhile, and would count a reader that died. */
TEST(a_reader_that_gives_up_takes_its_leave)
{
    struct sluice_reader_params params = kit_reader_params("cam");
    struct fake fake = { .how = 0 };
    sluice_reader *reader = NULL;
    union sl_message message;

    test_dir();
    fake_listen(&fake);
    params.open_timeout_ns = 0;
    CHECK_SAYS(sluice_reader_open(&reader, &params), SLUICE_TIMEOUT, "does not answer");
    int connection = fake_accept(&fake, 20000);
    CHECK_GE(recv(connection, &message, sizeof message, MSG_DONTWAIT), (ssize_t)sizeof message.header);
    CHECK_EQ(message.header.type, SL_MSG_HELLO);
    CHECK_GE(recv(connection, &message, sizeof message, MSG_DONTWAIT), (ssize_t)sizeof message.header);
    CHECK_EQ(message.header.type, SL_MSG_BYE);
    CHECK_EQ(message.bye.reason, SL_BYE_LEFT);
    close(connection);
    close(fake.listener);
}

/* ---- the service thread is suspended, and what it waits for arrives meanwhile ---- */

#define CROWD 64 /* as much as it handles in one round */

struct suspension {
    struct sl_watch watch, crowd[CROWD];
    atomic_bool began;
};

static void notice(struct sl_watch *watch, bool readable, bool hung_up)
{
    uint64_t one;

    (void)readable;
    (void)hung_up;
    CHECK_EQ(read(watch->fd, &one, sizeof one), sizeof one);
}

static void nap_in_service(struct sl_watch *watch, bool readable, bool hung_up)
{
    struct suspension *suspension = (struct suspension *)watch; /* its first member */

    notice(watch, readable, hung_up);
    atomic_store(&suspension->began, true);
    test_nap(1500 * SLUICE_MS);
}

/* Suspends it for longer than it waits for an answer, with a full round of work before what comes next. Returns when it
 * is suspended. */
static void suspend_service_thread(struct suspension *suspension)
{
    *suspension = (struct suspension){ .watch = { .fd = eventfd(1, EFD_CLOEXEC), .ready = nap_in_service } };
    sl_service_lock();
    for (int i = 0; i < CROWD; i++) {
        suspension->crowd[i] = (struct sl_watch){ .fd = eventfd(0, EFD_CLOEXEC), .ready = notice };
        CHECK_EQ(sl_service_add(&suspension->crowd[i]), 0);
    }
    CHECK_EQ(sl_service_add(&suspension->watch), 0);
    sl_service_unlock();
    CHECK_SOON(atomic_load(&suspension->began), 10);
    for (int i = 0; i < CROWD; i++)
        CHECK_EQ(write(suspension->crowd[i].fd, &(uint64_t){ 1 }, 8), 8);
}

static void go_on(struct suspension *suspension)
{
    sl_service_lock();
    sl_service_remove(&suspension->watch);
    for (int i = 0; i < CROWD; i++)
        sl_service_remove(&suspension->crowd[i]);
    sl_service_unlock();
    close(suspension->watch.fd);
    for (int i = 0; i < CROWD; i++)
        close(suspension->crowd[i].fd);
}

struct patient {
    sluice_reader *reader;
    int result;
};

static void *open_with_patience(void *context)
{
    struct patient *patient = context;
    struct sluice_reader_params params = kit_reader_params("cam");

    params.open_timeout_ns = 20 * SLUICE_S;
    patient->result = sluice_reader_open(&patient->reader, &params);
    return NULL;
}

/* On the one connection that gets an answer. */
TEST(a_welcome_that_waits_in_the_socket_is_in_time)
{
    struct fake fake = { .how = 0 };
    struct patient patient = { .reader = NULL };
    struct suspension suspension;
    pthread_t thread;

    test_dir();
    fake_listen(&fake);
    CHECK_EQ(pthread_create(&thread, NULL, open_with_patience, &patient), 0);
    int connection = fake_accept(&fake, 20000);
    CHECK(connection >= 0);
    suspend_service_thread(&suspension);
    fake_answer(&fake, connection);
    pthread_join(thread, NULL);
    CHECK_OK(patient.result);
    go_on(&suspension);
    CHECK_OK(sluice_reader_close(&patient.reader));
    close(connection);
    close(fake.listener);
}

TEST(a_hello_that_waits_in_the_socket_is_in_time)
{
    sluice_writer *writer = kit_writer("cam", 8192);
    union sl_message hello = raw_hello("late"), message;
    struct suspension suspension;
    bool in_time;

    do { /* a suspended machine may be too late with a hello, too */
        int64_t began = test_now();
        int fd = raw_dial("cam");
        test_nap(100 * SLUICE_MS); /* it is admitted, and has a second from then on */
        suspend_service_thread(&suspension);
        bool sent = raw_send(fd, &hello, hello.header.size, NULL, 0);
        in_time = test_now() - began < SLUICE_S;
        size_t size = raw_receive(fd, &message, NULL, NULL);
        if (in_time) {
            CHECK(sent);
            CHECK_EQ(size, sizeof message.welcome);
            CHECK_EQ(message.header.type, SL_MSG_WELCOME);
        }
        go_on(&suspension);
        close(fd);
    } while (!in_time);
    CHECK_OK(sluice_writer_close(&writer));
}

/* ---- clocks ---- */

static void suspend(const char *point)
{
    if (strcmp(point, "after_hello") == 0)
        test_nap(1500 * SLUICE_MS);
}

/* The writer's time in the message is old when it is read. */
TEST(a_reader_suspended_after_its_hello_has_the_writers_clock)
{
    test_dir();
    struct child writer = kit_start("writer", NULL);
    child_expect(&writer, "open", 5);
    sl_kill_point_hook = suspend;
    sluice_reader *reader = kit_reader("cam", SLUICE_NEWEST);
    CHECK_EQ(kit_reader_stats(reader).clock_offset_ns, 0);
    int64_t before = test_now();
    EXPECT_ANSWER(&writer, "commit 1", "committed 1");
    struct sluice_frame frame = kit_take(reader);
    CHECK_GE(frame.commit_ns, before);
    CHECK_LE(frame.commit_ns, test_now());
    kit_give(reader, &frame);
    CHECK_OK(sluice_reader_close(&reader));
    role_stop(&writer);
}

/* ---- opening while a writer starts ---- */

#define PATIENCE (400 * SLUICE_MS) /* it tries again after 20, 60, 140 and 300 ms */

struct opening {
    pthread_t thread;
    sluice_reader *reader;
    int result;
    int64_t began, ended;
    atomic_bool over;
};

static void *open_it(void *context)
{
    struct opening *opening = context;
    struct sluice_reader_params params = kit_reader_params("cam");

    params.open_timeout_ns = PATIENCE;
    opening->began = test_now();
    opening->result = sluice_reader_open(&opening->reader, &params);
    opening->ended = test_now();
    atomic_store(&opening->over, true);
    return NULL;
}

/* Begins to open without a writer; a writer listens a moment later. Returns the connection, which a later attempt made,
 * and when it was not there yet; -1 if all attempts were over by then: the machine is busy. */
static int meet(struct fake *fake, struct opening *opening, int64_t *before)
{
    int connection = -1;

    *opening = (struct opening){ .reader = NULL };
    CHECK_EQ(pthread_create(&opening->thread, NULL, open_it, opening), 0);
    test_nap(150 * SLUICE_MS);
    *before = test_now();
    fake_listen(fake);
    while (connection < 0 && !atomic_load(&opening->over))
        connection = fake_accept(fake, 5);
    return connection >= 0 ? connection : fake_accept(fake, 0);
}

static void end(struct fake *fake, struct opening *opening, int connection)
{
    struct sockaddr_un address = raw_address("cam");

    if (opening->reader)
        CHECK_OK(sluice_reader_close(&opening->reader));
    if (connection >= 0)
        close(connection);
    close(fake->listener);
    unlink(address.sun_path);
}

/* The writer may count its readers, and begin to send: a reader that it has admitted does not give up at its timeout.
 * */
TEST_TIMEOUT(a_writer_that_was_met_is_waited_for_though_the_time_is_up, 60)
{
    int connection = -1;

    test_dir();
    while (connection < 0) {
        struct fake fake = { .how = 0 };
        struct opening opening;
        int64_t before;
        connection = meet(&fake, &opening, &before);
        pthread_join(opening.thread, NULL);
        end(&fake, &opening, connection);
        CHECK_EQ(opening.result, connection < 0 ? SLUICE_E_NOT_FOUND : SLUICE_TIMEOUT);
        CHECK(connection < 0 || opening.ended - before >= SLUICE_S);
    }
}

TEST_TIMEOUT(a_writer_that_answers_when_the_time_is_up_has_a_reader, 60)
{
    bool open = false;

    test_dir();
    while (!open) {
        struct fake fake = { .how = 0 };
        struct opening opening;
        int64_t before;
        int connection = meet(&fake, &opening, &before);
        if (connection >= 0) {
            test_nap(before + PATIENCE + 50 * SLUICE_MS - test_now());
            fake_answer(&fake, connection);
        }
        pthread_join(opening.thread, NULL);
        open = opening.result == 0;
        /* If the open failed, it was in time; only a busy machine is that slow, not the answer. */
        CHECK(open || connection < 0 || opening.ended - before >= SLUICE_S);
        end(&fake, &opening, connection);
    }
}

struct asking {
    struct sluice_channel_info info;
    int result;
};

static void *ask_it(void *context)
{
    struct asking *asking = context;

    asking->result = sluice_channel_info("cam", 20 * SLUICE_S, &asking->info, NULL, 0);
    return NULL;
}

/* As a writer hangs up on slow peers. The next connection shows whether there is a writer. */
TEST(an_observer_asks_again_after_a_hang_up)
{
    struct asking asking = { .info = { .size = sizeof asking.info } };
    struct fake fake = { .how = 0 };
    char path[600];
    pthread_t thread;

    snprintf(path, sizeof path, "%s/cam", test_dir());
    fake_listen(&fake);
    CHECK_EQ(pthread_create(&thread, NULL, ask_it, &asking), 0);
    int connection = fake_accept(&fake, 20000);
    CHECK(connection >= 0);
    CHECK_EQ(unlink(path), 0);
    sluice_writer *writer = kit_writer("cam", 8192); /* its name from now on */
    close(connection);
    close(fake.listener);
    pthread_join(thread, NULL);
    CHECK_OK(asking.result);
    CHECK_EQ(asking.info.pid, getpid());
    CHECK_OK(sluice_writer_close(&writer));
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
    struct fake fake = { .corrupt = refuse_oddly, .how = SLUICE_E_VERSION };
    check_open(&fake, SLUICE_E_VERSION, "rrrr");
    fake = (struct fake){ .corrupt = refuse_oddly, .how = 5 }; /* an unknown code counts as a failure */
    check_open(&fake, SLUICE_E_PROTOCOL, "rrrr");
}

/* ---- writer and reader in one process, with one such thread ---- */

static _Atomic int64_t nap_ns;

static void nap_behind_hello(const char *point)
{
    if (strcmp(point, "after_hello") == 0)
        test_nap(atomic_exchange(&nap_ns, 0));
}

TEST(a_writer_beside_its_reader_answers_when_their_thread_runs_again)
{
    sluice_writer *writer = kit_writer("cam", 8192);

    sl_kill_point_hook = nap_behind_hello;
    for (int i = 0; i < 2; i++) { /* its timer has expired, and all the time of the open is over */
        atomic_store(&nap_ns, i ? 2500 * SLUICE_MS : 1500 * SLUICE_MS);
        sluice_reader *reader = kit_newest(0);
        CHECK_EQ(atomic_load(&nap_ns), 0);
        CHECK_OK(sluice_reader_close(&reader));
    }
    sl_kill_point_hook = NULL;
    CHECK_OK(sluice_writer_close(&writer));
}
