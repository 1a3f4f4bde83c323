/* SPDX-License-Identifier: MIT
 *
 * A channel whose socket, lock or folder is removed or replaced while its writer lives.
 */
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "multi/kit.h"

/* test_dir() would make it again. */
static const char *folder(void)
{
    static char path[512];

    if (!*path)
        snprintf(path, sizeof path, "%s", test_dir());
    return path;
}

static const char *in_dir(const char *name)
{
    static _Thread_local char path[2][600];
    static _Thread_local int k;

    k = !k;
    snprintf(path[k], sizeof path[k], "%s/%s", folder(), name);
    return path[k];
}

static sluice_writer *open_cam(void)
{
    struct sluice_format format = kit_format(16384);
    struct sluice_writer_params params = kit_writer_params("cam", &format);
    sluice_writer *writer;

    CHECK_OK(sluice_writer_open(&writer, &params));
    return writer;
}

static sluice_reader *read_cam(int64_t open_timeout_ns)
{
    struct sluice_reader_params params = kit_reader_params("cam");
    sluice_reader *reader;

    params.open_timeout_ns = open_timeout_ns;
    CHECK_OK(sluice_reader_open(&reader, &params));
    return reader;
}

static void remove_folder(void)
{
    CHECK_EQ(unlink(in_dir("cam")), 0);
    CHECK_EQ(unlink(in_dir("cam.lock")), 0);
    CHECK_EQ(rmdir(folder()), 0);
}

static void expect_restored(sluice_writer *writer, uint32_t times)
{
    struct sluice_channel_info info = { .size = sizeof info };

    CHECK_SOON(kit_writer_stats(writer).name_restored == times, 10);
    CHECK(!kit_writer_stats(writer).name_lost);
    CHECK_OK(sluice_channel_info("cam", 20 * SLUICE_S, &info, NULL, 0));
    CHECK_EQ(info.name_restored, times);
    CHECK((times > 0) == (info.name_restored_ns > 0));
    CHECK_OK(kit_try_read("cam"));
    CHECK_SAYS(kit_try_write("cam"), SLUICE_E_EXISTS, "has a writer already");
}

/* A reader that joined before, and one that waits. */
static void expect_frames(sluice_writer *writer, sluice_reader *old)
{
    sluice_reader *late = read_cam(20 * SLUICE_S);

    CHECK_OK(kit_commit(writer));
    struct sluice_frame first = kit_take(old), second = kit_take(late);
    CHECK_EQ(first.sequence, second.sequence);
    kit_give(old, &first);
    kit_give(late, &second);
    CHECK_OK(sluice_reader_close(&late));
}

TEST(a_socket_that_is_removed_is_put_back)
{
    folder();
    sluice_writer *writer = open_cam();
    sluice_reader *old = read_cam(0);
    struct stat before, after;

    expect_restored(writer, 0);
    CHECK_EQ(stat(in_dir("cam"), &before), 0);
    CHECK_EQ(unlink(in_dir("cam")), 0);
    CHECK_SAYS(kit_try_write("cam"), SLUICE_E_EXISTS, "has a writer already");
    expect_frames(writer, old);
    expect_restored(writer, 1);
    CHECK_EQ(stat(in_dir("cam"), &after), 0);
    CHECK_EQ(after.st_mode, before.st_mode);
    CHECK_OK(sluice_reader_close(&old));
    CHECK_OK(sluice_writer_close(&writer));
    CHECK(access(in_dir("cam"), F_OK) < 0);
}

TEST(a_lock_that_is_removed_is_put_back)
{
    folder();
    sluice_writer *writer = open_cam();

    CHECK_EQ(unlink(in_dir("cam.lock")), 0);
    CHECK_SAYS(kit_try_write("cam"), SLUICE_E_EXISTS, "has a writer already");
    expect_restored(writer, 1);
    CHECK_EQ(unlink(in_dir("cam.lock")), 0);
    CHECK_EQ(unlink(in_dir("cam")), 0);
    CHECK_SAYS(kit_try_write("cam"), SLUICE_E_EXISTS, "has a writer already");
    expect_restored(writer, 2);
    CHECK_OK(sluice_writer_close(&writer));
    CHECK_OK(kit_try_write("cam"));
}

