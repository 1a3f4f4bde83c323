/* SPDX-License-Identifier: MIT
 *
 * Where channels are found, by whom, and what else may lie there.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <libgen.h>
#include <signal.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "multi/kit.h"

#define KIB 1024

static int try_write(const char *name)
{
    struct sluice_format format = kit_format(4 * KIB);
    struct sluice_writer_params params = kit_writer_params(name, &format);
    sluice_writer *writer = NULL;
    int r = sluice_writer_open(&writer, &params);
    if (r == 0)
        CHECK_OK(sluice_writer_close(&writer));
    CHECK(writer == NULL);
    return r;
}

static int try_read(const char *name)
{
    struct sluice_reader_params params = kit_reader_params(name);
    sluice_reader *reader = NULL;
    int r = sluice_reader_open(&reader, &params);
    if (r == 0)
        CHECK_OK(sluice_reader_close(&reader));
    CHECK(reader == NULL);
    return r;
}

/* ---- names ---- */

TEST(names_that_are_none_are_refused_with_the_reason)
{
    static const struct { const char *name, *word; } bad[] = {
        { NULL, "no channel name" },       { "", "is empty" },
        { "sluice:", "is empty" },         { "a/b", "byte 2 (0x2f)" },
        { "/", "byte 1" },                 { "../up", "byte 3" },
        { ".", "begin with a dot" },       { "..", "begin with a dot" },
        { ".hidden", "begin with a dot" }, { "cam.lock", ".lock" },
        { "cam.tmp", ".tmp" },             { "a b", "byte 2 (0x20)" },
        { "a\nb", "byte 2 (0x0a)" },       { "caf\xc3\xa9", "byte 4 (0xc3)" },
        { "ucx:cam", "scheme 'ucx'" },     { ":cam", "scheme ''" },
        { "sluice:a:b", "byte 2 (0x3a)" }, { "Sluice:cam", "scheme 'Sluice'" },
        { "a1234567890123456789012345678901234567890123456789012345678901234", "64 bytes at most" },
    };
    struct sluice_channel_info info = { .size = sizeof info };
    char longest[SLUICE_MAX_NAME + 1];

    test_dir();
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        CHECK_SAYS(try_write(bad[i].name), SLUICE_E_NAME, bad[i].word);
        CHECK_SAYS(try_read(bad[i].name), SLUICE_E_NAME, bad[i].word);
        CHECK_SAYS(sluice_channel_info(bad[i].name, 0, &info, NULL, 0), SLUICE_E_NAME, bad[i].word);
    }
    memset(longest, 'x', sizeof longest);
    longest[SLUICE_MAX_NAME] = '\0';
    CHECK_OK(try_write(longest));
    CHECK_OK(try_write("-_.A9"));
    CHECK_OK(try_write("lock"));
    CHECK_OK(try_write("sluice:sluice"));
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
    CHECK_OK(try_write("cam"));
    struct stat status;
    CHECK(stat(path, &status) == 0 && (status.st_mode & 07777) == 0700);

    set("SLUICE_DIR", "/nowhere/at/all");
    CHECK_STR(sluice_registry_folder(), "/nowhere/at/all");
    CHECK_SAYS(try_write("cam"), SLUICE_E_SYSTEM, "/nowhere/at/all");
    CHECK_SAYS(try_read("cam"), SLUICE_E_NOT_FOUND, "/nowhere/at/all");
    set("SLUICE_DIR", NULL);
    set("XDG_RUNTIME_DIR", NULL);
    snprintf(path, sizeof path, "/tmp/sluice-%u", (unsigned)geteuid());
    CHECK_STR(sluice_registry_folder(), path);
    set("XDG_RUNTIME_DIR", "/nowhere"); /* that of nobody is not used */
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
    CHECK_OK(try_read(name));
    set("XDG_RUNTIME_DIR", runtime);
    int r = try_read(name);
    snprintf(text, sizeof text, "but there is one in %s: set SLUICE_DIR to it", folder);
    CHECK_SAYS(r, SLUICE_E_NOT_FOUND, text);
    snprintf(text, sizeof text, "no channel '%s' in %s/sluice", name, runtime);
    CHECK_HAS(sluice_last_error(), text);
    test_dir();
    CHECK_SAYS(try_read(name), SLUICE_E_NOT_FOUND, folder);
    CHECK_OK(sluice_writer_close(&writer));
    CHECK_SAYS(try_read(name), SLUICE_E_NOT_FOUND, "start its writer");
    unlink(lock);
    rmdir(folder);
}

