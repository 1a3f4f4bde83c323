/* SPDX-License-Identifier: MIT
 *
 * Launches on host: shapes, and arguments against parameters. Nothing runs unless everything fits.
 */
#include <stdlib.h>
#include <string.h>

#include <sluice/sluice.h>

#include "harness/test.h"

static const char source[] =
    "__global__ void add(int *count, int by, float real, unsigned char small, bool flag)\n"
    "{\n"
    "    if (threadIdx.x == 0 && blockIdx.x == 0)\n"
    "        *count += by + (int)real + small + flag;\n"
    "}\n"
    "__global__ void shape(unsigned *out)\n"
    "{\n"
    "    if (threadIdx.x + threadIdx.y + threadIdx.z + blockIdx.x + blockIdx.y + blockIdx.z == 0) {\n"
    "        out[0] = gridDim.x, out[1] = gridDim.y, out[2] = gridDim.z;\n"
    "        out[3] = blockDim.x, out[4] = blockDim.y, out[5] = blockDim.z;\n"
    "    }\n"
    "}\n"
    "__global__ void sum(const float *in, float *out, int n)\n"
    "{\n"
    "    for (int i = 0; i < n; i++)\n"
    "        *out += in[i];\n"
    "}\n"
    "struct pair { int a; double b; };\n"
    "__global__ void take(struct pair p, double *out) { *out = p.a + p.b; }\n"
    "__global__ void wide(long long *out, long long a, unsigned long long b, short c)\n"
    "{\n"
    "    out[0] = a, out[1] = (long long)b, out[2] = c;\n"
    "}\n";

struct fixture {
    struct sluice_device device;
    struct sluice_stream stream;
    struct sluice_module module;
};

static struct fixture begin(void)
{
    struct sluice_module_params params = { .size = sizeof params, .name = "fx.cu" };
    struct fixture f;

    CHECK_OK(sluice_device_open(&f.device, "host"));
    CHECK_OK(sluice_stream_create(f.device, NULL, &f.stream));
    CHECK_OK(sluice_module_load(f.device, source, strlen(source), &params, &f.module));
    return f;
}

static void end(struct fixture *f)
{
    CHECK_OK(sluice_module_unload(&f->module));
    CHECK_OK(sluice_device_close(&f->device));
}

static struct sluice_kernel get(const struct fixture *f, const char *name)
{
    struct sluice_kernel kernel = { 0 };

    CHECK_OK(sluice_kernel_get(f->module, name, &kernel));
    return kernel;
}

static struct sluice_launch one(void)
{
    return (struct sluice_launch){ .size = sizeof(struct sluice_launch), .over = { 1 } };
}

/* ---- numbers ---- */

static int add(const struct fixture *f, int *count, struct sluice_argument by, struct sluice_argument real,
               struct sluice_argument small, struct sluice_argument flag)
{
    struct sluice_launch launch = one();
    struct sluice_argument arguments[] = { SLUICE_MEMORY(count), by, real, small, flag };

    return sluice_launch(get(f, "add"), f->stream, &launch, arguments, 5);
}

TEST(numbers_become_the_parameters_type)
{
    struct fixture f = begin();
    int count = 0;

    CHECK_OK(add(&f, &count, SLUICE_INTEGER(3), SLUICE_REAL(2.5), SLUICE_INTEGER(200), SLUICE_INTEGER(1)));
    CHECK_EQ(count, 206);
    count = 0;
    CHECK_OK(add(&f, &count, SLUICE_INTEGER(-3), SLUICE_INTEGER(7), SLUICE_INTEGER(0), SLUICE_INTEGER(0)));
    CHECK_EQ(count, 4); /* an integer for a float is that float */
    end(&f);
}

