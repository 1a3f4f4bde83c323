/* SPDX-License-Identifier: MIT
 *
 * A writer with hostile peers: up to eight connections that send anything, receive what they get and scribble over
 * their pages, while a good reader reads. Whatever they do, the writer serves the good reader; once they are gone,
 * nothing is left of them.
 */
#include "fuzz.h"
#include "native/wire/native.h"
#include "os_stub.h"
#include "raw_peer.h"

#define CLIENTS    8
#define MOST_STEPS 400
#define SLOTS      3

struct client {
    int fd;   /* -1: not connected */
    int wake; /* its end of the wake socket */
    struct sl_reader_page *page;
    uint32_t memory; /* number of the last memory received */
};

static struct client clients[CLIENTS];
static struct sluice_format formats[2];
static sluice_writer *writer;
static sluice_reader *reader;
static int dir;
static size_t watches_before;
static int fds_before, mappings_before;

/* ---- the writer and its good reader ---- */

static void make_formats(void)
{
    for (int i = 0; i < 2; i++) {
        formats[i] = (struct sluice_format)SLUICE_FORMAT_INIT;
        REQUIRE(sluice_format_add_image(&formats[i], "colour", SLUICE_PIXEL_GRAY8, 16u << i, 16) == 0);
        REQUIRE(sluice_format_add_tensor(&formats[i], "depth", (struct sluice_dtype){ SLUICE_FLOAT, 32, 1 }, 1,
                                         &(int64_t){ 8 }) == 0);
    }
}

/* One frame from begin to release. `sure`: it must succeed. */
static void good_round(bool sure)
{
    struct sluice_frame frame, got;
    struct sluice_array array;
    int r = sluice_writer_begin(writer, 0, &frame);

    REQUIRE(r == 0 || (r == SLUICE_NO_SLOT && !sure));
    if (r != 0)
        return;
    REQUIRE(sluice_frame_array(&frame, "colour", &array) == 0);
    memset(array.data, (int)(frame.slot + 1), array.nbytes);
    REQUIRE(sluice_writer_commit(writer, &frame, SLUICE_ON_CPU) == 0);
    REQUIRE(sluice_reader_acquire(reader, SLUICE_ON_CPU, SLUICE_S, &got) == 0);
    REQUIRE(got.sequence == frame.sequence && got.slot == frame.slot);
    REQUIRE(sluice_frame_array(&got, NULL, &array) == 0);
    for (uint64_t i = 0; i < array.nbytes; i++)
        REQUIRE(((uint8_t *)array.data)[i] == frame.slot + 1);
    REQUIRE(sluice_reader_release(reader, &got, SLUICE_ON_CPU) == 0);
}

static struct sluice_writer_stats get_stats(void)
{
    struct sluice_writer_stats stats = { .size = sizeof stats };
    REQUIRE(sluice_writer_stats(writer, &stats) == 0);
    return stats;
}

static void set_up(void)
{
    struct sl_channel_dir found;

    os_stub_folder();
    make_formats();
    struct sluice_writer_params params = SLUICE_WRITER_PARAMS_INIT;
    params.name = "w";
    params.format = &formats[0];
    params.slots = SLOTS;
    params.max_slots = 5;
    params.readers = 6;
    params.lease_timeout_ns = 5 * SLUICE_S;
    REQUIRE(sluice_writer_open(&writer, &params) == 0);
    struct sluice_reader_params reading = SLUICE_READER_PARAMS_INIT;
    reading.name = "w";
    reading.open_timeout_ns = SLUICE_S;
    REQUIRE(sluice_reader_open(&reader, &reading) == 0);
    REQUIRE(sl_channel_dir_open(&found, false, false) == 0);
    dir = found.fd;
    for (int i = 0; i < CLIENTS; i++)
        clients[i] = (struct client){ .fd = -1, .wake = -1 };
    for (uint8_t i = 0; i < 8; i++)
        (void)raw_peer_fd(i);
    good_round(true);
    os_stub_settle();
    watches_before = os_stub_watches();
    fds_before = raw_peer_open_fds();
    mappings_before = raw_peer_mappings();
}

/* ---- hostile peers ---- */

static void hang_up(struct client *client)
{
    sl_os_close(client->fd);
    sl_os_close(client->wake);
    if (client->page)
        sl_os_unmap(client->page, sl_native_page_size(sl_os_page_size()));
    *client = (struct client){ .fd = -1, .wake = -1 };
}

static void dial(struct client *client)
{
    bool stale;
    hang_up(client);
    if (sl_os_connect(dir, os_stub_folder(), "w", &client->fd, &stale) != 0)
        client->fd = -1;
}

static void keep_page(struct client *client, int *fds, int count)
{
    void *page;

    if (count < 3 || client->page)
        return;
    if (sl_os_map(fds[1], sl_native_page_size(sl_os_page_size()), true, &page) == 0)
        client->page = page;
    client->wake = fds[2];
    fds[2] = -1;
}

/* Receives all there is; returns the last message's type, 0 for none. */
static uint32_t listen_to(struct client *client)
{
    union sl_message message;
    uint32_t type = 0;

    for (int i = 0; i < 100; i++) {
        int fds[SL_OS_MAX_FDS], count = 0;
        size_t size;
        if (sl_os_receive(client->fd, &message, sizeof message, &size, fds, &count) != 0)
            break;
        REQUIRE(sl_message_check(&message, size) == 0);
        type = message.header.type;
        if (type == SL_MSG_WELCOME)
            keep_page(client, fds, count);
        else if (type == SL_MSG_MEMORY)
            client->memory = message.memory.memory;
        for (int k = 0; k < count; k++)
            sl_os_close(fds[k]);
    }
    return type;
}