TEST(a_standard_folder_that_is_not_ours_alone_is_refused)
{
    char path[1024], other[1024];

    snprintf(path, sizeof path, "%s/sluice", getenv("XDG_RUNTIME_DIR"));
    snprintf(other, sizeof other, "%s/other", getenv("XDG_RUNTIME_DIR"));
    CHECK(mkdir(path, 0755) == 0 && chmod(path, 0755) == 0);
    CHECK_SAYS(try_write("cam"), SLUICE_E_PERMISSION, "mode 0755 where 0700 is needed");
    CHECK_SAYS(try_read("cam"), SLUICE_E_PERMISSION, "mode 0755 where 0700 is needed");
    chmod(path, 0770);
    CHECK_SAYS(try_write("cam"), SLUICE_E_PERMISSION, "chmod 700");
    rmdir(path);

    CHECK(mkdir(other, 0700) == 0 && symlink(other, path) == 0);
    CHECK_SAYS(try_write("cam"), SLUICE_E_PERMISSION, "is a link");
    unlink(path);
    int file = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    close(file);
    CHECK_SAYS(try_write("cam"), SLUICE_E_PERMISSION, "is not a folder");
    unlink(path);
    CHECK_OK(try_write("cam"));
    if (geteuid() == 0) {
        CHECK_EQ(chown(path, 65533, 65533), 0);
        CHECK_SAYS(try_write("cam"), SLUICE_E_PERMISSION, "belongs to user 65533");
        CHECK_SAYS(try_read("cam"), SLUICE_E_PERMISSION, "belongs to user 65533");
    }
}

TEST(a_folder_that_strangers_may_write_is_refused)
{
    const char *path = test_dir();

    CHECK_EQ(chmod(path, 0777), 0);
    CHECK_SAYS(try_write("cam"), SLUICE_E_PERMISSION, "can be written by everybody");
    CHECK_SAYS(try_read("cam"), SLUICE_E_PERMISSION, "can be written by everybody");
    CHECK_EQ(chmod(path, 01777), 0);
    CHECK_OK(try_write("cam"));
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
    TELL(&reader, "take 1000", "took 1 ");
    struct sluice_registry_entry entry;
    struct sluice_channel_info info = { .size = sizeof info };
    size_t count;
    CHECK_OK(sluice_registry_list(NULL, &entry, 1, &count));
    CHECK_EQ(count, 1);
    CHECK_EQ(entry.live, 1);
    CHECK_OK(sluice_channel_info("cam", SLUICE_DEFAULT, &info, NULL, 0));
    CHECK_EQ(info.committed, 1);
    role_stop(&reader);
    CHECK_OK(sluice_writer_close(&writer));

    memset(path + 180, 'e', 100);
    path[280] = '\0';
    set("SLUICE_DIR", path);
    CHECK_SAYS(try_write("cam"), SLUICE_E_INVALID, "SLUICE_DIR");
    CHECK_SAYS(try_read("cam"), SLUICE_E_INVALID, "SLUICE_DIR");
}

/* ---- other users ---- */

#define NEEDS_ROOT() \
    do { \
        if (geteuid() != 0) \
            SKIP("only root can start programs of other users"); \
    } while (0)

/* The test's folder, which others may enter; made by mkdtemp it is ours alone. */
static const char *open_folder(void)
{
    const char *path = test_dir();
    char above[600];

    snprintf(above, sizeof above, "%s", path);
    CHECK_EQ(chmod(dirname(above), 0711), 0);
    CHECK_EQ(chmod(path, 0711), 0);
    return path;
}

static void become(unsigned uid, unsigned gid)
{
    gid_t extra = (gid_t)gid;
    CHECK_EQ(setgroups(1, &extra), 0);
    CHECK_EQ(setresgid(gid, gid, gid), 0);
    CHECK_EQ(setresuid(uid, uid, uid), 0);
}

