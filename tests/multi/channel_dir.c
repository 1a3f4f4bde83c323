/* SPDX-License-Identifier: MIT
 *
 * Where channels are found: names and folders.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "multi/kit.h"

#define KIB 1024

/* ---- names ---- */

TEST(invalid_names_are_refused_with_the_reason)
{
    static const struct {
        const char *name, *word;
    } bad[] = {
        { NULL, "no channel name" },
        { "", "is empty" },
        { "sluice:", "is empty" },
        { "a/b", "byte 2 (0x2f)" },
        { "/", "byte 1" },
        { "../up", "byte 3" },
        { ".", "begin with a dot" },
        { "..", "begin with a dot" },
        { ".hidden", "begin with a dot" },
        { "cam.lock", ".lock" },
        { "cam.tmp", ".tmp" },
        { "a b", "byte 2 (0x20)" },
        { "a\nb", "byte 2 (0x0a)" },
        { "caf\xc3\xa9", "byte 4 (0xc3)" },
        { "ucx:cam", "scheme 'ucx'" },
        { ":cam", "scheme ''" },
        { "sluice:a:b", "byte 2 (0x3a)" },
        { "Sluice:cam", "scheme 'Sluice'" },
        { "a1234567890123456789012345678901234567890123456789012345678901234", "64 bytes at most" },
    };
    struct sluice_channel_info info = { .size = sizeof info };
    char longest[SLUICE_MAX_NAME + 1];

    test_dir();
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        CHECK_SAYS(kit_try_write(bad[i].name), SLUICE_E_NAME, bad[i].word);
        CHECK_SAYS(kit_try_read(bad[i].name), SLUICE_E_NAME, bad[i].word);
        CHECK_SAYS(sluice_channel_info(bad[i].name, 0, &info, NULL, 0), SLUICE_E_NAME, bad[i].word);
    }
    memset(longest, 'x', sizeof longest);
    longest[SLUICE_MAX_NAME] = '\0';
    CHECK_OK(kit_try_write(longest));
    CHECK_OK(kit_try_write("-_.A9"));
    CHECK_OK(kit_try_write("lock"));
    CHECK_OK(kit_try_write("sluice:sluice"));
}

/* ---- folders ---- */

static void set(const char *name, const char *value)
{
    if (value)
        setenv(name, value, 1);
    else
        unsetenv(name);
}

TEST(the_folder_follows_the_environment)
{
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    char path[1024], kept[600];

    snprintf(kept, sizeof kept, "%s", runtime);
    snprintf(path, sizeof path, "%s/sluice", kept);
    CHECK_STR(sluice_registry_folder(), path);
    CHECK_OK(kit_try_write("cam"));
    struct stat status;
    CHECK(stat(path, &status) == 0 && (status.st_mode & 07777) == 0700);

    set("SLUICE_DIR", "/nowhere/at/all");
    CHECK_STR(sluice_registry_folder(), "/nowhere/at/all");
    CHECK_SAYS(kit_try_write("cam"), SLUICE_E_SYSTEM, "/nowhere/at/all");
    CHECK_SAYS(kit_try_read("cam"), SLUICE_E_NOT_FOUND, "/nowhere/at/all");
    set("SLUICE_DIR", NULL);
    set("XDG_RUNTIME_DIR", NULL);
    snprintf(path, sizeof path, "/tmp/sluice-%u", (unsigned)geteuid());
    CHECK_STR(sluice_registry_folder(), path);
    set("XDG_RUNTIME_DIR", "/nowhere"); /* a folder that does not exist is not used */
    CHECK_STR(sluice_registry_folder(), path);
    set("XDG_RUNTIME_DIR", kept);
}

/* The writer runs without XDG_RUNTIME_DIR, the reader with it. */
TEST(a_channel_that_lives_in_another_folder_is_pointed_at)
{
    char name[64], lock[256], folder[64], runtime[600], text[1024];

    snprintf(runtime, sizeof runtime, "%s", getenv("XDG_RUNTIME_DIR"));
    snprintf(name, sizeof name, "test-place-%d", (int)getpid());
    snprintf(folder, sizeof folder, "/tmp/sluice-%u", (unsigned)geteuid());
    snprintf(lock, sizeof lock, "%s/%s.lock", folder, name);
    struct sluice_format format = kit_format(4 * KIB);
    struct sluice_writer_params params = kit_writer_params(name, &format);
    sluice_writer *writer;

    set("XDG_RUNTIME_DIR", NULL);
    CHECK_OK(sluice_writer_open(&writer, &params));
    CHECK_OK(kit_try_read(name));
    set("XDG_RUNTIME_DIR", runtime);
    int r = kit_try_read(name);
    snprintf(text, sizeof text, "but there is one in %s: set SLUICE_DIR to it", folder);
    CHECK_SAYS(r, SLUICE_E_NOT_FOUND, text);
    snprintf(text, sizeof text, "no channel '%s' in %s/sluice", name, runtime);
    CHECK_HAS(sluice_last_error(), text);
    test_dir();
    CHECK_SAYS(kit_try_read(name), SLUICE_E_NOT_FOUND, folder);
    CHECK_OK(sluice_writer_close(&writer));
    CHECK_SAYS(kit_try_read(name), SLUICE_E_NOT_FOUND, "start its writer");
    unlink(lock);
    rmdir(folder);
}

