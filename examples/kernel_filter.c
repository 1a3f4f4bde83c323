/* SPDX-License-Identifier: MIT
 *
 * A kernel between two channels: takes frames of one, runs a CUDA kernel on each, and publishes the result in the
 * other. The same program and the same kernel work on a GPU and in host memory: the channel's frames decide.
 *
 *     kernel_filter IN OUT
 */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <sluice/sluice.h>

static const char source[] = "__global__ void invert(unsigned char *out, const unsigned char *in, int count)\n"
                             "{\n"
                             "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
                             "    if (i < count)\n"
                             "        out[i] = 255 - in[i];\n"
                             "}\n";

struct filter {
    sluice_reader *reader;
    sluice_writer *writer;
    struct sluice_device device;
    struct sluice_stream stream;
    struct sluice_module module;
    struct sluice_kernel invert;
};

static volatile sig_atomic_t stop;

static void on_signal(int signal_number)
{
    (void)signal_number;
    stop = true;
}

static int fail(const char *what)
{
    fprintf(stderr, "kernel_filter: %s: %s\n", what, sluice_last_error());
    return 1;
}

/* With the first frame: the device that it is on, the kernel there, and the output channel. */
static int prepare(struct filter *filter, const char *out_name)
{
    struct sluice_module_params module = { .size = sizeof module, .name = "invert.cu" };
    struct sluice_writer_params params = SLUICE_WRITER_PARAMS_INIT;
    struct sluice_format format = SLUICE_FORMAT_INIT;
    char device[64];
    if (sluice_reader_device(filter->reader, device, sizeof device) || sluice_device_open(&filter->device, device) ||
        sluice_stream_create(filter->device, NULL, &filter->stream) ||
        sluice_module_load(filter->device, source, strlen(source), &module, &filter->module) ||
        sluice_kernel_get(filter->module, "invert", &filter->invert) || sluice_reader_format(filter->reader, &format))
        return fail("prepare");
    params.name = out_name;
    params.device = device;
    params.format = &format;
    return sluice_writer_open(&filter->writer, &params) ? fail(out_name) : 0;
}

/* The commit and the release are queued on the stream, behind the kernel: nothing waits here. */
static int pass(struct filter *filter, struct sluice_frame *in)
{
    struct sluice_frame out;
    struct sluice_array array;
    int r = sluice_writer_begin(filter->writer, SLUICE_DEFAULT, &out);
    if (r == SLUICE_NO_SLOT)
        return 0; /* all slots are held: this frame is dropped */
    if (r || sluice_frame_array(in, NULL, &array))
        return fail("begin");
    struct sluice_launch launch = { .size = sizeof launch, .over = { (uint32_t)array.nbytes } };
    struct sluice_argument arguments[] = {
        SLUICE_FRAME(&out, NULL),
        SLUICE_FRAME(in, NULL),
        SLUICE_INTEGER((int64_t)array.nbytes),
    };
    if (sluice_launch(filter->invert, filter->stream, &launch, arguments, 3))
        return fail("launch");
    sluice_frame_inherit(&out, in);
    return sluice_writer_commit(filter->writer, &out, filter->stream) ? fail("commit") : 0;
}

static int run(struct filter *filter, const char *out_name)
{
    struct sluice_frame frame;
    int failed = 0;
    while (!stop && !failed) {
        int r = sluice_reader_acquire(filter->reader, SLUICE_ON_CPU, 100 * SLUICE_MS, &frame);
        if (r == SLUICE_CLOSED)
            break;
        if (r < 0)
            return fail("acquire");
        if (r)
            continue;
        if (!filter->writer)
            failed = prepare(filter, out_name);
        if (!failed)
            failed = pass(filter, &frame);
        sluice_reader_release(filter->reader, &frame, filter->writer ? filter->stream : SLUICE_ON_CPU);
    }
    return failed;
}

int main(int argc, char **argv)
{
    struct filter filter = { 0 };
    struct sluice_reader_params params = SLUICE_READER_PARAMS_INIT;
    if (argc != 3) {
        fprintf(stderr, "usage: kernel_filter IN OUT\n");
        return 2;
    }
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);
    params.name = argv[1];
    if (sluice_reader_open(&filter.reader, &params))
        return fail(argv[1]);
    int failed = run(&filter, argv[2]);
    sluice_writer_close(&filter.writer);
    sluice_reader_close(&filter.reader);
    sluice_device_close(&filter.device); /* ends the stream, the module and the kernel, too */
    return failed;
}
