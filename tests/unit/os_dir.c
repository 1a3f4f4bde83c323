/* SPDX-License-Identifier: MIT
 *
 * The folder of channels: which one, and when it is trusted.
 */
#include <grp.h>
#include <sys/stat.h>

#include "os/os.h"
#include "os_kit.h"

static const struct sl_folder_options look = { .create = false }, make = { .create = true },
                                      make_for_others = { .create = true, .others = true };

/* ---- which folder ---- */

static void check_folder(const char *expected, bool expected_ours)
{
    char path[600];
    bool ours = !expected_ours;
    CHECK_OK(sl_os_folder_name(path, sizeof(path), &ours));
    CHECK_STR(path, expected);
    CHECK_EQ(ours, expected_ours);
}

TEST(dir_name_follows_the_environment)
{
    char expected[600], standard[64];
    const char *runtime = in_dir(""), *missing = in_dir("missing"); /* these set SLUICE_DIR */
    snprintf(standard, sizeof(standard), "/tmp/sluice-%u", (unsigned)geteuid());

    setenv("SLUICE_DIR", "/some/where", 1);
    check_folder("/some/where", false);
    setenv("SLUICE_DIR", "", 1); /* as if not set */
    setenv("XDG_RUNTIME_DIR", runtime, 1);
    snprintf(expected, sizeof(expected), "%s/sluice", runtime);
    check_folder(expected, true);
    unsetenv("SLUICE_DIR");
    check_folder(expected, true);

    setenv("XDG_RUNTIME_DIR", missing, 1);
    check_folder(standard, true);
    setenv("XDG_RUNTIME_DIR", "relative/path", 1);
    check_folder(standard, true);
    setenv("XDG_RUNTIME_DIR", "", 1);
    check_folder(standard, true);
    unsetenv("XDG_RUNTIME_DIR");
    check_folder(standard, true);
}

TEST(dir_name_of_another_users_session_is_not_used)
{
    if (geteuid() != 0)
        SKIP("needs root");
    setenv("XDG_RUNTIME_DIR", "/usr", 1); /* root's, as sudo leaves it */
    unsetenv("SLUICE_DIR");
    check_folder("/usr/sluice", true);
    IN_CHILD({
        CHECK_EQ(setresuid(4001, 4001, 4001), 0);
        check_folder("/tmp/sluice-4001", true);
    });
}

TEST(dir_name_that_does_not_fit)
{
    char path[16], longest[5000];
    bool ours;
    setenv("SLUICE_DIR", "/123456789abcdef", 1);
    CHECK_SAYS(sl_os_folder_name(path, sizeof(path), &ours), SLUICE_E_INVALID, "SLUICE_DIR");
    setenv("SLUICE_DIR", "/123456789abcde", 1);
    CHECK_OK(sl_os_folder_name(path, sizeof(path), &ours));
    memset(longest, 'x', sizeof(longest) - 1);
    longest[0] = '/';
    longest[sizeof(longest) - 1] = 0;
    setenv("SLUICE_DIR", longest, 1);
    char large[6000];
    CHECK_RESULT(sl_os_folder_name(large, sizeof(large), &ours), SLUICE_E_INVALID);
}

