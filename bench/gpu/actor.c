/* SPDX-License-Identifier: MIT
 *
 * What all processes of a job do: meet, answer, use shared words, keep the GPU busy.
 */
#include "actor.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "driver.h"

#define BUSY_LONGER (100 * INT64_C(1000000)) /* than the job itself */

static int sockets[2] = { -1, -1 };
static int socket_here;
static uint32_t meetings;
static uint64_t words_address;
static struct cu_stream *busy_stream;

void *memory_of(size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        die("no memory for %zu bytes", size);
    memset(memory, 1, size);
    return memory;
}

void actor_begin(int index)
{
    socket_here = sockets[index > 0];
    meetings = 0;
    gpu_open(index > 0 && job->far);
    if (!words_address)
        words_address = gpu_register((void *)stage->words, sizeof stage->words);
}

/* ---- together ---- */

void meet(void)
{
    uint32_t all = ++meetings * (uint32_t)stage->actors, seen;
    if (atomic_fetch_add(&stage->met, 1) + 1 == all)
        futex_wake(&stage->met, INT_MAX);
    while ((seen = atomic_load(&stage->met)) < all)
        futex_wait_for(&stage->met, seen, KIT_S);
}

void await_word(const _Atomic uint64_t *word, uint64_t value)
{
    for (unsigned spins = 0; atomic_load_explicit(word, memory_order_acquire) < value;)
        spin_once(&spins);
}

void await_ready(uint32_t round)
{
    for (int i = 1; i < stage->actors; i++)
        word_await_spinning(&stage->lanes[i].ready, round);
}

void await_got(uint32_t round)
{
    for (int i = 1; i < stage->actors; i++)
        word_await_spinning(&stage->lanes[i].got, round);
}

/* ---- answers ---- */

bool sample(const char *name, int64_t number)
{
    struct set *set = stage->sets;
    while (set->name[0] && strcmp(set->name, name) != 0)
        set++;
    if (!set->name[0]) {
        snprintf(set->name, sizeof set->name, "%s", name);
        set->count = 0;
    }
    if (set->count == job->most)
        return false;
    set->at[set->count++] = number;
    return true;
}

void value(const char *name, int64_t number)
{
    struct value *at = stage->values;
    while (at->name[0])
        at++;
    snprintf(at->name, sizeof at->name, "%s", name);
    at->number = number;
}

/* ---- the GPU ---- */

_Atomic uint64_t *word(int number)
{
    return &stage->words[(size_t)number * LINE];
}

uint64_t word_address(int number)
{
    return words_address + (uint64_t)number * 64;
}

void busy_begin(int index)
{
    if (!(job->busy & (index == 0 ? BUSY_WRITER : BUSY_READER)))
        return;
    busy_stream = gpu_stream();
    gpu_spin_everywhere(busy_stream, job->ns + BUSY_LONGER);
}

void busy_end(void)
{
    if (!busy_stream)
        return;
    CU(StreamSynchronize, busy_stream);
    CU(StreamDestroy, busy_stream);
    busy_stream = NULL;
}

size_t frame_bytes(void)
{
    return (size_t)(job->width * job->height * 4 * (job->is_float ? 4 : 1));
}

/* ---- descriptors ---- */

bool actor_sockets(void)
{
    for (int i = 0; i < 2; i++)
        if (sockets[i] >= 0)
            close(sockets[i]);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) == 0)
        return true;
    failure_set("no socket");
    return false;
}

union control {
    struct cmsghdr header;
    char room[CMSG_SPACE(sizeof(int))];
};

void pass_fd(int fd)
{
    union control control = { .room = { 0 } };
    struct iovec byte = { .iov_base = &(char){ 0 }, .iov_len = 1 };
    struct msghdr message = {
        .msg_iov = &byte, .msg_iovlen = 1, .msg_control = control.room, .msg_controllen = sizeof control.room
    };
    control.header =
        (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof fd), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS };
    memcpy(CMSG_DATA(&control.header), &fd, sizeof fd);
    if (sendmsg(socket_here, &message, MSG_NOSIGNAL) != 1)
        die("a descriptor cannot be sent");
    close(fd);
}

int take_fd(void)
{
    union control control;
    int fd;
    struct iovec byte = { .iov_base = &(char){ 0 }, .iov_len = 1 };
    struct msghdr message = {
        .msg_iov = &byte, .msg_iovlen = 1, .msg_control = control.room, .msg_controllen = sizeof control.room
    };
    if (recvmsg(socket_here, &message, MSG_CMSG_CLOEXEC) != 1 || !CMSG_FIRSTHDR(&message))
        die("no descriptor came");
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
    return fd;
}
