/* SPDX-License-Identifier: MIT
 *
 * Who may read whose channels.
 */
#include <grp.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "multi/kit.h"

#define KIB 1024

#define NEEDS_ROOT() \
    do { \
        if (geteuid() != 0) \
            SKIP("only root can start programs of other users"); \
    } while (0)

/* The test's folder, opened for others; mkdtemp makes it private. */
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

/* Reads as uid= gid=, trusting the writers of user trust=; one frame. */
ROLE(reader_of_another_user)
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

/* Writes as uid=, for user allow=. */
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

#define READ_AS(answer, ...) \
    do { \
        struct child c = role_start("reader_of_another_user", __VA_ARGS__, NULL); \
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

/* How many processes the writer has refused: one that is not answered in time asks again. */
static _Atomic int refused_processes;
static _Atomic unsigned last_refused;

static void note_refusal(void *user, enum sluice_log_level level, const char *text)
{
    unsigned pid;

    (void)user, (void)level;
    if (sscanf(text, "channel 'cam': refused process %u", &pid) == 1 && pid != last_refused) {
        last_refused = pid;
        refused_processes++;
    }
}

TEST(another_user_is_refused_unless_named)
{
    static const uint32_t friends[] = { 65533, 4242 };

    NEEDS_ROOT();
    open_folder();
    sluice_log_set(note_refusal, NULL, SLUICE_LOG_WARN);
    sluice_writer *writer = open_for(NULL, 0, NULL, 0);
    READ_AS("E_PERMISSION", "uid=65533", "trust=0");
    CHECK_OK(sluice_writer_close(&writer));

    refused_processes = 0;
    writer = open_for(friends, 2, NULL, 0);
    READ_AS("took 1", "uid=65533", "trust=0");
    READ_AS("took 1", "uid=4242", "trust=0");
    READ_AS("E_PERMISSION channel 'cam' belongs to user 0 and user 65532 is not among those it allows", "uid=65532",
            "trust=0");
    /* Nor does a reader trust just any writer. */
    READ_AS("E_PERMISSION the writer of channel 'cam' is user 0, whom this reader does not trust", "uid=65533");
    CHECK_EQ(refused_processes, 1);
    CHECK_GE(kit_writer_stats(writer).refused, 1); /* connections */
    CHECK_EQ(kit_writer_stats(writer).readers_total, 2);
    CHECK_OK(sluice_writer_close(&writer));
}

TEST(members_of_a_group_may_read)
{
    static const uint32_t groups[] = { 4343, 4344 };

    NEEDS_ROOT();
    open_folder();
    for (uint32_t n = 1; n <= 2; n++) { /* one group owns the file, several are checked by credentials alone */
        sluice_writer *writer = open_for(NULL, 0, groups, n);
        READ_AS("took 1", "uid=65533", "gid=4343", "trust=0");
        READ_AS(n == 2 ? "took 1" : "E_PERMISSION", "uid=65533", "gid=4344", "trust=0");
        READ_AS("E_PERMISSION", "uid=65533", "gid=4345", "trust=0");
        CHECK_OK(sluice_writer_close(&writer));
    }
}

TEST(the_overflow_user_is_not_trusted)
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
    /* Two that read as it may be two different users: same number, and still not trusted. */
    struct child owner = role_start("owner", uid, NULL);
    CHECK_HAS(child_line(&owner, 5), "OK");
    READ_AS("E_PERMISSION", uid);
    READ_AS("E_PERMISSION", uid, trust);
    role_stop(&owner);
    owner = role_start("owner", uid, allow, NULL);
    CHECK_HAS(child_line(&owner, 5), "OK");
    READ_AS("does not trust, for several users may show as this number", uid);
    READ_AS("took 1", uid, trust);
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
    setenv("SLUICE_DIR", path, 1);
    CHECK_OK(sluice_writer_open(&writer, &params));
    CHECK_OK(sluice_writer_close(&writer));
    CHECK(stat(path, &status) == 0 && (status.st_mode & 07777) == 0711);
    params.uids = NULL;
    CHECK_SAYS(sluice_writer_open(&writer, &params), SLUICE_E_INVALID, "without the list");
}
