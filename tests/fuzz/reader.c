/* SPDX-License-Identifier: MIT
 *
 * A reader with a hostile writer: any messages, any descriptors, any words and records in shared memory, changed also
 * while frames are held. The reader refuses, or returns arrays that are inside their slots; it never waits longer than
 * asked, and nothing is left when it is closed.
 */
#include "fuzz.h"
#include "geometry_check.h"
#include "native/wire/native.h"
#include "os_stub.h"
#include "raw_peer.h"

#define IDS        8
#define SLOTS      8
#define MOST_STEPS 400
#define HELD       4

/* ---- the hostile writer ---- */

/* Shared memory that a writer would have: made once, filled again for each input. */
struct object {
    int fd;
    uint64_t size;
    void *address; /* writable here */
};

static struct {
    struct sl_channel_dir dir;
    int listener, socket, wake[2];
    struct object control, page, slots;
    struct sluice_format format;
    uint32_t memory;
    bool honest; /* all memories were announced truthfully */
    uint64_t sequence, session;
} fake = { .socket = -1, .wake = { -1, -1 } };

static void make_object(struct object *object, uint64_t size, bool read_only)
{
    object->size = (size + sl_os_page_size() - 1) / sl_os_page_size() * sl_os_page_size();
    REQUIRE(sl_os_memory_create("fuzz", object->size, &object->fd) == 0);
    REQUIRE(sl_os_map(object->fd, object->size, true, &object->address) == 0);
    REQUIRE(sl_os_memory_seal(object->fd, read_only) == 0);
}

static void set_up(void)
{
    os_stub_folder();
    REQUIRE(sl_channel_dir_open(&fake.dir, false, false) == 0);
    REQUIRE(sl_os_listen(fake.dir.fd, fake.dir.folder, "r", 0600, -1, &fake.listener) == 0);
    fake.format = (struct sluice_format)SLUICE_FORMAT_INIT;
    REQUIRE(sluice_format_add_image(&fake.format, "colour", SLUICE_PIXEL_NV12, 32, 16) == 0);
    REQUIRE(sluice_format_add_tensor(&fake.format, "depth", (struct sluice_dtype){ SLUICE_FLOAT, 32, 1 }, 3,
                                     (int64_t[]){ 4, 5, 6 }) == 0);
    make_object(&fake.control, sl_native_control_size(IDS, 1), true);
    make_object(&fake.page, sizeof(struct sl_reader_page), false);
    make_object(&fake.slots, SLOTS * fake.format.slot_bytes, true);
    for (uint8_t i = 0; i < 8; i++)
        (void)raw_peer_fd(i);
}

static struct sl_control *control(void)
{
    return fake.control.address;
}
static struct sl_reader_page *page(void)
{
    return fake.page.address;
}

static struct sl_record *record(uint32_t slot)
{
    return (struct sl_record *)((char *)control() + sizeof(struct sl_control) + (size_t)slot * SL_NATIVE_STRIDE);
}

static void reset(void)
{
    fake.memory = 0;
    fake.honest = true;
    fake.sequence = 0;
    fake.session = 7;
    memset(fake.control.address, 0, fake.control.size);
    memset(fake.page.address, 0, fake.page.size);
    memset(fake.slots.address, 5, fake.slots.size);
    *control() = (struct sl_control){
        .magic = SL_NATIVE_MAGIC,
        .version = SLUICE_WIRE_VERSION_MAX,
        .header_size = sizeof(struct sl_control),
        .size = fake.control.size,
        .session = fake.session,
        .ids = IDS,
        .record_stride = SL_NATIVE_STRIDE,
        .meta_offset = SL_NATIVE_META_OFFSET,
        .meta_capacity = SLUICE_MAX_META,
        .memory_kind = SL_MEM_HOST,
        .oldest_memory = 1,
    };
    page()->magic = SL_NATIVE_MAGIC;
    page()->session = fake.session;
    atomic_store(&page()->cursor, 1);
}

