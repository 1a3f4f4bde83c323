/* SPDX-License-Identifier: MIT
 *
 * A segment's names: which there may be, who has them, and what happens when they are removed.
 */
#include <sluice/cipd.h>

#include "cipd_kit.h"

static struct sl_cipd_segment owned(const char *name)
{
    struct sl_cipd_segment segment = SL_CIPD_SEGMENT_INIT;
    bool fresh;
    CHECK_OK(sl_cipd_segment_own(&segment, name, &fresh));
    CHECK_OK(sl_cipd_segment_show(&segment));
    return segment;
}

TEST(cipd_names)
{
    char name[300];
    CHECK_OK(sl_cipd_segment_check_name("cudalink_ipc_TD>>Python", SL_CIPD_NAME));
    CHECK_OK(sl_cipd_segment_check_name("with spaces, and ~!", SL_CIPD_NAME));
    CHECK_SAYS(sl_cipd_segment_check_name("", SL_CIPD_NAME), SLUICE_E_NAME, "1 to 255");
    CHECK_SAYS(sl_cipd_segment_check_name("a/b", SL_CIPD_NAME), SLUICE_E_NAME, "\"a\" is followed");
    CHECK_SAYS(sl_cipd_segment_check_name("/a", SL_CIPD_NAME), SLUICE_E_NAME, "slash");
    CHECK_SAYS(sl_cipd_segment_check_name("b\xc3\xa4r", SL_CIPD_NAME), SLUICE_E_NAME, "0xc3");
    CHECK_SAYS(sl_cipd_segment_check_name("tab\t", SL_CIPD_NAME), SLUICE_E_NAME, "0x09");
    CHECK_SAYS(sl_cipd_segment_check_name(".hidden", SL_CIPD_NAME), SLUICE_E_NAME, "dot");
    memset(name, 'n', sizeof(name));
    name[SL_CIPD_NAME] = 0;
    CHECK_OK(sl_cipd_segment_check_name(name, SL_CIPD_NAME));
    CHECK_SAYS(sl_cipd_segment_check_name(name, SL_CIPD_WRITER_NAME), SLUICE_E_NAME, "has 255");
    name[SL_CIPD_NAME] = 'n';
    name[SL_CIPD_NAME + 1] = 0;
    CHECK_SAYS(sl_cipd_segment_check_name(name, SL_CIPD_NAME), SLUICE_E_NAME, "has 256");
}

TEST(cipd_second_names)
{
    CHECK(sl_cipd_link_name_matches("a", ".a.12.0123abcd"));
    CHECK(sl_cipd_link_name_matches("a.b", ".a.b.12.0123abcd"));
    CHECK(!sl_cipd_link_name_matches("a", ".a.b.12.0123abcd"));
    CHECK(!sl_cipd_link_name_matches("a", "a.12.0123abcd"));
    CHECK(!sl_cipd_link_name_matches("a", ".a.12.0123abc"));
    CHECK(!sl_cipd_link_name_matches("a", ".a.12.0123abcde"));
    CHECK(!sl_cipd_link_name_matches("a", ".a.12.0123ABCD"));
    CHECK(!sl_cipd_link_name_matches("a", ".a..0123abcd"));
    CHECK(!sl_cipd_link_name_matches("a", ".a"));
    CHECK(!sl_cipd_link_name_matches("a", ""));
}

TEST(cipd_own_makes_a_page_with_two_names)
{
    const char *name = cipd_name("own >> it");
    struct sl_cipd_segment segment = SL_CIPD_SEGMENT_INIT;
    struct stat status;
    bool fresh = false;
    CHECK_OK(sl_cipd_segment_own(&segment, name, &fresh));
    CHECK(fresh);
    CHECK(segment.hidden && !cipd_there(name)); /* it has no session yet */
    CHECK_EQ(cipd_seconds(name), 0);
    CHECK_EQ(sl_cipd_segment_refresh(&segment), 0);
    CHECK_OK(sl_cipd_segment_show(&segment));
    CHECK(!segment.hidden);
    CHECK_EQ(stat(cipd_path(name), &status), 0);
    CHECK_EQ(status.st_size, SL_CIPD_SEGMENT);
    CHECK_EQ(status.st_mode & 07777, 0600);
    CHECK_EQ(status.st_nlink, 2);
    CHECK_EQ(cipd_seconds(name), 1);
    CHECK(sl_cipd_link_name_matches(name, segment.link_name));
    CHECK_EQ(cipd_inode(segment.link_name), status.st_ino);
    CHECK(sl_cipd_zero(segment.at, SL_CIPD_SEGMENT));
    sl_cipd_segment_close(&segment);
    CHECK(!cipd_there(name));
    CHECK_EQ(cipd_seconds(name), 0);
    sl_cipd_segment_close(&segment); /* nothing */
}

