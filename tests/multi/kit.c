/* SPDX-License-Identifier: MIT */
#include "multi/kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK    4096
#define PATIENCE (20 * SLUICE_S) /* for what must arrive: only a hang takes longer */

/* ---- frames ---- */

struct sluice_format kit_format(int64_t bytes)
{
    struct sluice_format format = SLUICE_FORMAT_INIT;
    struct sluice_dtype u8 = { SLUICE_UINT, 8, 1 };
    CHECK_OK(sluice_format_add_tensor(&format, "data", u8, 1, &bytes));
    return format;
}

static void put(char *at, uint64_t room, uint64_t value)
{
    memcpy(at, &value, room < sizeof value ? (size_t)room : sizeof value);
}

static bool says(const char *at, uint64_t room, uint64_t value)
{
    return memcmp(at, &value, room < sizeof value ? (size_t)room : sizeof value) == 0;
}

void kit_fill(const struct sluice_frame *frame, uint64_t value)
{
    for (uint32_t i = 0; i < frame->array_count; i++) {
        struct sluice_array array;
        CHECK_OK(sluice_frame_array_at(frame, i, &array));
        CHECK_EQ(array.read_only, 0);
        char *data = kit_device() ? calloc(1, (size_t)array.nbytes + 1) : array.data;
        CHECK(data);
        for (uint64_t at = 0; at < array.nbytes; at += BLOCK)
            put(data + at, array.nbytes - at, value);
        if (array.nbytes > sizeof value)
            put(data + array.nbytes - sizeof value, sizeof value, value);
        if (kit_device()) {
            kit_put(&array, data);
            free(data);
        }
    }
}

/* Do all 4 KiB blocks of these bytes hold it? */
static bool whole(const char *data, uint64_t size, uint64_t value)
{
    /* From the end: a writer fills from the start, so half-written frames are found. */
    if (size > sizeof value && !says(data + size - sizeof value, sizeof value, value))
        return false;
    for (uint64_t at = 0; at < size; at += BLOCK)
        if (size - at > sizeof value && !says(data + at, size - at, value))
            return false;
    return true;
}

bool kit_whole(const struct sluice_frame *frame, uint64_t value)
{
    for (uint32_t i = 0; i < frame->array_count; i++) {
        struct sluice_array array;
        CHECK_OK(sluice_frame_array_at(frame, i, &array));
        char *copy = kit_device() ? malloc((size_t)array.nbytes + 1) : NULL;
        if (copy)
            kit_get(&array, copy);
        bool right = whole(copy ? copy : array.data, array.nbytes, value);
        free(copy);
        if (!right)
            return false;
    }
    return true;
}

int kit_commit(sluice_writer *writer)
{
    struct sluice_frame frame;
    int r = sluice_writer_begin(writer, SLUICE_DEFAULT, &frame);
    if (r != 0)
        return r;
    uint64_t next = kit_writer_stats(writer).committed + 1;
    kit_fill(&frame, next);
    CHECK_OK(sluice_writer_commit(writer, &frame, SLUICE_ON_CPU));
    CHECK_EQ(frame.sequence, next);
    return 0;
}

/* The slot that a writer adds on a GPU may come after a begin without timeout has returned. */
static void wait_for_added(sluice_writer *writer)
{
    uint32_t before = kit_writer_stats(writer).slots;

    CHECK_OK(sluice_writer_wait(writer, PATIENCE));
    CHECK_EQ(kit_writer_stats(writer).slots, before + 1);
}

void kit_commits(sluice_writer *writer, int n)
{
    for (int i = 0; i < n; i++) {
        int r = kit_commit(writer);
        if (r == SLUICE_NO_SLOT && kit_device()) {
            wait_for_added(writer);
            r = kit_commit(writer);
        }
        CHECK_OK(r);
    }
}

struct sluice_frame kit_take(sluice_reader *reader)
{
    struct sluice_frame frame;
    CHECK_OK(sluice_reader_acquire(reader, SLUICE_ON_CPU, PATIENCE, &frame));
    CHECK(kit_whole(&frame, frame.sequence));
    return frame;
}

void kit_give(sluice_reader *reader, struct sluice_frame *frame)
{
    CHECK(kit_whole(frame, frame->sequence));
    CHECK_OK(sluice_reader_release(reader, frame, SLUICE_ON_CPU));
}

int kit_take_all(sluice_reader *reader, int *end)
{
    struct sluice_frame frame;
    int n = 0;

    while ((*end = sluice_reader_acquire(reader, SLUICE_ON_CPU, 0, &frame)) == 0) {
        kit_give(reader, &frame);
        n++;
    }
    return n;
}

/* ---- ends ---- */

struct sluice_writer_params kit_writer_params(const char *name, const struct sluice_format *format)
{
    struct sluice_writer_params params = SLUICE_WRITER_PARAMS_INIT;
    params.name = name;
    params.device = kit_device();
    params.format = format;
    return params;
}

struct sluice_reader_params kit_reader_params(const char *name)
{
    struct sluice_reader_params params = SLUICE_READER_PARAMS_INIT;
    (void)kit_device(); /* it warms up the driver */
    params.name = name;
    return params;
}

