/* SPDX-License-Identifier: MIT
 *
 * Two processes send each other frames by "cipd:" channels, 1080p float32 one way and uint8 the other, while one or the
 * other is killed and restarted, and each keeps changing its number of slots (2, 3, 10) and its height. Kernels check
 * every word of every frame: a frame reported as whole that has a word of another frame fails the test.
 *
 * SLUICE_CIPD_FRAMES says how many frames of 1080p each must have seen; 10,000 on a GPU.
 */
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpu/cipd_kit.h"
#include "gpu/frames.h"

#define SIDES 2
#define LEAST 24 /* frames: some between one kill and the next */
#define KILLS 4  /* at least, however many frames there are while the test is suspended */
#define PATIENCE \
    (20 * SLUICE_MS) /* of a reader: a new frame is there when both processes have had their time slice on the GPU */

static const uint32_t slot_counts[] = { 2, 3, 10 }, heights[] = { 1080, 720 };

/* The counts of both processes, over all their lives. */
struct totals {
    struct {
        atomic_ulong sent, taken, whole, full, lost, sessions; /* full: whole, and of the usual height */
        atomic_uint torn;                                      /* words */
        atomic_uint changes;      /* of its format, and lives, each of which begins with one */
        atomic_uint slots, sizes; /* formats of which it has taken frames: one bit for each of the above */
    } of[SIDES];
};

static struct totals *totals(void)
{
    return test_shared_memory(sizeof(struct totals));
}

static uint32_t scaled(uint32_t pixels)
{
    return gpu_is_fake() ? pixels / 8 : pixels;
}

static struct sluice_format format_to(int side, uint32_t height)
{
    return cipd_format(side == 0 ? cipd_float32 : cipd_uint8, scaled(1920), scaled(height));
}

static const char *name_to(char *text, size_t size, const char *name, int side)
{
    snprintf(text, size, "%s.%d", name, side);
    return text;
}

/* ---- a process ---- */

struct life {
    int side; /* which one */
    struct sluice_device device;
    struct sluice_stream sending, reading;
    sluice_writer *writer;
    sluice_reader *reader;
    struct sluice_format format; /* of its own frames */
    struct sluice_array array;
    uint64_t memory;
    uint32_t slots;
    uint64_t bad; /* words, counted by kernels */
    uint32_t found;
    uint32_t sent, run; /* run: frames since its last change */
    uint32_t next;      /* sequence; 0: not known before the first send */
};

/* Chooses its next format: another number of slots, or another height. */
static void choose(struct life *life)
{
    static const struct {
        uint8_t slots, height; /* indices of the above */
    } order[] = { { 0, 0 }, { 1, 0 }, { 2, 0 }, { 2, 1 }, { 2, 0 } };
    uint32_t now = atomic_fetch_add(&totals()->of[life->side].changes, 1) % (sizeof order / sizeof *order);

    life->run = 0;
    life->slots = slot_counts[order[now].slots];
    life->format = format_to(!life->side, heights[order[now].height]);
    life->array = cipd_array(life->memory, &life->format);
}

static void change(struct life *life)
{
    uint32_t slots = life->slots;

    choose(life);
    if (life->slots != slots)
        CHECK_OK(sluice_cipd_set_slots(life->writer, life->slots));
    else
        CHECK_OK(sluice_writer_reformat(life->writer, &life->format));
}

static void open_writer(struct life *life, const char *name)
{
    struct sluice_cipd_writer_params cipd;
    struct sluice_writer_params params = cipd_writer_params(&cipd, &life->format);
    char text[128];
    int r;

    params.name = name_to(text, sizeof text, name, !life->side);
    params.slots = life->slots;
    params.no_graphs = !life->side;
    while ((r = sluice_writer_open(&life->writer, &params)) == SLUICE_E_EXISTS)
        test_nap(SLUICE_MS); /* the one before may still be ending */
    CHECK_OK(r);
}

static void open_reader(struct life *life, const char *name)
{
    struct sluice_cipd_reader_params cipd;
    struct sluice_reader_params params = cipd_reader_params(&cipd);
    char text[128];

    params.name = name_to(text, sizeof text, name, life->side);
    params.open_timeout_ns = SLUICE_LATER;
    cipd.copy = (uint32_t)life->side;
    CHECK_OK(sluice_reader_open(&life->reader, &params));
}

