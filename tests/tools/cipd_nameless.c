/* SPDX-License-Identifier: MIT
 *
 * The command: info on a channel of cuda-link's protocol whose segment was deleted.
 */
#include "kit.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <sluice/sluice.h>

#define SIZE 433

static char name[80]; /* of a segment, unique on the machine */

static void *map_segment(void)
{
    const char *bare = strchr(name, ':') + 1;
    int fd = shm_open(bare, O_RDWR | O_CREAT | O_EXCL, 0600);
    CHECK(fd >= 0 && ftruncate(fd, SIZE) == 0);
    void *at = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(at != MAP_FAILED);
    close(fd);
    CHECK_EQ(shm_unlink(bare), 0);
    return at;
}

TEST(info_of_a_segment_that_has_lost_its_name)
{
    static struct program p;
    char says[200];
    test_dir();
    snprintf(name, sizeof name, "cipd:tools nameless>>%ld", (long)getpid());
    void *at = map_segment();
    CHECK_EQ(sluice_run(&p, "info", name), 3);
    CHECK_HAS(p.err, "there is no channel");
    snprintf(says, sizeof says,
             "1 program still uses a deleted segment of this name (process %ld); its writer was probably killed",
             (long)getpid());
    CHECK_HAS(p.err, says);
    strcat(name, "x"); /* a name without a segment */
    CHECK_EQ(sluice_run(&p, "info", name), 3);
    CHECK(!strstr(p.err, "deleted segment"));
    name[strlen(name) - 1] = 0;
    CHECK_EQ(munmap(at, SIZE), 0);
    CHECK_EQ(sluice_run(&p, "info", name, "--json"), 3);
    CHECK(!strstr(p.err, "deleted segment"));
}
