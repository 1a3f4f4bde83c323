/* SPDX-License-Identifier: MIT
 *
 * POSIX shared memory by name, and two semaphores in it: the textbook's bounded buffer.
 */
#include <fcntl.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "peer.h"

#define HEAD 4096

static struct head {
    sem_t free, filled;
} * head;
static char name[64];
static size_t size;
static unsigned next;

static void map(int fd)
{
    char *at = mmap(NULL, HEAD + size * SLOTS, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        die_errno("mmap");
    head = (struct head *)(void *)at;
    close(fd);
}

static char *slot(void)
{
    return (char *)head + HEAD + next % SLOTS * size;
}

static void prepare(size_t bytes)
{
    size = bytes;
    snprintf(name, sizeof name, "/sluice-bench-%ld", (long)getpid());
}

static void writer_open(size_t bytes)
{
    int fd = shm_open(name, O_CREAT | O_EXCL | O_RDWR, 0600);
    if (fd < 0 || ftruncate(fd, (off_t)(HEAD + bytes * SLOTS)) != 0)
        die_errno("shm_open");
    map(fd);
    if (sem_init(&head->free, 1, SLOTS) != 0 || sem_init(&head->filled, 1, 0) != 0)
        die_errno("sem_init");
}

static void reader_open(size_t bytes)
{
    (void)bytes;
    int fd = shm_open(name, O_RDWR, 0);
    if (fd < 0)
        die_errno("shm_open");
    shm_unlink(name);
    map(fd);
}

static void *loan(void)
{
    while (sem_wait(&head->free) != 0)
        continue;
    return slot();
}

static void send_frame(const void *own)
{
    if (own)
        memcpy(loan(), own, size);
    next++;
    sem_post(&head->filled);
}

static const void *receive_frame(void)
{
    while (sem_wait(&head->filled) != 0)
        continue;
    return slot();
}

static void release_frame(void)
{
    next++;
    sem_post(&head->free);
}

const struct peer peer = {
    .in_place = true,
    .prepare = prepare,
    .writer_open = writer_open,
    .loan = loan,
    .send = send_frame,
    .reader_open = reader_open,
    .receive = receive_frame,
    .release = release_frame,
};
