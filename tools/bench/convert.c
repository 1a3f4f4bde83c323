/* SPDX-License-Identifier: MIT
 *
 * Conversions on the CPU, by one thread: NV12 to RGBA, and RGBA to the tensor of a model; each beside a copy that reads
 * and writes as many bytes.
 */
#include <stdlib.h>
#include <string.h>

#include "bench.h"

#define WIDTH  1920
#define HEIGHT 1080
#define SIDE   512 /* of the tensor */

struct convert_job {
    bool to_tensor;
    int64_t time;
    struct samples samples, limit;
};

static struct sluice_stream stream;
static struct sluice_array from, to;
static struct sluice_convert how;

static struct sluice_array image(uint32_t format)
{
    struct sluice_format whole = SLUICE_FORMAT_INIT;

    actor_check(sluice_format_add_image(&whole, "image", format, WIDTH, HEIGHT), "an image");
    unsigned char *bytes = actor_memory(whole.arrays[0].nbytes);
    for (uint64_t i = 0; i < whole.arrays[0].nbytes; i++)
        bytes[i] = (unsigned char)(i * 7 % 251);
    whole.arrays[0].data = bytes;
    return whole.arrays[0];
}

static struct sluice_array tensor(void)
{
    const int64_t shape[] = { 1, 3, SIDE, SIDE };
    struct sluice_array array;

    actor_check(sluice_array_wrap(&array, "tensor", actor_memory(3 * SIDE * SIDE * sizeof(float)),
                                  (struct sluice_dtype){ SLUICE_FLOAT, 32, 1 }, 4, shape, NULL),
                "a tensor");
    return array;
}

static void open_arrays(bool to_tensor)
{
    struct sluice_device host;

    actor_check(sluice_device_open(&host, "host"), "the host");
    actor_check(sluice_stream_create(host, NULL, &stream), "a stream");
    from = image(to_tensor ? SLUICE_PIXEL_RGBA : SLUICE_PIXEL_NV12);
    to = to_tensor ? tensor() : image(SLUICE_PIXEL_RGBA);
    how = (struct sluice_convert)SLUICE_CONVERT_INIT;
    for (int i = 0; i < 3; i++) {
        how.scale[i] = 2;
        how.bias[i] = -1;
    }
}

static void convert(void *into, const void *out_of, uint64_t bytes)
{
    (void)into, (void)out_of, (void)bytes;
    actor_check(sluice_convert(stream, &to, &from, &how, NULL), "a conversion");
}

static void copy(void *into, const void *out_of, uint64_t bytes)
{
    memcpy(into, out_of, bytes);
}

static int64_t timed(void (*what)(void *into, const void *out_of, uint64_t bytes), void *into, const void *out_of,
                     uint64_t bytes)
{
    int64_t start = clock_ns();
    what(into, out_of, bytes);
    return clock_ns() - start;
}

static void run_conversions(void *shared, int index)
{
    struct convert_job *job = shared;
    (void)index;
    setenv("SLUICE_HOST_THREADS", "1", 1);
    open_arrays(job->to_tensor);
    uint64_t bytes = (from.nbytes + to.nbytes) / 2;
    void *into = actor_memory(bytes), *out_of = actor_memory(bytes);
    convert(NULL, NULL, 0); /* touches everything */
    copy(into, out_of, bytes);
    for (int64_t until = clock_ns() + job->time; clock_ns() < until || job->samples.count < BENCH_MIN_SAMPLES;) {
        samples_add(&job->samples, timed(convert, NULL, NULL, 0));
        samples_add(&job->limit, timed(copy, into, out_of, bytes));
    }
}

static bool convert_row(struct bench *bench, const char *name, bool to_tensor)
{
    struct stage stage;
    if (!stage_open(&stage, sizeof(struct convert_job)))
        return false;
    struct convert_job *job = stage.shared;
    job->to_tensor = to_tensor;
    job->time = bench_time(bench, 2);
    bool well = stage_start(&stage, bench_cpu(bench, 0), run_conversions, 0) && stage_play(&stage, name, 60 * SLUICE_S);
    if (well) {
        struct bench_row *row = bench_row(bench, name, &job->samples, &job->limit);
        row_int(row, "pixels", WIDTH * HEIGHT);
        row_cpus(row, bench, "cpu", NULL);
        well = row != NULL;
    }
    stage_close(&stage);
    return well;
}

bool bench_convert_nv12(struct bench *bench)
{
    return convert_row(bench, "convert_nv12", false);
}

bool bench_convert_tensor(struct bench *bench)
{
    return convert_row(bench, "convert_tensor", true);
}
