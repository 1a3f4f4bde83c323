/* SPDX-License-Identifier: MIT
 *
 * NULL arguments, parameters of other releases and invalid ones, exhausted resources. Each returns an error with a
 * message, and nothing leaks.
 */
#include <stddef.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "multi/kit.h"

#define KIB 1024

/* ---- NULL ---- */

TEST(nothing_where_something_belongs_is_an_answer)
{
    sluice_writer *writer = kit_writer("cam", 4 * KIB);
    sluice_reader *reader = kit_reader("cam", SLUICE_NEWEST);
    struct sluice_format format = kit_format(4 * KIB);
    struct sluice_writer_params wp = kit_writer_params("cam2", &format);
    struct sluice_reader_params rp = kit_reader_params("cam");
    struct sluice_stream cpu = SLUICE_ON_CPU;
    struct sluice_frame frame;
    struct sluice_array array;
    char name[64];
    sluice_writer *no_writer = NULL;
    sluice_reader *no_reader = NULL;
    sluice_watch *watch = NULL;
    size_t count;

    CHECK_RESULT(sluice_writer_open(NULL, &wp), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_writer_open(&no_writer, NULL), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_reader_open(NULL, &rp), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_reader_open(&no_reader, NULL), SLUICE_E_INVALID);
    wp.format = NULL;
    CHECK_SAYS(sluice_writer_open(&no_writer, &wp), SLUICE_E_INVALID, "no format");
    CHECK_RESULT(sluice_writer_begin(NULL, 0, &frame), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_writer_begin(writer, 0, NULL), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_writer_commit(NULL, &frame, cpu), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_writer_commit(writer, NULL, cpu), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_writer_cancel(NULL, &frame, cpu), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_writer_cancel(writer, NULL, cpu), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_writer_send(NULL, &array, 1, cpu, NULL), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_writer_send(writer, NULL, 1, cpu, NULL), SLUICE_E_FORMAT);
    CHECK_RESULT(sluice_writer_send(writer, &array, 0, cpu, NULL), SLUICE_E_FORMAT);
    CHECK_RESULT(sluice_writer_reformat(NULL, &format), SLUICE_E_INVALID);
    CHECK(sluice_writer_reformat(writer, NULL) < 0);
    CHECK_RESULT(sluice_writer_format(NULL, &format), SLUICE_E_INVALID);
    CHECK(sluice_writer_format(writer, NULL) < 0);
    CHECK_RESULT(sluice_writer_stats(NULL, NULL), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_writer_stats(writer, NULL), SLUICE_E_INVALID);
    CHECK_OK(sluice_writer_close(NULL));
    CHECK_OK(sluice_writer_close(&no_writer));

    kit_commits(writer, 1);
    CHECK_RESULT(sluice_reader_acquire(NULL, cpu, 0, &frame), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_reader_acquire(reader, cpu, 0, NULL), SLUICE_E_INVALID);
    frame = kit_take(reader);
    CHECK_RESULT(sluice_reader_release(NULL, &frame, cpu), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_reader_release(reader, NULL, cpu), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_reader_fetch(reader, NULL, &array, 1, cpu, NULL), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_reader_fetch(reader, &frame, NULL, 1, cpu, NULL), SLUICE_E_FORMAT);
    CHECK(sluice_reader_fetch(NULL, &frame, &array, 1, cpu, NULL) < 0);
    CHECK_RESULT(sluice_reader_format(NULL, &format), SLUICE_E_INVALID);
    CHECK(sluice_reader_format(reader, NULL) < 0);
    CHECK_RESULT(sluice_reader_fd(NULL), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_reader_stats(NULL, NULL), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_reader_stats(reader, NULL), SLUICE_E_INVALID);
    CHECK_OK(sluice_reader_close(NULL));
    CHECK_OK(sluice_reader_close(&no_reader));

    CHECK_RESULT(sluice_frame_array(NULL, NULL, &array), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_frame_array(&frame, NULL, NULL), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_frame_array_at(NULL, 0, &array), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_frame_array_at(&frame, 0, NULL), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_frame_array_at(&frame, 1, &array), SLUICE_E_NOT_FOUND);
    CHECK_RESULT(sluice_frame_device(NULL, name, sizeof name), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_frame_reshape(NULL, NULL, 0, NULL), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_frame_resize(NULL, NULL, 0, 0), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_frame_inherit(NULL, &frame), SLUICE_E_INVALID);
    CHECK(sluice_frame_inherit(&frame, NULL) < 0);
    kit_give(reader, &frame);
    CHECK_OK(sluice_writer_begin(writer, 0, &frame));
    CHECK_RESULT(sluice_frame_inherit(&frame, NULL), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_frame_reshape(&frame, NULL, 1, NULL), SLUICE_E_INVALID);
    CHECK_OK(sluice_writer_cancel(writer, &frame, cpu));

    CHECK_RESULT(sluice_registry_list(NULL, NULL, 0, NULL), SLUICE_E_INVALID);
    CHECK_OK(sluice_registry_list(NULL, NULL, 0, &count));
    CHECK_RESULT(sluice_registry_watch_open(NULL, NULL), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_registry_watch_fd(NULL), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_registry_watch_next(NULL, 0), SLUICE_E_INVALID);
    CHECK_OK(sluice_registry_watch_close(NULL));
    CHECK_OK(sluice_registry_watch_close(&watch));
    CHECK_RESULT(sluice_channel_info("cam", SLUICE_DEFAULT, NULL, NULL, 0), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_ticket_wait((struct sluice_ticket){ 0 }, 0), SLUICE_E_HANDLE);
    CHECK_RESULT(sluice_ticket_wait((struct sluice_ticket){ 99 }, 0), SLUICE_E_HANDLE);
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&writer));
}