/* reads as uid= gid=, trusting the writers of user trust=; one frame. */
ROLE(stranger)
{
    struct sluice_reader_params params = kit_reader_params("cam");
    uint32_t trusted = (uint32_t)option_number(argc, argv, "trust", -1);
    sluice_reader *reader;

    become((unsigned)option_number(argc, argv, "uid", 65533), (unsigned)option_number(argc, argv, "gid", 65533));
    if (option(argc, argv, "trust", NULL)) {
        params.uids = &trusted;
        params.uid_count = 1;
    }
    params.writable = (uint32_t)option_number(argc, argv, "writable", 0);
    int r = sluice_reader_open(&reader, &params);
    if (r != 0) {
        role_say("%s %s", sluice_result_name(r), sluice_last_error());
        return 0;
    }
    struct sluice_frame frame = kit_take(reader);
    role_say("took %llu", (unsigned long long)frame.sequence);
    kit_give(reader, &frame);
    CHECK_OK(sluice_reader_close(&reader));
    return 0;
}

/* writes as uid=, for user allow=. */
ROLE(owner)
{
    struct sluice_format format = kit_format(4 * KIB);
    struct sluice_writer_params params = kit_writer_params("cam", &format);
    uint32_t allowed = (uint32_t)option_number(argc, argv, "allow", -1);
    sluice_writer *writer;

    become((unsigned)option_number(argc, argv, "uid", 65533), 65533);
    if (option(argc, argv, "allow", NULL)) {
        params.uids = &allowed;
        params.uid_count = 1;
    }
    int r = sluice_writer_open(&writer, &params);
    role_say("%s %s", sluice_result_name(r), r ? sluice_last_error() : "");
    if (r != 0)
        return 0;
    kit_commits(writer, 1);
    (void)role_line();
    CHECK_OK(sluice_writer_close(&writer));
    return 0;
}

#define STRANGER(answer, ...) \
    do { \
        struct child c = role_start("stranger", __VA_ARGS__, NULL); \
        const char *said = child_line(&c, 5); \
        CHECK_HAS(said, answer); \
        CHECK_EQ(child_wait(&c, 5), 0); \
        role_stop(&c); \
    } while (0)

static sluice_writer *open_for(const uint32_t *uids, uint32_t uid_count, const uint32_t *gids, uint32_t gid_count)
{
    struct sluice_format format = kit_format(4 * KIB);
    struct sluice_writer_params params = kit_writer_params("cam", &format);
    sluice_writer *writer;

    params.uids = uids;
    params.uid_count = uid_count;
    params.gids = gids;
    params.gid_count = gid_count;
    CHECK_OK(sluice_writer_open(&writer, &params));
    kit_commits(writer, 1);
    return writer;
}

TEST(another_user_is_refused_unless_named)
{
    static const uint32_t friends[] = { 65533, 4242 };

    NEEDS_ROOT();
    open_folder();
    sluice_writer *writer = open_for(NULL, 0, NULL, 0);
    STRANGER("E_PERMISSION", "uid=65533", "trust=0");
    CHECK_OK(sluice_writer_close(&writer));

    writer = open_for(friends, 2, NULL, 0);
    STRANGER("took 1", "uid=65533", "trust=0");
    STRANGER("took 1", "uid=4242", "trust=0");
    STRANGER("E_PERMISSION channel 'cam' belongs to user 0 and user 65532 is not among those it allows", "uid=65532", "trust=0");
    /* Neither does a reader trust just any writer. */
    STRANGER("E_PERMISSION the writer of channel 'cam' is user 0, whom this reader does not trust", "uid=65533");
    CHECK_EQ(kit_writer_stats(writer).refused, 1);
    CHECK_EQ(kit_writer_stats(writer).readers_total, 2);
    CHECK_OK(sluice_writer_close(&writer));
}

TEST(members_of_a_group_may_read)
{
    static const uint32_t groups[] = { 4343, 4344 };

    NEEDS_ROOT();
    open_folder();
    for (uint32_t n = 1; n <= 2; n++) { /* one group owns the file, several go by credentials alone */
        sluice_writer *writer = open_for(NULL, 0, groups, n);
        STRANGER("took 1", "uid=65533", "gid=4343", "trust=0");
        STRANGER(n == 2 ? "took 1" : "E_PERMISSION", "uid=65533", "gid=4344", "trust=0");
        STRANGER("E_PERMISSION", "uid=65533", "gid=4345", "trust=0");
        CHECK_OK(sluice_writer_close(&writer));
    }
}