TEST(cipd_own_longest_name)
{
    char name[SL_CIPD_WRITER_NAME + 1];
    memset(name, 'n', sizeof(name));
    memcpy(name, cipd_name("long"), strlen(cipd_name("long")));
    name[SL_CIPD_WRITER_NAME] = 0;
    struct sl_cipd_segment segment = owned(name);
    CHECK_LE(strlen(segment.link_name), SL_CIPD_NAME);
    CHECK_EQ(cipd_seconds(name), 1);
    sl_cipd_segment_close(&segment);
}

TEST(cipd_own_is_for_one)
{
    const char *name = cipd_name("one");
    struct sl_cipd_segment segment = owned(name), other = SL_CIPD_SEGMENT_INIT;
    bool fresh;
    CHECK_SAYS(sl_cipd_segment_own(&other, name, &fresh), SLUICE_E_EXISTS, "has a writer");
    CHECK_EQ(other.fd, -1);
    CHECK(cipd_there(name));
    CHECK_EQ(cipd_seconds(name), 1);
    /* nor while the name is removed; it comes back */
    CHECK_EQ(unlink(cipd_path(name)), 0);
    CHECK_SAYS(sl_cipd_segment_own(&other, name, &fresh), SLUICE_E_EXISTS, "has a writer");
    CHECK_EQ(cipd_inode(name), segment.memory.inode);
    sl_cipd_segment_close(&segment);
    segment = owned(name);
    sl_cipd_segment_close(&segment);
}

ROLE(cipd_owner)
{
    struct sl_cipd_segment segment = owned(argv[1]);
    (void)argc;
    sl_cipd_store_index(segment.at, 4711);
    role_say("owned");
    role_line();
    sl_cipd_segment_close(&segment);
    return 0;
}

TEST(cipd_own_after_a_kill)
{
    const char *name = cipd_name("killed");
    struct child owner = role_start("cipd_owner", name, NULL);
    struct sl_cipd_segment segment = SL_CIPD_SEGMENT_INIT;
    bool fresh;
    child_expect(&owner, "owned", 10);
    CHECK_SAYS(sl_cipd_segment_own(&segment, name, &fresh), SLUICE_E_EXISTS, "has a writer");
    ino_t inode = cipd_inode(name);
    child_kill(&owner, SIGKILL);
    CHECK_EQ(cipd_seconds(name), 1);
    sl_cipd_store_magic(foreign_attach(name).at, SL_CIPD_MAGIC); /* as in a session */
    CHECK_OK(sl_cipd_segment_own(&segment, name, &fresh));
    CHECK(!fresh);
    CHECK_EQ(segment.memory.inode, inode);
    CHECK_EQ(sl_cipd_load_index(segment.at), 4711);
    CHECK_EQ(cipd_seconds(name), 1); /* ours; the dead one's is removed */
    CHECK(cipd_there(segment.link_name));
    sl_cipd_segment_close(&segment);
}

/* Killed, and then its name was removed: another memory, and nothing is left of the old one. */
TEST(cipd_own_sweeps_what_has_no_name)
{
    const char *name = cipd_name("swept");
    struct child owner = role_start("cipd_owner", name, NULL),
                 other = role_start("cipd_owner", cipd_name("swept.b"), NULL);
    child_expect(&owner, "owned", 10);
    child_expect(&other, "owned", 10);
    child_kill(&owner, SIGKILL);
    CHECK_EQ(unlink(cipd_path(name)), 0);
    struct sl_cipd_segment segment = owned(name);
    CHECK_EQ(cipd_seconds(name), 1);
    CHECK_EQ(sl_cipd_load_index(segment.at), 0);
    CHECK_EQ(cipd_seconds(cipd_name("swept.b")), 1); /* another one's */
    sl_cipd_segment_close(&segment);
    role_stop(&other);
    CHECK_EQ(cipd_seconds(cipd_name("swept.b")), 0);
}

static void give_magic(const char *name, uint32_t magic)
{
    struct foreign foreign = foreign_attach(name);
    sl_cipd_store_magic(foreign.at, magic);
    foreign_close(&foreign);
}