TEST(wide_numbers_keep_all_their_bits)
{
    struct fixture f = begin();
    struct sluice_launch launch = one();
    int64_t out[3];
    uint64_t top = UINT64_MAX;
    struct sluice_argument arguments[] = { SLUICE_MEMORY(out), SLUICE_INTEGER(INT64_MIN), SLUICE_VALUE(top),
                                           SLUICE_INTEGER(-32768) };

    CHECK_OK(sluice_launch(get(&f, "wide"), f.stream, &launch, arguments, 4));
    CHECK(out[0] == INT64_MIN && out[1] == -1 && out[2] == -32768);
    end(&f);
}

static void check_refused(int r, int expected, const char *sentence)
{
    CHECK_EQ(r, expected);
    CHECK_STR(sluice_last_error(), sentence);
}

TEST(numbers_that_do_not_fit_are_refused)
{
    struct fixture f = begin();
    int count = 0;

    check_refused(add(&f, &count, SLUICE_REAL(2.5), SLUICE_REAL(1), SLUICE_INTEGER(0), SLUICE_INTEGER(0)),
                  SLUICE_E_INVALID, "kernel 'add' (fx.cu): parameter 2 is an int; a floating-point number was passed");
    check_refused(
        add(&f, &count, SLUICE_INTEGER(INT64_C(1) << 31), SLUICE_REAL(1), SLUICE_INTEGER(0), SLUICE_INTEGER(0)),
        SLUICE_E_LIMIT, "kernel 'add' (fx.cu): parameter 2 is 'int', which does not hold 2147483648");
    check_refused(add(&f, &count, SLUICE_INTEGER(1), SLUICE_REAL(1e300), SLUICE_INTEGER(0), SLUICE_INTEGER(0)),
                  SLUICE_E_LIMIT, "kernel 'add' (fx.cu): parameter 3 is 'float', which does not hold 1e+300");
    check_refused(add(&f, &count, SLUICE_INTEGER(1), SLUICE_REAL(1), SLUICE_INTEGER(-1), SLUICE_INTEGER(0)),
                  SLUICE_E_LIMIT, "kernel 'add' (fx.cu): parameter 4 is 'unsigned char', which does not hold -1");
    check_refused(add(&f, &count, SLUICE_INTEGER(1), SLUICE_REAL(1), SLUICE_INTEGER(1), SLUICE_INTEGER(2)),
                  SLUICE_E_LIMIT, "kernel 'add' (fx.cu): parameter 5 is 'bool', which does not hold 2");
    check_refused(add(&f, &count, SLUICE_INTEGER(1), SLUICE_MEMORY(&count), SLUICE_INTEGER(1), SLUICE_INTEGER(1)),
                  SLUICE_E_INVALID, "kernel 'add' (fx.cu): parameter 3 is a float; a pointer was passed");
    check_refused(add(&f, &count, SLUICE_VALUE(f), SLUICE_REAL(1), SLUICE_INTEGER(1), SLUICE_INTEGER(1)),
                  SLUICE_E_INVALID, "kernel 'add' (fx.cu): parameter 2 has 4 bytes; a value of 24 was passed");
    CHECK_EQ(count, 0);
    end(&f);
}

TEST(their_number_must_be_right)
{
    struct fixture f = begin();
    struct sluice_launch launch = one();
    float in = 1, out = 0;
    struct sluice_argument arguments[] = { SLUICE_MEMORY(&in), SLUICE_MEMORY(&out) };

    check_refused(sluice_launch(get(&f, "sum"), f.stream, &launch, arguments, 2), SLUICE_E_INVALID,
                  "kernel 'sum' (fx.cu) takes 3 arguments (const float *, float *, int); 2 were passed");
    CHECK(out == 0);
    end(&f);
}

TEST(structs_by_value)
{
    struct fixture f = begin();
    struct sluice_launch launch = one();
    struct {
        int a;
        double b;
    } pair = { 3, 0.5 };
    double out = 0;
    struct sluice_argument arguments[] = { SLUICE_VALUE(pair), SLUICE_MEMORY(&out) };

    CHECK_OK(sluice_launch(get(&f, "take"), f.stream, &launch, arguments, 2));
    CHECK(out == 3.5);
    end(&f);
}

/* ---- memory ---- */

