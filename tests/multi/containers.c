/* SPDX-License-Identifier: MIT
 *
 * Two containers that share only the folder of the socket, made by unshare: other process ids, IPC objects, users,
 * mounts and clocks.
 */
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/filter.h>
#include <linux/seccomp.h>

#include "cuda/driver.h"
#include "multi/kit.h"

#define KIB            1024
#define MOST_ARGUMENTS 40
#define HOUR           "3600"
#define HOUR_NS        (3600 * SLUICE_S)

/* What a container shares of the test's mounts: the folder, under another path. (And this program, if it was built
 * under /tmp.) */
static const char private_mounts[] =
    "mount --bind \"$SLUICE_DIR\" /mnt && mount -t tmpfs none /dev/shm && mount -t tmpfs none /run && "
    "mount -t tmpfs none /tmp || exit 1; command -v \"$0\" >/dev/null || umount /tmp; "
    "SLUICE_DIR=/mnt exec \"$0\" \"$@\"";

/* Starts a program in namespaces of its own. */
static struct child contain(const char *const *namespaces, bool mounts, const char *const *program)
{
    const char *argv[MOST_ARGUMENTS] = { "unshare", "--fork", "--kill-child", NULL };
    int n = 3;

    for (int i = 0; namespaces[i]; i++)
        argv[n++] = namespaces[i];
    if (mounts) {
        argv[n++] = "sh";
        argv[n++] = "-c";
        argv[n++] = private_mounts;
    }
    for (int i = 0; program[i]; i++)
        argv[n++] = program[i];
    CHECK(n < MOST_ARGUMENTS);
    argv[n] = NULL;
    return child_start(argv);
}

/* Skips the test where the kernel does not permit it. */
static void need(const char *const *namespaces, bool mounts)
{
    struct child trial = contain(namespaces, mounts, (const char *[]){ "true", NULL });
    if (child_wait(&trial, 10) != 0)
        SKIP("unshare %s... is not permitted here (status %d)", namespaces[0], trial.status);
}

static struct child start(const char *const *namespaces, bool mounts, const char *role, const char *a, const char *b)
{
    char program[4096];
    snprintf(program, sizeof program, "%s", test_program());
    struct child child = contain(namespaces, mounts, (const char *[]){ program, "--role", role, a, b, NULL });
    snprintf(child.label, sizeof child.label, "contained %s", role);
    return child;
}

static const char *const apart[] = { "--user",       "--map-root-user", "--pid", "--ipc",    "--mount",
                                     "--mount-proc", "--uts",           "--net", "--cgroup", NULL };
static const char *const nobody[] = { "--user", "--pid", "--ipc", NULL };
static const char *const later[] = { "--time", "--monotonic", HOUR, NULL };

static void pass_frames(struct child *writer, struct child *reader)
{
    for (int i = 1; i <= 50; i++) {
        char line[32];
        snprintf(line, sizeof line, "committed %d", i);
        EXPECT_ANSWER(writer, "commit 1", line);
        snprintf(line, sizeof line, "took %d missed 0", i);
        EXPECT_ANSWER(reader, "take 20000", line);
    }
}

TEST(frames_go_from_container_to_container)
{
    test_dir();
    need(apart, true);
    struct child writer = start(apart, true, "kit_roles.writer", "bytes=100000", NULL);
    child_expect(&writer, "open", 10);
    struct child reader = start(apart, true, "kit_roles.reader", "hold=2", NULL);
    child_expect(&reader, "open", 10);
    pass_frames(&writer, &reader);
    /* A new format and more slots bring more memory. */
    EXPECT_ANSWER(&writer, "reformat 150000", "generation 2");
    EXPECT_ANSWER(&writer, "commit 1", "committed 51");
    EXPECT_ANSWER(&reader, "hold 20000", "holds 51 missed 0 flags 2");

    /* The writer's death is noticed, and the frame stays. */
    child_kill(&writer, SIGKILL);
    CHECK_SOON(NUMBER(ask(&reader, "stats"), "connected") == 0, 5);
    EXPECT_ANSWER(&reader, "check", "whole 1");
    EXPECT_ANSWER(&reader, "take 20", "NO_WRITER");
    writer = start(apart, true, "kit_roles.writer", "bytes=100000", NULL);
    child_expect(&writer, "open", 10);
    EXPECT_ANSWER(&writer, "commit 1", "committed 1");
    EXPECT_ANSWER(&reader, "take 20000", "took 1 missed 0 flags 3");
    EXPECT_ANSWER(&reader, "give", "gave 51");
    role_stop(&reader);
    role_stop(&writer);
}

