/* SPDX-License-Identifier: MIT
 *
 * Shared memory with names: made, linked, removed, locked.
 */
#include <sys/resource.h>

#include "cipd_kit.h"
#include "os/os.h"
#include "os_kit.h"

#define BYTES 4096

static int made(const char *name, struct sl_os_named *about)
{
    int fd;
    CHECK_OK(sl_os_named_make(name, BYTES, &fd, about));
    return fd;
}

TEST(named_make_and_open)
{
    const char *name = cipd_name("make >> it");
    struct sl_os_named about, again;
    struct stat status;
    void *one, *two;
    int fd = made(name, &about), other;
    CHECK_EQ(fstat(fd, &status), 0);
    CHECK_EQ(status.st_mode & 07777, 0600);
    CHECK_GE(status.st_blocks * 512, BYTES);
    CHECK_EQ(about.size, BYTES);
    CHECK_EQ(about.links, 1);
    CHECK_EQ(about.owner, geteuid());
    check_flags(fd, false);
    CHECK_EQ(sl_os_named_make(name, BYTES, &other, &again), SLUICE_E_EXISTS);
    CHECK_OK(sl_os_named_open(name, true, &other, &again));
    check_flags(other, false);
    CHECK_EQ(again.inode, about.inode);
    CHECK_OK(sl_os_map(fd, BYTES, true, &one));
    CHECK_OK(sl_os_map(other, BYTES, false, &two));
    strcpy(one, "the same");
    CHECK_STR(two, "the same");
    sl_os_unmap(one, BYTES);
    sl_os_unmap(two, BYTES);
    sl_os_close(fd);
    sl_os_close(other);
    CHECK(sl_os_named_remove(name, &about));
    CHECK_EQ(sl_os_named_open(name, true, &fd, &about), SLUICE_E_NOT_FOUND);
    CHECK_EQ(sl_os_named_stat(name, &about), SLUICE_E_NOT_FOUND);
}

TEST(named_names_have_no_slash_and_255_bytes)
{
    char longest[300];
    struct sl_os_named about;
    int fd;
    memset(longest, 'n', sizeof(longest));
    int used = snprintf(longest, sizeof(longest), "%s", cipd_name("long"));
    longest[used] = 'n';
    longest[SL_OS_NAMED] = 0;
    CHECK_OK(sl_os_named_make(longest, BYTES, &fd, &about));
    sl_os_close(fd);
    CHECK(sl_os_named_remove(longest, &about));
    longest[SL_OS_NAMED] = 'n';
    longest[SL_OS_NAMED + 1] = 0;
    CHECK_SAYS(sl_os_named_make(longest, BYTES, &fd, &about), SLUICE_E_NAME, "255");
    CHECK_SAYS(sl_os_named_open("a/b", true, &fd, &about), SLUICE_E_NAME, "slash");
    CHECK_SAYS(sl_os_named_stat("", &about), SLUICE_E_NAME, "slash");
    CHECK_SAYS(sl_os_named_link("/a", "b"), SLUICE_E_NAME, "slash");
    CHECK_SAYS(sl_os_named_move("a", "c", "b/"), SLUICE_E_NAME, "slash");
    CHECK_SAYS(sl_os_named_move("a", "c/", "b"), SLUICE_E_NAME, "slash");
    CHECK(!sl_os_named_remove("../shm", &about));
}

TEST(named_link_gives_a_lost_name_back)
{
    const char *name = cipd_name("lost"), *second = cipd_name("kept");
    struct sl_os_named about, now;
    int fd = made(name, &about);
    CHECK_OK(sl_os_named_link(name, second));
    CHECK_OK(sl_os_named_about(fd, &now));
    CHECK_EQ(now.links, 2);
    CHECK_EQ(sl_os_named_link(name, second), SLUICE_E_EXISTS);
    CHECK_EQ(unlink(cipd_path(name)), 0);
    CHECK_OK(sl_os_named_link(second, name));
    CHECK_OK(sl_os_named_stat(name, &now));
    CHECK_EQ(now.inode, about.inode);
    CHECK_EQ(unlink(cipd_path(name)), 0);
    CHECK_EQ(sl_os_named_link(name, cipd_name("x")), SLUICE_E_NOT_FOUND);
    sl_os_close(fd);
}

TEST(named_move_replaces_in_one_step)
{
    const char *name = cipd_name("public"), *second = cipd_name("new");
    struct sl_os_named old, new, now;
    int one = made(name, &old), two = made(second, &new);
    CHECK_OK(sl_os_named_move(second, cipd_name("third"), name));
    CHECK_OK(sl_os_named_stat(name, &now));
    CHECK_EQ(now.inode, new.inode);
    CHECK_EQ(now.links, 2);
    CHECK_OK(sl_os_named_about(one, &now));
    CHECK_EQ(now.links, 0);
    CHECK_OK(sl_os_named_move(second, cipd_name("third"), name)); /* it is already: no third name stays */
    CHECK_OK(sl_os_named_stat(name, &now));
    CHECK_EQ(now.links, 2);
    CHECK_EQ(sl_os_named_move(cipd_name("none"), cipd_name("third"), name), SLUICE_E_NOT_FOUND);
    sl_os_close(one);
    sl_os_close(two);
}

TEST(named_remove_only_of_the_same_memory)
{
    const char *name = cipd_name("mine");
    struct sl_os_named mine, theirs;
    int one = made(name, &mine);
    CHECK_EQ(unlink(cipd_path(name)), 0);
    int two = made(name, &theirs);
    CHECK(!sl_os_named_remove(name, &mine));
    CHECK(cipd_there(name));
    CHECK(sl_os_named_remove(name, &theirs));
    CHECK(!sl_os_named_remove(name, &theirs));
    sl_os_close(one);
    sl_os_close(two);
}