static int sum(const struct fixture *f, struct sluice_argument in, struct sluice_argument out, int n)
{
    struct sluice_launch launch = one();
    struct sluice_argument arguments[] = { in, out, SLUICE_INTEGER(n) };

    return sluice_launch(get(f, "sum"), f->stream, &launch, arguments, 3);
}

TEST(read_only_memory_is_for_const_pointers)
{
    struct fixture f = begin();
    float in[2] = { 1, 2 }, out = 0;
    struct sluice_argument read_only = SLUICE_MEMORY(in);

    read_only.access = SLUICE_ACCESS_IN;
    CHECK_OK(sum(&f, read_only, SLUICE_MEMORY(&out), 2));
    CHECK(out == 3);
    check_refused(sum(&f, SLUICE_MEMORY(in), read_only, 2), SLUICE_E_INVALID,
                  "kernel 'sum' (fx.cu): parameter 2 is 'float *', which it may write; read-only memory was passed: "
                  "declare it const, or pass other memory");
    CHECK(in[0] == 1);
    end(&f);
}

TEST(an_array_is_of_the_pointers_type)
{
    struct fixture f = begin();
    int64_t two = 2;
    double in[2] = { 1, 2 };
    float right[2] = { 3, 4 }, out = 0;
    struct sluice_array array;

    CHECK_OK(sluice_array_wrap(&array, "in", in, (struct sluice_dtype){ SLUICE_FLOAT, 64, 1 }, 1, &two, NULL));
    check_refused(sum(&f, SLUICE_ARRAY(&array), SLUICE_MEMORY(&out), 2), SLUICE_E_INVALID,
                  "kernel 'sum' (fx.cu): parameter 1 is 'const float *'; an array of float64 was passed");
    CHECK_OK(sluice_array_wrap(&array, "in", right, (struct sluice_dtype){ SLUICE_FLOAT, 32, 1 }, 1, &two, NULL));
    CHECK_OK(sum(&f, SLUICE_ARRAY(&array), SLUICE_MEMORY(&out), 2));
    CHECK(out == 7);
    end(&f);
}

TEST(host_arrays_are_used_in_place)
{
    struct fixture f = begin();
    float data[4] = { 1, 2, 3, 0 };

    CHECK_OK(sum(&f, SLUICE_HOST(data, 12), SLUICE_HOST(data + 3, 4), 3));
    CHECK(data[3] == 6);
    check_refused(sum(&f, SLUICE_HOST(data, 16), SLUICE_HOST(data + 3, 4), 3), SLUICE_E_INVALID,
                  "kernel 'sum' (fx.cu): the host array of parameter 2 overlaps another one; pass the same memory, or "
                  "separate arrays");
    CHECK(data[3] == 6);
    end(&f);
}

/* ---- frames ---- */

struct channel {
    sluice_writer *writer;
    sluice_reader *reader;
    struct sluice_frame frame; /* of the writer, then of the reader */
};

static struct channel open_channel(void)
{
    struct sluice_format format = SLUICE_FORMAT_INIT;
    struct sluice_writer_params wp = SLUICE_WRITER_PARAMS_INIT;
    struct sluice_reader_params rp = SLUICE_READER_PARAMS_INIT;
    struct channel c;

    test_dir();
    CHECK_OK(sluice_format_add_tensor(&format, "a", (struct sluice_dtype){ SLUICE_FLOAT, 32, 1 }, 1,
                                      (const int64_t[]){ 4 }));
    wp.name = rp.name = "camera";
    wp.format = &format;
    CHECK_OK(sluice_writer_open(&c.writer, &wp));
    CHECK_OK(sluice_reader_open(&c.reader, &rp));
    return c;
}

