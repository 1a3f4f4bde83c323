/* SPDX-License-Identifier: MIT
 *
 * Kernels on the CPU, by one thread: an empty launch, a barrier, an edge filter; each beside the same in plain C.
 */
#include <stdlib.h>
#include <string.h>

#include "../common/term.h"
#include "bench.h"

#define BATCH    64 /* launches of the empty kernel that are timed together */
#define THREADS  256
#define ROUNDS   64 /* of two barriers each */
#define WIDTH    1920
#define HEIGHT   1080
#define SENTENCE 512

enum kind { EMPTY, BARRIER, SOBEL };

/* A source each: the threads of a source with barriers are coroutines, which costs its other kernels time, too. */
static const struct {
    const char *name, *source;
} kernels[] = {
    [EMPTY] = { "empty", "__global__ void empty(unsigned char *out) { }\n" },
    [BARRIER] = { "rotate", "__global__ void rotate(unsigned *out, int rounds)\n"
                            "{\n"
                            "    __shared__ unsigned words[256];\n"
                            "    unsigned i = threadIdx.x, value = out[i];\n"
                            "    for (int r = 0; r < rounds; r++) {\n"
                            "        words[i] = value;\n"
                            "        __syncthreads();\n"
                            "        value = words[(i + 1) % 256];\n"
                            "        __syncthreads();\n"
                            "    }\n"
                            "    out[i] = value;\n"
                            "}\n" },
    [SOBEL] = { "sobel",
                "__global__ void sobel(unsigned char *out, const unsigned char *in, int width, int height)\n"
                "{\n"
                "    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;\n"
                "    if (x < 1 || y < 1 || x >= width - 1 || y >= height - 1)\n"
                "        return;\n"
                "    const unsigned char *p = in + (long)y * width + x, *above = p - width, *below = p + width;\n"
                "    int dx = above[1] + 2 * p[1] + below[1] - above[-1] - 2 * p[-1] - below[-1];\n"
                "    int dy = below[-1] + 2 * below[0] + below[1] - above[-1] - 2 * above[0] - above[1];\n"
                "    out[(long)y * width + x] = min(abs(dx) + abs(dy), 255);\n"
                "}\n" },
};

struct kernel_job {
    enum kind kind;
    int64_t time;
    char missing[SENTENCE]; /* why there are no kernels */
    struct samples samples, limit;
};

static unsigned char *out, *in;
static struct sluice_stream stream;
static struct sluice_kernel kernel;

/* ---- the same in plain C ---- */

static void do_nothing(unsigned char *at)
{
    (void)at;
}

static void rotate(unsigned *values)
{
    unsigned words[THREADS];
    for (int r = 0; r < ROUNDS; r++) {
        memcpy(words, values, sizeof words);
        for (unsigned i = 0; i < THREADS; i++)
            values[i] = words[(i + 1) % THREADS];
    }
}

static void sobel(unsigned char *to, const unsigned char *from)
{
    for (int y = 1; y < HEIGHT - 1; y++)
        for (int x = 1; x < WIDTH - 1; x++) {
            const unsigned char *p = from + y * WIDTH + x, *above = p - WIDTH, *below = p + WIDTH;
            int dx = above[1] + 2 * p[1] + below[1] - above[-1] - 2 * p[-1] - below[-1];
            int dy = below[-1] + 2 * below[0] + below[1] - above[-1] - 2 * above[0] - above[1];
            int sum = abs(dx) + abs(dy);
            to[y * WIDTH + x] = (unsigned char)(sum < 255 ? sum : 255);
        }
}

static void plain(enum kind kind)
{
    static void (*volatile function)(unsigned char *at) = do_nothing;
    if (kind == SOBEL)
        sobel(out, in);
    else if (kind == BARRIER)
        rotate((unsigned *)(void *)out);
    else
        function(out);
}

/* ---- launches ---- */