/* ---- older and newer programs ---- */

struct newer_params {
    struct sluice_writer_params now;
    uint64_t future[4];
};

TEST(parameters_of_other_releases)
{
    struct sluice_format format = kit_format(4 * KIB);
    struct newer_params newer = { .now = kit_writer_params("cam", &format) };
    sluice_writer *writer = NULL;

    test_dir();
    newer.now.size = 0;
    CHECK_SAYS(sluice_writer_open(&writer, &newer.now), SLUICE_E_INVALID, "size of 0 bytes");
    newer.now.size = 12;
    CHECK_SAYS(sluice_writer_open(&writer, &newer.now), SLUICE_E_INVALID, "size of 12 bytes");
    newer.now.size = 1000000;
    CHECK_SAYS(sluice_writer_open(&writer, &newer.now), SLUICE_E_INVALID, "size of 1000000 bytes");
    newer.now.size = sizeof newer;
    newer.future[2] = 1;
    CHECK_SAYS(sluice_writer_open(&writer, &newer.now), SLUICE_E_UNSUPPORTED, "does not have");
    newer.future[2] = 0;
    CHECK_OK(sluice_writer_open(&writer, &newer.now));

    /* An older program knows fewer fields: what follows its struct is not read. */
    struct sluice_reader_params params = kit_reader_params("cam");
    sluice_reader *reader = NULL;
    params.size = 0;
    CHECK_RESULT(sluice_reader_open(&reader, &params), SLUICE_E_INVALID);
    params.size = offsetof(struct sluice_reader_params, every);
    params.every = 99;
    params.writable = 7;
    CHECK_OK(sluice_reader_open(&reader, &params));
    kit_commits(writer, 1);
    struct sluice_frame frame = kit_take(reader);
    kit_give(reader, &frame);
    kit_commits(writer, 1);
    frame = kit_take(reader); /* each one */
    kit_give(reader, &frame);

    struct {
        struct sluice_writer_stats now;
        uint64_t future[2];
    } stats = { .future = { 5, 6 } };
    CHECK_RESULT(sluice_writer_stats(writer, &stats.now), SLUICE_E_INVALID);
    stats.now.size = sizeof stats;
    CHECK_OK(sluice_writer_stats(writer, &stats.now));
    CHECK_EQ(stats.now.committed, 2);
    CHECK_EQ(stats.now.size, sizeof stats);
    CHECK_EQ(stats.future[0], 5);
    memset(&stats, 0xee, sizeof stats);
    stats.now.size = offsetof(struct sluice_writer_stats, bytes);
    CHECK_OK(sluice_writer_stats(writer, &stats.now));
    CHECK_EQ(stats.now.stolen, 0);
    CHECK_EQ(stats.now.bytes, 0xeeeeeeeeeeeeeeee);
    struct sluice_reader_stats reader_stats = { .size = 0 };
    CHECK_RESULT(sluice_reader_stats(reader, &reader_stats), SLUICE_E_INVALID);
    struct sluice_channel_info info = { .size = 0 };
    CHECK_RESULT(sluice_channel_info("cam", SLUICE_DEFAULT, &info, NULL, 0), SLUICE_E_INVALID);
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&writer));
}

