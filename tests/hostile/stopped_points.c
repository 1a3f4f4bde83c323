/* SPDX-License-Identifier: MIT
 *
 * Sane readers and writers that are stopped in the middle of a step, at the kill points.
 */
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "hostile/attack.h"
#include "util/hooks.h"

static const char *stop_point;
static int passes; /* how often it is passed before */

static void stop_here(const char *name)
{
    if (strcmp(name, stop_point) != 0 || passes-- > 0)
        return;
    attack_done();
    raise(SIGSTOP);
}

static void stop_at(const char *point, int after)
{
    stop_point = point;
    passes = after;
    sl_kill_point_hook = stop_here;
}

/* ---- a reader ---- */

static void read_until_stopped(const char *point)
{
    struct sluice_frame frame;

    stop_at(point, 3);
    for (int i = 0; i < 400; i++) {
        if (i % 20 == 0) {
            sluice_reader *reader = kit_reader("cam", SLUICE_IN_ORDER);
            CHECK_OK(sluice_reader_close(&reader));
        }
        static sluice_reader *reader;
        if (!reader)
            reader = kit_reader("cam", SLUICE_NEWEST);
        if (sluice_reader_acquire(reader, SLUICE_ON_CPU, SLUICE_S, &frame) == 0)
            CHECK_OK(sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
    }
    FAIL("%s was not reached", point);
}

#define STOPPED_READER(point) \
    HOSTILE_READER(a_reader_stopped_##point, .refused = 0) \
    { \
        read_until_stopped(#point); \
    }

STOPPED_READER(after_hello)
STOPPED_READER(after_welcome)
STOPPED_READER(before_ack)
STOPPED_READER(before_switch)
STOPPED_READER(before_lease)
STOPPED_READER(after_lease)
STOPPED_READER(before_keep)
STOPPED_READER(after_keep)
STOPPED_READER(after_acquire)
STOPPED_READER(before_release)
STOPPED_READER(after_release)
STOPPED_READER(before_bye)

/* ---- a writer ---- */

static void write_until_stopped(const char *point)
{
    bool opening = strncmp(point, "after_l", 7) == 0 || strcmp(point, "after_bind") == 0;
    sluice_writer *writer = NULL;
    struct sluice_format formats[2] = { kit_format(8192), kit_format(16384) };
    struct sluice_writer_params params = kit_writer_params("cam", &formats[0]);

    params.slots = 3;
    stop_at(point, opening ? 0 : 2);
    CHECK_OK(sluice_writer_open(&writer, &params));
    for (int i = 0; i < 3000; i++) {
        if (i % 10 == 9)
            CHECK_OK(sluice_writer_reformat(writer, &formats[i / 10 % 2]));
        int r = kit_commit(writer);
        if (r != SLUICE_NO_SLOT)
            CHECK_OK(r);
        test_nap(SLUICE_MS);
    }
    FAIL("%s was not reached", point);
}

#define STOPPED_WRITER(point) \
    HOSTILE_WRITER(a_writer_stopped_##point, .refused = 0) \
    { \
        write_until_stopped(#point); \
    }

STOPPED_WRITER(after_lock)
STOPPED_WRITER(after_bind)
STOPPED_WRITER(after_listen)
STOPPED_WRITER(before_welcome)
STOPPED_WRITER(before_memory)
STOPPED_WRITER(after_mark)
STOPPED_WRITER(after_begin)
STOPPED_WRITER(before_ready)
STOPPED_WRITER(before_publish)
STOPPED_WRITER(before_head)
STOPPED_WRITER(before_wake)
STOPPED_WRITER(after_retire_mark)
STOPPED_WRITER(after_announce)
STOPPED_WRITER(before_numbering)
STOPPED_WRITER(before_forget)