TEST(a_folder_that_is_removed_is_made_again)
{
    folder();
    sluice_writer *writer = open_cam();
    sluice_reader *old = read_cam(0);

    remove_folder();
    CHECK_SAYS(kit_try_write("cam"), SLUICE_E_EXISTS, "has a writer already");
    expect_frames(writer, old);
    expect_restored(writer, 1);
    remove_folder();
    int r = kit_try_read("cam");
    if (r != 0)
        CHECK_SAYS(r, SLUICE_E_NOT_FOUND, "has a writer (process");
    expect_restored(writer, 2);
    CHECK_OK(sluice_reader_close(&old));
    CHECK_OK(sluice_writer_close(&writer));
}

TEST(a_folder_that_is_moved_away_is_made_again)
{
    char away[600];

    snprintf(away, sizeof away, "%s-away", folder());
    sluice_writer *writer = open_cam();
    CHECK_EQ(rename(folder(), away), 0);
    expect_restored(writer, 1);
    CHECK_OK(sluice_writer_close(&writer));
}

/* ---- what is in the way ---- */

static char logged[8][400];
static _Atomic int logs;

static void note_log(void *user, enum sluice_log_level level, const char *message)
{
    (void)user;
    (void)level;
    if (logs < 8)
        snprintf(logged[logs], sizeof logged[0], "%s", message);
    logs++;
}

static void expect_lost(sluice_writer *writer, const char *why)
{
    CHECK_SOON(kit_writer_stats(writer).name_lost, 10);
    CHECK_SOON(logs > 0, 10);
    CHECK_HAS(logged[logs - 1], "new readers cannot find it");
    CHECK_HAS(logged[logs - 1], why);
    CHECK_SAYS(kit_try_write("cam"), SLUICE_E_EXISTS, "has a writer already");
}

/* Each cause is said once, and the name is put back when it is gone. */
static void expect_found(sluice_writer *writer, uint32_t times)
{
    expect_restored(writer, times);
    CHECK_SOON(logs == 2, 10);
    CHECK_HAS(logged[1], "the name is put back");
    logs = 0;
}

