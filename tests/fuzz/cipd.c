/* SPDX-License-Identifier: MIT
 *
 * A segment of cuda-link's protocol with any contents and size: readers connect to it and look, while its bytes change
 * between their steps; writers take it over. An input is a size, a valid session or arbitrary bytes, and then steps.
 */
#include "cuda_link/wire/segment_read.h"
#include "cuda_link/wire/segment_write.h"
#include "fuzz.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#define MOST_ACTS 64

struct stage {
    const char *name, *path;
    unsigned char *at; /* the file as another program maps it */
    size_t size;
    int lock; /* of a living writer of Sluice's; -1: there is none */
    struct sl_cipd_segment_reader consumer;
    struct sl_cipd_frame frame;
    int64_t now;
};

static const char *name_of(const char **path)
{
    static char name[40], whole[60];
    if (!name[0]) {
        snprintf(name, sizeof(name), "cipd-fuzz.%d", (int)getpid());
        snprintf(whole, sizeof(whole), "/dev/shm/%s", name);
    }
    *path = whole;
    return name;
}

static int next_fd(void)
{
    int fd = dup(0);
    close(fd);
    return fd;
}

static size_t take_size(struct input *input)
{
    static const size_t usual[] = { 433, 4096, 305, 177, 1329, 2048, 8192, 2256 };
    uint8_t kind = take_byte(input);
    return kind < 200 ? usual[kind % 8] : (size_t)(take_u32(input) % 1400 + 1);
}

/* What a valid writer would have left, as far as there is room. */
static void fill_in(struct stage *stage, uint32_t slots)
{
    struct sl_cipd_layout layout;
    struct sl_cipd_metadata metadata = { 16, 8, 4, 1, 8, 0, 512 };
    if (!sl_cipd_layout(slots, &layout) || layout.total > stage->size)
        return;
    memset(stage->at + SL_CIPD_HEADER, 0x5a, layout.shut - SL_CIPD_HEADER);
    sl_cipd_store_magic(stage->at, SL_CIPD_MAGIC);
    sl_cipd_store_version(stage->at, 3);
    sl_cipd_store_slots(stage->at, slots);
    sl_cipd_store_index(stage->at, 9);
    sl_cipd_store_metadata(stage->at, &layout, &metadata);
}