/* A writer removes what dead writers of other channels left, and nothing else. */
TEST(cipd_own_sweeps_beside_its_own_channel)
{
    const char *dead = cipd_name("dead"), *live = cipd_name("live"), *early = cipd_name("early");
    struct child killed = role_start("cipd_owner", dead, NULL), other = role_start("cipd_owner", live, NULL),
                 soon = role_start("cipd_owner", early, NULL);
    char reused[200], alien[200], odd[200], stranger[200];
    child_expect(&killed, "owned", 10);
    child_expect(&other, "owned", 10);
    child_expect(&soon, "owned", 10);
    child_kill(&killed, SIGKILL);
    child_kill(&soon, SIGKILL); /* before its first session */
    CHECK_EQ(cipd_seconds(dead), 1);
    snprintf(reused, sizeof(reused), ".%s.%d.0123abcd", dead, (int)getpid()); /* a pid that is another process's now */
    snprintf(alien, sizeof(alien), ".%s.1.0123abcd", cipd_name("alien"));
    snprintf(odd, sizeof(odd), ".%s.1.0123abc", cipd_name("odd"));
    CHECK_EQ(link(cipd_path(dead), cipd_path(reused)), 0);
    snprintf(stranger, sizeof(stranger), ".%s.1.0123abcd", cipd_name("stranger"));
    struct foreign foreign = foreign_make(alien, SL_CIPD_SEGMENT), form = foreign_make(odd, SL_CIPD_SEGMENT),
                   far = foreign_make(stranger, SL_CIPD_SEGMENT);
    bool another = chown(cipd_path(stranger), 65533, 65533) == 0; /* if this is root */
    sl_cipd_store_magic(far.at, SL_CIPD_MAGIC);
    memcpy(foreign.at, "something else", 14);
    sl_cipd_store_magic(form.at, SL_CIPD_MAGIC);
    give_magic(live, SL_CIPD_MAGIC);
    give_magic(dead, SL_CIPD_MAGIC); /* last: from here on any writer on this machine may remove it */
    struct sl_cipd_segment segment = owned(cipd_name("other"));
    CHECK_EQ(cipd_seconds(dead), 0);
    CHECK(cipd_there(dead)); /* readers see by it that its writer is dead */
    CHECK_EQ(cipd_seconds(live), 1);
    CHECK_EQ(cipd_seconds(early), 1);
    CHECK(cipd_there(alien) && cipd_there(odd) && cipd_there(stranger) == another);
    sl_cipd_segment_close(&segment);
    foreign_close(&foreign);
    foreign_close(&form);
    foreign_close(&far);
    role_stop(&other);
}

TEST(cipd_left_names_are_counted)
{
    uint32_t left = 0;
    char second[200];
    snprintf(second, sizeof(second), ".%s.1.0123abcd", cipd_name("counted"));
    CHECK_RESULT(sluice_cipd_left(NULL), SLUICE_E_INVALID);
    do { /* another writer on this machine may remove it at once */
        if (!cipd_there(second)) {
            struct foreign foreign = foreign_make(second, SL_CIPD_SEGMENT);
            sl_cipd_store_magic(foreign.at, SL_CIPD_MAGIC);
            foreign_close(&foreign);
        }
        CHECK_OK(sluice_cipd_left(&left));
    } while (!left && !cipd_there(second));
    CHECK_GE(left, 1);
}

TEST(cipd_own_is_not_inherited)
{
    const char *name = cipd_name("forked");
    struct sl_cipd_segment segment = owned(name);
    int pipes[2], back[2];
    char byte;
    CHECK_EQ(pipe(pipes), 0);
    CHECK_EQ(pipe(back), 0);
    pid_t child = fork();
    if (child == 0) { /* has the mapping, not the lock */
        CHECK_EQ(write(back[1], "x", 1), 1);
        CHECK_EQ(read(pipes[0], &byte, 1), 1);
        _exit(0);
    }
    CHECK_EQ(read(back[0], &byte, 1), 1);
    sl_cipd_segment_leave(&segment); /* the name stays, and with it the memory that was locked */
    segment = owned(name);
    CHECK_EQ(write(pipes[1], "x", 1), 1);
    CHECK_EQ(waitpid(child, NULL, 0), child);
    for (int end = 0; end < 2; end++) {
        close(pipes[end]);
        close(back[end]);
    }
    sl_cipd_segment_close(&segment);
}