TEST(a_reader_that_dies_in_its_container_is_noticed)
{
    test_dir();
    need(apart, true);
    struct child writer = start(apart, true, "kit_roles.writer", "slots=3", "max_slots=3");
    child_expect(&writer, "open", 10);
    struct child a = start(apart, true, "kit_roles.reader", NULL, NULL), b = kit_start("reader", NULL);
    child_expect(&a, "open", 10);
    child_expect(&b, "open", 10);
    EXPECT_ANSWER(&writer, "commit 1", "committed 1");
    EXPECT_ANSWER(&a, "hold 20000", "holds 1 ");
    EXPECT_ANSWER(&writer, "commit 1", "committed 2");
    EXPECT_ANSWER(&b, "hold 20000", "holds 2 ");
    EXPECT_ANSWER(&writer, "commit 1", "committed 3");
    EXPECT_ANSWER(&writer, "commit 1", "NO_SLOT");
    child_kill(&a, SIGKILL);
    CHECK_SOON(strcmp(ask(&writer, "commit 1"), "committed 4") == 0, 5);
    CHECK_EQ(NUMBER(ask(&writer, "stats"), "died"), 1);
    EXPECT_ANSWER(&b, "check", "whole 1");
    role_stop(&b);
    role_stop(&writer);
}

TEST(between_a_container_and_its_host)
{
    test_dir();
    need(apart, true);
    struct child writer = kit_start("writer", NULL);
    child_expect(&writer, "open", 5);
    struct child reader = start(apart, true, "kit_roles.reader", NULL, NULL);
    child_expect(&reader, "open", 10);
    pass_frames(&writer, &reader);
    role_stop(&reader);
    role_stop(&writer);
    writer = start(apart, true, "kit_roles.writer", NULL, NULL);
    child_expect(&writer, "open", 10);
    reader = kit_start("reader", NULL);
    child_expect(&reader, "open", 5);
    pass_frames(&writer, &reader);
    role_stop(&reader);
    role_stop(&writer);
}

/* In a user namespace without a map every user is the overflow user, which proves nothing. */
TEST(a_peer_without_a_user_is_not_trusted)
{
    test_dir();
    need(nobody, false);
    struct child writer = kit_start("writer", NULL);
    child_expect(&writer, "open", 5);
    struct child reader = start(nobody, false, "kit_roles.reader", NULL, NULL);
    CHECK_HAS(child_line(&reader, 10), "E_PERMISSION");
    child_wait(&reader, 5);
    role_stop(&writer);
    writer = start(nobody, false, "kit_roles.writer", NULL, NULL);
    child_expect(&writer, "open", 10);
    reader = kit_start("reader", NULL);
    CHECK_HAS(child_line(&reader, 10), "E_PERMISSION");
    role_stop(&reader);
    reader = start(nobody, false, "kit_roles.reader", NULL, NULL);
    CHECK_HAS(child_line(&reader, 10), "E_PERMISSION");
    child_wait(&reader, 5);
    role_stop(&writer);
}

/* ---- users ---- */

/* Writes as user 65533 for user 65532, or reads the other way round. */
ROLE(separate)
{
    bool writes = option(argc, argv, "writes", NULL) != NULL;
    uint32_t me = writes ? 65533 : 65532, other = writes ? 65532 : 65533;

    if (kit_device()) /* while that is possible: the folder of the build may be closed to other users */
        CHECK(dlopen(sl_cuda_library(), RTLD_NOW | RTLD_LOCAL));
    CHECK_EQ(setresgid(me, me, me), 0);
    CHECK_EQ(setresuid(me, me, me), 0);
    if (writes) {
        struct sluice_format format = kit_format(50000);
        struct sluice_writer_params params = kit_writer_params("cam", &format);
        sluice_writer *writer;
        params.uids = &other;
        params.uid_count = 1;
        CHECK_OK(sluice_writer_open(&writer, &params));
        kit_commits(writer, 3);
        role_say("open");
        (void)role_line();
        CHECK_OK(sluice_writer_close(&writer));
    } else {
        struct sluice_reader_params params = kit_reader_params("cam");
        sluice_reader *reader;
        params.uids = &other;
        params.uid_count = 1;
        params.open_timeout_ns = 20 * SLUICE_S;
        CHECK_OK(sluice_reader_open(&reader, &params));
        struct sluice_frame frame = kit_take(reader);
        role_say("took %llu", (unsigned long long)frame.sequence);
        kit_give(reader, &frame);
        CHECK_OK(sluice_reader_close(&reader));
    }
    return 0;
}