static void set(struct stage *stage, struct input *input)
{
    int fd;
    stage->size = take_size(input);
    unlink(stage->path);
    REQUIRE((fd = open(stage->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600)) >= 0);
    REQUIRE(ftruncate(fd, (off_t)stage->size) == 0);
    stage->at = mmap(NULL, stage->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    REQUIRE(stage->at != MAP_FAILED);
    close(fd);
    uint8_t kind = take_byte(input);
    if (kind % 4)
        fill_in(stage, 1 + kind / 4 % 12u);
    else
        take(input, stage->at, input->left < stage->size ? input->left / 2 : stage->size);
    take_patches(input, stage->at, stage->size);
}

/* ---- a reader ---- */

static void check_session(const struct sl_cipd_segment_reader *consumer)
{
    const struct sl_cipd_session *session = &consumer->session;
    const struct sl_cipd_format *format = &session->format;
    struct sl_cipd_metadata again;
    REQUIRE(session->version != 0);
    REQUIRE(session->layout.slots >= 1 && session->layout.slots <= SL_CIPD_MAX_SLOTS);
    REQUIRE(session->layout.total <= consumer->segment.size);
    for (uint32_t slot = 0; slot < session->layout.slots; slot++)
        REQUIRE(!sl_cipd_zero(session->handles[slot].memory, SL_CIPD_HANDLE));
    REQUIRE(sl_cipd_format_encode(format, &again) == 0);
    REQUIRE(again.bytes == session->metadata.bytes && again.kind == session->metadata.kind);
    REQUIRE(format->bytes == (uint64_t)format->width * format->height * format->components * format->dtype.bits / 8);
}

static void connect_once(struct stage *stage)
{
    int result = sl_cipd_read_connect(&stage->consumer, stage->now);
    REQUIRE(result <= 0 || result == SLUICE_NO_WRITER);
    REQUIRE((result == 0) == (stage->consumer.session.layout.slots != 0));
    REQUIRE((result == 0) == (stage->consumer.segment.at != NULL));
    if (result == 0)
        check_session(&stage->consumer);
    else
        REQUIRE(sluice_last_error()[0] && stage->consumer.reason != SL_CIPD_REASON_NONE);
}

/* At the frames before the present one. */
static void look_back(struct stage *stage)
{
    uint32_t slots = stage->consumer.session.layout.slots, newest = stage->frame.index;
    uint32_t first = sl_cipd_read_first(&stage->consumer, newest);
    REQUIRE(first && first <= newest);
    for (uint32_t index = newest; index > first && newest - index < slots; index--) {
        struct sl_cipd_frame older;
        sl_cipd_read_frame(&stage->consumer, index, &older);
        REQUIRE(older.slot < slots && older.index == index && older.time_ns >= 0);
        (void)sl_cipd_read_is_gone(&stage->consumer, &older);
    }
}

static void look(struct stage *stage)
{
    uint32_t slots = stage->consumer.session.layout.slots;
    switch (sl_cipd_read_poll(&stage->consumer, stage->now, &stage->frame)) {
    case SL_CIPD_FRAME:
        REQUIRE(slots && stage->frame.index && stage->frame.slot < slots);
        REQUIRE(stage->frame.time_ns >= 0);
        look_back(stage);
        break;
    case SL_CIPD_NO_FRAME: break;
    case SL_CIPD_SHUT:
    case SL_CIPD_CHANGED: REQUIRE(slots); /* fall through */
    case SL_CIPD_LOST: sl_cipd_read_drop(&stage->consumer, stage->consumer.reason);
    }
}

/* ---- a writer, which has the name for a moment ---- */

static void write_over(struct stage *stage, uint32_t slots)
{
    struct sl_cipd_segment_writer producer = SL_CIPD_SEGMENT_WRITER_INIT;
    struct sl_cipd_handles handles[SL_CIPD_MAX_SLOTS];
    struct sl_cipd_metadata metadata = { 4, 4, 1, 1, 8, 0, 16 };
    memset(handles, 0x77, sizeof(handles));
    if (sl_cipd_write_open(&producer, stage->name))
        return;
    REQUIRE(sl_cipd_write_begin(&producer, slots, handles, &metadata) == 0);
    REQUIRE(producer.layout.total <= producer.segment.size);
    for (uint32_t frame = 1; frame <= slots + 1; frame++) {
        uint32_t slot = sl_cipd_write_slot(&producer), index = sl_cipd_index_next(producer.index, slots);
        sl_cipd_write_announce(&producer);
        REQUIRE(slot < slots && index && sl_cipd_index_slot(index, slots) == slot);
        REQUIRE(sl_cipd_write_publish(&producer, stage->now) == index);
        look(stage);
    }
    REQUIRE(sl_cipd_write_refresh(&producer) == 0);
    sl_cipd_write_close(&producer);
    REQUIRE(access(stage->path, F_OK) != 0);
}

/* Half of the shared part counts only if a writer of Sluice's lives. */
static void come_alive(struct stage *stage)
{
    struct sl_cipd_private_ext *extra = sl_cipd_private_ext(stage->at, stage->size);
    static const unsigned char gpu[SL_CIPD_GPU];
    if (extra && stage->size >= SL_CIPD_HEADER) {
        uint32_t index = sl_cipd_load_index(stage->at), slots = sl_cipd_load_slots(stage->at);
        sl_cipd_ext_change(extra);
        sl_cipd_ext_begin(extra, sl_cipd_load_version(stage->at), 1, gpu);
        for (uint32_t i = 0; slots <= SL_CIPD_MAX_SLOTS && i < slots && i < index; i++)
            (void)sl_cipd_ext_before_publish(extra, sl_cipd_index_slot(index - i, slots), index - i, stage->now);
    }
    if (stage->lock < 0 && (stage->lock = open(stage->path, O_RDWR | O_CLOEXEC)) >= 0)
        REQUIRE(sl_os_named_lock(stage->lock, false) == 0);
}

static void die(struct stage *stage)
{
    if (stage->lock >= 0)
        close(stage->lock);
    stage->lock = -1;
}

static void act(struct stage *stage, struct input *input)
{
    uint8_t kind = take_byte(input);
    switch (kind % 8) {
    case 0: take_patches(input, stage->at, stage->size); break;
    case 1:
        if (stage->size >= SL_CIPD_HEADER)
            sl_cipd_store_index(stage->at, (uint32_t)take_number(input));
        break;
    case 2: stage->now += (int64_t)take_byte(input) * 2000000; break;
    case 3:
        if (stage->frame.index)
            (void)sl_cipd_read_is_whole(&stage->consumer, &stage->frame);
        break;
    case 4:
        sl_cipd_read_retry_now(&stage->consumer);
        connect_once(stage);
        break;
    case 5: connect_once(stage); break;
    case 6:
        if (kind == 14)
            come_alive(stage);
        else if (kind == 22)
            die(stage);
        else if (kind == 6)
            write_over(stage, 1 + take_byte(input) % SL_CIPD_MAX_SLOTS);
        break;
    default: look(stage); break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = { data, size };
    struct stage stage = { .lock = -1, .now = 1000 * SLUICE_S };
    int next = next_fd();
    stage.name = name_of(&stage.path);
    set(&stage, &input);
    REQUIRE(sl_cipd_read_init(&stage.consumer, stage.name) == 0);
    connect_once(&stage);
    look(&stage);
    for (int i = 0; i < MOST_ACTS && input.left; i++)
        act(&stage, &input);
    sl_cipd_read_drop(&stage.consumer, SL_CIPD_REASON_NOT_TRIED);
    die(&stage);
    munmap(stage.at, stage.size);
    unlink(stage.path);
    REQUIRE(next_fd() == next);
    return 0;
}