TEST(dir_other_places)
{
    char path[600], run[64], tmp[64], runtime[600];
    snprintf(run, sizeof(run), "/run/user/%u/sluice", (unsigned)geteuid());
    snprintf(tmp, sizeof(tmp), "/tmp/sluice-%u", (unsigned)geteuid());

    setenv("SLUICE_DIR", "/some/where", 1);
    setenv("XDG_RUNTIME_DIR", in_dir(""), 1);
    snprintf(runtime, sizeof(runtime), "%s/sluice", getenv("XDG_RUNTIME_DIR"));
    CHECK(sl_os_folder_other(0, path, sizeof(path)));
    CHECK_STR(path, runtime);
    CHECK(sl_os_folder_other(1, path, sizeof(path)));
    CHECK_STR(path, run);
    CHECK(sl_os_folder_other(2, path, sizeof(path)));
    CHECK_STR(path, tmp);
    CHECK(!sl_os_folder_other(3, path, sizeof(path)));

    unsetenv("SLUICE_DIR"); /* not the one in use */
    CHECK(sl_os_folder_other(0, path, sizeof(path)));
    CHECK_STR(path, run);
    CHECK(sl_os_folder_other(1, path, sizeof(path)));
    CHECK_STR(path, tmp);
    CHECK(!sl_os_folder_other(2, path, sizeof(path)));

    unsetenv("XDG_RUNTIME_DIR");
    CHECK(sl_os_folder_other(0, path, sizeof(path)));
    CHECK_STR(path, run);
    CHECK(!sl_os_folder_other(1, path, sizeof(path)));

    setenv("SLUICE_DIR", tmp, 1); /* none twice */
    snprintf(runtime, sizeof(runtime), "/run/user/%u", (unsigned)geteuid());
    setenv("XDG_RUNTIME_DIR", runtime, 1);
    CHECK(sl_os_folder_other(0, path, sizeof(path)));
    CHECK_STR(path, run);
    CHECK(!sl_os_folder_other(1, path, sizeof(path)));
}

/* ---- trust ---- */

TEST(dir_is_made_with_its_mode_whatever_the_umask)
{
    const mode_t masks[] = { 0, 022, 077 };
    for (int i = 0; i < 3; i++) {
        int dir;
        umask(masks[i]);
        CHECK_OK(sl_os_folder_open(in_dir("ours"), true, make, &dir));
        check_flags(dir, false);
        sl_os_close(dir);
        CHECK_EQ(mode_of(in_dir("ours")), 0700);
        CHECK_OK(sl_os_folder_open(in_dir("shared"), false, make_for_others, &dir));
        sl_os_close(dir);
        CHECK_EQ(mode_of(in_dir("shared")), 0711);
        CHECK_OK(sl_os_folder_open(in_dir("ours"), true, make, &dir)); /* it is already there */
        sl_os_close(dir);
        CHECK_OK(sl_os_folder_open(in_dir("ours"), true, look, &dir));
        sl_os_close(dir);
        rmdir(in_dir("ours"));
        rmdir(in_dir("shared"));
    }
}

static void refused(const char *name, bool ours, struct sl_folder_options options, int expected, const char *word)
{
    int dir = -7, before = open_count();
    CHECK_SAYS(sl_os_folder_open(in_dir(name), ours, options, &dir), expected, word);
    CHECK_HAS(sluice_last_error(), in_dir(name));
    CHECK_EQ(dir, -7);
    CHECK_EQ(open_count(), before);
}

TEST(dir_that_is_not_there)
{
    refused("none", true, look, SLUICE_E_NOT_FOUND, "no folder");
    refused("none", false, look, SLUICE_E_NOT_FOUND, "no folder");
    refused("none/deeper", false, make, SLUICE_E_SYSTEM, "making");
}

TEST(dir_standard_must_be_ours_alone)
{
    static const mode_t modes[] = { 0755, 0711, 0770, 0701, 0777, 0600 };
    CHECK_EQ(mkdir(in_dir("d"), 0700), 0);
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        CHECK_EQ(chmod(in_dir("d"), modes[i]), 0);
        refused("d", true, look, SLUICE_E_PERMISSION, geteuid() ? "" : "chmod 700");
        refused("d", true, make, SLUICE_E_PERMISSION, geteuid() ? "" : "0700");
    }
    CHECK_EQ(chmod(in_dir("d"), 0700), 0);
    refused("d", true, make_for_others, SLUICE_E_PERMISSION, "SLUICE_DIR");
    CHECK_EQ(symlink(in_dir("d"), in_dir("link")), 0);
    refused("link", true, look, SLUICE_E_PERMISSION, "is a link");
    refused("link", true, make, SLUICE_E_PERMISSION, "is a link");
    CHECK_EQ(symlink("nowhere", in_dir("dangling")), 0);
    refused("dangling", true, make, SLUICE_E_PERMISSION, "is a link");
    int file = open(in_dir("file"), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    close(file);
    refused("file", true, make, SLUICE_E_PERMISSION, "is not a folder");
}