static void hang_up(void)
{
    sl_os_close(fake.socket);
    sl_os_close(fake.wake[0]);
    sl_os_close(fake.wake[1]);
    fake.socket = fake.wake[0] = fake.wake[1] = -1;
}

static void answer(void)
{
    int fd;
    while (sl_os_accept(fake.listener, &fd) == 0) {
        hang_up();
        fake.socket = fd;
        REQUIRE(sl_os_socket_pair(fake.wake) == 0);
    }
}

static void say_welcome(struct input *input)
{
    union sl_message message = SL_MESSAGE(SL_MSG_WELCOME, welcome);
    int fds[5] = { fake.control.fd, fake.page.fd, fake.wake[1], raw_peer_fd(3), fake.slots.fd }, count = 3;

    message.welcome.magic = SL_NATIVE_MAGIC;
    message.welcome.version = SLUICE_WIRE_VERSION_MAX;
    message.welcome.depth = 4;
    message.welcome.session = fake.session;
    message.welcome.control_size = fake.control.size;
    message.welcome.page_size = fake.page.size;
    message.welcome.max_slots = SLOTS;
    message.welcome.clock_ns = sl_os_now();
    uint8_t kind = input ? take_byte(input) : 0;
    if (kind & 1)
        take_patches(input, &message, message.header.size);
    if (kind & 2)
        fds[kind / 16 % 4] = raw_peer_fd(take_byte(input));
    if (kind & 4)
        count = take_byte(input) % 6;
    raw_peer_send(fake.socket, &message, sizeof message.welcome, fds, count);
}

static void say_memory(struct input *input)
{
    union sl_message message = SL_MESSAGE(SL_MSG_MEMORY, memory);
    int fds[2] = { fake.slots.fd, fake.control.fd }, count = 1;

    message.memory.memory = ++fake.memory;
    message.memory.generation = fake.memory;
    message.memory.bytes = fake.slots.size;
    message.memory.kind = SL_MEM_HOST;
    sl_format_to_wire(&message.memory.format, &fake.format);
    uint8_t kind = input ? take_byte(input) : 0;
    if (kind & 1)
        take_patches(input, &message, message.header.size);
    if (kind & 2)
        fds[0] = raw_peer_fd(take_byte(input));
    if (kind & 4)
        count = take_byte(input) % 3;
    fake.honest = fake.honest && kind % 8 == 0;
    raw_peer_send(fake.socket, &message, sizeof message.memory, fds, count);
}

static void say_short(struct input *input, uint32_t type, size_t size)
{
    union sl_message message;

    memset(&message, 0, sizeof message);
    message.header = (struct sl_msg_header){ .type = type, .size = (uint32_t)size };
    if (type == SL_MSG_REFUSE)
        message.refuse.result = -(int32_t)(take_byte(input) % 30);
    take_patches(input, &message, size);
    raw_peer_send(fake.socket, &message, size, NULL, 0);
}

/* A valid frame, and the input's changes of its record. */
static void publish(struct input *input)
{
    uint8_t kind = take_byte(input);
    uint32_t slot = kind % IDS;
    struct sl_record *r = record(slot);

    atomic_store(&control()->slot_seq[slot], SL_MARK);
    memset(r, 0, sizeof *r);
    r->sequence = ++fake.sequence;
    r->generation = r->memory = fake.memory;
    r->offset = slot * fake.format.slot_bytes;
    r->commit_ns = sl_os_now();
    r->array_count = fake.format.array_count;
    for (uint32_t i = 0; i < fake.format.array_count; i++)
        sl_geometry_from_array(&r->arrays[i], &fake.format.arrays[i]);
    if (kind & 16)
        take_patches(input, r, sizeof *r);
    atomic_store(&control()->slot_memory[slot], fake.memory);
    atomic_store(&control()->ready[slot], fake.sequence);
    atomic_store(&control()->slot_seq[slot], fake.sequence);
    atomic_store(&control()->head, sl_head_pack(fake.sequence, slot));
}