TEST(different_users_in_different_containers)
{
    static const char *const users[] = { "--pid", "--ipc", "--mount", "--mount-proc", NULL };
    char above[600];

    if (geteuid() != 0)
        SKIP("only root can start programs of other users");
    snprintf(above, sizeof above, "%s", test_dir());
    CHECK_EQ(chmod(above, 01777), 0);
    *strrchr(above, '/') = '\0';
    CHECK_EQ(chmod(above, 0711), 0);
    need(users, true);
    struct child writer = start(users, true, "containers.separate", "writes=1", NULL);
    child_expect(&writer, "open", 10);
    struct child reader = start(users, true, "containers.separate", NULL, NULL);
    child_expect(&reader, "took 3", 10);
    role_stop(&reader);
    role_stop(&writer);
}

/* ---- clocks ---- */

/* Reads a frame, and prints how long ago it was committed and captured, by its own clock, and how long it took to open.
 * */
ROLE(clock)
{
    int64_t began = test_now();
    sluice_reader *reader = kit_reader("cam", SLUICE_NEWEST);
    int64_t opening = test_now() - began;
    struct sluice_frame frame = kit_take(reader);
    int64_t now = test_now();

    role_say("committed %lld captured %lld offset %lld opening %lld", (long long)(now - frame.commit_ns),
             (long long)(now - frame.capture_ns), (long long)kit_reader_stats(reader).clock_offset_ns,
             (long long)opening);
    (void)role_line(); /* holds the frame meanwhile */
    CHECK_EQ(sluice_reader_release(reader, &frame, SLUICE_ON_CPU), 0);
    CHECK_OK(sluice_reader_close(&reader));
    return 0;
}

/* The two clocks are compared while the reader opens, so a time may be wrong by as much. `before`: the commit. */
static void check_times(struct child *reader, int64_t before, int64_t offset)
{
    char answer[256];
    snprintf(answer, sizeof answer, "%s", child_line(reader, 10));
    int64_t age = test_now() - before, off = NUMBER(answer, "opening");
    CHECK_GE(NUMBER(answer, "committed"), -off);
    CHECK_LE(NUMBER(answer, "committed"), age + off);
    CHECK_GE(NUMBER(answer, "captured"), -off);
    CHECK_LE(NUMBER(answer, "captured"), age + off);
    CHECK_GE(NUMBER(answer, "offset"), offset - off);
    CHECK_LE(NUMBER(answer, "offset"), offset + off);
}

TEST(times_are_right_where_the_clock_is_another)
{
    test_dir();
    need(later, false);
    struct child writer = kit_start("writer", NULL);
    child_expect(&writer, "open", 5);
    int64_t before = test_now();
    EXPECT_ANSWER(&writer, "commit 1", "committed 1");
    struct child reader = start(later, false, "containers.clock", NULL, NULL);
    check_times(&reader, before, -HOUR_NS);
    role_stop(&reader);
    reader = role_start("clock", NULL);
    check_times(&reader, before, 0);
    CHECK_EQ(NUMBER(ask(&writer, "stats"), "readers"), 1);
    role_stop(&reader);
    role_stop(&writer);
    writer = start(later, false, "kit_roles.writer", NULL, NULL);
    child_expect(&writer, "open", 10);
    before = test_now();
    EXPECT_ANSWER(&writer, "commit 1", "committed 1");
    reader = role_start("clock", NULL);
    check_times(&reader, before, HOUR_NS);
    role_stop(&reader);
    role_stop(&writer);
}

TEST(a_lease_is_as_old_as_it_is_where_the_clock_is_another)
{
    struct sluice_format format = kit_format(4 * KIB);
    struct sluice_writer_params params = kit_writer_params("cam", &format);
    struct sluice_channel_info info = { .size = sizeof info };
    struct sluice_reader_info reader_info;
    sluice_writer *writer;
    struct sluice_frame frame;

    test_dir();
    need(later, false);
    params.slots = params.max_slots = 3;
    params.lease_timeout_ns = 20 * SLUICE_S;
    CHECK_OK(sluice_writer_open(&writer, &params));
    static const char *const earlier[] = { "--time", "--monotonic", "-" HOUR, NULL };
    for (int i = 0; i < 2; i++) {
        kit_commits(writer, 1);
        int64_t began = test_now();
        struct child reader = start(i ? earlier : later, false, "kit_roles.reader", NULL, NULL);
        if (i && child_ended(&reader))
            break; /* the machine was suspended for that long */
        const char *said = child_line(&reader, 10);
        if (i && !said)
            break;
        CHECK_STR(said, "open");
        int64_t off =
            test_now() - began; /* they exchanged their times meanwhile, so the offset may be wrong by as much */
        test_nap(300 * SLUICE_MS + off); /* it has been there for longer than it holds anything */
        int64_t asked = test_now();
        EXPECT_ANSWER(&reader, "hold 20000", "holds");
        test_nap(30 * SLUICE_MS + off);
        CHECK_OK(sluice_channel_info("cam", 20 * SLUICE_S, &info, &reader_info, 1));
        CHECK_EQ(reader_info.held, 1);
        CHECK_GE(reader_info.held_ns, 30 * SLUICE_MS);
        CHECK_LE(reader_info.held_ns, test_now() - asked + off);
        /* Held only for a moment: nobody is evicted. */
        kit_commits(writer, 1);
        CHECK_OK(sluice_writer_begin(writer, 0, &frame));
        CHECK_RESULT(sluice_writer_begin(writer, 0, &(struct sluice_frame){ 0 }), SLUICE_NO_SLOT);
        CHECK_OK(sluice_writer_cancel(writer, &frame, SLUICE_ON_CPU));
        CHECK_EQ(kit_writer_stats(writer).evicted, 0);
        EXPECT_ANSWER(&reader, "check", "whole 1");
        EXPECT_ANSWER(&reader, "give", "gave");
        role_stop(&reader);
    }
    CHECK_OK(sluice_writer_close(&writer));
}

