/* SPDX-License-Identifier: MIT
 *
 * The time that copies take with the installed driver, by bare calls and by send and fetch, and what the driver says of
 * pointers. JSON lines, as driver_behaviour.c writes them.
 */
#include <stdlib.h>
#include <string.h>

#include "gpu/fixtures.h"

#define FRAME  (1920 * 1080 * 16) /* RGBA float32 */
#define ROUNDS 100

static struct {
    struct fixture fixture;
    struct sluice_frame frame;
    struct sluice_ticket ticket;
    struct memory gpu, pinned, plain;
    struct sl_cu_stream *first, *second;
    struct sl_cu_exec *graph, *with_word;
    struct sl_cu_graph *template;
    struct sl_cu_node *node;
    uint64_t *word, times;
    size_t bytes;
} costs;

static struct sluice_array array_of(const struct memory *memory)
{
    return bytes_at(memory->at, (int64_t)costs.bytes);
}

/* ---- bare calls ---- */

static void to_host(void)
{
    CU(MemcpyDtoHAsync, costs.pinned.at, (uintptr_t)costs.gpu.at, costs.bytes, costs.first);
    CU(StreamSynchronize, costs.first);
}

static void to_host_by_two(void)
{
    size_t half = costs.bytes / 2;

    CU(MemcpyDtoHAsync, costs.pinned.at, (uintptr_t)costs.gpu.at, half, costs.first);
    CU(MemcpyDtoHAsync, costs.pinned.at + half, (uintptr_t)costs.gpu.at + half, half, costs.second);
    CU(StreamSynchronize, costs.first);
    CU(StreamSynchronize, costs.second);
}

static void to_gpu(void)
{
    CU(MemcpyHtoDAsync, (uintptr_t)costs.gpu.at, costs.pinned.at, costs.bytes, costs.first);
    CU(StreamSynchronize, costs.first);
}

static void to_gpu_by_two(void)
{
    size_t half = costs.bytes / 2;

    CU(MemcpyHtoDAsync, (uintptr_t)costs.gpu.at, costs.pinned.at, half, costs.first);
    CU(MemcpyHtoDAsync, (uintptr_t)costs.gpu.at + half, costs.pinned.at + half, half, costs.second);
    CU(StreamSynchronize, costs.first);
    CU(StreamSynchronize, costs.second);
}

static void by_cpu(void)
{
    memcpy(costs.plain.at, costs.pinned.at, costs.bytes);
}

static uint64_t other_half(void)
{
    return (uintptr_t)costs.gpu.at + costs.bytes;
}

static void on_gpu(void)
{
    CU(MemcpyDtoDAsync, other_half(), (uintptr_t)costs.gpu.at, costs.bytes, costs.first);
    CU(StreamSynchronize, costs.first);
}

static void on_gpu_by_any(void)
{
    CU(MemcpyAsync, other_half(), (uintptr_t)costs.gpu.at, costs.bytes, costs.first);
    CU(StreamSynchronize, costs.first);
}

static void on_gpu_by_graph(void)
{
    CU(GraphLaunch, costs.graph, costs.first);
    CU(StreamSynchronize, costs.first);
}

static void set_word(void)
{
    union sl_cu_mem_op word = { .write = { SL_CU_MEM_OP_WRITE_64, (uintptr_t)costs.word, ++costs.times, 0, 0 } };
    struct sl_cu_batch batch = { gpu_use(0), 1, &word, 0 };

    CU(GraphExecBatchMemOpNodeSetParams, costs.with_word, costs.node, &batch);
}

/* As send does it: until the CPU sees the signal. */
static void on_gpu_by_graph_with_word(void)
{
    set_word();
    CU(GraphLaunch, costs.with_word, costs.first);
    while (__atomic_load_n(costs.word, __ATOMIC_ACQUIRE) < costs.times)
        ;
}

static void on_gpu_and_word(void)
{
    CU(MemcpyAsync, other_half(), (uintptr_t)costs.gpu.at, costs.bytes, costs.first);
    CU(StreamWriteValue64, costs.first, (uintptr_t)costs.word, ++costs.times, 0);
    while (__atomic_load_n(costs.word, __ATOMIC_ACQUIRE) < costs.times)
        ;
}

static void make_a_graph_of_it(void)
{
    struct sl_cu_exec *exec;

    CU(GraphInstantiateWithFlags, &exec, costs.template, 0);
    CU(GraphExecDestroy, exec);
}

/* ---- by send and fetch ---- */

static void send_and_wait(const struct memory *memory)
{
    struct sluice_array array = array_of(memory);

    CHECK_OK(sluice_writer_send(costs.fixture.writer, &array, 1, SLUICE_ON_CPU, &costs.ticket));
    CHECK_OK(sluice_ticket_wait(costs.ticket, 20 * SLUICE_S));
}

static void send_gpu(void)
{
    send_and_wait(&costs.gpu);
}

static void send_pinned(void)
{
    send_and_wait(&costs.pinned);
}