TEST(cipd_own_touches_no_foreign_memory)
{
    const char *name = cipd_name("alien");
    struct foreign foreign = foreign_make(name, 100);
    struct sl_cipd_segment segment = SL_CIPD_SEGMENT_INIT;
    bool fresh;
    memcpy(foreign.at, "something else", 14);
    CHECK_SAYS(sl_cipd_segment_own(&segment, name, &fresh), SLUICE_E_EXISTS, "something else");
    CHECK_MEM(foreign.at, "something else", 14);
    CHECK(cipd_there(name));
    CHECK_EQ(cipd_seconds(name), 0);
    memset(foreign.at, 0, 14); /* made by Python and not filled yet */
    CHECK_OK(sl_cipd_segment_own(&segment, name, &fresh));
    CHECK(!fresh);
    sl_cipd_segment_close(&segment);
    foreign_close(&foreign);
    foreign = foreign_make(name, 19);
    CHECK_SAYS(sl_cipd_segment_own(&segment, name, &fresh), SLUICE_E_EXISTS, "something else");
    foreign_close(&foreign);
}

/* As Python makes one: it keeps it open from then on. */
ROLE(cipd_maker)
{
    int fd = open(cipd_path(argv[1]), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    (void)argc;
    CHECK(fd >= 0);
    role_say("made");
    role_line();
    CHECK_EQ(ftruncate(fd, 433), 0);
    role_say("sized");
    role_line();
    return 0;
}

/* However long its maker is suspended; but a dead one has left it. */
TEST(cipd_own_leaves_an_empty_one_to_its_maker)
{
    const char *name = cipd_name("empty");
    struct child maker = role_start("cipd_maker", name, NULL);
    struct sl_cipd_segment segment = SL_CIPD_SEGMENT_INIT;
    bool fresh;
    child_expect(&maker, "made", 10);
    ino_t inode = cipd_inode(name);
    CHECK_SAYS(sl_cipd_segment_own(&segment, name, &fresh), SLUICE_E_EXISTS, "is it stopped?");
    CHECK_EQ(cipd_inode(name), inode);
    child_send(&maker, "go on");
    child_expect(&maker, "sized", 10);
    CHECK_EQ(cipd_inode(name), inode);
    child_kill(&maker, SIGKILL);
    CHECK_EQ(unlink(cipd_path(name)), 0);
    maker = role_start("cipd_maker", name, NULL);
    child_expect(&maker, "made", 10);
    child_kill(&maker, SIGKILL);
    segment = owned(name);
    CHECK_EQ(segment.size, SL_CIPD_SEGMENT);
    sl_cipd_segment_close(&segment);
}

TEST(cipd_tick_restores_the_name)
{
    const char *name = cipd_name("tended");
    struct sl_cipd_segment segment = owned(name);
    CHECK_EQ(sl_cipd_segment_refresh(&segment), 0);
    CHECK_EQ(unlink(cipd_path(name)), 0);
    CHECK_EQ(sl_cipd_segment_refresh(&segment), 1);
    CHECK_EQ(cipd_inode(name), segment.memory.inode);
    CHECK_EQ(sl_cipd_segment_refresh(&segment), 0);
    /* another program's by now */
    CHECK_EQ(unlink(cipd_path(name)), 0);
    struct foreign foreign = foreign_make(name, 433);
    CHECK_SAYS(sl_cipd_segment_refresh(&segment), SLUICE_E_EXISTS, "another program");
    ino_t theirs = cipd_inode(name);
    sl_cipd_segment_close(&segment);
    CHECK_EQ(cipd_inode(name), theirs); /* which stays */
    foreign_close(&foreign);
}

TEST(cipd_tick_without_any_name)
{
    const char *name = cipd_name("nameless");
    struct sl_cipd_segment segment = owned(name);
    CHECK_EQ(unlink(cipd_path(name)), 0);
    CHECK_EQ(unlink(cipd_path(segment.link_name)), 0);
    CHECK_SAYS(sl_cipd_segment_refresh(&segment), SLUICE_E_SYSTEM, "both names");
    sl_cipd_segment_close(&segment);
}

TEST(cipd_attach_what_there_is)
{
    const char *name = cipd_name("attached");
    struct sl_cipd_segment reader = SL_CIPD_SEGMENT_INIT;
    CHECK_SAYS(sl_cipd_segment_attach(&reader, name), SLUICE_E_NOT_FOUND, name);
    CHECK_EQ(reader.fd, -1);
    foreign_make(name, 0);
    CHECK_SAYS(sl_cipd_segment_attach(&reader, name), SLUICE_NO_WRITER, "0 bytes");
    CHECK_EQ(truncate(cipd_path(name), 19), 0);
    CHECK_SAYS(sl_cipd_segment_attach(&reader, name), SLUICE_NO_WRITER, "19 bytes");
    CHECK_EQ(truncate(cipd_path(name), 433), 0);
    CHECK_OK(sl_cipd_segment_attach(&reader, name));
    CHECK_EQ(reader.size, 433);
    CHECK(reader.writable);
    CHECK(!reader.link_name[0]);
    sl_cipd_segment_close(&reader);
    CHECK(cipd_there(name));
    CHECK_EQ(truncate(cipd_path(name), 1 << 20), 0);
    CHECK_OK(sl_cipd_segment_attach(&reader, name));
    CHECK_EQ(reader.size, SL_CIPD_SEGMENT);
    sl_cipd_segment_close(&reader);
}

TEST(cipd_attach_by_the_second_name)
{
    const char *name = cipd_name("hidden");
    struct sl_cipd_segment segment = owned(name), reader = SL_CIPD_SEGMENT_INIT;
    char second[SL_CIPD_NAME + 1];
    CHECK_EQ(unlink(cipd_path(name)), 0);
    CHECK(sl_cipd_link_name_find(name, second));
    CHECK_STR(second, segment.link_name);
    CHECK_OK(sl_cipd_segment_attach(&reader, name));
    CHECK_EQ(reader.memory.inode, segment.memory.inode);
    CHECK_EQ(sl_cipd_segment_fate(&reader), SL_CIPD_HERE); /* its writer lives, and will restore it */
    sl_cipd_segment_leave(&segment);                       /* as if killed */
    CHECK(!sl_cipd_link_name_find(name, second));
    CHECK_EQ(sl_cipd_segment_fate(&reader), SL_CIPD_ORPHAN);
    sl_cipd_segment_close(&reader);
}

TEST(cipd_fate_of_a_segment)
{
    const char *name = cipd_name("fate");
    struct foreign foreign = foreign_make(name, 433);
    struct sl_cipd_segment reader = SL_CIPD_SEGMENT_INIT;
    CHECK_OK(sl_cipd_segment_attach(&reader, name));
    CHECK_EQ(sl_cipd_segment_fate(&reader), SL_CIPD_HERE);
    CHECK(!sl_cipd_segment_locked(&reader));
    CHECK_EQ(unlink(cipd_path(name)), 0);
    CHECK_EQ(sl_cipd_segment_fate(&reader), SL_CIPD_ORPHAN);
    struct foreign other = foreign_make(name, 433);
    CHECK_EQ(sl_cipd_segment_fate(&reader), SL_CIPD_REPLACED);
    sl_cipd_segment_close(&reader);
    foreign_close(&foreign);
    foreign_close(&other);
}

static int collect(void *context, const char *name)
{
    char *all = context;
    strcat(strcat(all, name), "|");
    return !strcmp(name, cipd_name("list stop")) ? 5 : 0;
}

TEST(cipd_list_has_segments_alone)
{
    static char all[100000];
    struct sl_cipd_segment segment = owned(cipd_name("list a"));
    struct foreign b = foreign_make(cipd_name("list b"), 433), c = foreign_make(cipd_name("list c"), 433);
    struct foreign d = foreign_make(cipd_name("list d"), 10);
    sl_cipd_store_magic(segment.at, SL_CIPD_MAGIC);
    sl_cipd_store_magic(b.at, SL_CIPD_MAGIC);
    sl_cipd_store_magic(c.at, SL_CIPD_MAGIC_09);
    CHECK_OK(sl_cipd_segment_list(collect, all));
    CHECK_HAS(all, cipd_name("list a"));
    CHECK_HAS(all, cipd_name("list b"));
    CHECK(!strstr(all, cipd_name("list c")) && !strstr(all, cipd_name("list d")) && !strstr(all, segment.link_name));
    struct foreign stop = foreign_make(cipd_name("list stop"), 433);
    sl_cipd_store_magic(stop.at, SL_CIPD_MAGIC);
    CHECK_EQ(sl_cipd_segment_list(collect, all), 5);
    foreign_close(&b);
    foreign_close(&c);
    foreign_close(&d);
    foreign_close(&stop);
    sl_cipd_segment_close(&segment);
}
