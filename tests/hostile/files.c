/* SPDX-License-Identifier: MIT
 *
 * Files in a folder of channels, bytes in names, and where channels are looked for.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hostile/attacker.h"
#include "util/hooks.h"

/* ---- control characters ---- */

#define ESCAPES \
    "\x1b]0;gone\x07\x1b[2J\n\r\t\x7f\xc2\x9b" \
    "x" /* C1 as UTF-8, too */

static void check_plain(const char *text)
{
    for (const unsigned char *c = (const unsigned char *)text; *c; c++)
        if (*c < 0x20 || *c == 0x7f || (c[0] == 0xc2 && c[1] < 0xa0))
            FAIL("a control character %02x is in \"%s\"", *c, text);
}

static char logged[4096];

static void log_line(void *user, enum sluice_log_level level, const char *text)
{
    (void)user;
    (void)level;
    snprintf(logged + strlen(logged), sizeof logged - strlen(logged), "%s", text);
}

TEST(control_characters_in_a_readers_name_go_nowhere)
{
    struct sluice_channel_info info = { .size = sizeof info };
    struct sluice_reader_info readers[1];
    union sl_message hello = attacker_hello();
    struct attacker attacker;

    sluice_log_set(log_line, NULL, SLUICE_LOG_DEBUG);
    sluice_writer *writer = kit_writer("cam", 4096);
    memcpy(hello.hello.program, ESCAPES, sizeof ESCAPES);
    CHECK(attacker_go(&attacker, ARRIVED, &hello));
    CHECK_OK(sluice_channel_info("cam", 20 * SLUICE_S, &info, readers, 1));
    CHECK_EQ(info.readers, 1);
    CHECK_HAS(readers[0].program, "gone"); /* it is this one */
    check_plain(readers[0].program);
    attacker_close(&attacker);
    CHECK_SOON(kit_writer_stats(writer).readers == 0, 5);
    CHECK_OK(sluice_writer_close(&writer));
    CHECK_HAS(logged, "gone");
    check_plain(logged);
}

static void refuse_with_escapes(struct fake *fake, union sl_message *message, int *fds, int *count)
{
    (void)fake;
    while (*count)
        close(fds[--*count]);
    *message = (union sl_message)SL_MESSAGE(SL_MSG_REFUSE, refuse);
    message->refuse.result = SLUICE_E_PERMISSION;
    strcpy(message->refuse.text, ESCAPES);
}

TEST(control_characters_in_a_writers_sentence_go_nowhere)
{
    struct fake fake = { .corrupt = refuse_with_escapes };
    struct sluice_reader_params params = kit_reader_params("cam");
    sluice_reader *reader;

    test_dir();
    fake_start(&fake);
    CHECK_SAYS(sluice_reader_open(&reader, &params), SLUICE_E_PERMISSION, "gone");
    check_plain(sluice_last_error());
    fake_stop(&fake);
}

TEST(a_folder_full_of_strange_names)
{
    static const char *const names[] = { "\x1b[2J", "a b",      "x\ny", ".hidden", "x.lock",
                                         "x.tmp",   "\xff\xfe", "-",    "~",       "*" };
    struct sluice_registry_entry entries[4];
    size_t count;
    char path[600];

    test_dir();
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct sockaddr_un address = raw_address(names[i]);
        int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        CHECK(bind(fd, (struct sockaddr *)&address, sizeof address) == 0);
        close(fd);
    }
    for (int i = 0; i < 2000; i++) { /* dead ones */
        snprintf(path, sizeof path, "%s/dead%d", test_dir(), i);
        CHECK_EQ(mknod(path, S_IFSOCK | 0600, 0), 0);
    }
    sluice_writer *writer = kit_writer("cam", 4096);
    int64_t began = test_now();
    CHECK_OK(sluice_registry_list(NULL, entries, 4, &count));
    CHECK_LE(test_now() - began, (int64_t)(10e9 * test_slowness()));
    CHECK_EQ(count, 2000 + 1 + 1); /* "-" is a name */
    CHECK_STR(entries[1].name, "cam");
    CHECK_OK(sluice_writer_close(&writer));
}

/* ---- what a killed writer leaves ---- */

static void die_here(const char *name)
{
    if (strcmp(name, "after_bind") == 0)
        raise(SIGKILL);
}

ROLE(dies_before_its_socket_listens)
{
    struct sluice_format format = kit_format(4096);
    struct sluice_writer_params params = kit_writer_params("other", &format);
    sluice_writer *writer;

    sl_kill_point_hook = die_here;
    (void)sluice_writer_open(&writer, &params);
    return 0;
}

static bool is_there(const char *name)
{
    char path[600];
    struct stat status;

    snprintf(path, sizeof path, "%s/%s", test_dir(), name);
    return lstat(path, &status) == 0;
}

TEST(a_name_whose_writer_died_while_it_took_it_is_free)
{
    test_dir();
    struct child dying = role_start("dies_before_its_socket_listens", NULL);
    CHECK_EQ(child_wait(&dying, 5), -SIGKILL);
    CHECK(is_there("other"));
    CHECK(is_there("other.lock"));
    sluice_writer *writer = kit_writer("other", 4096);
    sluice_reader *reader = kit_reader("other", SLUICE_NEWEST);
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&writer));
}

/* ---- the folder of a reader ---- */

/* It is the folder at the time of the open, also when the writer restarts. */
static void check_folder_stays(const char *given)
{
    struct sluice_frame frame;
    char other[600];

    CHECK_EQ(setenv("SLUICE_DIR", given, 1), 0);
    struct child writer = kit_start("writer", NULL);
    child_expect(&writer, "open", 10);
    sluice_reader *reader = kit_reader("cam", SLUICE_NEWEST);
    EXPECT_ANSWER(&writer, "commit 1", "committed");
    frame = kit_take(reader);
    kit_give(reader, &frame);
    child_kill(&writer, SIGKILL);

    struct child next = kit_start("writer", NULL); /* in the same folder */
    child_expect(&next, "open", 10);
    snprintf(other, sizeof other, "%s/elsewhere", test_dir());
    CHECK_EQ(setenv("SLUICE_DIR", other, 1), 0);
    CHECK_EQ(chdir("/"), 0);
    EXPECT_ANSWER(&next, "commit 1", "committed");
    CHECK_OK(sluice_reader_acquire(reader, SLUICE_ON_CPU, 20 * SLUICE_S, &frame));
    CHECK(frame.flags & SLUICE_FRAME_NEW_SESSION);
    kit_give(reader, &frame);
    CHECK_OK(sluice_reader_close(&reader));
    role_stop(&next);
}

TEST(a_readers_folder_is_that_of_its_opening)
{
    check_folder_stays(test_dir());
}

TEST(a_readers_relative_folder_is_that_of_its_opening)
{
    char name[600];
    CHECK_EQ(chdir(test_dir()), 0);
    snprintf(name, sizeof name, ".");
    check_folder_stays(name);
}