TEST(dir_standard_of_another_user)
{
    if (geteuid() != 0)
        SKIP("needs root");
    CHECK_EQ(mkdir(in_dir("squat"), 0700), 0);
    CHECK_EQ(chown(in_dir("squat"), 4001, 4001), 0);
    refused("squat", true, make, SLUICE_E_PERMISSION, "user 4001");
    CHECK_HAS(sluice_last_error(), "SLUICE_DIR");
}

TEST(dir_given_may_be_anybodys)
{
    int dir;
    CHECK_EQ(mkdir(in_dir("d"), 0700), 0);
    CHECK_EQ(symlink(in_dir("d"), in_dir("link")), 0);
    CHECK_OK(sl_os_folder_open(in_dir("link"), false, look, &dir));
    sl_os_close(dir);
    const mode_t good[] = { 0700, 0755, 0770, 0711, 01777 };
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        CHECK_EQ(chmod(in_dir("d"), good[i]), 0);
        CHECK_OK(sl_os_folder_open(in_dir("d"), false, make, &dir));
        sl_os_close(dir);
        CHECK_EQ(mode_of(in_dir("d")), good[i]); /* it was there: unchanged */
    }
    CHECK_EQ(chmod(in_dir("d"), 0777), 0);
    refused("d", false, make, SLUICE_E_PERMISSION, "chmod");
    CHECK_EQ(chmod(in_dir("d"), 0702), 0);
    refused("d", false, look, SLUICE_E_PERMISSION, "everybody");
}

TEST(dir_given_for_others_must_let_them_in)
{
    int dir;
    CHECK_EQ(mkdir(in_dir("d"), 0700), 0);
    refused("d", false, make_for_others, SLUICE_E_PERMISSION, "chmod 711");
    const mode_t good[] = { 0711, 0710, 0701, 0755 };
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        CHECK_EQ(chmod(in_dir("d"), good[i]), 0);
        CHECK_OK(sl_os_folder_open(in_dir("d"), false, make_for_others, &dir));
        sl_os_close(dir);
    }
}

/* As a user who may pass through the folder but not list it. */
TEST(dir_that_we_may_only_pass_through)
{
    if (geteuid() != 0)
        SKIP("needs root");
    char path[] = "/tmp/sluice-pass-XXXXXX";
    int dir, listener, fd;
    bool stale;
    CHECK(mkdtemp(path));
    CHECK_EQ(chmod(path, 0711), 0);
    CHECK_OK(sl_os_folder_open(path, false, look, &dir));
    CHECK_OK(sl_os_listen(dir, path, "cam", 0666, -1, &listener));
    sl_os_close(dir);
    IN_CHILD({
        CHECK_EQ(setgroups(0, NULL), 0);
        CHECK_EQ(setresgid(4001, 4001, 4001), 0);
        CHECK_EQ(setresuid(4001, 4001, 4001), 0);
        CHECK_OK(sl_os_folder_open(path, false, look, &dir));
        CHECK_OK(sl_os_connect(dir, path, "cam", &fd, &stale));
        CHECK_SAYS(sl_os_list(dir, NULL, NULL), SLUICE_E_PERMISSION, "chmod 755");
        uint32_t holder;
        CHECK_SAYS(sl_os_lock(dir, "mine.lock", &fd, &holder), SLUICE_E_PERMISSION, "SLUICE_DIR");
        CHECK_RESULT(sl_os_listen(dir, path, "mine", 0600, -1, &fd), SLUICE_E_PERMISSION);
    });
    sl_os_close(listener);
    unlinkat(AT_FDCWD, path, AT_REMOVEDIR);
    char socket_path[64];
    snprintf(socket_path, sizeof(socket_path), "%s/cam", path);
    unlink(socket_path);
    CHECK_EQ(rmdir(path), 0);
}