/* ---- permissions ---- */

static void install(struct sock_filter *code, size_t count)
{
    struct sock_fprog program = { .len = (unsigned short)count, .filter = code };

    CHECK_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        role_say("no filter: %s", strerror(errno));
        _exit(0);
    }
}

/* From here on, inspecting another process kills this one. */
static void forbid_looking_into_others(void)
{
#define KILL_ON(number) \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (number), 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        KILL_ON(SYS_ptrace),
        KILL_ON(SYS_process_vm_readv),
        KILL_ON(SYS_process_vm_writev),
        KILL_ON(438), /* pidfd_getfd */
        KILL_ON(SYS_kcmp),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    install(code, sizeof code / sizeof code[0]);
}

/* As profiles of containers do. Arguments: the system call's number, its error. */
ROLE(opens_without_a_system_call)
{
    CHECK_EQ(argc, 3);
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)atoi(argv[1]), 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)atoi(argv[2])),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    install(code, sizeof code / sizeof code[0]);
    int r = kit_try_write("cam");
    role_say("%s %s", sluice_result_name(r), sluice_last_error());
    _exit(0);
}

TEST(a_denied_system_call_is_named)
{
    static const struct {
        int number;
        const char *name;
    } calls[] = { { SYS_memfd_create, "memfd_create" }, { SYS_eventfd2, "eventfd2" }, { SYS_fallocate, "fallocate" } };
    char number[16], error[16];

    test_dir();
    for (int i = 0; i < 6; i++) {
        snprintf(number, sizeof number, "%d", calls[i / 2].number);
        snprintf(error, sizeof error, "%d", i % 2 ? EPERM : ENOSYS);
        struct child writer = role_start("opens_without_a_system_call", number, error, NULL);
        const char *said = child_line(&writer, 5);
        if (said && strncmp(said, "no filter", 9) == 0)
            SKIP("%s", said);
        CHECK_HAS(said, calls[i / 2].name);
        CHECK_HAS(said, "denied here? Allow it");
        CHECK_EQ(child_wait(&writer, 5), 0);
    }
}

ROLE(guarded)
{
    forbid_looking_into_others();
    if (option(argc, argv, "writes", NULL)) {
        sluice_writer *writer = kit_writer("cam", 50000);
        role_say("open");
        while (role_line()) {
            kit_commits(writer, 1);
            role_say("committed");
        }
        CHECK_OK(sluice_writer_close(&writer));
    } else {
        sluice_reader *reader = kit_reader("cam", SLUICE_NEWEST);
        role_say("open");
        while (role_line()) {
            struct sluice_frame frame = kit_take(reader);
            kit_give(reader, &frame);
            role_say("took %llu", (unsigned long long)frame.sequence);
        }
        CHECK_OK(sluice_reader_close(&reader));
    }
    _exit(0); /* a leak checker would inspect others */
}

TEST(nobody_looks_into_other_processes)
{
    test_dir();
    struct child writer = role_start("guarded", "writes=1", NULL);
    const char *said = child_line(&writer, 5);
    if (said && strncmp(said, "no filter", 9) == 0)
        SKIP("%s", said);
    CHECK_STR(said, "open");
    struct child reader = role_start("guarded", NULL);
    child_expect(&reader, "open", 5);
    EXPECT_ANSWER(&writer, "next", "committed");
    EXPECT_ANSWER(&reader, "next", "took 1");
    child_kill(&reader, SIGKILL);
    reader = role_start("guarded", NULL);
    child_expect(&reader, "open", 5);
    EXPECT_ANSWER(&reader, "next", "took 1");
    role_stop(&reader);
    role_stop(&writer);
}
