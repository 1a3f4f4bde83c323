/* SPDX-License-Identifier: MIT */
#include "gpu/peers.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "gpu/channel.h"

#define PATIENCE 20

/* ---- the test's side ---- */

struct child peer_reader(const char *options)
{
    struct child child = role_start("reads", options, NULL);

    child_expect(&child, "open", PATIENCE);
    return child;
}

struct child peer_writer(const char *options)
{
    struct child child = role_start("writes", options, NULL);

    child_expect(&child, "open", PATIENCE);
    return child;
}

const char *peer_ask(struct child *peer, const char *line)
{
    child_send(peer, line);
    const char *answer = child_line(peer, PATIENCE);
    return answer ? answer : "(it ended)";
}

void peer_expect(const char *file, int at, struct child *peer, const char *line, const char *answer)
{
    const char *said = peer_ask(peer, line);

    if (!strstr(said, answer))
        test_fail(file, at, "'%s' was answered by '%s', not '%s'", line, said, answer);
}

void peer_fact(const char *what, int64_t ns)
{
    FILE *facts = gpu_facts();

    fprintf(facts, "{\"fact\":\"death\",\"what\":\"%s\",\"ms\":%.1f}\n", what, (double)ns / 1e6);
    CHECK(fclose(facts) == 0);
}

/* ---- commands ---- */

struct peer {
    struct sluice_device device;
    struct sluice_stream stream;
    sluice_reader *reader, *near;
    sluice_writer *writer;
    uint64_t committed;
    struct sluice_frame frame;
};

/* On one line. */
static void answer(const char *what, int result)
{
    char text[1024];

    if (result == 0) {
        role_say("%s", what);
        return;
    }
    snprintf(text, sizeof text, "%s", sluice_last_error());
    for (char *c = text; (c = strchr(c, '\n'));)
        *c = ' ';
    role_say("%s: %s", sluice_result_name(result), text);
}

static uint64_t words_of(const struct sluice_frame *frame)
{
    struct sluice_array array;

    CHECK_OK(sluice_frame_array(frame, NULL, &array));
    return (uintptr_t)array.data;
}

/* The child closes its standard input and output, so that nobody waits for its end. */
static void fork_one(long ms)
{
    if (fork() == 0) {
        close(0);
        close(1);
        usleep((useconds_t)ms * 1000);
        _exit(0);
    }
    role_say("forked");
}

/* Breaks the connections to the channel, as a failing peer or a debugger could. */
static void cut(void)
{
    int found = 0;

    for (int fd = 3; fd < 1024; fd++) {
        struct sockaddr_un peer;
        socklen_t size = sizeof peer;
        memset(&peer, 0, sizeof peer);
        if (getpeername(fd, (struct sockaddr *)&peer, &size) == 0 && peer.sun_family == AF_UNIX &&
            strstr(peer.sun_path, "/cam") && shutdown(fd, SHUT_RDWR) == 0)
            found++;
    }
    role_say("cut %d", found);
}

/* Commands of both roles. */
static bool common(const struct peer *self, const char *verb, long number)
{
    if (strcmp(verb, "fork") == 0) {
        fork_one(number);
    } else if (strcmp(verb, "reset") == 0) {
        CU(DevicePrimaryCtxReset, 0);
        role_say("reset");
    } else if (strcmp(verb, "finish") == 0) {
        CU(StreamSynchronize, gpu_native(self->stream));
        role_say("finished");
    } else if (strcmp(verb, "settle") == 0) {
        while (cu.StreamQuery(gpu_native(self->stream)) == SL_CU_NOT_READY)
            test_nap(SLUICE_MS);
        role_say("settled");
    } else if (strcmp(verb, "forget") == 0) {
        _exit(0);
    } else {
        return false;
    }
    return true;
}

static void take(struct peer *self, long ms)
{
    char text[80];
    int r = sluice_reader_acquire(self->reader, self->stream, ms * SLUICE_MS, &self->frame);

    if (r == 0) {
        channel_check(&self->frame, self->stream, (uint32_t)self->frame.sequence);
        snprintf(text, sizeof text, "took %llu", (unsigned long long)self->frame.sequence);
    }
    answer(text, r);
}

static void release(struct peer *self, long ms)
{
    if (ms)
        gpu_spin(gpu_native(self->stream), ms * SLUICE_MS);
    answer("released", sluice_reader_release(self->reader, &self->frame, self->stream));
}

/* acquire switches to the new connection once the service thread has it; until then it may take frames of the old one.
 * */
static void join(struct peer *self)
{
    struct sluice_reader_stats stats = { .size = sizeof stats };
    struct sluice_frame frame;

    do {
        if (sluice_reader_acquire(self->reader, self->stream, SLUICE_MS, &frame) == 0) {
            CHECK_OK(sluice_reader_release(self->reader, &frame, self->stream));
            CHECK_OK(sluice_stream_synchronize(self->stream));
        }
        CHECK_OK(sluice_reader_stats(self->reader, &stats));
    } while (!stats.connected);
    role_say("joined");
}