TEST(frames_are_written_and_read_in_place)
{
    struct fixture f = begin();
    struct channel c = open_channel();
    struct sluice_array array;
    float in[4] = { 1, 2, 3, 4 }, out = 0;

    CHECK_OK(sluice_writer_begin(c.writer, SLUICE_DEFAULT, &c.frame));
    CHECK_OK(sluice_frame_array(&c.frame, NULL, &array));
    memset(array.data, 0, 16);
    CHECK_OK(sum(&f, SLUICE_MEMORY(in), SLUICE_FRAME(&c.frame, "a"), 4));
    CHECK_OK(sluice_writer_commit(c.writer, &c.frame, f.stream));
    CHECK_OK(sluice_reader_acquire(c.reader, SLUICE_ON_CPU, SLUICE_DEFAULT, &c.frame));
    CHECK_OK(sum(&f, SLUICE_FRAME(&c.frame, NULL), SLUICE_MEMORY(&out), 4));
    CHECK(out == 10);
    check_refused(
        sum(&f, SLUICE_MEMORY(in), SLUICE_FRAME(&c.frame, NULL), 4), SLUICE_E_INVALID,
        "kernel 'sum' (fx.cu): parameter 2 is 'float *', which it may write; the frame of channel 'camera' is "
        "read-only: declare it const, or write into another frame");
    check_refused(sum(&f, SLUICE_FRAME(&c.frame, "b"), SLUICE_MEMORY(&out), 4), SLUICE_E_NOT_FOUND,
                  sluice_last_error());
    CHECK_OK(sluice_reader_release(c.reader, &c.frame, f.stream));
    CHECK_EQ(sum(&f, SLUICE_FRAME(&c.frame, NULL), SLUICE_MEMORY(&out), 4), SLUICE_E_STALE);
    CHECK(out == 10);
    CHECK_OK(sluice_reader_close(&c.reader));
    CHECK_OK(sluice_writer_close(&c.writer));
    end(&f);
}

/* ---- shapes ---- */

static void check_shape(const struct fixture *f, struct sluice_launch launch, const unsigned expected[6])
{
    unsigned out[6] = { 0 };
    struct sluice_argument argument = SLUICE_MEMORY(out);

    launch.size = sizeof launch;
    CHECK_OK(sluice_launch(get(f, "shape"), f->stream, &launch, &argument, 1));
    for (int i = 0; i < 6; i++)
        CHECK_EQ(out[i], expected[i]);
}

TEST(over_is_covered_by_whole_blocks)
{
    struct fixture f = begin();

    check_shape(&f, (struct sluice_launch){ .over = { 1000 } }, (unsigned[]){ 4, 1, 1, 256, 1, 1 });
    check_shape(&f, (struct sluice_launch){ .over = { 100, 50 } }, (unsigned[]){ 4, 7, 1, 32, 8, 1 });
    check_shape(&f, (struct sluice_launch){ .over = { 33, 1, 2 } }, (unsigned[]){ 2, 1, 2, 32, 1, 1 });
    check_shape(&f, (struct sluice_launch){ .over = { 5 } }, (unsigned[]){ 1, 1, 1, 5, 1, 1 });
    check_shape(&f, (struct sluice_launch){ .grid = { 5 } }, (unsigned[]){ 5, 1, 1, 256, 1, 1 });
    check_shape(&f, (struct sluice_launch){ .over = { 65 }, .block = { 64 } }, (unsigned[]){ 2, 1, 1, 64, 1, 1 });
    check_shape(&f, (struct sluice_launch){ .grid = { 3, 2 }, .block = { 4, 4, 2 } }, (unsigned[]){ 3, 2, 1, 4, 4, 2 });
    end(&f);
}