static void launch(enum kind kind)
{
    struct sluice_launch shape = { .size = sizeof shape, .grid = { 1 }, .block = { kind == BARRIER ? THREADS : 1 } };
    const struct sluice_argument some[][4] = {
        [EMPTY] = { SLUICE_MEMORY(out) },
        [BARRIER] = { SLUICE_MEMORY(out), SLUICE_INTEGER(ROUNDS) },
        [SOBEL] = { SLUICE_MEMORY(out), SLUICE_MEMORY(in), SLUICE_INTEGER(WIDTH), SLUICE_INTEGER(HEIGHT) },
    };
    static const uint32_t counts[] = { [EMPTY] = 1, [BARRIER] = 2, [SOBEL] = 4 };
    if (kind == SOBEL)
        shape = (struct sluice_launch){ .size = sizeof shape, .over = { WIDTH, HEIGHT } };
    actor_check(sluice_launch(kernel, stream, &shape, some[kind], counts[kind]), "a launch");
}

static void open_kernel(enum kind kind)
{
    const struct sluice_module_params params = { .size = sizeof params,
                                                 .name = "bench.cu",
                                                 .flags = SLUICE_MODULE_NO_CACHE };
    struct sluice_device host;
    struct sluice_module module;
    actor_check(sluice_device_open(&host, "host"), "the host");
    actor_check(sluice_stream_create(host, NULL, &stream), "a stream");
    actor_check(sluice_module_load(host, kernels[kind].source, strlen(kernels[kind].source), &params, &module),
                "the kernels");
    actor_check(sluice_kernel_get(module, kernels[kind].name, &kernel), "a kernel");
    out = actor_memory(WIDTH * HEIGHT);
    in = actor_memory(WIDTH * HEIGHT);
    for (int i = 0; i < WIDTH * HEIGHT; i++)
        in[i] = (unsigned char)(i * 7 % 251);
}

/* A sample is a launch, or a barrier of all threads. */
static int64_t parts(enum kind kind)
{
    return kind == BARRIER ? INT64_C(2) * ROUNDS : 1;
}

static int64_t timed(void (*what)(enum kind kind), enum kind kind)
{
    int count = kind == EMPTY ? BATCH : 1;
    int64_t start = clock_ns();
    for (int i = 0; i < count; i++)
        what(kind);
    return (clock_ns() - start) / count / parts(kind);
}

static void run_kernels(void *shared, int index)
{
    struct kernel_job *job = shared;
    char compiler[4608];
    (void)index;
    setenv("SLUICE_HOST_THREADS", "1", 1);
    if (sluice_kernel_compiler("host", compiler, sizeof compiler) != SLUICE_OK) {
        strncpy(job->missing, sluice_last_error(), sizeof job->missing - 1);
        return;
    }
    open_kernel(job->kind);
    launch(job->kind); /* touches everything */
    for (int64_t until = clock_ns() + job->time; clock_ns() < until || job->samples.count < BENCH_MIN_SAMPLES;) {
        samples_add(&job->samples, timed(launch, job->kind));
        samples_add(&job->limit, timed(plain, job->kind));
    }
}

static bool kernel_row(struct bench *bench, const char *name, enum kind kind)
{
    struct stage stage;
    if (!stage_open(&stage, sizeof(struct kernel_job)))
        return false;
    struct kernel_job *job = stage.shared;
    job->kind = kind;
    job->time = bench_time(bench, 2);
    bool well = stage_start(&stage, bench_cpu(bench, 0), run_kernels, 0) && stage_play(&stage, name, 60 * SLUICE_S);
    if (well && job->missing[0]) {
        progress_end();
        fprintf(stderr, "sluice: bench: %s is left out: %s\n", name, job->missing);
    } else if (well) {
        struct bench_row *row = bench_row(bench, name, &job->samples, &job->limit);
        if (kind == BARRIER)
            row_int(row, "threads", THREADS);
        if (kind == SOBEL)
            row_int(row, "bytes", WIDTH * HEIGHT);
        row_cpus(row, bench, "cpu", NULL);
        well = row != NULL;
    }
    stage_close(&stage);
    return well;
}

bool bench_kernel_launch(struct bench *bench)
{
    return kernel_row(bench, "kernel_launch", EMPTY);
}

bool bench_kernel_barrier(struct bench *bench)
{
    return kernel_row(bench, "kernel_barrier", BARRIER);
}

bool bench_kernel_sobel(struct bench *bench)
{
    return kernel_row(bench, "kernel_sobel", SOBEL);
}
