/* SPDX-License-Identifier: MIT
 *
 * What tests of cuda-link's wire share: names that are unique to this process and removed with it, and segments as
 * another program makes them.
 */
#ifndef CIPD_KIT_H
#define CIPD_KIT_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cuda_link/wire/segment_read.h"
#include "cuda_link/wire/segment_write.h"
#include "harness/test.h"

#define CIPD_PREFIX "cipd-test."

static inline int cipd_keep_none(pid_t mine)
{
    DIR *dir = opendir("/dev/shm");
    char path[300];
    CHECK(dir);
    for (struct dirent *entry; (entry = readdir(dir));) {
        const char *name = entry->d_name + (entry->d_name[0] == '.');
        if (strncmp(name, CIPD_PREFIX, strlen(CIPD_PREFIX)))
            continue;
        pid_t pid = atoi(name + strlen(CIPD_PREFIX));
        if (pid != mine && (pid <= 0 || kill(pid, 0) == 0 || errno != ESRCH))
            continue;
        snprintf(path, sizeof(path), "/dev/shm/%s", entry->d_name);
        unlink(path);
    }
    closedir(dir);
    return 0;
}

static inline void cipd_remove_ours(void)
{
    cipd_keep_none(getpid());
}

/* A name for this test; removes what killed tests have left. */
static inline const char *cipd_name(const char *label)
{
    static char names[8][128];
    static int next;
    if (!next) {
        cipd_keep_none(0);
        atexit(cipd_remove_ours);
    }
    char *name = names[next++ % 8];
    snprintf(name, sizeof(names[0]), CIPD_PREFIX "%d.%s", (int)getpid(), label);
    return name;
}

static inline const char *cipd_path(const char *name)
{
    static char paths[4][300];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof(paths[0]), "/dev/shm/%s", name);
    return path;
}

static inline bool cipd_there(const char *name)
{
    return access(cipd_path(name), F_OK) == 0;
}

static inline ino_t cipd_inode(const char *name)
{
    struct stat status;
    CHECK_EQ(stat(cipd_path(name), &status), 0);
    return status.st_ino;
}

/* For tests in which a segment has several names or any size, or outlives its programs: Windows' do not. */
static inline void cipd_needs_files(void)
{
    if (!sl_os_named_has_names())
        SKIP("a section on Windows has one name and whole pages, and goes with its programs");
}

/* The size that a segment is found to have. */
static inline size_t cipd_pages(size_t bytes)
{
    return sl_os_named_has_names() ? bytes : 4096;
}

/* How many link names there are. */
static inline int cipd_seconds(const char *name)
{
    int count = 0;
    DIR *dir = opendir("/dev/shm");
    CHECK(dir);
    for (struct dirent *entry; (entry = readdir(dir));)
        count += sl_cipd_link_name_matches(name, entry->d_name);
    closedir(dir);
    return count;
}

/* ---- as another program ---- */

struct foreign {
    unsigned char *at;
    size_t size;
};

/* A segment of exactly `size` bytes, all zero. */
static inline struct foreign foreign_make(const char *name, size_t size)
{
    struct foreign foreign = { .size = size };
    int fd = open(cipd_path(name), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    CHECK(fd >= 0);
    CHECK_EQ(ftruncate(fd, (off_t)size), 0);
    if (size) {
        foreign.at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        CHECK(foreign.at != MAP_FAILED);
    }
    close(fd);
    return foreign;
}

static inline struct foreign foreign_attach(const char *name)
{
    struct foreign foreign = { .at = NULL };
    struct stat status;
    int fd = open(cipd_path(name), O_RDWR | O_CLOEXEC);
    CHECK(fd >= 0);
    CHECK_EQ(fstat(fd, &status), 0);
    foreign.size = (size_t)status.st_size;
    foreign.at = mmap(NULL, foreign.size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(foreign.at != MAP_FAILED);
    close(fd);
    return foreign;
}

static inline void foreign_close(struct foreign *foreign)
{
    if (foreign->at)
        munmap(foreign->at, foreign->size);
    foreign->at = NULL;
}

/* The handles of the protocol's golden example. */
static inline struct sl_cipd_handles golden_handles(uint32_t slot)
{
    struct sl_cipd_handles handles;
    for (uint32_t i = 0; i < SL_CIPD_HANDLE; i++) {
        handles.memory[i] = (unsigned char)(0x10 * (slot + 1) + i);
        handles.event[i] = (unsigned char)(0x80 + 0x10 * slot + i);
    }
    return handles;
}

static inline const struct sl_cipd_handles *golden_all(void)
{
    static struct sl_cipd_handles all[SL_CIPD_MAX_SLOTS];
    for (uint32_t slot = 0; slot < SL_CIPD_MAX_SLOTS; slot++)
        all[slot] = golden_handles(slot);
    return all;
}

static inline struct sl_cipd_metadata metadata_of(uint32_t width, uint32_t height, uint32_t components)
{
    return (struct sl_cipd_metadata){
        .width = width,
        .height = height,
        .components = components,
        .kind = 1,
        .bits = 8,
        .bytes = width * height * components,
    };
}

/* A whole session as Python stores it, version first. */
static inline void foreign_begin(const struct foreign *foreign, uint32_t slots, uint64_t version)
{
    struct sl_cipd_layout layout;
    struct sl_cipd_metadata metadata = metadata_of(64, 32, 4);
    CHECK(sl_cipd_layout(slots, &layout));
    CHECK_LE(layout.total, foreign->size);
    sl_cipd_store_magic(foreign->at, SL_CIPD_MAGIC);
    sl_cipd_store_version(foreign->at, version);
    sl_cipd_store_slots(foreign->at, slots);
    sl_cipd_store_index(foreign->at, 0);
    for (uint32_t slot = 0; slot < slots; slot++)
        sl_cipd_store_handles(foreign->at, slot, &golden_all()[slot]);
    sl_cipd_store_shut(foreign->at, &layout, 0);
    sl_cipd_store_metadata(foreign->at, &layout, &metadata);
}

static inline void foreign_publish(const struct foreign *foreign, uint32_t index, double seconds)
{
    struct sl_cipd_layout layout;
    CHECK(sl_cipd_layout(sl_cipd_load_slots(foreign->at), &layout));
    sl_cipd_store_time(foreign->at, &layout, seconds);
    sl_cipd_store_shut(foreign->at, &layout, 0);
    sl_cipd_store_index(foreign->at, index);
}

/* Does a reader of this writer sleep? */
static inline bool somebody_sleeps(const struct sl_cipd_segment_writer *producer)
{
    return producer->ext && sl_load(&producer->ext->asleep, relaxed) != 0;
}

#endif