TEST(a_file_in_place_of_the_folder)
{
    char away[600];

    folder();
    sluice_log_set(note_log, NULL, SLUICE_LOG_WARN);
    sluice_writer *writer = open_cam();
    /* At once, so that the writer cannot be faster. */
    snprintf(away, sizeof away, "%s-away", folder());
    close(open(away, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    CHECK_EQ(renameat2(AT_FDCWD, folder(), AT_FDCWD, away, RENAME_EXCHANGE), 0);
    CHECK_SOON(logs > 0, 10);
    CHECK_HAS(logged[0], "Not a directory");
    CHECK_EQ(unlink(folder()), 0);
    expect_found(writer, 1);
    CHECK_OK(sluice_writer_close(&writer));
}

TEST(a_folder_in_place_of_the_socket)
{
    folder();
    sluice_log_set(note_log, NULL, SLUICE_LOG_WARN);
    sluice_writer *writer = open_cam();
    CHECK_EQ(mkdir(in_dir("new"), 0700), 0);
    CHECK_EQ(renameat2(AT_FDCWD, in_dir("new"), AT_FDCWD, in_dir("cam"), RENAME_EXCHANGE), 0);
    expect_lost(writer, "no socket, and in the way");
    CHECK_EQ(rmdir(in_dir("cam")), 0);
    expect_found(writer, 1);
    CHECK_OK(sluice_writer_close(&writer));
}

/* Puts `away` in place of the standard folder of a writer, until `remove` has removed it. */
static void expect_refusal(void (*make)(const char *path, const char *away), int (*remove)(const char *path),
                           const char *why)
{
    char path[600], away[600];

    snprintf(path, sizeof path, "%s/sluice", getenv("XDG_RUNTIME_DIR"));
    snprintf(away, sizeof away, "%s/away", getenv("XDG_RUNTIME_DIR"));
    unsetenv("SLUICE_DIR");
    sluice_log_set(note_log, NULL, SLUICE_LOG_WARN);
    sluice_writer *writer = open_cam();
    make(path, away);
    CHECK_EQ(renameat2(AT_FDCWD, path, AT_FDCWD, away, RENAME_EXCHANGE), 0);
    CHECK_SOON(kit_writer_stats(writer).name_lost, 10);
    CHECK_SOON(logs > 0, 10);
    CHECK_HAS(logged[0], why);
    CHECK_EQ(remove(path), 0);
    expect_found(writer, 1);
    CHECK_OK(sluice_writer_close(&writer));
}

static void make_link(const char *path, const char *away)
{
    CHECK_EQ(symlink(path, away), 0);
}

TEST(a_link_in_place_of_a_standard_folder)
{
    expect_refusal(make_link, unlink, "is a link");
}

static void make_foreign_folder(const char *path, const char *away)
{
    (void)path;
    CHECK_EQ(mkdir(away, 0700), 0);
    CHECK_EQ(chown(away, 12345, 12345), 0);
}

TEST(another_users_folder_in_place_of_a_standard_one)
{
    if (geteuid() != 0)
        SKIP("needs root");
    expect_refusal(make_foreign_folder, rmdir, "belongs to user 12345");
}

/* A file system of four files, the folder itself among them, in the channels' folder. */
static bool mount_small(void)
{
    return geteuid() == 0 && unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("none", folder(), "tmpfs", 0, "mode=0700,nr_inodes=4") == 0;
}

TEST(a_full_file_system_a_read_only_one_and_none)
{
    if (!mount_small())
        SKIP("needs root, and to mount");
    sluice_log_set(note_log, NULL, SLUICE_LOG_WARN);
    sluice_writer *writer = open_cam();
    CHECK_EQ(mkdir(in_dir("filler"), 0700), 0);
    CHECK_EQ(renameat2(AT_FDCWD, in_dir("filler"), AT_FDCWD, in_dir("cam"), RENAME_EXCHANGE), 0);
    expect_lost(writer, "no socket, and in the way");
    CHECK_EQ(rename(in_dir("cam"), in_dir("other")), 0); /* two files too many: no room for a socket */
    CHECK_SOON(logs == 2, 10);
    CHECK_HAS(logged[1], "No space left on device");
    CHECK_EQ(mount("none", folder(), "tmpfs", MS_RDONLY, "mode=0700"), 0);
    CHECK_SOON(logs == 3, 10);
    CHECK_HAS(logged[2], "Read-only file system");
    CHECK_EQ(umount2(folder(), MNT_DETACH), 0);
    CHECK_EQ(umount2(folder(), MNT_DETACH), 0);
    expect_restored(writer, 1);
    CHECK_SOON(strstr(logged[logs - 1], "the name is put back"), 10);
    CHECK_OK(sluice_writer_close(&writer));
}

/* Another container sees the folder, but not this process's claim. */
ROLE(writes_elsewhere)
{
    if (unshare(CLONE_NEWNET) < 0)
        role_say("cannot");
    CHECK_EQ(unlink(in_dir("cam")), 0);
    CHECK_EQ(unlink(in_dir("cam.lock")), 0);
    sluice_writer *writer = open_cam();
    role_say("open");
    for (uint32_t i = 1; strcmp(role_line(), "close") != 0; i++) {
        CHECK_SOON(kit_writer_stats(writer).name_restored == i, 10);
        role_say("restored");
    }
    CHECK_OK(sluice_writer_close(&writer));
    role_say("closed");
    return 0;
}

TEST(a_name_that_somebody_else_has_taken)
{
    if (geteuid() != 0)
        SKIP("needs root");
    folder();
    sluice_log_set(note_log, NULL, SLUICE_LOG_WARN);
    sluice_writer *writer = open_cam();
    struct child other = role_start("writes_elsewhere", NULL);
    if (strcmp(child_line(&other, 5), "open") != 0)
        SKIP("needs network namespaces");
    CHECK_SOON(kit_writer_stats(writer).name_lost, 10);
    CHECK_SOON(logs > 0, 10);
    CHECK_HAS(logged[0], "another writer");
    for (int i = 0; i < 3; i++) { /* what is the other's is left to it */
        CHECK_EQ(unlink(in_dir("cam.lock")), 0);
        child_send(&other, "restored?");
        child_expect(&other, "restored", 10);
    }
    child_send(&other, "close");
    child_expect(&other, "closed", 5);
    expect_found(writer, 1);
    role_stop(&other);
    CHECK_OK(sluice_writer_close(&writer));
}

/* Programs that clean up folders look there for sockets in use. */
TEST(the_kernel_lists_the_socket_under_its_own_name)
{
    char line[1200], path[700];
    bool listed = false;

    snprintf(path, sizeof path, " %s\n", in_dir("cam"));
    sluice_writer *writer = open_cam();
    FILE *sockets = fopen("/proc/net/unix", "re");
    CHECK(sockets);
    while (fgets(line, sizeof line, sockets))
        listed = listed || (strlen(line) > strlen(path) && strcmp(line + strlen(line) - strlen(path), path) == 0);
    fclose(sockets);
    CHECK(listed);
    CHECK_OK(sluice_writer_close(&writer));
}