TEST(the_overflow_user_is_nobody)
{
    unsigned overflow = 65534;
    FILE *file = fopen("/proc/sys/kernel/overflowuid", "re");
    char uid[32], allow[32], trust[32];

    NEEDS_ROOT();
    if (file) {
        CHECK_EQ(fscanf(file, "%u", &overflow), 1);
        fclose(file);
    }
    snprintf(uid, sizeof uid, "uid=%u", overflow);
    snprintf(allow, sizeof allow, "allow=%u", overflow);
    snprintf(trust, sizeof trust, "trust=%u", overflow);
    CHECK_EQ(chmod(open_folder(), 01777), 0);
    /* Two that read as it may be two different users: same number, and still a stranger. */
    struct child owner = role_start("owner", uid, NULL);
    CHECK_HAS(child_line(&owner, 5), "OK");
    STRANGER("E_PERMISSION", uid);
    STRANGER("E_PERMISSION", uid, trust);
    role_stop(&owner);
    owner = role_start("owner", uid, allow, NULL);
    CHECK_HAS(child_line(&owner, 5), "OK");
    STRANGER("does not trust", uid);
    STRANGER("took 1", uid, trust);
    role_stop(&owner);
}

TEST(channels_for_others_need_a_folder_for_others)
{
    static const uint32_t friend = 65533;
    struct sluice_format format = kit_format(4 * KIB);
    struct sluice_writer_params params = kit_writer_params("cam", &format);
    sluice_writer *writer;
    struct stat status;
    char path[600];

    params.uids = &friend;
    params.uid_count = 1;
    CHECK_SAYS(sluice_writer_open(&writer, &params), SLUICE_E_PERMISSION, "set SLUICE_DIR");
    const char *given = test_dir(); /* mode 0700 */
    CHECK_SAYS(sluice_writer_open(&writer, &params), SLUICE_E_PERMISSION, "lets no other user in");
    snprintf(path, sizeof path, "%s/made", given);
    set("SLUICE_DIR", path);
    CHECK_OK(sluice_writer_open(&writer, &params));
    CHECK_OK(sluice_writer_close(&writer));
    CHECK(stat(path, &status) == 0 && (status.st_mode & 07777) == 0711);
    params.uids = NULL;
    CHECK_SAYS(sluice_writer_open(&writer, &params), SLUICE_E_INVALID, "without the list");
}

/* ---- what else lies there ---- */

static int make_socket(const char *name, int type, bool listening)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);

    CHECK(snprintf(address.sun_path, sizeof address.sun_path, "%s/%s", test_dir(), name) < 108);
    CHECK_EQ(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    if (listening)
        CHECK_EQ(listen(fd, 1), 0);
    return fd;
}

TEST(what_is_no_channel_is_told_from_one)
{
    char path[600];

    int stream = make_socket("stream", SOCK_STREAM, true), datagram = make_socket("datagram", SOCK_DGRAM, false);
    close(make_socket("dead", SOCK_SEQPACKET, true));
    snprintf(path, sizeof path, "%s/file", test_dir());
    int file = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    CHECK_EQ(write(file, "precious", 8), 8);
    close(file);
    snprintf(path, sizeof path, "%s/folder", test_dir());
    CHECK_EQ(mkdir(path, 0700), 0);

    CHECK_SAYS(try_read("stream"), SLUICE_E_PROTOCOL, "socket of some other program");
    CHECK_SAYS(try_read("datagram"), SLUICE_E_PROTOCOL, "socket of some other program");
    CHECK_SAYS(try_read("dead"), SLUICE_E_NOT_FOUND, "start it again");
    CHECK_RESULT(try_read("file"), SLUICE_E_NOT_FOUND);
    CHECK_RESULT(try_read("folder"), SLUICE_E_NOT_FOUND);

    /* What is somebody else's is not taken; what is dead is. */
    CHECK_SAYS(try_write("stream"), SLUICE_E_PROTOCOL, "socket of some other program");
    CHECK_SAYS(try_write("datagram"), SLUICE_E_PROTOCOL, "socket of some other program");
    CHECK_SAYS(try_write("file"), SLUICE_E_EXISTS, "is no socket");
    CHECK_SAYS(try_write("folder"), SLUICE_E_EXISTS, "is no socket");
    CHECK_OK(try_write("dead"));
    struct stat status;
    snprintf(path, sizeof path, "%s/file", test_dir());
    CHECK(stat(path, &status) == 0 && S_ISREG(status.st_mode) && status.st_size == 8);
    close(stream);
    close(datagram);
}

