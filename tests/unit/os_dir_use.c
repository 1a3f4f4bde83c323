/* SPDX-License-Identifier: MIT
 *
 * What is in the folder of channels: locks, sockets, lists of them.
 */
#include <grp.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "os/os.h"
#include "os_kit.h"

static const struct sl_folder_options look = { .create = false };

static int open_dir(void)
{
    int dir;
    CHECK_OK(sl_os_folder_open(test_dir(), false, look, &dir));
    return dir;
}

/* ---- locks ---- */

static void read_file(const char *name, char *text, size_t size)
{
    FILE *file = fopen(in_dir(name), "re");
    CHECK(file);
    text[fread(text, 1, size - 1, file)] = 0;
    fclose(file);
}

TEST(dir_lock_excludes)
{
    int dir = open_dir(), first, second = -7;
    uint32_t holder = 99;
    char text[64], expected[64];
    CHECK_OK(sl_os_lock(dir, "cam.lock", &first, &holder));
    check_flags(first, false);
    CHECK_EQ(holder, 0); /* it was never held */
    snprintf(expected, sizeof(expected), "%d\n", (int)getpid());
    read_file("cam.lock", text, sizeof(text));
    CHECK_STR(text, expected);
    int before = open_count();
    CHECK_EQ(sl_os_lock(dir, "cam.lock", &second, &holder), SLUICE_E_EXISTS);
    CHECK_STR(sluice_last_error(), "");
    CHECK_EQ(holder, getpid());
    CHECK_EQ(second, -7);
    CHECK_EQ(open_count(), before);
    CHECK_OK(sl_os_lock(dir, "other.lock", &second, &holder));
    sl_os_close(second);
    sl_os_close(first);
    CHECK_EQ(access(in_dir("cam.lock"), F_OK), 0); /* never removed */
    CHECK_OK(sl_os_lock(dir, "cam.lock", &first, &holder));
    CHECK_EQ(holder, getpid()); /* the last holder */
    sl_os_lock_forget(first);
    sl_os_close(first);
    CHECK_OK(sl_os_lock(dir, "cam.lock", &first, &holder));
    CHECK_EQ(holder, 0);
    sl_os_close(first);
    sl_os_close(dir);
}

ROLE(lock_holder)
{
    int fd;
    uint32_t holder;
    if (sl_os_lock(open_dir(), argv[1], &fd, &holder) != 0)
        return 1;
    role_say("locked");
    role_line();
    return 0;
}

TEST(dir_lock_of_a_killed_process_is_free)
{
    int dir = open_dir(), fd;
    uint32_t holder = 0;
    struct child role = role_start("lock_holder", "cam.lock", NULL);
    child_expect(&role, "locked", 10);
    CHECK_EQ(sl_os_lock(dir, "cam.lock", &fd, &holder), SLUICE_E_EXISTS);
    CHECK_EQ(holder, role.pid);
    pid_t before = role.pid;
    child_kill(&role, SIGKILL);
    CHECK_OK(sl_os_lock(dir, "cam.lock", &fd, &holder));
    CHECK_NE(before, getpid());
    char text[64];
    read_file("cam.lock", text, sizeof(text));
    CHECK_EQ(atoi(text), getpid());
    sl_os_close(fd);
    sl_os_close(dir);
}

/* The lock belongs to an open file description, so a forked child has it too. */
TEST(dir_lock_and_forked_children)
{
    int dir = open_dir(), kept, fd, up[2];
    uint32_t holder;
    char byte;
    for (int entered = 0; entered < 2; entered++) {
        CHECK_OK(sl_os_lock(dir, "cam.lock", &kept, &holder));
        if (entered)
            CHECK_OK(sl_os_close_in_child(kept));
        CHECK_EQ(pipe(up), 0);
        pid_t child = fork();
        if (child == 0) {
            CHECK_EQ(write(up[1], "x", 1), 1);
            for (;;)
                pause();
        }
        CHECK_EQ(read(up[0], &byte, 1), 1);
        sl_os_close(kept);
        int result = sl_os_lock(dir, "cam.lock", &fd, &holder);
        CHECK_EQ(result, entered ? 0 : SLUICE_E_EXISTS);
        if (!result)
            sl_os_close(fd);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        close(up[0]);
        close(up[1]);
    }
    sl_os_close(dir);
}