TEST(a_standard_folder_that_is_not_ours_alone_is_refused)
{
    char path[1024], other[1024];

    snprintf(path, sizeof path, "%s/sluice", getenv("XDG_RUNTIME_DIR"));
    snprintf(other, sizeof other, "%s/other", getenv("XDG_RUNTIME_DIR"));
    CHECK(mkdir(path, 0755) == 0 && chmod(path, 0755) == 0);
    CHECK_SAYS(kit_try_write("cam"), SLUICE_E_PERMISSION, "mode 0755 where 0700 is needed");
    CHECK_SAYS(kit_try_read("cam"), SLUICE_E_PERMISSION, "mode 0755 where 0700 is needed");
    chmod(path, 0770);
    CHECK_SAYS(kit_try_write("cam"), SLUICE_E_PERMISSION, "chmod 700");
    rmdir(path);

    CHECK(mkdir(other, 0700) == 0 && symlink(other, path) == 0);
    CHECK_SAYS(kit_try_write("cam"), SLUICE_E_PERMISSION, "is a link");
    unlink(path);
    int file = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    close(file);
    CHECK_SAYS(kit_try_write("cam"), SLUICE_E_PERMISSION, "is not a folder");
    unlink(path);
    CHECK_OK(kit_try_write("cam"));
    if (geteuid() == 0) {
        CHECK_EQ(chown(path, 65533, 65533), 0);
        CHECK_SAYS(kit_try_write("cam"), SLUICE_E_PERMISSION, "belongs to user 65533");
        CHECK_SAYS(kit_try_read("cam"), SLUICE_E_PERMISSION, "belongs to user 65533");
    }
}

TEST(a_folder_that_strangers_may_write_is_refused)
{
    const char *path = test_dir();

    CHECK_EQ(chmod(path, 0777), 0);
    CHECK_SAYS(kit_try_write("cam"), SLUICE_E_PERMISSION, "can be written by everybody");
    CHECK_SAYS(kit_try_read("cam"), SLUICE_E_PERMISSION, "can be written by everybody");
    CHECK_EQ(chmod(path, 01777), 0);
    CHECK_OK(kit_try_write("cam"));
}

TEST(long_paths_work)
{
    char path[1024];
    int length = snprintf(path, sizeof path, "%s", test_dir());

    /* Over the 107 bytes of a socket's address, and under our own limit of 255. */
    memset(path + length, 'd', 180 - (size_t)length);
    path[length] = '/';
    path[180] = '\0';
    set("SLUICE_DIR", path);
    sluice_writer *writer;
    struct sluice_format format = kit_format(4 * KIB);
    struct sluice_writer_params params = kit_writer_params("cam", &format);
    CHECK_OK(sluice_writer_open(&writer, &params));
    struct child reader = kit_start("reader", NULL);
    child_expect(&reader, "open", 5);
    kit_commits(writer, 1);
    EXPECT_ANSWER(&reader, "take 20000", "took 1 ");
    struct sluice_registry_entry entry;
    struct sluice_channel_info info = { .size = sizeof info };
    size_t count;
    CHECK_OK(sluice_registry_list(NULL, &entry, 1, &count));
    CHECK_EQ(count, 1);
    CHECK_EQ(entry.live, 1);
    CHECK_OK(sluice_channel_info("cam", 20 * SLUICE_S, &info, NULL, 0));
    CHECK_EQ(info.committed, 1);
    role_stop(&reader);
    CHECK_OK(sluice_writer_close(&writer));

    memset(path + 180, 'e', 100);
    path[280] = '\0';
    set("SLUICE_DIR", path);
    CHECK_SAYS(kit_try_write("cam"), SLUICE_E_INVALID, "SLUICE_DIR");
    CHECK_SAYS(kit_try_read("cam"), SLUICE_E_INVALID, "SLUICE_DIR");
}

/* Else what a program prints would go into a lock file or a socket. */
TEST(closed_standard_streams_stay_closed)
{
    int kept[3], taken = 0;

    KIT_HOST_ONLY("a GPU's driver takes what numbers it wants");
    for (int fd = 0; fd < 3; fd++) {
        kept[fd] = fcntl(fd, F_DUPFD_CLOEXEC, 10);
        close(fd);
    }
    sluice_writer *writer = kit_open_writer(4, 4, 0);
    sluice_reader *reader = kit_open_reader(SLUICE_NEWEST, 1, 1, 1);
    int pollable = sluice_reader_fd(reader);
    kit_commits(writer, 1);
    struct sluice_frame frame = kit_take(reader);
    for (int fd = 0; fd < 3; fd++) {
        taken += fcntl(fd, F_GETFD) >= 0;
        dup2(kept[fd], fd);
        close(kept[fd]);
    }
    CHECK_EQ(taken, 0);
    CHECK_GE(pollable, 3);
    kit_give(reader, &frame);
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&writer));
}