TEST(the_list_shows_channels_and_which_are_live)
{
    struct child writer = { 0 };
    struct sluice_registry_entry entries[8];
    sluice_writer *mine = kit_writer("b-mine", 4 * KIB);
    size_t count;

    int stream = make_socket("stream", SOCK_STREAM, true), hidden = make_socket(".hidden", SOCK_SEQPACKET, true);
    close(make_socket("c-dead", SOCK_SEQPACKET, true));
    writer = kit_start("writer", "name=a-live", NULL);
    child_expect(&writer, "open", 5);
    struct child killed = kit_start("writer", "name=d-killed", NULL);
    child_expect(&killed, "open", 5);
    child_kill(&killed, SIGKILL);

    CHECK_OK(sluice_registry_list(NULL, entries, 8, &count));
    CHECK_EQ(count, 4);
    static const char *const names[] = { "a-live", "b-mine", "c-dead", "d-killed" };
    for (size_t i = 0; i < 4; i++) {
        CHECK_STR(entries[i].name, names[i]);
        CHECK_EQ(entries[i].live, i < 2);
        CHECK_EQ(entries[i].uid, getuid());
    }
    CHECK_EQ(entries[0].pid, writer.pid);
    CHECK_EQ(entries[1].pid, getpid());
    CHECK_OK(sluice_registry_list(NULL, entries, 2, &count)); /* how many there are, not how many fit */
    CHECK_EQ(count, 4);
    CHECK_OK(sluice_registry_list(NULL, NULL, 0, &count));
    CHECK_EQ(count, 4);
    CHECK_OK(sluice_registry_list("/nowhere/at/all", entries, 8, &count));
    CHECK_EQ(count, 0);
    CHECK_RESULT(sluice_registry_list(NULL, NULL, 1, &count), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_registry_list(NULL, entries, 8, NULL), SLUICE_E_INVALID);
    role_stop(&writer);
    CHECK_OK(sluice_writer_close(&mine));
    CHECK_OK(sluice_registry_list(NULL, entries, 8, &count));
    CHECK_EQ(count, 2); /* who closes takes his socket along */
    close(stream);
    close(hidden);
}

TEST(a_watch_tells_when_channels_come_and_go)
{
    sluice_watch *watch;
    char path[600];

    snprintf(path, sizeof path, "%s/later", test_dir());
    set("SLUICE_DIR", path); /* made by the watch */
    CHECK_OK(sluice_registry_watch_open(&watch, NULL));
    struct pollfd fd = { .fd = sluice_registry_watch_fd(watch), .events = POLLIN };
    CHECK_EQ(poll(&fd, 1, 0), 0);
    int64_t began = test_now();
    CHECK_RESULT(sluice_registry_watch_next(watch, 50 * SLUICE_MS), SLUICE_TIMEOUT);
    CHECK_GE(test_now() - began, 50 * SLUICE_MS);
    CHECK_RESULT(sluice_registry_watch_next(watch, 0), SLUICE_TIMEOUT);

    struct child writer = kit_start("writer", NULL);
    child_expect(&writer, "open", 5);
    CHECK_EQ(poll(&fd, 1, 2000), 1);
    CHECK_OK(sluice_registry_watch_next(watch, 0));
    CHECK_RESULT(sluice_registry_watch_next(watch, 20 * SLUICE_MS), SLUICE_TIMEOUT);
    TELL(&writer, "commit 5", "committed"); /* frames are not its business */
    CHECK_RESULT(sluice_registry_watch_next(watch, 20 * SLUICE_MS), SLUICE_TIMEOUT);
    role_stop(&writer);
    CHECK_OK(sluice_registry_watch_next(watch, 2 * SLUICE_S));
    CHECK_OK(sluice_registry_watch_close(&watch));
    CHECK(watch == NULL);
    CHECK_OK(sluice_registry_watch_close(&watch));
}