TEST(named_open_refuses_what_is_no_memory)
{
    const char *name = cipd_name("odd");
    struct sl_os_named about;
    int fd;
    CHECK_EQ(mkdir(cipd_path(name), 0700), 0);
    for (int writable = 0; writable < 2; writable++)
        CHECK_SAYS(sl_os_named_open(name, writable, &fd, &about), SLUICE_E_PERMISSION, "no shared memory: remove it");
    CHECK_EQ(rmdir(cipd_path(name)), 0);
    CHECK_EQ(mkfifo(cipd_path(name), 0600), 0);
    CHECK_SAYS(sl_os_named_open(name, false, &fd, &about), SLUICE_E_PERMISSION, "no shared memory");
    CHECK_EQ(unlink(cipd_path(name)), 0);
    CHECK_EQ(symlink("/etc/passwd", cipd_path(name)), 0);
    CHECK_SAYS(sl_os_named_open(name, false, &fd, &about), SLUICE_E_PERMISSION, "no shared memory: remove it");
    CHECK_EQ(unlink(cipd_path(name)), 0);
}

TEST(named_of_another_user_is_refused)
{
    const char *name = cipd_name("stranger's");
    struct sl_os_named about;
    int fd;
    if (geteuid() != 0)
        SKIP("only root can be another user");
    fd = made(name, &about);
    CHECK_EQ(fchown(fd, 4711, 4711), 0);
    CHECK_EQ(fchmod(fd, 0666), 0);
    sl_os_close(fd);
    CHECK_OK(sl_os_named_open(name, true, &fd, &about)); /* root may */
    CHECK_EQ(about.owner, 4711);
    sl_os_close(fd);
    IN_CHILD(CHECK_EQ(setuid(4712), 0);
             CHECK_SAYS(sl_os_named_open(name, true, &fd, &about), SLUICE_E_PERMISSION, "user 4711"));
}

TEST(named_make_that_fails_leaves_nothing)
{
    const char *name = cipd_name("too large");
    struct sl_os_named about;
    struct rlimit limit = { 2048, RLIM_INFINITY };
    int fd;
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
    CHECK_SAYS(sl_os_named_make(name, BYTES, &fd, &about), SLUICE_E_NO_MEMORY, "4096");
    limit.rlim_cur = RLIM_INFINITY; /* coverage writes a file at the end */
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
    CHECK(!cipd_there(name));
}

TEST(named_locks)
{
    const char *name = cipd_name("lock");
    struct sl_os_named about;
    int fd = made(name, &about), other, third;
    CHECK_OK(sl_os_named_open(name, true, &other, &about));
    CHECK_OK(sl_os_named_open(name, false, &third, &about));
    CHECK(!sl_os_named_locked(fd));
    CHECK_OK(sl_os_named_lock(fd, false));
    CHECK(!sl_os_named_locked(fd)); /* by another one */
    CHECK(sl_os_named_locked(other));
    CHECK(sl_os_named_locked(third));
    CHECK_EQ(sl_os_named_lock(other, false), SLUICE_E_EXISTS);
    CHECK_EQ(sl_os_named_lock(other, true), SLUICE_E_EXISTS);
    sl_os_close(fd);
    CHECK(!sl_os_named_locked(third));
    CHECK_OK(sl_os_named_lock(other, true));
    CHECK_OK(sl_os_named_open(name, true, &fd, &about));
    CHECK_OK(sl_os_named_lock(fd, true));
    CHECK_EQ(sl_os_named_lock(fd, false), SLUICE_E_EXISTS);
    CHECK(sl_os_named_locked(third));
    sl_os_close(fd);
    sl_os_close(other);
    sl_os_close(third);
}

static int count(void *context, const char *name)
{
    CHECK(strlen(name) > 0);
    return ++*(int *)context == 2 ? 99 : 0;
}

TEST(named_list_by_how_it_begins)
{
    struct sl_os_named about;
    char prefix[128];
    int seen = 0, fd = made(cipd_name("list-1"), &about);
    sl_os_close(fd);
    snprintf(prefix, sizeof(prefix), "%s", cipd_name("list-"));
    CHECK_OK(sl_os_named_list(prefix, count, &seen));
    CHECK_EQ(seen, 1);
    sl_os_close(made(cipd_name("list-2"), &about));
    sl_os_close(made(cipd_name("list-3"), &about));
    seen = 0;
    CHECK_EQ(sl_os_named_list(prefix, count, &seen), 99);
    CHECK_EQ(seen, 2);
    seen = 0;
    CHECK_OK(sl_os_named_list("cipd-test.none", count, &seen));
    CHECK_EQ(seen, 0);
}

TEST(named_alone_tells_who_has_it_open)
{
    const char *name = cipd_name("alone");
    struct sl_os_named about;
    int fd = made(name, &about), other;
    CHECK_EQ(sl_os_named_alone(fd), 1);
    CHECK_OK(sl_os_named_open(name, true, &other, &about));
    CHECK_EQ(sl_os_named_alone(fd), 0);
    CHECK_EQ(sl_os_named_alone(other), 0);
    sl_os_close(other);
    CHECK_EQ(sl_os_named_alone(fd), 1);
    CHECK_EQ(sl_os_named_alone(-1), SLUICE_E_UNSUPPORTED);
    sl_os_close(fd);
    CHECK(sl_os_named_remove(name, &about));
}
