/* SPDX-License-Identifier: MIT
 *
 * Names that come to a folder and leave it.
 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "service_kit.h"

struct name {
    struct sl_name_watch watch;
    sl_word changes;
};

static void count(struct sl_name_watch *watch)
{
    sl_add(&((struct name *)(void *)watch)->changes, 1);
}

static int join(struct name *name, const char *text, const char *folder)
{
    *name = (struct name){ .watch = { .name = text, .changed = count } };
    sl_service_lock();
    int r = sl_name_watch_join(&name->watch, folder);
    sl_service_unlock();
    return r;
}

static void leave(struct name *name)
{
    sl_service_lock();
    sl_name_watch_leave(&name->watch);
    sl_service_unlock();
}

static bool is_over(struct name *name)
{
    sl_service_lock();
    bool over = sl_name_watch_is_over(&name->watch);
    sl_service_unlock();
    return over;
}

static uint64_t changes(struct name *name)
{
    return sl_load(&name->changes, acquire);
}

static void make(const char *folder, const char *name)
{
    char path[512];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    CHECK(fd >= 0);
    close(fd);
}

static void rename_in(const char *folder, const char *from, const char *to)
{
    char old[512], new[512];

    snprintf(old, sizeof old, "%s/%s", folder, from);
    snprintf(new, sizeof new, "%s/%s", folder, to);
    CHECK_EQ(rename(old, new), 0);
}

TEST(a_name_that_comes_and_leaves_is_reported)
{
    const char *folder = test_dir();
    struct name cam, other;

    CHECK_OK(join(&cam, "cam", folder));
    CHECK_OK(join(&other, "other", folder));
    make(folder, "cam.tmp");
    rename_in(folder, "cam.tmp", "cam"); /* as a writer's socket comes */
    CHECK_SOON(changes(&cam) == 1, 5);
    rename_in(folder, "cam", "away");
    CHECK_SOON(changes(&cam) == 2, 5);
    CHECK_EQ(changes(&other), 0);
    leave(&cam);
    make(folder, "other"); /* the rest still listen */
    CHECK_SOON(changes(&other) == 1, 5);
    leave(&other);
    leave(&other); /* does nothing */
}

TEST(a_folder_that_is_removed_is_over)
{
    char folder[512];
    struct name cam, again;

    snprintf(folder, sizeof folder, "%s/inner", test_dir());
    CHECK_RESULT(join(&cam, "cam", folder), SLUICE_E_NOT_FOUND);
    CHECK_EQ(mkdir(folder, 0700), 0);
    CHECK_OK(join(&cam, "cam", folder));
    CHECK(!is_over(&cam));
    CHECK_EQ(rmdir(folder), 0);
    CHECK_SOON(is_over(&cam), 5);
    CHECK(changes(&cam) > 0);
    CHECK_EQ(mkdir(folder, 0700), 0);
    CHECK_OK(join(&again, "cam", folder)); /* a watch of the new one */
    CHECK(!is_over(&again));
    make(folder, "cam");
    CHECK_SOON(changes(&again) == 1, 5);
    leave(&again);
    leave(&cam);
}