static void write_file(const char *name, const char *text)
{
    FILE *file = fopen(in_dir(name), "we");
    CHECK(file);
    fputs(text, file);
    fclose(file);
}

TEST(dir_lock_holder_is_read_with_care)
{
    int dir = open_dir(), fd;
    static const struct {
        const char *text;
        uint32_t pid;
    } files[] = {
        { "", 0 },        { "nonsense", 0 },      { "-5\n", 0 }, { "99999999999999999999\n", 0 },
        { "123\n", 123 }, { "4194304", 4194304 },
    };
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        uint32_t holder = 99;
        write_file("cam.lock", files[i].text);
        int held = open(in_dir("cam.lock"), O_RDWR | O_CLOEXEC);
        CHECK_EQ(flock(held, LOCK_EX), 0);
        CHECK_EQ(sl_os_lock(dir, "cam.lock", &fd, &holder), SLUICE_E_EXISTS);
        CHECK_EQ(holder, files[i].pid);
        close(held);
    }
    write_file("cam.lock", "a long text that was in it before\n");
    uint32_t holder;
    char text[64], expected[64];
    CHECK_OK(sl_os_lock(dir, "cam.lock", &fd, &holder));
    snprintf(expected, sizeof(expected), "%d\n", (int)getpid());
    read_file("cam.lock", text, sizeof(text));
    CHECK_STR(text, expected);
    sl_os_close(fd);
    sl_os_close(dir);
}

TEST(dir_lock_that_is_no_file)
{
    int dir = open_dir(), fd = -7;
    uint32_t holder = 99;
    CHECK_EQ(mkdir(in_dir("d.lock"), 0700), 0);
    CHECK_RESULT(sl_os_lock(dir, "d.lock", &fd, &holder), SLUICE_E_SYSTEM);
    CHECK_EQ(mkfifo(in_dir("f.lock"), 0600), 0);
    CHECK_SAYS(sl_os_lock(dir, "f.lock", &fd, &holder), SLUICE_E_PERMISSION, "f.lock");
    write_file("target", "precious");
    CHECK_EQ(symlink(in_dir("target"), in_dir("l.lock")), 0);
    CHECK_SAYS(sl_os_lock(dir, "l.lock", &fd, &holder), SLUICE_E_SYSTEM, "l.lock");
    CHECK_EQ(link(in_dir("target"), in_dir("h.lock")), 0); /* another file: it is not written to */
    CHECK_SAYS(sl_os_lock(dir, "h.lock", &fd, &holder), SLUICE_E_PERMISSION, "h.lock");
    char text[64];
    read_file("target", text, sizeof(text));
    CHECK_STR(text, "precious");
    CHECK_EQ(fd, -7);
    CHECK_EQ(holder, 99);
    sl_os_close(dir);
}

/* ---- sockets ---- */

static void talk(int dir, const char *path, const char *name, int listener)
{
    int ours, theirs;
    bool stale = true;
    size_t size;
    int fds[SL_OS_MAX_FDS], count;
    char text[16];
    CHECK_EQ(sl_os_accept(listener, &theirs), SLUICE_AGAIN);
    CHECK_OK(sl_os_connect(dir, path, name, &ours, &stale));
    CHECK(!stale);
    CHECK_OK(sl_os_accept(listener, &theirs));
    check_flags(ours, true);
    check_flags(theirs, true);
    CHECK_OK(sl_os_send(ours, "hello", 5, NULL, 0));
    CHECK_OK(sl_os_receive(theirs, text, sizeof(text), &size, fds, &count));
    CHECK_EQ(size, 5);
    sl_os_close(ours);
    sl_os_close(theirs);
}