static void send_plain(void)
{
    send_and_wait(&costs.plain);
}

static void fetch_into(const struct memory *memory)
{
    struct sluice_array array = array_of(memory);

    CHECK_OK(sluice_reader_fetch(costs.fixture.reader, &costs.frame, &array, 1, SLUICE_ON_CPU, NULL));
}

static void fetch_pinned(void)
{
    fetch_into(&costs.pinned);
}

static void fetch_plain(void)
{
    fetch_into(&costs.plain);
}

static void ask_one(void)
{
    int attribute = SL_CU_POINTER_BUFFER_ID;
    unsigned long long id;

    CU(PointerGetAttributes, 1, &attribute, (void *[]){ &id }, (uintptr_t)costs.gpu.at);
}

static void ask_of_plain(void)
{
    int attribute = SL_CU_POINTER_BUFFER_ID;
    unsigned long long id;

    CU(PointerGetAttributes, 1, &attribute, (void *[]){ &id }, (uintptr_t)costs.plain.at);
}

static void ask_all(void)
{
    int attributes[] = { SL_CU_POINTER_MEMORY_TYPE, SL_CU_POINTER_IS_MANAGED,  SL_CU_POINTER_ORDINAL,
                         SL_CU_POINTER_BUFFER_ID,   SL_CU_POINTER_RANGE_START, SL_CU_POINTER_RANGE_SIZE,
                         SL_CU_POINTER_CONTEXT };
    uint64_t values[7];
    void *places[7];

    for (int i = 0; i < 7; i++)
        places[i] = &values[i];
    CU(PointerGetAttributes, 7, attributes, places, (uintptr_t)costs.gpu.at);
}

/* ---- measuring ---- */

