/* SPDX-License-Identifier: MIT */
#include "fault/scenario.h"

#include <stdio.h>
#include <string.h>

#include <sluice/sluice.h>

#include "fault/wrap.h"
#include "harness/test.h"

struct life {
    struct outcome *outcome;
    int64_t patience_ns;
    sluice_writer *writer;
    sluice_reader *newest, *in_order;
    sluice_watch *watch;
    struct sluice_frame kept; /* by the reader in order, from the first frame to the second session */
    struct sluice_format format;
};

/* True if the step succeeded. The first one that did not is recorded. */
static bool went(struct life *life, const char *step, int result)
{
    if (result == 0)
        return true;
    life->outcome->step = step;
    life->outcome->result = result;
    snprintf(life->outcome->sentence, sizeof life->outcome->sentence, "%s", sluice_last_error());
    return false;
}

static void make_format(struct sluice_format *format, int64_t bytes)
{
    struct sluice_dtype byte = { SLUICE_UINT, 8, 1 };

    *format = (struct sluice_format)SLUICE_FORMAT_INIT;
    CHECK_OK(sluice_format_add_tensor(format, "data", byte, 1, &bytes));
}

static bool open_writer(struct life *life)
{
    struct sluice_writer_params params = SLUICE_WRITER_PARAMS_INIT;

    make_format(&life->format, 5000);
    params.name = CHANNEL;
    params.format = &life->format;
    params.slots = 3;
    params.max_slots = 6;
    params.resize = 1;
    return went(life, "writer_open", sluice_writer_open(&life->writer, &params));
}

static bool open_readers(struct life *life)
{
    struct sluice_reader_params params = SLUICE_READER_PARAMS_INIT;

    params.name = CHANNEL;
    params.open_timeout_ns = life->patience_ns;
    if (!went(life, "reader_open", sluice_reader_open(&life->newest, &params)))
        return false;
    params.mode = SLUICE_IN_ORDER;
    params.hold = 2;
    params.depth = 2;
    if (!went(life, "reader_open in order", sluice_reader_open(&life->in_order, &params)))
        return false;
    int fd = sluice_reader_fd(life->newest);
    return went(life, "reader_fd", fd < 0 ? fd : 0);
}

static bool write_frame(struct life *life)
{
    struct sluice_frame frame;
    struct sluice_array array;

    if (!went(life, "begin", sluice_writer_begin(life->writer, SLUICE_DEFAULT, &frame)) ||
        !went(life, "frame_array", sluice_frame_array(&frame, NULL, &array)))
        return false;
    memset(array.data, 7, array.nbytes);
    return went(life, "commit", sluice_writer_commit(life->writer, &frame, SLUICE_ON_CPU));
}

/* A frame must come in time; it need not come at once, and if one was lost the next one will do. */
static bool take(struct life *life, sluice_reader *reader, struct sluice_frame *frame, const char *step)
{
    int64_t until = test_now() + life->patience_ns;
    int r;

    while ((r = sluice_reader_acquire(reader, SLUICE_ON_CPU, 50 * SLUICE_MS, frame)) > 0 && test_now() < until)
        if (!write_frame(life))
            return false;
    return went(life, step, r);
}

static bool read_frame(struct life *life, sluice_reader *reader, const char *step)
{
    struct sluice_frame frame;
    struct sluice_array array;

    if (!take(life, reader, &frame, step))
        return false;
    bool good = went(life, "frame_array", sluice_frame_array(&frame, NULL, &array));
    if (good && ((char *)array.data)[array.nbytes - 1] != 7)
        FAIL("a frame is not what was written");
    return went(life, "release", sluice_reader_release(reader, &frame, SLUICE_ON_CPU)) && good;
}

/* More frames at once than there are slots. */
static bool grow(struct life *life)
{
    struct sluice_frame frames[4];
    int count = 0;
    bool good = true;

    while (good && count < 4) {
        good = went(life, "begin to grow", sluice_writer_begin(life->writer, SLUICE_DEFAULT, &frames[count]));
        count += good;
    }
    for (int i = 0; i < count; i++) {
        struct sluice_array array;
        CHECK_OK(sluice_frame_array(&frames[i], NULL, &array));
        memset(array.data, 7, array.nbytes);
        CHECK_OK(sluice_writer_commit(life->writer, &frames[i], SLUICE_ON_CPU));
    }
    return good;
}