TEST(dir_listen_and_connect)
{
    int dir = open_dir(), listener;
    CHECK_OK(sl_os_listen(dir, test_dir(), "cam", 0600, -1, &listener));
    check_flags(listener, true);
    CHECK_EQ(mode_of(in_dir("cam")), 0600);
    talk(dir, test_dir(), "cam", listener);
    sl_os_close(listener);
    sl_os_close(dir);
}

TEST(dir_socket_modes_and_groups)
{
    int dir = open_dir(), listener;
    struct stat status;
    umask(077);
    CHECK_OK(sl_os_listen(dir, test_dir(), "cam", 0666, -1, &listener));
    CHECK_EQ(mode_of(in_dir("cam")), 0666);
    sl_os_close(listener);
    CHECK_OK(sl_os_listen(dir, test_dir(), "cam", 0660, getegid(), &listener));
    CHECK_EQ(mode_of(in_dir("cam")), 0660);
    sl_os_close(listener);
    if (geteuid() != 0)
        SKIP("the rest needs root");
    CHECK_OK(sl_os_listen(dir, test_dir(), "cam", 0660, 5001, &listener));
    CHECK_EQ(stat(in_dir("cam"), &status), 0);
    CHECK_EQ(status.st_gid, 5001);
    sl_os_close(listener);
    sl_os_close(dir);
}

TEST(dir_foreign_group_is_refused)
{
    if (geteuid() != 0)
        SKIP("needs root");
    CHECK_EQ(chmod(test_dir(), 01777), 0);
    int dir = open_dir(), listener = -7;
    CHECK_EQ(setgroups(0, NULL), 0);
    CHECK_EQ(setresgid(4001, 4001, 4001), 0);
    CHECK_EQ(setresuid(4001, 4001, 4001), 0);
    CHECK_RESULT(sl_os_listen(dir, ".", "cam", 0660, 5001, &listener), SLUICE_E_PERMISSION);
    sl_os_close(dir);
}

TEST(dir_long_paths)
{
    char path[PATH_MAX], name[101] = "";
    int dir, listener;
    snprintf(path, sizeof(path), "%s", test_dir());
    while (strlen(path) < 300) {
        strcat(path, "/a-folder-with-a-rather-long-name-indeed");
        CHECK_EQ(mkdir(path, 0700), 0);
    }
    CHECK_OK(sl_os_folder_open(path, false, look, &dir));
    memset(name, 'n', sizeof(name) - 1);
    for (int length = 1; length < 80; length += 13) {
        const char *end = name + sizeof(name) - 1 - length;
        CHECK_OK(sl_os_listen(dir, path, end, 0600, -1, &listener));
        talk(dir, path, end, listener);
        sl_os_close(listener);
    }
    bool stale;
    int fd = -7;
    CHECK_RESULT(sl_os_listen(dir, path, name, 0600, -1, &fd), SLUICE_E_NAME);
    CHECK_RESULT(sl_os_connect(dir, path, name, &fd, &stale), SLUICE_E_NAME);
    CHECK_EQ(fd, -7);
    sl_os_close(dir);
}

/* Paths around the length at which the method changes. */
TEST(dir_paths_of_every_length)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s", test_dir());
    while (strlen(path) < 120) {
        int dir, listener;
        strcat(path, strlen(path) < 90 ? "/dddddd" : "/d");
        CHECK_EQ(mkdir(path, 0700), 0);
        CHECK_OK(sl_os_folder_open(path, false, look, &dir));
        for (int length = 1; length < 4; length++) {
            const char *name = &"cam"[3 - length];
            CHECK_OK(sl_os_listen(dir, path, name, 0600, -1, &listener));
            talk(dir, path, name, listener);
            sl_os_close(listener);
        }
        sl_os_close(dir);
    }
}