/* How many frames it sends in one format. Few are of the other height, as frames of 1080p are what counts. */
static uint32_t run_length(const struct life *life)
{
    bool full = life->format.arrays[0].shape[0] == scaled(heights[0]);

    return gpu_is_fake() ? 12 : full ? 500 : 100;
}

/* Each word holds the sequence, but in the first frame of a life; the next frame's words are written after its copy. */
static void send_one(struct life *life)
{
    struct sluice_frame header = { .sequence = 0 };

    gpu_fill(gpu_native(life->sending), (uintptr_t)life->array.data, life->array.nbytes / 4, life->next);
    CHECK_OK(sluice_writer_send_frame(life->writer, &header, &life->array, 1, life->sending, NULL));
    CHECK(life->next == 0 || header.sequence == life->next);
    life->next = (uint32_t)header.sequence + 1;
    life->sent++;
    atomic_fetch_add(&totals()->of[life->side].sent, 1);
    if (life->sent % 16 == 0)
        CHECK_OK(sluice_stream_synchronize(life->sending)); /* no further ahead of its GPU */
    if (++life->run >= run_length(life))
        change(life);
}

/* Records a frame with this number of slots and size. */
static void note_format(struct life *life, const struct sluice_frame *frame)
{
    struct sluice_cipd_info info = cipd_info_of_reader(life->reader);
    struct sluice_array array;

    CHECK_OK(sluice_frame_array(frame, NULL, &array));
    for (int i = 0; i < 3; i++)
        if (info.slot_count == slot_counts[i])
            atomic_fetch_or(&totals()->of[life->side].slots, 1U << i);
    for (int i = 0; i < 2; i++)
        if (array.shape[0] == scaled(heights[i]))
            atomic_fetch_or(&totals()->of[life->side].sizes, 1U << i);
}

/* How many words of a frame differ from `value`, counted by a kernel. */
static uint32_t count_others(struct life *life, const struct sluice_array *array, uint32_t value)
{
    struct sl_cu_stream *stream = gpu_native(life->reading);

    gpu_compare(stream, (uintptr_t)array->data, array->nbytes / 4, value, life->bad);
    uint32_t found = frames_read(stream, life->bad), others = found - life->found;
    life->found = found;
    return others;
}

/* All of the frame must hold its sequence, or 0 if it is the first of a life, provided that it was whole until the
 * kernel had read it. Nearly all hold the former, so the CPU waits once: each wait is long where processes take turns
 * on the GPU. */
static void look_at(struct life *life, struct sluice_frame *frame)
{
    struct sluice_array array;

    CHECK_OK(sluice_frame_array(frame, NULL, &array));
    uint32_t torn = count_others(life, &array, (uint32_t)frame->sequence);
    if (torn == array.nbytes / 4)
        torn = count_others(life, &array, 0);
    int r = sluice_reader_release(life->reader, frame, SLUICE_ON_CPU);
    atomic_fetch_add(r == 0 ? &totals()->of[life->side].whole : &totals()->of[life->side].lost, 1);
    if (r != 0) {
        CHECK_RESULT(r, SLUICE_E_LOST);
        CHECK(life->side == 0); /* copies are the reader's */
    } else {
        atomic_fetch_add(&totals()->of[life->side].torn, torn);
        atomic_fetch_add(&totals()->of[life->side].full, array.shape[0] == scaled(heights[0]));
    }
}

static void read_one(struct life *life)
{
    struct sluice_frame frame;
    int r = sluice_reader_acquire(life->reader, life->reading, PATIENCE, &frame);

    if (r == 0) {
        atomic_fetch_add(&totals()->of[life->side].taken, 1);
        if (frame.flags & SLUICE_FRAME_NEW_FORMAT) {
            atomic_fetch_add(&totals()->of[life->side].sessions, 1);
            note_format(life, &frame);
        }
        look_at(life, &frame);
    } else if (r != SLUICE_TIMEOUT && r != SLUICE_NO_WRITER && r != SLUICE_CLOSED && r != SLUICE_AGAIN &&
               r != SLUICE_E_LOST) {
        CHECK_OK(r);
    }
}

