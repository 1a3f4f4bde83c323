/* SPDX-License-Identifier: MIT
 *
 * The driver calls that Sluice is built on: memory that several processes map at once, and events that others open.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpu/kit.h"
#include "mem/mem.h"

extern const struct sl_mem_ops sl_mem_cuda;

#define UNIT  (UINT64_C(2) << 20)
#define WORDS (UNIT / 4)

/* ---- memory ---- */

/* For each value that it reads, prints how many words of the memory differ from it. */
ROLE(looker)
{
    struct sl_memory memory = { .ops = &sl_mem_cuda, .device = "cuda:0", .fd = -1 };
    char *line;

    CHECK(argc == 2);
    struct sl_cu_stream *stream = gpu_begin_on_stream(1);
    CHECK_OK(sl_mem_cuda.import(&memory, atoi(argv[1]), UNIT, false));
    CHECK_OK(sl_mem_cuda.map(&memory, false));
    role_say("mapped");
    while ((line = role_line()))
        role_say("%llu",
                 (unsigned long long)gpu_differ(stream, (uintptr_t)memory.address, WORDS, (uint32_t)atoi(line)));
    sl_mem_cuda.destroy(&memory);
    gpu_end_on_stream(stream);
    return 0;
}

#define LOOKERS 3

/* All running processes see its present contents. */
static void check_all(struct sl_cu_stream *stream, const struct sl_memory *memory, struct child *lookers, int from)
{
    char text[16];

    for (uint32_t value = 1; value <= 5; value++) {
        gpu_fill(stream, (uintptr_t)memory->address, WORDS, value);
        CU(StreamSynchronize, stream);
        snprintf(text, sizeof text, "%u", value);
        for (int i = from; i < LOOKERS; i++)
            child_send(&lookers[i], text);
        for (int i = from; i < LOOKERS; i++)
            child_expect(&lookers[i], "0", 10);
    }
}

TEST(several_processes_map_one_memory)
{
    struct sl_cu_stream *stream = gpu_begin_on_stream(1);
    struct sl_memory memory = { .ops = &sl_mem_cuda, .device = "cuda:0", .fd = -1 };
    struct child lookers[LOOKERS];
    char text[16];

    CHECK_OK(sl_mem_cuda.create(&memory, "test", UNIT, false));
    CHECK(fcntl(memory.fd, F_SETFD, 0) == 0); /* they inherit it */
    snprintf(text, sizeof text, "%d", memory.fd);
    for (int i = 0; i < LOOKERS; i++)
        lookers[i] = role_start("looker", text, NULL);
    for (int i = 0; i < LOOKERS; i++)
        child_expect(&lookers[i], "mapped", 20);
    check_all(stream, &memory, lookers, 0);
    child_kill(&lookers[0], SIGKILL); /* the others notice nothing */
    check_all(stream, &memory, lookers, 1);
    for (int i = 1; i < LOOKERS; i++)
        role_stop(&lookers[i]);
    sl_mem_cuda.destroy(&memory);
    gpu_end_on_stream(stream);
}

/* ---- events ---- */

/* A handle as text, for a line. */
static void write_handle(const struct sl_cu_event_handle *handle, char text[129])
{
    for (int i = 0; i < 64; i++)
        sprintf(text + 2 * i, "%02x", (unsigned char)handle->bytes[i]);
}

static void read_handle(const char *text, struct sl_cu_event_handle *handle)
{
    for (int i = 0; i < 64; i++) {
        unsigned byte;
        CHECK(sscanf(text + 2 * i, "%2x", &byte) == 1);
        handle->bytes[i] = (char)byte;
    }
}

/* For each line, records its event behind a gate that the next line opens. */
ROLE(recorder)
{
    struct sl_cu_event_handle handle;
    struct sl_cu_event *event;
    char text[129];

    CHECK(argc == 1);
    struct sl_cu_stream *stream = gpu_begin_on_stream(1);
    CU(EventCreate, &event, SL_CU_EVENT_INTERPROCESS | SL_CU_EVENT_DISABLE_TIMING);
    CU(IpcGetEventHandle, &handle, event);
    write_handle(&handle, text);
    struct gpu_gate gate = gpu_gate_new();
    role_say("%s", text);
    while (role_line()) {
        gpu_gate_close(&gate, stream);
        CU(EventRecord, event, stream);
        role_say("recorded");
        role_line();
        gpu_gate_open(&gate);
    }
    CU(EventDestroy, event);
    CU(StreamSynchronize, stream);
    gpu_gate_end(&gate);
    gpu_end_on_stream(stream);
    return 0;
}

TEST(an_event_of_another_process)
{
    struct sl_cu_stream *stream = gpu_begin_on_stream(1);
    struct sl_cu_event_handle handle;
    struct sl_cu_event *event;

    struct child recorder = role_start("recorder", NULL);
    read_handle(child_line(&recorder, 20), &handle);
    CU(IpcOpenEventHandle, &event, handle);
    CU(EventQuery, event); /* never recorded */
    for (int round = 0; round < 3; round++) {
        child_send(&recorder, "record");
        child_expect(&recorder, "recorded", 10);
        CHECK_EQ(cu.EventQuery(event), SL_CU_NOT_READY);
        CU(StreamWaitEvent, stream, event, 0);
        CHECK_EQ(cu.StreamQuery(stream), SL_CU_NOT_READY);
        child_send(&recorder, "open");
        CU(StreamSynchronize, stream);
        CU(EventQuery, event);
        CU(EventSynchronize, event);
    }
    CU(EventDestroy, event);
    role_stop(&recorder);
    gpu_end_on_stream(stream);
}

TEST(events_that_cannot_be_shared)
{
    struct sl_cu_event_handle handle;
    struct sl_cu_stream *stream = gpu_begin_on_stream(1);
    struct sl_cu_event *event;

    CHECK_NE(cu.EventCreate(&event, SL_CU_EVENT_INTERPROCESS), 0); /* such an event must not have timing */
    CU(EventCreate, &event, SL_CU_EVENT_DISABLE_TIMING);
    CHECK_NE(cu.IpcGetEventHandle(&handle, event), 0);
    CU(EventDestroy, event);
    memset(&handle, 0, sizeof handle);
    CHECK_NE(cu.IpcOpenEventHandle(&event, handle), 0);
    gpu_end_on_stream(stream);
}