sluice_writer *kit_writer(const char *name, int64_t bytes)
{
    struct sluice_format format = kit_format(bytes);
    struct sluice_writer_params params = kit_writer_params(name, &format);
    sluice_writer *writer;
    test_dir();
    CHECK_OK(sluice_writer_open(&writer, &params));
    return writer;
}

sluice_reader *kit_reader(const char *name, uint32_t mode)
{
    struct sluice_reader_params params = kit_reader_params(name);
    sluice_reader *reader;
    params.mode = mode;
    params.open_timeout_ns = PATIENCE;
    CHECK_OK(sluice_reader_open(&reader, &params));
    return reader;
}

sluice_writer *kit_open_writer(uint32_t slots, uint32_t max_slots, int64_t wait_ns)
{
    struct sluice_format format = kit_format(16384);
    struct sluice_writer_params params = kit_writer_params("cam", &format);
    sluice_writer *writer;

    test_dir();
    params.slots = slots;
    params.max_slots = max_slots;
    params.wait_ns = wait_ns;
    params.policy = wait_ns ? SLUICE_WAIT : SLUICE_DROP;
    CHECK_OK(sluice_writer_open(&writer, &params));
    return writer;
}

sluice_reader *kit_open_reader(uint32_t mode, uint32_t depth, uint32_t hold, uint32_t every)
{
    struct sluice_reader_params params = kit_reader_params("cam");
    sluice_reader *reader;

    params.mode = mode;
    params.depth = depth;
    params.hold = hold;
    params.every = every;
    params.open_timeout_ns = PATIENCE;
    CHECK_OK(sluice_reader_open(&reader, &params));
    return reader;
}

sluice_reader *kit_newest(int64_t open_timeout_ns)
{
    struct sluice_reader_params params = kit_reader_params("cam");
    sluice_reader *reader;

    params.open_timeout_ns = open_timeout_ns;
    CHECK_OK(sluice_reader_open(&reader, &params));
    return reader;
}

int kit_try_write(const char *name)
{
    struct sluice_format format = kit_format(BLOCK);
    struct sluice_writer_params params = kit_writer_params(name, &format);
    sluice_writer *writer = NULL;
    int r = sluice_writer_open(&writer, &params);

    if (r == 0)
        CHECK_OK(sluice_writer_close(&writer));
    CHECK(writer == NULL);
    return r;
}

int kit_try_read(const char *name)
{
    struct sluice_reader_params params = kit_reader_params(name);
    sluice_reader *reader = NULL;
    int r = sluice_reader_open(&reader, &params);

    if (r == 0)
        CHECK_OK(sluice_reader_close(&reader));
    CHECK(reader == NULL);
    return r;
}

struct sluice_writer_stats kit_writer_stats(sluice_writer *writer)
{
    struct sluice_writer_stats stats = { .size = sizeof stats };
    CHECK_OK(sluice_writer_stats(writer, &stats));
    return stats;
}

struct sluice_reader_stats kit_reader_stats(sluice_reader *reader)
{
    struct sluice_reader_stats stats = { .size = sizeof stats };
    CHECK_OK(sluice_reader_stats(reader, &stats));
    return stats;
}

uint64_t kit_taken(const char *name, pid_t pid)
{
    struct sluice_channel_info info = { .size = sizeof info };
    struct sluice_reader_info readers[SLUICE_MAX_READERS];
    uint64_t taken = 0;

    CHECK_OK(sluice_channel_info(name, PATIENCE, &info, readers, SLUICE_MAX_READERS));
    for (uint32_t i = 0; i < info.readers; i++)
        if ((pid_t)readers[i].pid == pid)
            taken += readers[i].taken;
    return taken;
}

/* ---- roles ---- */

const char *ask(struct child *child, const char *line)
{
    child_send(child, line);
    const char *answer = child_line(child, 10);
    if (!answer)
        FAIL("%s ended at \"%s\"", child->label, line);
    return answer;
}

void expect_answer(const char *file, int line_number, struct child *child, const char *line, const char *answer)
{
    const char *got = ask(child, line);
    if (strncmp(got, answer, strlen(answer)) != 0)
        test_fail(file, line_number, "%s should answer \"%s\" by \"%s\", not \"%s\"", child->label, line, answer, got);
}

long long number_at(const char *file, int line, const char *text, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = text; at && (at = strstr(at, word)); at += length)
        if ((at == text || at[-1] == ' ') && at[length] == ' ')
            return strtoll(at + length, NULL, 10);
    test_fail(file, line, "there is no number behind \"%s\" in \"%s\"", word, text ? text : "(null)");
}

const char *option(int argc, char **argv, const char *name, const char *otherwise)
{
    size_t length = strlen(name);
    for (int i = 1; i < argc; i++)
        if (strncmp(argv[i], name, length) == 0 && argv[i][length] == '=')
            return argv[i] + length + 1;
    return otherwise;
}

long long option_number(int argc, char **argv, const char *name, long long otherwise)
{
    const char *text = option(argc, argv, name, NULL);
    return text ? strtoll(text, NULL, 10) : otherwise;
}
