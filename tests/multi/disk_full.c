/* SPDX-License-Identifier: MIT
 *
 * No space left: in the folder of channels, in /dev/shm, in memory. The error says where; running channels are not
 * affected, and with space again all is as before.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "multi/kit.h"

static void fill(const char *folder)
{
    static const char page[4096];
    char path[600];

    snprintf(path, sizeof path, "%s/filler", folder);
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    CHECK_GE(fd, 0);
    while (write(fd, page, sizeof page) > 0)
        ;
    close(fd);
}

/* A frame of each size goes to a reader that is there and to a new one. */
static void check_at_work(sluice_writer *writer, sluice_reader *reader)
{
    kit_commits(writer, 1);
    struct sluice_frame frame = kit_take(reader);
    kit_give(reader, &frame);
    CHECK_OK(kit_try_read("cam"));
}

TEST(a_folder_without_room_for_a_name_says_so)
{
    const char *folder = test_dir();

    /* The folder itself, a lock and a socket; while it is made the socket has a second name. */
    test_small_disk(folder, "size=64k,nr_inodes=4,mode=700");
    sluice_writer *writer = kit_writer("cam", 8192);
    sluice_reader *reader = kit_reader("cam", SLUICE_NEWEST);
    check_at_work(writer, reader);
    CHECK_SAYS(kit_try_write("second"), SLUICE_E_NO_MEMORY, "second");
    CHECK_HAS(sluice_last_error(), "No space left on device");
    CHECK_SAYS(kit_try_write("third"), SLUICE_E_NO_MEMORY, "the lock file third.lock: No space left on device");
    check_at_work(writer, reader);
    CHECK_OK(sluice_reader_close(&reader));

    /* The space of a closed channel can be used by another. */
    CHECK_OK(sluice_writer_close(&writer));
    CHECK_OK(kit_try_write("second"));
    CHECK_EQ(mount(NULL, folder, NULL, MS_REMOUNT, "nr_inodes=16"), 0);
    CHECK_OK(kit_try_write("third"));
    CHECK_OK(kit_try_write("cam"));
}

TEST(a_folder_without_room_for_a_byte_will_do)
{
    struct sluice_registry_entry entry;
    size_t count;

    test_small_disk(test_dir(), "size=8k,mode=700");
    fill(test_dir());
    sluice_writer *writer = kit_writer("cam", 8192);
    sluice_reader *reader = kit_reader("cam", SLUICE_NEWEST);
    check_at_work(writer, reader);
    CHECK_OK(sluice_registry_list(NULL, &entry, 1, &count));
    CHECK_EQ(count, 1);
    CHECK_EQ(entry.live, 1);
    CHECK_RESULT(kit_try_write("cam"), SLUICE_E_EXISTS);
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&writer));
}

TEST(a_full_dev_shm_has_no_effect)
{
    test_small_disk("/dev/shm", "size=4k");
    fill("/dev/shm");
    sluice_writer *writer = kit_writer("cam", 4 << 20);
    struct child reader = kit_start("reader", "hold=2", NULL);
    child_expect(&reader, "open", 5);
    struct sluice_format format = kit_format(8 << 20);
    kit_commits(writer, 1);
    EXPECT_ANSWER(&reader, "hold 20000", "holds 1 ");
    CHECK_OK(sluice_writer_reformat(writer, &format));
    kit_commits(writer, 1);
    EXPECT_ANSWER(&reader, "hold 20000", "holds 2 ");
    EXPECT_ANSWER(&reader, "check", "whole 2");
    role_stop(&reader);
    CHECK_OK(sluice_writer_close(&writer));
}