TEST(a_shape_is_given_once)
{
    struct fixture f = begin();
    unsigned out[6] = { 0 };
    struct sluice_argument argument = SLUICE_MEMORY(out);
    struct sluice_launch launch = { .size = sizeof launch };

    check_refused(sluice_launch(get(&f, "shape"), f.stream, &launch, &argument, 1), SLUICE_E_INVALID,
                  "kernel 'shape' (fx.cu): give either over (how many threads) or grid (how many blocks), not neither");
    launch.over[0] = launch.grid[0] = 1;
    check_refused(sluice_launch(get(&f, "shape"), f.stream, &launch, &argument, 1), SLUICE_E_INVALID,
                  "kernel 'shape' (fx.cu): give either over (how many threads) or grid (how many blocks), not both");
    launch = (struct sluice_launch){ .size = sizeof launch, .over = { 1 }, .block = { 1025 } };
    CHECK_EQ(sluice_launch(get(&f, "shape"), f.stream, &launch, &argument, 1), SLUICE_E_LIMIT);
    launch = (struct sluice_launch){ .size = sizeof launch, .grid = { 1, 65536 } };
    CHECK_EQ(sluice_launch(get(&f, "shape"), f.stream, &launch, &argument, 1), SLUICE_E_LIMIT);
    launch = (struct sluice_launch){ .size = sizeof launch, .over = { 1 }, .shared = 1u << 30 };
    CHECK_EQ(sluice_launch(get(&f, "shape"), f.stream, &launch, &argument, 1), SLUICE_E_LIMIT);
    CHECK_EQ(out[0], 0);
    end(&f);
}

/* ---- handles ---- */

TEST(streams_and_kernels_must_be_alive)
{
    struct fixture f = begin();
    struct sluice_launch launch = one();
    struct sluice_kernel kernel = get(&f, "shape");
    struct sluice_stream closed, other_stream, gone;
    struct sluice_device other;
    unsigned out[6] = { 0 };
    struct sluice_argument argument = SLUICE_MEMORY(out);

    CHECK_OK(sluice_stream_create(f.device, NULL, &closed));
    gone = closed;
    CHECK_OK(sluice_stream_destroy(&closed));
    CHECK_EQ(sluice_launch(kernel, gone, &launch, &argument, 1), SLUICE_E_CLOSED);
    CHECK_EQ(sluice_launch(kernel, closed, &launch, &argument, 1), SLUICE_E_INVALID); /* zero */
    CHECK_EQ(sluice_launch(kernel, SLUICE_ON_CPU, &launch, &argument, 1), SLUICE_E_INVALID);
    CHECK_OK(sluice_device_open(&other, "host"));
    CHECK_OK(sluice_stream_create(other, NULL, &other_stream));
    CHECK_EQ(sluice_launch(kernel, other_stream, &launch, &argument, 1), SLUICE_E_WRONG_DEVICE);
    CHECK_OK(sluice_device_close(&other));
    CHECK_OK(sluice_module_unload(&f.module));
    CHECK_EQ(sluice_launch(kernel, f.stream, &launch, &argument, 1), SLUICE_E_CLOSED);
    CHECK_EQ(out[0], 0);
    CHECK_OK(sluice_device_close(&f.device));
}

TEST(a_reset_ends_modules_and_kernels)
{
    struct fixture f = begin();
    struct sluice_launch launch = one();
    struct sluice_kernel kernel = get(&f, "shape"), again;
    unsigned out[6];
    struct sluice_argument argument = SLUICE_MEMORY(out);

    CHECK_OK(sluice_device_reset(f.device));
    CHECK_OK(sluice_stream_create(f.device, NULL, &f.stream));
    CHECK_EQ(sluice_launch(kernel, f.stream, &launch, &argument, 1), SLUICE_E_STALE);
    CHECK_EQ(sluice_kernel_get(f.module, "shape", &again), SLUICE_E_STALE);
    CHECK_EQ(sluice_module_unload(&f.module), SLUICE_E_STALE);
    CHECK_OK(sluice_device_close(&f.device));
}

TEST(a_kernel_has_one_handle)
{
    struct fixture f = begin();
    struct sluice_kernel none;

    CHECK(get(&f, "sum").id == get(&f, "sum").id);
    CHECK(get(&f, "sum").id != get(&f, "add").id);
    CHECK_EQ(sluice_kernel_get(f.module, "blur", &none), SLUICE_E_NOT_FOUND);
    CHECK_STR(sluice_last_error(), "fx.cu has no kernel 'blur'; it has 'add', 'shape', 'sum', 'take', 'wide'");
    end(&f);
}