/* Arguments: the channels; which side it is. Starts on command, and runs until it is killed. */
ROLE(cipd_side)
{
    struct life life = { .side = atoi(argv[2]) };

    CHECK_EQ(argc, 3);
    gpu_begin();
    gpu_use(0);
    cipd_set_name(argv[1]);
    life.device = gpu_open();
    CHECK_OK(sluice_stream_create(life.device, NULL, &life.sending));
    CHECK_OK(sluice_stream_create(life.device, NULL, &life.reading));
    frames_warm_up(gpu_native(life.reading));
    life.memory = gpu_memory(format_to(!life.side, heights[0]).arrays[0].nbytes);
    life.bad = gpu_memory(8);
    CU(MemsetD8Async, life.bad, 0, 8, gpu_native(life.reading));
    role_say("ready");
    CHECK(role_line());
    choose(&life);
    open_writer(&life, argv[1]);
    open_reader(&life, argv[1]);
    role_say("up");
    while (life.writer) {
        for (uint32_t i = 0; i <= life.sent % 5; i++) /* so that the writer comes round to frames that are being read */
            send_one(&life);
        read_one(&life);
    }
    return 0;
}

/* ---- the test ---- */

static struct child start(int side)
{
    char number[4];

    snprintf(number, sizeof number, "%d", side);
    return role_start("cipd_side", cipd_name(), number, NULL);
}

/* Its GPU context, which takes long to make, exists already. */
static void let_begin(struct child *child)
{
    child_expect(child, "ready", 60);
    child_send(child, "begin");
    child_expect(child, "up", 60);
}

static unsigned long frames_wanted(void)
{
    const char *wanted = getenv("SLUICE_CIPD_FRAMES");

    unsigned long usual = (unsigned long)(gpu_is_fake() ? test_scale(40) : test_scale(10000));

    return wanted && *wanted ? strtoul(wanted, NULL, 10) : usual > LEAST ? usual : LEAST;
}

static unsigned long least(void)
{
    unsigned long a = totals()->of[0].full, b = totals()->of[1].full;

    return a < b ? a : b;
}

static bool had_all_formats(void)
{
    for (int i = 0; i < SIDES; i++)
        if (totals()->of[i].slots != 7 || totals()->of[i].sizes != 3)
            return false;
    return true;
}

/* Until both have seen that many more, however slow they are; but they must make progress. */
static void let_run(struct child *children, unsigned long frames)
{
    unsigned long before = least(), end = before + frames, now = before;
    int64_t until = test_now() + (int64_t)(60e9 * test_slowness());

    while (now < end) {
        test_nap(SLUICE_MS);
        for (int i = 0; i < SIDES; i++)
            CHECK(!child_ended(&children[i]));
        if (least() > now) {
            now = least();
            until = test_now() + (int64_t)(60e9 * test_slowness());
        }
        CHECK(test_now() < until);
    }
}

TEST_TIMEOUT(cipd_long_both_ways_while_processes_are_killed, 900)
{
    struct totals *seen = totals();
    struct child children[SIDES];
    unsigned long wanted = frames_wanted(), kills = 0;

    gpu_begin();
    for (int i = 0; i < SIDES; i++)
        children[i] = start(i);
    for (int i = 0; i < SIDES; i++)
        let_begin(&children[i]);
    for (int round = 0; least() < wanted || kills < KILLS || !had_all_formats(); round++) {
        struct child next = start(round % SIDES);
        let_run(children, wanted / (gpu_is_fake() ? 8 : 16) + 1);
        if (least() >= wanted && kills >= KILLS && had_all_formats())
            break;
        test_nap((round % 5) * SLUICE_MS);
        child_kill(&children[round % SIDES], SIGKILL);
        let_begin(&next);
        children[round % SIDES] = next;
        kills++;
    }
    for (int i = 0; i < SIDES; i++)
        child_kill(&children[i], SIGKILL);
    cipd_clean();
    FILE *facts = gpu_facts();
    for (int i = 0; i < SIDES; i++)
        fprintf(facts,
                "{\"fact\": \"cipd\", \"copies\": %d, \"kills\": %lu, \"taken\": %lu, \"whole\": %lu, \"of_1080p\": "
                "%lu, \"overrun\": %lu, "
                "\"sessions\": %lu, \"changes\": %u, \"torn_words\": %u}\n",
                i, kills, (unsigned long)seen->of[i].taken, (unsigned long)seen->of[i].whole,
                (unsigned long)seen->of[i].full, (unsigned long)seen->of[i].lost, (unsigned long)seen->of[i].sessions,
                (unsigned)seen->of[!i].changes, (unsigned)seen->of[i].torn);
    CHECK(fclose(facts) == 0);
    for (int i = 0; i < SIDES; i++) {
        CHECK_EQ(seen->of[i].torn, 0);
        CHECK_GE(seen->of[i].sessions, kills / 2);
    }
    CHECK_GE(kills, KILLS);
}
