/* SPDX-License-Identifier: MIT
 *
 * Memory of old formats is freed, in writers and readers.
 */
#include <stdio.h>
#include <unistd.h>

#include "multi/kit.h"

#define KIB  1024
#define MANY 600 /* formats in a row: more than anyone may remember */

static void reformat(sluice_writer *writer, int64_t bytes)
{
    struct sluice_format format = kit_format(bytes);
    CHECK_OK(sluice_writer_reformat(writer, &format));
}

static void change_often(sluice_writer *writer)
{
    for (int i = 0; i < MANY; i++) {
        reformat(writer, 4096 * (1 + i % 3));
        kit_commits(writer, 1);
    }
}

TEST(memory_of_old_formats_is_given_back)
{
    sluice_writer *writer = kit_writer("cam", 4 * KIB);
    struct child reader = kit_start("reader", "mode=1", NULL);
    child_expect(&reader, "open", 5);

    kit_commits(writer, 1);
    EXPECT_ANSWER(&reader, "take 20000", "took 1 ");
    int fds = process_fds(getpid()), maps = process_mappings(getpid(), "memfd:"), theirs = process_fds(reader.pid);
    for (int i = 0; i < MANY; i++) {
        char line[64];
        reformat(writer, 4096 * (1 + i % 3));
        kit_commits(writer, 1);
        snprintf(line, sizeof line, "took %d missed 0 flags 2 generation %d", i + 2, i + 2);
        EXPECT_ANSWER(&reader, "take 20000", line);
    }
    CHECK_SOON(process_fds(getpid()) <= fds + 2, kit_frees_in());
    CHECK_SOON(process_mappings(getpid(), "memfd:") <= maps + 2, kit_frees_in());
    CHECK_LE(process_mappings(reader.pid, "memfd:sluice-cam"), 3);
    CHECK_SOON(process_fds(reader.pid) <= theirs + 2, 2); /* a GPU's driver has many of its own */
    role_stop(&reader);
    CHECK_OK(sluice_writer_close(&writer));
}

/* A reader that makes no calls: what arrives meanwhile must not pile up in it, nor cost it its entry. */
TEST(a_reader_that_does_not_look_for_long_keeps_nothing)
{
    sluice_writer *writer = kit_writer("cam", 4 * KIB);
    struct child reader = kit_start("reader", NULL);
    child_expect(&reader, "open", 5);

    kit_commits(writer, 1);
    EXPECT_ANSWER(&reader, "take 20000", "took 1 ");
    int fds = process_fds(reader.pid);
    change_often(writer);
    CHECK_SOON(process_fds(reader.pid) <= fds + 2, 2);
    EXPECT_ANSWER(&reader, "take 20000", "took 601 missed 599 flags 2 generation 601");
    CHECK_LE(process_mappings(reader.pid, "memfd:sluice-cam"), 3);
    CHECK_EQ(NUMBER(ask(&reader, "stats"), "sessions"), 1);
    CHECK_EQ(kit_writer_stats(writer).readers_died, 0);
    role_stop(&reader);
    CHECK_OK(sluice_writer_close(&writer));
}

/* One old frame, held for ever, keeps only its own memory, not that of all formats since. */
TEST(a_frame_held_for_long_keeps_only_its_own_memory)
{
    sluice_writer *writer = kit_writer("cam", 4 * KIB);
    struct child reader = kit_start("reader", "hold=2", NULL), idle = kit_start("reader", NULL);
    child_expect(&reader, "open", 5);
    child_expect(&idle, "open", 5);

    kit_commits(writer, 1);
    EXPECT_ANSWER(&reader, "hold 20000", "holds 1 ");
    EXPECT_ANSWER(&idle, "hold 20000", "holds 1 ");
    int fds = process_fds(reader.pid), idle_fds = process_fds(idle.pid);
    for (int i = 0; i < MANY; i++) {
        char line[64];
        reformat(writer, 4096 * (1 + i % 3));
        kit_commits(writer, 1);
        snprintf(line, sizeof line, "took %d missed 0 flags 2 generation %d", i + 2, i + 2);
        EXPECT_ANSWER(&reader, "take 20000", line);
    }
    CHECK_LE(process_mappings(getpid(), "memfd:sluice-cam"), 4);
    CHECK_LE(process_mappings(reader.pid, "memfd:sluice-cam"), 8);
    CHECK_SOON(process_fds(reader.pid) <= fds + 4, 2);
    CHECK_SOON(process_fds(idle.pid) <= idle_fds + 4, 2);
    EXPECT_ANSWER(&reader, "check", "whole 1");
    EXPECT_ANSWER(&reader, "give", "gave 1");
    EXPECT_ANSWER(&idle, "check", "whole 1");
    EXPECT_ANSWER(&idle, "give", "gave 1");
    EXPECT_ANSWER(&idle, "take 20000", "took 601 ");
    CHECK_EQ(NUMBER(ask(&idle, "stats"), "sessions"), 1);
    role_stop(&reader);
    role_stop(&idle);
    CHECK_OK(sluice_writer_close(&writer));
}