static void scribble(struct input *input)
{
    uint8_t kind = take_byte(input);

    switch (kind % 4) {
    case 0: take_patches(input, control(), sizeof(struct sl_control)); break;
    case 1: take_patches(input, page(), sizeof(struct sl_reader_page)); break;
    case 2: take_patches(input, record(kind / 4 % IDS), offsetof(struct sl_record, arrays)); break;
    default: /* one array of a frame, held or not */
        take_patches(input, &record(kind / 4 % IDS)->arrays[kind / 128], sizeof(struct sl_geometry));
        break;
    }
}

static void new_session(void)
{
    hang_up();
    fake.session++;
    fake.memory = 0;
    control()->session = page()->session = fake.session;
    atomic_store(&control()->closed, 0);
}

static void writer_step(struct input *input)
{
    answer();
    switch (take_byte(input) % 12) {
    case 0: say_welcome(input); break;
    case 1: say_memory(input); break;
    case 2:
        fake.honest = false;
        raw_peer_send_input(input, fake.socket);
        break;
    case 3: say_short(input, SL_MSG_REFUSE, sizeof(struct sl_msg_refuse)); break;
    case 4: say_short(input, SL_MSG_BYE, sizeof(struct sl_msg_bye)); break;
    case 5: scribble(input); break;
    case 6: new_session(); break;
    case 7: raw_peer_send_input(input, fake.wake[0]); break;
    case 8: /* the usual beginning at once */
        say_welcome(NULL);
        say_memory(NULL);
        break;
    default: publish(input); break;
    }
}

static struct input *steps;

static bool writer_acts(void)
{
    if (!steps->left)
        return false;
    writer_step(steps);
    return true;
}

/* ---- the reader ---- */

static sluice_reader *reader;
static struct sluice_frame frames[HELD];
static bool held[HELD];

static void open_reader(struct input *input)
{
    struct sluice_reader_params params = SLUICE_READER_PARAMS_INIT;
    uint8_t kind = take_byte(input);

    if (reader)
        return;
    params.name = "r";
    params.mode = kind & 1;
    params.hold = HELD;
    params.every = kind / 2 % 4u;
    params.writable = kind & 8 ? 1 : 0;
    params.open_timeout_ns = kind & 16 ? SLUICE_LATER : SLUICE_S / 4;
    (void)sluice_reader_open(&reader, &params);
}

static void close_reader(void)
{
    REQUIRE(sluice_reader_close(&reader) == 0 && !reader);
    memset(held, 0, sizeof held);
}

static void acquire(struct input *input)
{
    uint8_t kind = take_byte(input);
    unsigned i = kind % HELD;
    int64_t timeout = kind & 16 ? 20 * SLUICE_MS : 0, before = sl_os_now();

    if (held[i])
        return;
    int r = sluice_reader_acquire(reader, SLUICE_ON_CPU, timeout, &frames[i]);
    REQUIRE(sl_os_now() - before < timeout + 10 * SLUICE_MS);
    held[i] = r == 0;
    if (r != 0)
        return;
    REQUIRE(frames[i].commit_ns >= 0);
    REQUIRE(frames[i].meta_size <= SLUICE_MAX_META && frames[i].array_count <= SLUICE_MAX_ARRAYS);
    touch(frames[i].meta, frames[i].meta_size);
}

/* Within its array's memory, in the memory that was announced: no other memory is full of fives. */
static void look_closer(const struct sluice_array *array)
{
    int index = sluice_format_find(&fake.format, array->name);

    REQUIRE(index >= 0);
    const struct sluice_array *room = &fake.format.arrays[index];
    REQUIRE(array->offset >= room->offset);
    REQUIRE(array->offset + array->nbytes <= room->offset + room->nbytes);
    for (uint64_t i = 0; i < array->nbytes; i++)
        REQUIRE(((const uint8_t *)array->data)[i] == 5);
}

static void look_at(const struct sluice_array *array)
{
    uint32_t lane = array->dtype.bits / 8;

    REQUIRE(array->data && array->offset <= fake.slots.size);
    check_array(array, fake.slots.size - array->offset);
    REQUIRE((uintptr_t)array->data % lane == 0);
    touch(array->data, array->nbytes);
    if (fake.honest)
        look_closer(array);
    struct sluice_array own = *array;
    own.data = malloc(array->nbytes ? array->nbytes : 1);
    REQUIRE(own.data);
    own.read_only = 0;
    REQUIRE(sluice_array_copy(&own, array) == 0);
    free(own.data);
}