static int by_size(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void measure(const char *name, void (*call)(void), FILE *file)
{
    int rounds = gpu_is_fake() ? 5 : ROUNDS;
    int64_t times[ROUNDS];

    for (int i = -2; i < rounds; i++) {
        int64_t began = test_now();
        call();
        if (i >= 0)
            times[i] = test_now() - began;
    }
    qsort(times, (size_t)rounds, sizeof *times, by_size);
    fprintf(file, "{\"fact\": \"copy\", \"call\": \"%s\", \"bytes\": %zu, \"p50_ns\": %lld, \"p90_ns\": %lld}\n", name,
            costs.bytes, (long long)times[rounds / 2], (long long)times[rounds * 9 / 10]);
}

static void make_graph(void)
{
    struct sl_cu_graph *graph;

    CU(StreamBeginCapture, costs.first, CAPTURE_RELAXED);
    CU(MemcpyDtoDAsync, other_half(), (uintptr_t)costs.gpu.at, costs.bytes, costs.first);
    CU(StreamEndCapture, costs.first, &graph);
    CU(GraphInstantiateWithFlags, &costs.graph, graph, 0);
    CU(GraphDestroy, graph);
}

static void make_graph_with_word(void)
{
    struct sl_cu_copy_3d copy = { .from_type = SL_CU_MEMORY_DEVICE,
                                  .from_device = (uintptr_t)costs.gpu.at,
                                  .to_type = SL_CU_MEMORY_DEVICE,
                                  .to_device = other_half(),
                                  .width = costs.bytes,
                                  .height = 1,
                                  .depth = 1 };
    union sl_cu_mem_op word = { .write = { SL_CU_MEM_OP_WRITE_64, (uintptr_t)costs.word, 0, 0, 0 } };
    struct sl_cu_batch batch = { gpu_use(0), 1, &word, 0 };
    struct sl_cu_node *first;

    CU(GraphCreate, &costs.template, 0);
    CU(GraphAddMemcpyNode, &first, costs.template, NULL, 0, &copy, gpu_use(0));
    CU(GraphAddBatchMemOpNode, &costs.node, costs.template, &first, 1, &batch);
    CU(GraphInstantiateWithFlags, &costs.with_word, costs.template, 0);
}

static void set_up(void)
{
    void *word;

    costs.bytes = gpu_is_fake() ? 1 << 20 : FRAME;
    costs.fixture = fixture_bytes((int64_t)costs.bytes);
    costs.first = gpu_stream(SL_CU_STREAM_NON_BLOCKING);
    costs.second = gpu_stream(SL_CU_STREAM_NON_BLOCKING);
    costs.gpu = memory_make(OF_GPU, costs.bytes * 2);
    costs.pinned = memory_make(PINNED, costs.bytes);
    costs.plain = memory_make(PLAIN, costs.bytes);
    memset(costs.plain.at, 1, costs.bytes);
    memset(costs.pinned.at, 1, costs.bytes);
    make_graph();
    CU(MemHostAlloc, &word, 4096, SL_CU_HOST_PORTABLE);
    memset(word, 0, 4096);
    costs.word = word;
    make_graph_with_word();
    send_gpu();
    costs.frame = fixture_acquire(&costs.fixture);
}

static void tear_down(void)
{
    CHECK_OK(sluice_reader_release(costs.fixture.reader, &costs.frame, SLUICE_ON_CPU));
    CU(GraphExecDestroy, costs.graph);
    CU(GraphExecDestroy, costs.with_word);
    CU(GraphDestroy, costs.template);
    CU(MemFreeHost, costs.word);
    CU(StreamDestroy, costs.first);
    CU(StreamDestroy, costs.second);
    memory_drop(&costs.gpu);
    memory_drop(&costs.pinned);
    memory_drop(&costs.plain);
    fixture_end(&costs.fixture);
}

TEST_TIMEOUT(what_copies_cost, 120)
{
    FILE *file = gpu_facts();

    gpu_begin();
    set_up();
    measure("to pinned memory, bare", to_host, file);
    measure("to pinned memory, bare, halves on two streams", to_host_by_two, file);
    measure("fetch into pinned memory", fetch_pinned, file);
    measure("fetch into plain memory", fetch_plain, file);
    measure("memcpy", by_cpu, file);
    measure("from pinned memory, bare", to_gpu, file);
    measure("from pinned memory, bare, halves on two streams", to_gpu_by_two, file);
    measure("send from pinned memory, ticket", send_pinned, file);
    measure("send from plain memory, ticket", send_plain, file);
    measure("on the GPU, bare", on_gpu, file);
    measure("on the GPU, bare, cuMemcpyAsync", on_gpu_by_any, file);
    measure("on the GPU, bare, by a graph", on_gpu_by_graph, file);
    measure("on the GPU, bare, and a word, seen", on_gpu_and_word, file);
    measure("on the GPU, bare, by a graph with the word, seen", on_gpu_by_graph_with_word, file);
    measure("a new word for a graph", set_word, file);
    measure("a graph made and destroyed", make_a_graph_of_it, file);
    measure("send from the GPU, ticket", send_gpu, file);
    measure("cuPointerGetAttributes: buffer", ask_one, file);
    measure("cuPointerGetAttributes: buffer of plain memory", ask_of_plain, file);
    measure("cuPointerGetAttributes: all", ask_all, file);
    tear_down();
    fclose(file);
}

/* What the driver says of memory of each kind, and of a slot, which is mapped. */
static void describe(const char *what, const void *pointer, FILE *file)
{
    unsigned type = 77, managed = 0;
    unsigned long long buffer = 0;
    int ordinal = 77;
    uint64_t start = 0;
    size_t size = 0;
    struct sl_cu_context *context = NULL;
    int attributes[] = { SL_CU_POINTER_MEMORY_TYPE, SL_CU_POINTER_IS_MANAGED,  SL_CU_POINTER_ORDINAL,
                         SL_CU_POINTER_BUFFER_ID,   SL_CU_POINTER_RANGE_START, SL_CU_POINTER_RANGE_SIZE,
                         SL_CU_POINTER_CONTEXT };

    CU(PointerGetAttributes, 7, attributes, (void *[]){ &type, &managed, &ordinal, &buffer, &start, &size, &context },
       (uintptr_t)pointer);
    fprintf(file,
            "{\"fact\": \"pointer\", \"memory\": \"%s\", \"type\": %u, \"managed\": %u, \"ordinal\": %d, \"buffer\": "
            "%s, \"before\": "
            "%lld, \"size\": %zu, \"context\": \"%s\"}\n",
            what, type, managed, ordinal, buffer ? "true" : "false",
            start ? (long long)((uintptr_t)pointer - start) : -1, size,
            context == gpu_use(0) ? "primary"
            : context             ? "other"
                                  : "none");
}

TEST(pointer_facts)
{
    FILE *file = gpu_facts();
    struct sluice_array slot;

    gpu_begin();
    struct fixture fixture = fixture_bytes(3 << 20);
    for (int kind = 0; kind < KINDS; kind++) {
        struct memory memory = memory_make(kind, 100000);
        describe(kind_names[kind], memory.at + 4096, file);
        memory_drop(&memory);
    }
    struct sluice_frame frame;
    CHECK_OK(sluice_writer_begin(fixture.writer, 0, &frame));
    CHECK_OK(sluice_frame_array(&frame, NULL, &slot));
    describe("a writer's slot", (char *)slot.data + 4096, file);
    CHECK_OK(sluice_writer_commit(fixture.writer, &frame, SLUICE_ON_CPU));
    frame = fixture_acquire(&fixture);
    CHECK_OK(sluice_frame_array(&frame, NULL, &slot));
    describe("a reader's slot", (char *)slot.data + 4096, file);

    /* From one frame into another, as a chain of programs does. */
    slot.name[0] = '\0';
    CHECK_OK(sluice_writer_send(fixture.writer, &slot, 1, fixture.stream, NULL));
    CHECK_OK(sluice_reader_release(fixture.reader, &frame, fixture.stream));
    fixture_end(&fixture);
    fclose(file);
}