TEST(dir_connect_to_what_is_not_there)
{
    int dir = open_dir(), fd = -7, listener;
    bool stale = true;
    CHECK_SAYS(sl_os_connect(dir, test_dir(), "none", &fd, &stale), SLUICE_E_NOT_FOUND, "none");
    CHECK(!stale);
    CHECK_OK(sl_os_listen(dir, test_dir(), "cam", 0600, -1, &listener));
    sl_os_close(listener); /* its file stays */
    CHECK_SAYS(sl_os_connect(dir, test_dir(), "cam", &fd, &stale), SLUICE_E_NOT_FOUND, "no process");
    CHECK(stale);
    write_file("file", "");
    CHECK_RESULT(sl_os_connect(dir, test_dir(), "file", &fd, &stale), SLUICE_E_NOT_FOUND);
    CHECK_EQ(fd, -7);
    sl_os_close(dir);
}

TEST(dir_stale_socket_is_replaced)
{
    int dir = open_dir(), listener;
    for (int i = 0; i < 3; i++) {
        CHECK_OK(sl_os_listen(dir, test_dir(), "cam", 0600, -1, &listener));
        sl_os_close(listener);
    }
    CHECK_OK(sl_os_listen(dir, test_dir(), "cam", 0600, -1, &listener));
    talk(dir, test_dir(), "cam", listener);
    sl_os_close(listener);
    sl_os_close(dir);
}

TEST(dir_failed_listen_leaves_nothing)
{
    int dir = open_dir(), listener = -7, before = open_count();
    CHECK_EQ(mkdir(in_dir("cam"), 0700), 0);
    CHECK_RESULT(sl_os_listen(dir, test_dir(), "cam", 0600, -1, &listener), SLUICE_E_EXISTS);
    CHECK_EQ(mkdir(in_dir("away"), 0700), 0);
    int away = openat(dir, "away", O_PATH | O_DIRECTORY | O_CLOEXEC);
    CHECK_EQ(rmdir(in_dir("away")), 0);
    CHECK(sl_os_listen(away, in_dir("away"), "x", 0600, -1, &listener) < 0);
    close(away);
    CHECK_EQ(listener, -7);
    CHECK_EQ(open_count(), before);
    limit_fds(0);
    int result = sl_os_listen(dir, test_dir(), "x", 0600, -1, &listener);
    bool stale;
    int other = sl_os_connect(dir, test_dir(), "x", &listener, &stale);
    limit_fds(-1);
    CHECK_EQ(result, SLUICE_E_NO_DESCRIPTORS);
    CHECK_EQ(other, SLUICE_E_NO_DESCRIPTORS);
    sl_os_close(dir);
}

TEST(dir_connect_permission)
{
    if (geteuid() != 0)
        SKIP("needs root");
    int dir = open_dir(), listener, fd;
    bool stale;
    CHECK_OK(sl_os_listen(dir, test_dir(), "cam", 0600, -1, &listener));
    IN_CHILD({
        CHECK_EQ(setresuid(4001, 4001, 4001), 0);
        CHECK_RESULT(sl_os_connect(dir, "elsewhere", "cam", &fd, &stale), SLUICE_E_NOT_FOUND);
        CHECK_SAYS(sl_os_connect(dir, test_dir(), "cam", &fd, &stale), SLUICE_E_PERMISSION, "chmod 711");
        CHECK(!stale);
    });
    sl_os_close(listener);
    sl_os_close(dir);
}

TEST(dir_connect_to_another_kind_of_socket)
{
    int dir = open_dir(), fd = -7, foreign = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool stale;
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", in_dir("cam"));
    CHECK_EQ(bind(foreign, (struct sockaddr *)&address, sizeof(address)), 0);
    CHECK_EQ(listen(foreign, 1), 0);
    CHECK_SAYS(sl_os_connect(dir, test_dir(), "cam", &fd, &stale), SLUICE_E_PROTOCOL, "other");
    close(foreign);
    sl_os_close(dir);
}

TEST(dir_connect_when_the_queue_is_full)
{
    enum { MOST = 1000 };
    int dir = open_dir(), listener, fds[MOST], count = 0, result = 0;
    bool stale;
    CHECK_OK(sl_os_listen(dir, test_dir(), "cam", 0600, -1, &listener));
    for (; count < MOST && result == 0; count += result == 0)
        result = sl_os_connect(dir, test_dir(), "cam", &fds[count], &stale);
    CHECK_EQ(result, SLUICE_AGAIN);
    CHECK(!stale);
    CHECK_GE(count, 64);
    while (count)
        sl_os_close(fds[--count]);
    sl_os_close(listener);
    sl_os_close(dir);
}