static void say_hello(struct input *input, struct client *client)
{
    union sl_message message = SL_MESSAGE(SL_MSG_HELLO, hello);
    int process = raw_peer_fd(3);

    sl_hello_fill(&message.hello, SL_ROLE_READER);
    uint8_t kind = take_byte(input);
    message.hello.mode = kind & 1;
    message.hello.hold = message.hello.every = 1;
    message.hello.depth = kind / 2 % 4u;
    if (kind & 16)
        message.hello.role = SL_ROLE_OBSERVER;
    take_patches(input, &message, message.header.size);
    raw_peer_send(client->fd, &message, sizeof message.hello, &process, kind & 8 ? 1 : 0);
}

static void say(struct input *input, struct client *client, uint32_t type, size_t size)
{
    union sl_message message;

    memset(&message, 0, sizeof message);
    message.header = (struct sl_msg_header){ .type = type, .size = (uint32_t)size };
    if (type == SL_MSG_ACK)
        message.ack.memory = client->memory;
    take_patches(input, &message, size);
    raw_peer_send(client->fd, &message, size, NULL, 0);
}

static void scribble(struct input *input, struct client *client)
{
    if (client->page)
        take_patches(input, client->page, sizeof *client->page);
}

/* A lease, perhaps on an existing frame. */
static void pretend(struct input *input, struct client *client)
{
    uint32_t slot = take_byte(input) % 8;
    uint64_t sequence = get_stats().committed - take_byte(input) % 8;
    if (client->page) {
        atomic_store(&client->page->lease[slot], sequence);
        atomic_store(&client->page->lease_ns[slot], (uint64_t)sl_os_now());
    }
}

/* Slot numbers may run out, while peers claim to need the old ones. */
static void reformat(struct input *input)
{
    int r = sluice_writer_reformat(writer, &formats[take_byte(input) % 2]);
    REQUIRE(r == 0 || r == SLUICE_E_LIMIT || r == SLUICE_E_BUSY);
}

static void step(struct input *input)
{
    uint8_t what = take_byte(input);
    struct client *client = &clients[what / 32];

    switch (what % 16) {
    case 0: dial(client); break;
    case 1: say_hello(input, client); break;
    case 2: raw_peer_send_input(input, client->fd); break;
    case 3: say(input, client, SL_MSG_ACK, sizeof(struct sl_msg_ack)); break;
    case 4: say(input, client, SL_MSG_QUERY, sizeof(struct sl_msg_query)); break;
    case 5: say(input, client, SL_MSG_BYE, sizeof(struct sl_msg_bye)); break;
    case 6: (void)listen_to(client); break;
    case 7: hang_up(client); break;
    case 8: scribble(input, client); break;
    case 9: pretend(input, client); break;
    case 10: raw_peer_send_input(input, client->wake); break;
    case 11: os_stub_pass((int64_t)take_byte(input) * 50 * SLUICE_MS); break;
    case 12: good_round(false); break;
    case 13: reformat(input); break;
    case 14: /* the usual beginning at once */
        dial(client);
        os_stub_settle();
        say_hello(input, client);
        os_stub_settle();
        (void)listen_to(client);
        break;
    default: (void)get_stats(); break;
    }
    if (what & 16)
        os_stub_settle();
}

/* There is still an entry for the next reader. */
static void visit(struct client *client)
{
    union sl_message hello = SL_MESSAGE(SL_MSG_HELLO, hello), query = SL_MESSAGE(SL_MSG_QUERY, query);

    dial(client);
    REQUIRE(client->fd >= 0);
    sl_hello_fill(&hello.hello, SL_ROLE_OBSERVER);
    raw_peer_send(client->fd, &hello, sizeof hello.hello, NULL, 0);
    raw_peer_send(client->fd, &query, sizeof query.query, NULL, 0);
    os_stub_settle();
    REQUIRE(listen_to(client) == SL_MSG_READER);
    hang_up(client);
    os_stub_settle();
}

/* A separate generation for each input, so that none depends on the one before. */
static void reset_writer(void)
{
    static unsigned runs;

    visit(&clients[0]);
    REQUIRE(sluice_writer_reformat(writer, &formats[0]) == 0);
    for (int i = 0; i < SLOTS; i++)
        good_round(true);
    os_stub_settle();
    struct sluice_writer_stats stats = get_stats();
    REQUIRE(stats.readers == 1 && stats.slots == SLOTS);
    REQUIRE(os_stub_watches() == watches_before);
    REQUIRE(raw_peer_open_fds() == fds_before);
    if (runs++ % 64 == 0)
        REQUIRE(raw_peer_mappings() == mappings_before);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = { data, size };

    if (!writer)
        set_up();
    for (int i = 0; i < MOST_STEPS && input.left; i++)
        step(&input);
    for (int i = 0; i < CLIENTS; i++)
        hang_up(&clients[i]);
    os_stub_pass(3 * SLUICE_S);
    reset_writer();
    return 0;
}