TEST(an_observer_sees_all_and_holds_nothing)
{
    struct sluice_format format = kit_format(30000);
    struct sluice_writer_params params = kit_writer_params("cam", &format);
    struct sluice_channel_info info = { .size = sizeof info };
    struct sluice_reader_info readers[4];
    sluice_writer *writer;

    test_dir();
    params.slots = params.max_slots = 4;
    params.readers = 5;
    CHECK_OK(sluice_writer_open(&writer, &params));
    struct child newest = kit_start("reader", "hold=2", "every=1", NULL);
    child_expect(&newest, "open", 5);
    struct child recorder = kit_start("reader", "mode=1", "depth=2", "every=2", NULL);
    child_expect(&recorder, "open", 5);
    kit_commits(writer, 2);
    TELL(&newest, "hold 1000", "holds 2 ");
    TELL(&recorder, "take 1000", "took 1 ");
    kit_commits(writer, 3);
    test_nap(50 * SLUICE_MS);
    int64_t asked = test_now();
    CHECK_OK(sluice_channel_info("sluice:cam", SLUICE_DEFAULT, &info, readers, 4));
    CHECK_STR(info.name, "cam");
    CHECK_STR(info.folder, test_dir());
    CHECK_STR(info.device, "host");
    CHECK_EQ(info.pid, getpid());
    CHECK_EQ(info.uid, getuid());
    CHECK_EQ(info.wire_version, 1);
    CHECK_EQ(info.session, kit_writer_stats(writer).session);
    CHECK_EQ(info.generation, 1);
    CHECK_EQ(info.slots, 4);
    CHECK_EQ(info.max_slots, 4);
    CHECK_EQ(info.policy, SLUICE_DROP);
    CHECK_EQ(info.readers, 2);
    CHECK_EQ(info.max_readers, 5);
    CHECK_EQ(info.writable, 0);
    CHECK_EQ(info.committed, 5);
    CHECK_EQ(info.dropped, 0);
    CHECK_EQ(info.bytes, 5 * 30000);
    CHECK_EQ(info.format.array_count, 1);
    CHECK_EQ(info.format.arrays[0].nbytes, 30000);
    CHECK_GE(info.now_ns, asked);
    CHECK_LE(info.last_commit_ns, asked);
    CHECK_LE(info.opened_ns, info.last_commit_ns);

    const struct sluice_reader_info *a = &readers[readers[0].pid == (uint32_t)newest.pid ? 0 : 1];
    const struct sluice_reader_info *b = &readers[readers[0].pid == (uint32_t)newest.pid ? 1 : 0];
    CHECK_EQ(a->pid, newest.pid);
    CHECK_EQ(a->uid, getuid());
    CHECK_EQ(a->mode, SLUICE_NEWEST);
    CHECK_EQ(a->hold, 2);
    CHECK_EQ(a->held, 1);
    CHECK_EQ(__builtin_popcountll(a->held_slots), 1);
    CHECK_GE(a->held_ns, 50 * SLUICE_MS);
    CHECK_LE(a->held_ns, test_now() - a->joined_ns);
    CHECK_EQ(a->taken, 1);
    CHECK_EQ(a->lag, 3);
    CHECK_STR(a->path, "mapped");
    CHECK_STR(a->copy_reason, "");
    CHECK_EQ(b->pid, recorder.pid);
    CHECK_EQ(b->mode, SLUICE_IN_ORDER);
    CHECK_EQ(b->depth, 2);
    CHECK_EQ(b->every, 2);
    CHECK_EQ(b->held, 0);
    CHECK_EQ(b->held_slots, 0);
    CHECK_EQ(b->taken, 1);
    CHECK_GE(b->lag, 3);

    /* Fewer places than readers; none; and asked as often as one likes it costs no frame. */
    CHECK_OK(sluice_channel_info("cam", SLUICE_DEFAULT, &info, readers, 1));
    CHECK_EQ(info.readers, 2);
    for (int i = 0; i < 200; i++) {
        CHECK_OK(sluice_channel_info("cam", SLUICE_DEFAULT, &info, NULL, 0));
        kit_commits(writer, 1);
    }
    CHECK_EQ(kit_writer_stats(writer).dropped, 0);
    CHECK_EQ(kit_writer_stats(writer).readers_total, 2);
    CHECK_EQ(kit_writer_stats(writer).refused, 0);
    CHECK_RESULT(sluice_channel_info("cam", 0, &info, NULL, 3), SLUICE_E_INVALID);
    CHECK_SAYS(sluice_channel_info("other", SLUICE_DEFAULT, &info, NULL, 0), SLUICE_E_NOT_FOUND, "no channel 'other'");
    role_stop(&newest);
    role_stop(&recorder);
    CHECK_OK(sluice_writer_close(&writer));
    CHECK_RESULT(sluice_channel_info("cam", SLUICE_DEFAULT, &info, NULL, 0), SLUICE_E_NOT_FOUND);
}
