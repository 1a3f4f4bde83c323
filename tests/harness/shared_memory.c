/* SPDX-License-Identifier: MIT
 *
 * Memory shared by a test and its roles. It is a file in the test's folder, so a killed process leaves nothing behind.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "harness/harness.h"

void *test_shared_memory(size_t size)
{
    static void *memory; /* one mapping: the number of mappings of a process is limited */
    char path[512];
    const char *folder = getenv(HARNESS_FOLDER);

    if (memory)
        return memory;
    snprintf(path, sizeof path, "%s/shared-memory", folder ? folder : "");
    int fd = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, (off_t)size) < 0)
        FAIL("cannot make the shared memory %s", path);
    void *mapped = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (mapped == MAP_FAILED)
        FAIL("cannot map the shared memory %s", path);
    close(fd);
    memory = mapped;
    return memory;
}
