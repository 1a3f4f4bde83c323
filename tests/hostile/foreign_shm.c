/* SPDX-License-Identifier: MIT
 *
 * Another user's memory in /dev/shm, under names that root's programs use: its owner can truncate it at any moment,
 * which kills whoever has it mapped.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cuda_link/wire/barrier.h"
#include "cuda_link/wire/segment.h"
#include "hostile/attack.h"

#define STRANGER 65532

static const char *name_of(pid_t pid)
{
    static char name[60];

    snprintf(name, sizeof name, "sluice-test-hostile-%d", (int)pid);
    return name;
}

/* Makes it, as a barrier that is held or as a segment, and keeps changing its size. */
ROLE(cutter)
{
    unsigned char bytes[SL_CIPD_BARRIER_BYTES] = { 0 };
    uint32_t barrier[3] = { SL_CIPD_BARRIER_MAGIC, 1, 1 };
    uint64_t now = (uint64_t)sl_os_now() + 1000000 * (uint64_t)SLUICE_S;
    struct sl_os_named about;
    int fd;

    CHECK(argc == 3);
    if (strcmp(argv[2], "barrier") == 0)
        memcpy(bytes, barrier, sizeof barrier);
    else
        sl_cipd_store_magic(bytes, SL_CIPD_MAGIC);
    memcpy(bytes + 16, &now, sizeof now);
    CHECK_EQ(setresuid(STRANGER, STRANGER, STRANGER), 0);
    CHECK_OK(sl_os_named_make(argv[1], SL_CIPD_SEGMENT, &fd, &about));
    CHECK_EQ(pwrite(fd, bytes, sizeof bytes, 0), sizeof bytes);
    role_say("there");
    (void)role_line();
    for (;;) {
        CHECK(ftruncate(fd, 0) == 0 && ftruncate(fd, SL_CIPD_SEGMENT) == 0);
        CHECK_EQ(pwrite(fd, bytes, sizeof bytes, 0), sizeof bytes);
    }
    return 0;
}

static struct child start_cutter(const char *what)
{
    struct child cutter = role_start("cutter", name_of(getpid()), what, NULL);

    child_expect(&cutter, "there", 10);
    return cutter;
}

static void end_cutter(struct child *cutter)
{
    char path[80];

    child_kill(cutter, SIGKILL);
    snprintf(path, sizeof path, "/dev/shm/%s", name_of(getpid()));
    CHECK_EQ(unlink(path), 0);
}

#define NEEDS_ROOT() \
    do { \
        if (geteuid() != 0) \
            SKIP("only root may open what is another user's"); \
    } while (0)

TEST(a_barrier_of_another_users_is_none_to_root)
{
    struct sl_cipd_barrier barrier;

    NEEDS_ROOT();
    struct child cutter = start_cutter("barrier");
    CHECK_OK(sl_cipd_barrier_init(&barrier, name_of(getpid())));
    barrier.stale_ns = INT64_MAX;
    CHECK(!sl_cipd_barrier_check(&barrier, sl_os_now()));
    CHECK(!barrier.segment.at && barrier.segment.fd == -1);
    CHECK_SAYS(sl_cipd_barrier_enter(&barrier, sl_os_now()), SLUICE_E_PERMISSION, "belongs to user 65532");
    sl_cipd_barrier_finish(&barrier, sl_os_now());
    end_cutter(&cutter);
}

TEST(a_segment_of_another_users_is_not_taken_over_by_root)
{
    struct sl_cipd_segment segment;
    bool fresh;

    NEEDS_ROOT();
    struct child cutter = start_cutter("segment");
    CHECK_SAYS(sl_cipd_segment_own(&segment, name_of(getpid()), &fresh), SLUICE_E_PERMISSION, "belongs to user 65532");
    end_cutter(&cutter);
}

static int count(void *context, const char *name)
{
    *(int *)context += strcmp(name, name_of(getpid())) == 0;
    return 0;
}

TEST(truncated_memory_does_not_kill_a_process_that_lists_it)
{
    int found = 0;

    NEEDS_ROOT();
    struct child cutter = start_cutter("segment");
    CHECK_OK(sl_cipd_segment_list(count, &found));
    CHECK_EQ(found, 1);
    child_send(&cutter, "cut");
    for (int i = 0; i < 300; i++)
        CHECK_OK(sl_cipd_segment_list(count, &found));
    end_cutter(&cutter);
}