TEST(parameters_that_make_no_sense)
{
    struct sluice_format format = kit_format(4 * KIB);
    sluice_writer *writer = NULL;
    sluice_reader *reader = NULL;

    test_dir();
    for (int i = 0; i < 13; i++) {
        struct sluice_writer_params params = kit_writer_params("cam", &format);
        int expected = SLUICE_E_INVALID;
        switch (i) {
        case 0: params.policy = 2; break;
        case 1: params.slots = 2; break;
        case 2: params.slots = 65; break;
        case 3:
            params.slots = 8;
            params.max_slots = 7;
            break;
        case 4: params.max_slots = 65; break;
        case 5: params.max_slots = 2; break;
        case 6: params.readers = 65; break;
        case 7: params.wait_ns = -1; break;
        case 8: params.lease_timeout_ns = -1; break;
        case 9: params.writable = 2; break;
        case 10: params.gid_count = 1; break;
        case 11:
            params.device = "cuda:99";
            expected = SLUICE_E_UNSUPPORTED;
            break;
        case 12:
            params.device = "nonsense";
            expected = SLUICE_E_UNSUPPORTED;
            break;
        }
        CHECK_RESULT(sluice_writer_open(&writer, &params), expected);
        CHECK(strlen(sluice_last_error()) > 10);
    }
    writer = kit_writer("cam", 4 * KIB);
    for (int i = 0; i < 9; i++) {
        struct sluice_reader_params params = kit_reader_params("cam");
        int expected = SLUICE_E_INVALID;
        switch (i) {
        case 0: params.mode = 2; break;
        case 1:
            params.hold = 65;
            expected = SLUICE_E_LIMIT;
            break;
        case 2: params.writable = 2; break;
        case 3: params.open_timeout_ns = -2; break;
        case 4: params.spin_ns = -2; break;
        case 5: params.uid_count = 1; break;
        case 6:
            params.device = kit_device() ? "host" : "cuda:0";
            expected = SLUICE_E_WRONG_DEVICE;
            break;
        case 7:
            params.device = "";
            expected = SLUICE_E_UNSUPPORTED;
            break;
        case 8:
            params.hold = UINT32_MAX - 1;
            expected = SLUICE_E_LIMIT;
            break;
        }
        CHECK_RESULT(sluice_reader_open(&reader, &params), expected);
        CHECK(strlen(sluice_last_error()) > 10);
    }
    CHECK_OK(sluice_writer_close(&writer));
}

/* ---- exhausted ---- */

TEST(out_of_descriptors_is_said_and_leaks_none)
{
    sluice_writer *writer = kit_writer("cam", 4 * KIB), *other = NULL;
    struct sluice_format format = kit_format(4 * KIB);
    struct sluice_writer_params wp = kit_writer_params("other", &format);
    struct sluice_reader_params rp = kit_reader_params("cam");
    sluice_reader *reader = NULL;
    struct rlimit before, less;
    int used = process_fds(getpid()), writers = 0, readers = 0;

    getrlimit(RLIMIT_NOFILE, &before);
    for (rlim_t room = 0; room < 24; room++) {
        less = before;
        less.rlim_cur = (rlim_t)used - 1 + room; /* one of the open ones was for reading the folder */
        setrlimit(RLIMIT_NOFILE, &less);
        int w = sluice_writer_open(&other, &wp);
        if (w == 0)
            CHECK_OK(sluice_writer_close(&other));
        else
            CHECK_SAYS(w, SLUICE_E_NO_DESCRIPTORS, "RLIMIT_NOFILE");
        int r = sluice_reader_open(&reader, &rp);
        if (r == 0)
            CHECK_OK(sluice_reader_close(&reader));
        else /* the writer lives in this process and lacks them too: it hangs up */
            CHECK(r == SLUICE_E_NO_DESCRIPTORS || r == SLUICE_TIMEOUT || r == SLUICE_E_NOT_FOUND);
        writers += w == 0;
        readers += r == 0;
        setrlimit(RLIMIT_NOFILE, &before);
        CHECK_SOON(process_fds(getpid()) == used, 3);
    }
    CHECK(writers > 0 && writers < 24);
    CHECK(readers > 0 && readers < 24);
    kit_commits(writer, 1);
    reader = kit_reader("cam", SLUICE_NEWEST);
    struct sluice_frame frame = kit_take(reader);
    kit_give(reader, &frame);
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&writer));
}

TEST(out_of_memory_is_said_with_how_much_was_asked)
{
    struct sluice_format format = kit_format(INT64_C(1) << 42);
    struct sluice_writer_params params = kit_writer_params("cam", &format);
    sluice_writer *writer = NULL;
    int fds = process_fds(getpid());

    test_dir();
    CHECK_SAYS(sluice_writer_open(&writer, &params), SLUICE_E_NO_MEMORY, "bytes were asked for");
    format = kit_format(INT64_C(1) << 45);
    params.slots = params.max_slots = 64;
    CHECK(sluice_writer_open(&writer, &params) < 0);
    CHECK_EQ(process_fds(getpid()), fds);
    format = kit_format(4 * KIB);
    CHECK_OK(sluice_writer_open(&writer, &params));
    CHECK_OK(sluice_writer_close(&writer));
}
