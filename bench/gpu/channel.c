/* SPDX-License-Identifier: MIT */
#include "channel.h"

#define NAME       "gpu-bench"
#define CIPD_NAME  "cipd:sluice-test- gpu bench"
#define CIPD_SLOTS 3

sluice_writer *writer;
sluice_reader *reader;
struct sluice_stream stream;
struct cu_stream *native;
static struct sluice_device device;

void check(int result, const char *what)
{
    if (result != SLUICE_OK)
        die("%s: %s: %s", what, sluice_result_text(result), sluice_last_error());
}

static struct sluice_dtype element(void)
{
    return (struct sluice_dtype){ job->is_float ? SLUICE_FLOAT : SLUICE_UINT, job->is_float ? 32 : 8, 1 };
}

struct sluice_array channel_array(void *memory)
{
    const int64_t shape[3] = { job->height, job->width, 4 };
    struct sluice_array array;
    check(sluice_array_wrap(&array, "pixels", memory, element(), 3, shape, NULL), "an array");
    return array;
}

static void open_stream(const char *name)
{
    check(sluice_device_open(&device, name), "the device");
    stream = channel_stream();
    native = channel_native(stream);
}

void channel_write(uint32_t slots)
{
    const int64_t shape[3] = { job->height, job->width, 4 };
    struct sluice_format format = SLUICE_FORMAT_INIT;
    struct sluice_writer_params params = SLUICE_WRITER_PARAMS_INIT;
    struct sluice_cipd_writer_params cipd = SLUICE_CIPD_WRITER_PARAMS_INIT;
    cipd.block = job->cipd == CIPD_BLOCK;
    open_stream("cuda:0");
    check(sluice_format_add_tensor(&format, "pixels", element(), 3, shape), "a format");
    params.name = NAME;
    params.device = "cuda:0";
    params.format = &format;
    params.slots = params.max_slots = slots;
    params.policy = SLUICE_WAIT;
    params.wait_ns = CHANNEL_WAIT;
    params.no_graphs = job->graph == NO_GRAPH;
    if (job->cipd) {
        params.name = CIPD_NAME;
        params.slots = params.max_slots = CIPD_SLOTS;
        params.policy = SLUICE_DROP;
        params.cipd = &cipd;
    }
    check(sluice_writer_open(&writer, &params), "a writer cannot be opened");
}

void channel_read(uint32_t hold, bool ahead)
{
    struct sluice_reader_params params = SLUICE_READER_PARAMS_INIT;
    params.device = job->far ? "cuda:1" : "cuda:0";
    open_stream(params.device);
    params.staged = job->staged ? SLUICE_STAGED_ALWAYS : SLUICE_STAGED_NEVER;
    params.name = job->cipd ? CIPD_NAME : NAME;
    params.mode = job->in_order ? SLUICE_IN_ORDER : SLUICE_NEWEST;
    params.depth = job->in_order ? hold : 0;
    params.hold = hold;
    params.ahead = ahead;
    params.open_timeout_ns = CHANNEL_WAIT;
    params.spin_ns = job->sleeping ? -1 : SLUICE_FOREVER;
    check(sluice_reader_open(&reader, &params), "a reader cannot be opened");
}

void channel_close(void)
{
    CU(StreamSynchronize, native);
    if (reader)
        check(sluice_reader_close(&reader), "a reader cannot be closed");
    if (writer)
        check(sluice_writer_close(&writer), "a writer cannot be closed");
    check(sluice_device_close(&device), "the device cannot be closed");
}

/* ---- frames ---- */

struct sluice_frame channel_frame;

void channel_put(void)
{
    check(sluice_writer_begin(writer, SLUICE_DEFAULT, &channel_frame), "begin");
    check(sluice_writer_commit(writer, &channel_frame, stream), "commit");
}

void channel_take(void)
{
    check(sluice_reader_acquire(reader, stream, CHANNEL_WAIT, &channel_frame), "acquire");
}

void channel_give(void)
{
    check(sluice_reader_release(reader, &channel_frame, stream), "release");
}

void channel_put_frames(void)
{
    for (uint32_t round = 1; !atomic_load(&stage->last); round++) {
        channel_put();
        await_got(round);
    }
}

/* ---- streams ---- */

struct sluice_stream channel_stream(void)
{
    struct sluice_stream made;
    check(sluice_stream_create(device, NULL, &made), "a stream");
    return made;
}

struct sluice_stream channel_wrap(struct cu_stream *of)
{
    struct sluice_stream made;
    check(sluice_stream_wrap(device, (uintptr_t)of, NULL, NULL, &made), "a stream");
    return made;
}

struct cu_stream *channel_native(struct sluice_stream of)
{
    uintptr_t found;
    check(sluice_stream_native(of, &found), "a native stream");
    return (struct cu_stream *)found;
}