static void look(struct input *input)
{
    struct sluice_array array;
    unsigned i = take_byte(input) % HELD;

    if (!held[i])
        return;
    for (uint32_t k = 0; k <= frames[i].array_count; k++)
        if (sluice_frame_array_at(&frames[i], k, &array) == 0)
            look_at(&array);
    if (sluice_frame_array(&frames[i], "depth", &array) == 0)
        look_at(&array);
}

static void release(struct input *input)
{
    unsigned i = take_byte(input) % HELD;
    int r;

    if (!held[i])
        return;
    r = sluice_reader_release(reader, &frames[i], SLUICE_ON_CPU);
    REQUIRE(r == 0 || r == SLUICE_E_LOST);
    held[i] = false;
    REQUIRE(sluice_reader_release(reader, &frames[i], SLUICE_ON_CPU) == SLUICE_E_STALE);
}

/* A frame that never existed, or whose private words the program has changed. */
static void forge(struct input *input)
{
    struct sluice_frame forged = frames[0];
    struct sluice_array array;

    take_patches(input, &forged, sizeof forged);
    if (memcmp(forged.opaque, frames[0].opaque, sizeof forged.opaque) == 0)
        return;
    if (sluice_frame_array(&forged, NULL, &array) == 0)
        look_at(&array);
}

static void ask(struct input *input)
{
    struct sluice_reader_stats stats = { .size = sizeof stats };
    struct sluice_format format = SLUICE_FORMAT_INIT;

    switch (take_byte(input) % 3) {
    case 0: REQUIRE(sluice_reader_stats(reader, &stats) == 0); break;
    case 1:
        if (sluice_reader_format(reader, &format) == 0)
            check_format(&format);
        break;
    default: REQUIRE(sluice_reader_fd(reader) >= 0); break;
    }
}

static void fetch(struct input *input)
{
    static _Alignas(64) uint8_t room[1 << 16];
    unsigned i = take_byte(input) % HELD;
    struct sluice_array array;

    if (!held[i] || sluice_frame_array_at(&frames[i], take_byte(input) % 2, &array) != 0 || array.nbytes > sizeof room)
        return;
    array.data = room;
    array.read_only = 0;
    (void)sluice_reader_fetch(reader, &frames[i], &array, 1, SLUICE_ON_CPU, NULL);
}

static void step(struct input *input)
{
    uint8_t what = take_byte(input);

    if (!reader && what % 16 >= 6) {
        open_reader(input);
        return;
    }
    switch (what % 16) {
    case 6:
    case 7: acquire(input); break;
    case 8: look(input); break;
    case 9: release(input); break;
    case 10: ask(input); break;
    case 11: forge(input); break;
    case 12: fetch(input); break;
    case 13: os_stub_pass((int64_t)take_byte(input) * 20 * SLUICE_MS); break;
    case 14:
        if (what & 16)
            close_reader();
        break;
    default: writer_step(input); break;
    }
    if (what & 32)
        os_stub_settle();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static unsigned runs;
    static int mappings;
    struct input input = { data, size };

    if (!fake.listener)
        set_up();
    reset();
    steps = &input;
    os_stub_peer = writer_acts;
    memset(frames, 0, sizeof frames);
    int fds = raw_peer_open_fds();
    open_reader(&input);
    for (int i = 0; i < MOST_STEPS && input.left; i++)
        step(&input);
    os_stub_peer = NULL;
    if (reader)
        close_reader();
    answer();
    hang_up();
    REQUIRE(os_stub_watches() == 0);
    REQUIRE(raw_peer_open_fds() == fds);
    if (runs == 0)
        mappings = raw_peer_mappings();
    if (runs++ % 64 == 0)
        REQUIRE(raw_peer_mappings() == mappings);
    return 0;
}