/* ---- listing and watching ---- */

struct listing {
    int count, stop_at;
    char names[8][64];
};

static int note(void *context, const char *name, uint32_t uid)
{
    struct listing *listing = context;
    CHECK_EQ(uid, geteuid());
    CHECK(listing->count < 8);
    snprintf(listing->names[listing->count++], sizeof(listing->names[0]), "%s", name);
    return listing->count == listing->stop_at ? 42 : 0;
}

TEST(dir_list)
{
    int dir = open_dir(), listeners[3];
    struct listing all = { 0 }, first = { .stop_at = 1 }, none = { 0 };
    CHECK_OK(sl_os_list(dir, note, &none));
    CHECK_EQ(none.count, 0);
    char name[8] = "cam0";
    for (int i = 0; i < 3; i++, name[3]++)
        CHECK_OK(sl_os_listen(dir, test_dir(), name, 0600, -1, &listeners[i]));
    sl_os_close(listeners[2]); /* a stale one is listed too */
    write_file("file", "");
    CHECK_EQ(mkdir(in_dir("folder"), 0700), 0);
    CHECK_EQ(symlink("cam0", in_dir("link")), 0);
    int before = open_count();
    for (int round = 1; round <= 2; round++) { /* and again, from the start */
        all.count = 0;
        CHECK_OK(sl_os_list(dir, note, &all));
        CHECK_EQ(all.count, 3);
        for (int i = 0; i < 3; i++)
            CHECK_EQ(strncmp(all.names[i], "cam", 3), 0);
    }
    CHECK_EQ(sl_os_list(dir, note, &first), 42);
    CHECK_EQ(first.count, 1);
    CHECK_EQ(open_count(), before);
    sl_os_remove(dir, "cam0");
    sl_os_remove(dir, "cam0");
    all.count = 0;
    CHECK_OK(sl_os_list(dir, note, &all));
    CHECK_EQ(all.count, 2);
    limit_fds(0);
    int result = sl_os_list(dir, note, &all);
    limit_fds(-1);
    CHECK_EQ(result, SLUICE_E_NO_DESCRIPTORS);
    CHECK(sl_os_list(-1, note, &all) < 0);
    sl_os_close(listeners[0]);
    sl_os_close(listeners[1]);
    sl_os_close(dir);
}

TEST(dir_watch)
{
    int dir = open_dir(), watch = -7, listener;
    CHECK_OK(sl_os_watch_open(test_dir(), &watch));
    check_flags(watch, true);
    CHECK(!sl_os_watch_drain(watch));
    CHECK_OK(sl_os_listen(dir, test_dir(), "cam", 0600, -1, &listener));
    CHECK(sl_os_watch_drain(watch));
    CHECK(!sl_os_watch_drain(watch));
    sl_os_remove(dir, "cam");
    CHECK(sl_os_watch_drain(watch));
    sl_os_close(listener);
    for (int i = 0; i < 1000; i++) { /* more than one read returns */
        write_file("cam", "");
        sl_os_remove(dir, "cam");
    }
    CHECK(sl_os_watch_drain(watch));
    CHECK(!sl_os_watch_drain(watch));
    sl_os_close(watch);
    sl_os_close(dir);
}

TEST(dir_watch_what_cannot_be)
{
    int watch = -7, before = open_count();
    CHECK_SAYS(sl_os_watch_open(in_dir("none"), &watch), SLUICE_E_NOT_FOUND, "none");
    write_file("file", "");
    CHECK(sl_os_watch_open(in_dir("file"), &watch) < 0);
    CHECK_EQ(open_count(), before);
    limit_fds(0);
    int result = sl_os_watch_open(test_dir(), &watch);
    limit_fds(-1);
    CHECK_SAYS(result, SLUICE_E_NO_DESCRIPTORS, "RLIMIT_NOFILE");
    CHECK_EQ(watch, -7);
}