/* They are found by a scan, which does not know what is defined. */
TEST(kernels_that_the_preprocessor_leaves_out)
{
    static const char text[] = "#ifdef WIDE\n__global__ void wide(int *p) { *p = 1; }\nnamespace fx {\n"
                               "__global__ void deep(float *p, int n) { *p = n; }\n}\n#endif\n"
                               "__global__ void first(int *p, int n) { *p = n; }\n"
                               "#ifndef __linux__\n__global__ void elsewhere(int *p) { *p = 2; }\n#endif\n"
                               "__global__ void last(float *p) { *p = 4; }\n";
    const char *const options[] = { "-DWIDE" }, *const named[] = { "first", "wide" };
    struct sluice_module_params params = { .size = sizeof params, .name = "fx.cu" };
    struct sluice_module module = { 0 };
    struct sluice_kernel kernel = { 0 };
    struct sluice_launch launch = one();
    struct fixture f = begin();
    char name[16];
    float value = 0;

    CHECK(setenv("SLUICE_CACHE", test_dir(), 1) == 0);
    for (int i = 0; i < 2; i++) { /* compiled; from the cache */
        CHECK_OK(sluice_module_load(f.device, text, strlen(text), &params, &module));
        CHECK_OK(sluice_module_kernel(module, 0, name, sizeof name));
        CHECK_STR(name, "first");
        CHECK_OK(sluice_module_kernel(module, 1, name, sizeof name));
        CHECK_STR(name, "last");
        CHECK_RESULT(sluice_module_kernel(module, 2, name, sizeof name), SLUICE_E_NOT_FOUND);
        CHECK_SAYS(sluice_kernel_get(module, "wide", &kernel), SLUICE_E_NOT_FOUND, "it has 'first', 'last'");
        CHECK_OK(sluice_kernel_get(module, "last", &kernel));
        CHECK_OK(sluice_launch(kernel, f.stream, &launch, (struct sluice_argument[]){ SLUICE_MEMORY(&value) }, 1));
        CHECK(value == 4);
        CHECK_OK(sluice_module_unload(&module));
    }
    params.options = options;
    params.option_count = 1;
    CHECK_OK(sluice_module_load(f.device, text, strlen(text), &params, &module));
    CHECK_OK(sluice_kernel_get(module, "fx::deep", &kernel));
    CHECK_OK(sluice_module_unload(&module));
    params.option_count = 0;
    params.kernels = named;
    params.kernel_count = 2;
    CHECK_SAYS(sluice_module_load(f.device, text, strlen(text), &params, &module), SLUICE_E_INVALID,
               "fx.cu has no kernel 'wide'");
    static const char none[] = "#ifdef WIDE\n__global__ void wide(int *p) { *p = 1; }\n#endif\n";
    params.kernel_count = 0;
    CHECK_SAYS(sluice_module_load(f.device, none, strlen(none), &params, &module), SLUICE_E_INVALID,
               "fx.cu has no kernel: its #if and #ifdef leave all of them out");
    end(&f);
}

TEST(a_kernel_is_described)
{
    struct fixture f = begin();
    struct sluice_kernel_info info = { .size = sizeof info };

    CHECK_OK(sluice_kernel_info(get(&f, "sum"), &info));
    CHECK_EQ(info.parameter_count, 3);
    CHECK_EQ(info.most_threads, 1024);
    CHECK_EQ(info.parameters[0].kind, SLUICE_PARAMETER_POINTER);
    CHECK_EQ(info.parameters[0].constant, 1);
    CHECK_EQ(info.parameters[0].dtype.code, SLUICE_FLOAT);
    CHECK_EQ(info.parameters[0].element, 4);
    CHECK_EQ(info.parameters[1].constant, 0);
    CHECK_EQ(info.parameters[2].kind, SLUICE_PARAMETER_NUMBER);
    CHECK_EQ(info.parameters[2].bytes, 4);
    end(&f);
}