static bool change_format(struct life *life)
{
    struct sluice_array array;
    static char data[9000];
    struct sluice_dtype byte = { SLUICE_UINT, 8, 1 };
    int64_t shape = sizeof data;

    memset(data, 7, sizeof data);
    make_format(&life->format, 7000);
    CHECK_OK(sluice_array_wrap(&array, "data", data, byte, 1, &shape, NULL));
    return went(life, "reformat", sluice_writer_reformat(life->writer, &life->format)) && write_frame(life) &&
           read_frame(life, life->newest, "acquire after reformat") &&
           went(life, "send", sluice_writer_send(life->writer, &array, 1, SLUICE_ON_CPU, NULL)) &&
           read_frame(life, life->newest, "acquire after send");
}

static bool look_around(struct life *life)
{
    struct sluice_channel_info info = { .size = sizeof info };
    struct sluice_reader_info readers[4];
    struct sluice_registry_entry entries[4];
    size_t count;

    if (!went(life, "info", sluice_channel_info(CHANNEL, life->patience_ns, &info, readers, 4)) ||
        !went(life, "list", sluice_registry_list(NULL, entries, 4, &count)))
        return false;
    CHECK_EQ(count, 1);
    return went(life, "watch_open", sluice_registry_watch_open(&life->watch, NULL));
}

static bool second_session(struct life *life)
{
    struct sluice_frame frame;

    CHECK_OK(sluice_writer_close(&life->writer));
    int r = sluice_registry_watch_next(life->watch, life->patience_ns);
    if (!went(life, "watch_next", r) || !open_writer(life) || !write_frame(life))
        return false;
    /* Until it is one of the new session; the rest of the old one comes first. */
    do {
        if (!take(life, life->in_order, &frame, "acquire in the second session"))
            return false;
        bool is_new = frame.flags & SLUICE_FRAME_NEW_SESSION;
        if (!went(life, "release", sluice_reader_release(life->in_order, &frame, SLUICE_ON_CPU)))
            return false;
        if (is_new)
            break;
    } while (true);
    return read_frame(life, life->newest, "acquire in the second session, newest");
}

static bool live(struct life *life)
{
    if (!open_writer(life) || !open_readers(life))
        return false;
    if (!write_frame(life) || !take(life, life->in_order, &life->kept, "acquire to keep"))
        return false;
    for (int i = 0; i < 3; i++)
        if (!read_frame(life, life->newest, "acquire") || !write_frame(life))
            return false;
    return grow(life) && read_frame(life, life->in_order, "acquire in order") &&
           read_frame(life, life->newest, "acquire") && change_format(life) && look_around(life) &&
           went(life, "release", sluice_reader_release(life->in_order, &life->kept, SLUICE_ON_CPU)) &&
           second_session(life);
}

/* The end always succeeds. */
static void end(struct life *life)
{
    CHECK_OK(sluice_reader_close(&life->newest));
    CHECK_OK(sluice_writer_close(&life->writer));
    CHECK_OK(sluice_reader_close(&life->in_order));
    CHECK_OK(sluice_registry_watch_close(&life->watch));
}

void scenario_run(struct outcome *outcome, int64_t patience_ns)
{
    struct life life = { .outcome = outcome, .patience_ns = patience_ns };

    *outcome = (struct outcome){ .step = NULL };
    live(&life);
    end(&life);
}

/* ---- resources ---- */

struct resources_held resources_held_now(void)
{
    return (struct resources_held){ .of_system = resources_now(), .blocks = fault_blocks() };
}

void resources_held_check(const struct resources_held *before, const char *when)
{
    resources_check(&before->of_system, when);
    struct resources_held now = resources_held_now();
    if (now.of_system.fds != before->of_system.fds || now.of_system.mappings)
        FAIL("%s: %d descriptors (%d before), %d mappings", when, now.of_system.fds, before->of_system.fds,
             now.of_system.mappings);
    if (now.blocks > before->blocks)
        FAIL("%s: %ld blocks of memory (%ld before)", when, now.blocks, before->blocks);
}