static void read_as_told(struct peer *self, const char *verb, long number)
{
    if (strcmp(verb, "take") == 0) {
        take(self, number);
    } else if (strcmp(verb, "release") == 0) {
        release(self, number);
    } else if (strcmp(verb, "store") == 0) {
        gpu_store(gpu_native(self->stream), words_of(&self->frame), 1);
        role_say("stored");
    } else if (strcmp(verb, "cut") == 0) {
        cut();
    } else if (strcmp(verb, "join") == 0) {
        join(self);
    } else if (strcmp(verb, "exec") == 0) {
        role_say("exec");
        fflush(stdout);
        execlp("sleep", "sleep", "60", NULL);
    } else if (strcmp(verb, "lost") == 0) {
        struct sluice_reader_stats stats = { .size = sizeof stats };
        CHECK_OK(sluice_reader_stats(self->reader, &stats));
        role_say("lost %llu", (unsigned long long)stats.lost);
    } else if (strcmp(verb, "close") == 0) {
        answer("closed", sluice_reader_close(&self->reader));
    } else {
        FAIL("a reader cannot '%s'", verb);
    }
}

static void commit(struct peer *self, long ms, bool crashes)
{
    struct sluice_frame frame;
    char text[40];
    int r = sluice_writer_begin(self->writer, 0, &frame);

    if (r == 0) {
        uint64_t sequence = self->committed + 1;
        if (ms > 0)
            gpu_spin(gpu_native(self->stream), ms * SLUICE_MS);
        if (crashes)
            gpu_store(gpu_native(self->stream), 0x10, 1);
        else if (ms >= 0)
            gpu_fill(gpu_native(self->stream), words_of(&frame), CHANNEL_WORDS, (uint32_t)sequence);
        r = sluice_writer_commit(self->writer, &frame, self->stream);
        self->committed += r == 0;
        snprintf(text, sizeof text, "committed %llu", (unsigned long long)frame.sequence);
    }
    answer(text, r);
}

/* From memory of its own, allocated before: a GPU that has crashed gives none. */
static void send_own(struct peer *self)
{
    static uint64_t memory;
    struct sluice_format format = channel_format(CHANNEL_WORDS);
    struct sluice_array array = format.arrays[0];
    char text[40];

    memory = memory ? memory : gpu_memory(array.nbytes);
    array.data = (void *)(uintptr_t)memory;
    int r = sluice_writer_send(self->writer, &array, 1, self->stream, NULL);
    self->committed += r == 0;
    snprintf(text, sizeof text, "committed %llu", (unsigned long long)self->committed);
    answer(text, r);
}

static void write_as_told(struct peer *self, const char *verb, long number)
{
    if (strcmp(verb, "commit") == 0) {
        commit(self, number, false);
    } else if (strcmp(verb, "send") == 0) {
        send_own(self);
    } else if (strcmp(verb, "crash") == 0) {
        commit(self, 0, true);
    } else if (strcmp(verb, "begin") == 0) {
        struct sluice_frame frame;
        int r = sluice_writer_begin(self->writer, number * SLUICE_MS, &frame);
        if (r == 0)
            CHECK_OK(sluice_writer_cancel(self->writer, &frame, SLUICE_ON_CPU));
        answer("begun", r);
    } else if (strcmp(verb, "free") == 0) {
        role_say("%d free", channel_free_slots(self->writer));
    } else if (strcmp(verb, "close") == 0) {
        answer("closed", sluice_writer_close(&self->writer));
    } else {
        FAIL("a writer cannot '%s'", verb);
    }
}

/* ---- the roles ---- */

static void set_up(struct peer *self)
{
    gpu_begin();
    gpu_use(0);
    self->device = gpu_open();
    CHECK_OK(sluice_stream_create(self->device, NULL, &self->stream));
    gpu_spin(gpu_native(self->stream), 0); /* loads the kernels */
    CHECK_OK(sluice_stream_synchronize(self->stream));
}

static void obey(struct peer *self, void (*act)(struct peer *, const char *, long))
{
    char *line;

    role_say("open");
    while ((line = role_line())) {
        char *number = strchr(line, ' ');
        if (number)
            *number++ = '\0';
        if (!common(self, line, number ? atol(number) : 0))
            act(self, line, number ? atol(number) : 0);
    }
    fflush(stdout);
    _exit(0); /* a driver whose context has crashed may not end cleanly */
}

static void hold_near(struct peer *self)
{
    struct sluice_reader_params params = channel_reader_params(1);
    struct sluice_frame frame;

    params.name = "near";
    CHECK_OK(sluice_reader_open(&self->near, &params));
    CHECK_OK(sluice_reader_acquire(self->near, SLUICE_ON_CPU, 20 * SLUICE_S, &frame));
}

ROLE(reads)
{
    struct sluice_reader_params params = channel_reader_params(1);
    struct peer self = { .reader = NULL };

    set_up(&self);
    if (strstr(argv[1], "many"))
        params.hold = 18;
    params.ahead = strstr(argv[1], "ahead") != NULL;
    if (strstr(argv[1], "order"))
        params.mode = SLUICE_IN_ORDER;
    CHECK_OK(sluice_reader_open(&self.reader, &params));
    if (strstr(argv[1], "host"))
        hold_near(&self);
    obey(&self, read_as_told);
    return 0;
}

ROLE(writes)
{
    struct peer self = { .reader = NULL };

    set_up(&self);
    self.writer = strstr(argv[1], "few") ? channel_writer_of(3) : channel_writer();
    obey(&self, write_as_told);
    return 0;
}
