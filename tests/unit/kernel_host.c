/* SPDX-License-Identifier: MIT
 *
 * Kernels on "host": what of CUDA C++ runs there, and what the compiler's errors become.
 */
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "device/device.h"
#include "harness/test.h"
#include "kernel/kernel.h"
#include "os/os.h"
#include "util/result.h"

/* A module with one kernel, `k`. */
struct fx {
    struct sl_module module;
    struct sl_kernel kernel;
};

static int compile_as(struct fx *fx, const char *name, const char *text, const char *const *options, uint32_t count)
{
    static const char *const kernels[] = { "k" };
    struct sl_source source = { .name = name,
                                .text = text,
                                .bytes = strlen(text),
                                .options = options,
                                .option_count = count,
                                .kernels = kernels,
                                .kernel_count = 1 };

    *fx = (struct fx){ .module = { .name = "fx.cu" }, .kernel = { .name = "k" } };
    setenv("TMPDIR", test_dir(), 1);
    return sl_kernel_host.compile(NULL, &source, &fx->module.code);
}

static void load_compiled(struct fx *fx)
{
    CHECK_OK(sl_kernel_host.load(&fx->module));
    fx->kernel.module = &fx->module;
    CHECK_OK(sl_kernel_host.get(&fx->kernel, fx->module.code.kernels[0].symbol));
}

static void load(struct fx *fx, const char *text)
{
    CHECK_OK(compile_as(fx, "fx.cu", text, NULL, 0));
    load_compiled(fx);
}

static void unload(struct fx *fx)
{
    sl_kernel_host.unload(&fx->module);
    sl_code_free(&fx->module.code);
}

#define LAUNCH(fx, blocks, threads, dynamic, ...) \
    launch((fx), (blocks), (threads), (dynamic), (void *[]){ __VA_ARGS__ }, \
           sizeof((void *[]){ __VA_ARGS__ }) / sizeof(void *))

static struct sl_stream idle; /* it captures nothing */

static int launch(struct fx *fx, uint32_t blocks, uint32_t threads, uint32_t dynamic, void **values, size_t count)
{
    struct sl_call call = { .kernel = &fx->kernel,
                            .grid = { blocks, 1, 1 },
                            .block = { threads, 1, 1 },
                            .shared = dynamic,
                            .count = (uint32_t)count };

    memcpy(call.values, values, count * sizeof *values);
    return sl_kernel_host.launch(&call, &idle);
}

/* Runs a body once, as a kernel with one thread that writes doubles. */
static void check_values(const char *before, const char *body, const double *expected, size_t count)
{
    char text[8192];
    double found[64], *out = found;
    struct fx fx;

    CHECK_LE(count, 64);
    snprintf(text, sizeof text, "%s\n__global__ void k(double *out) { int n = 0;\n%s\n}", before, body);
    load(&fx, text);
    CHECK_OK(LAUNCH(&fx, 1, 1, 0, &out));
    for (size_t i = 0; i < count; i++)
        if (found[i] != expected[i])
            FAIL("value %zu is %.17g, expected %.17g", i, found[i], expected[i]);
    unload(&fx);
}

#define CHECK_VALUES(before, body, ...) \
    check_values(before, body, (double[]){ __VA_ARGS__ }, sizeof((double[]){ __VA_ARGS__ }) / sizeof(double))

/* ---- launches ---- */

TEST(saxpy_is_exact)
{
    struct fx fx;
    static const int counts[] = { 1, 1024, 100000 };
    float a = 2.5f, *x = malloc(100000 * sizeof *x), *y = malloc(100000 * sizeof *y);

    CHECK(x && y);
    load(&fx, "__global__ void k(float *y, const float *x, float a, int n)\n"
              "{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= n) return; y[i] = a * x[i] + y[i]; }\n");
    for (int c = 0; c < 3; c++) {
        int n = counts[c];
        for (int i = 0; i < n; i++) {
            x[i] = (float)i * 0.37f;
            y[i] = (float)(n - i) * 1.1f;
        }
        CHECK_OK(LAUNCH(&fx, ((uint32_t)n + 255) / 256, 256, 0, &y, &x, &a, &n));
        for (int i = 0; i < n; i++) {
            volatile float product = a * x[i], sum = product + (float)(n - i) * 1.1f; /* two roundings */
            CHECK(y[i] == sum);
        }
    }
    unload(&fx);
    free(x);
    free(y);
}

TEST(indices_cover_three_dimensions)
{
    struct fx fx;
    uint32_t *counts = calloc(5 * 3 * 2 * 4 * 3 * 2, sizeof *counts);
    struct sl_call call = { .kernel = &fx.kernel, .grid = { 5, 3, 2 }, .block = { 4, 3, 2 }, .count = 1 };

    CHECK(counts);
    load(&fx, "__global__ void k(unsigned *counts) {\n"
              "  unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);\n"
              "  unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);\n"
              "  atomicAdd(&counts[block * 24 + thread], 1u + (warpSize == 32) * 10u); }");
    call.values[0] = &counts;
    CHECK_OK(sl_kernel_host.launch(&call, &idle));
    for (int i = 0; i < 30 * 24; i++)
        CHECK_EQ(counts[i], 11);
    unload(&fx);
    free(counts);
}

TEST(templates_and_overloads_are_kernels_too)
{
    static const char *const names[] = { "scale<float, 3>", "fx::scale2", "scale<int, 2>" };
    static const char text[] = "template <typename T, int N> __global__ void scale(T *p) { p[threadIdx.x] *= N; }\n"
                               "namespace fx { extern \"C\" __global__ __launch_bounds__(256) void scale2(float *p)"
                               " { p[threadIdx.x] *= 2; } }\n";
    struct sl_source source = {
        .name = "fx.cu", .text = text, .bytes = sizeof text - 1, .kernels = names, .kernel_count = 3
    };
    struct fx fx = { .module = { .name = "fx.cu" }, .kernel = { .module = &fx.module } };
    float values[2] = { 1.5f, 2 }, *p = values;
    int numbers[2] = { 5, 6 }, *q = numbers;

    setenv("TMPDIR", test_dir(), 1);
    CHECK_OK(sl_kernel_host.compile(NULL, &source, &fx.module.code));
    CHECK_OK(sl_kernel_host.load(&fx.module));
    for (int k = 0; k < 3; k++) {
        CHECK_OK(sl_kernel_host.get(&fx.kernel, fx.module.code.kernels[k].symbol));
        if (k < 2)
            CHECK_OK(LAUNCH(&fx, 1, 2, 0, &p));
        else
            CHECK_OK(LAUNCH(&fx, 1, 2, 0, &q));
    }
    CHECK(values[0] == 9 && values[1] == 12 && numbers[0] == 10 && numbers[1] == 12);
    CHECK_EQ(sl_kernel_host.get(&fx.kernel, "no_such_symbol"), SLUICE_E_NOT_FOUND);
    unload(&fx);
}

static const char reduction[] = "__device__ unsigned add(unsigned a, unsigned b) { return a + b; }\n"
                                "__global__ void k(unsigned *out, const unsigned *in, int n)\n"
                                "{\n"
                                "    __shared__ unsigned s[1024];\n"
                                "    unsigned t = threadIdx.x, i = blockIdx.x * blockDim.x + t;\n"
                                "    s[t] = i < (unsigned)n ? in[i] : 0;\n"
                                "    __syncthreads();\n"
                                "    for (unsigned width = blockDim.x; width > 1; width = (width + 1) / 2) {\n"
                                "        unsigned far = t + (width + 1) / 2, other = far < width ? s[far] : 0;\n"
                                "        __syncthreads();\n"
                                "        s[t] = add(s[t], other);\n"
                                "        __syncthreads();\n"
                                "    }\n"
                                "    if (t == 0) out[blockIdx.x] = s[0];\n"
                                "}\n";

static void check_reduction(struct fx *fx, uint32_t threads)
{
    enum { BLOCKS = 37 };
    int n = (int)(BLOCKS * threads - threads / 3);
    uint32_t *in = malloc(BLOCKS * 1024 * sizeof *in), sums[BLOCKS], *out = sums;

    CHECK(in);
    for (int i = 0; i < n; i++)
        in[i] = (uint32_t)i * 2654435761u;
    CHECK_OK(LAUNCH(fx, BLOCKS, threads, 0, &out, &in, &n));
    for (uint32_t b = 0; b < BLOCKS; b++) {
        uint32_t expected = 0;
        for (uint32_t i = b * threads; i < (b + 1) * threads && i < (uint32_t)n; i++)
            expected += in[i];
        CHECK_EQ(sums[b], expected);
    }
    free(in);
}

static void check_reductions(const char *compiler, const char *host_threads)
{
    struct fx fx;

    setenv("SLUICE_CXX", compiler, 1);
    setenv("SLUICE_HOST_THREADS", host_threads, 1);
    setenv("SLUICE_CHECK", "streams", 1);
    load(&fx, reduction);
    for (uint32_t threads = 1; threads <= 1024; threads += threads < 8 ? 1 : threads < 1000 ? 127 : 3)
        check_reduction(&fx, threads);
    check_reduction(&fx, 1024);
    check_reduction(&fx, 1);
    unload(&fx);
}

TEST(reduction_is_exact_on_1_thread)
{
    check_reductions("", "1");
}
TEST(reduction_is_exact_on_2_threads)
{
    check_reductions("", "2");
}
TEST(reduction_is_exact_on_16_threads)
{
    check_reductions("", "16");
}

static void need_clang(void)
{
    struct sl_os_program program;

    if (!sl_os_find_program("clang++", &program))
        SKIP("there is no clang++");
}

TEST(reduction_is_exact_with_clang)
{
    need_clang();
    check_reductions("clang++", "3");
}

TEST(threads_that_have_returned_are_not_waited_for)
{
    struct fx fx;
    int sums[5], *out = sums;

    load(&fx, "__global__ void k(int *out) {\n"
              "  __shared__ int count;\n"
              "  if (threadIdx.x == 0) count = 0;\n"
              "  __syncthreads();\n"
              "  if (threadIdx.x % 3 == 1) return;\n"
              "  atomicAdd(&count, 1);\n"
              "  __syncthreads();\n"
              "  if (threadIdx.x == 0) return;\n"
              "  if (threadIdx.x % 3 == 2) atomicAdd(&count, 1000);\n"
              "  __syncthreads();\n"
              "  if (threadIdx.x == 99) out[blockIdx.x] = count; }");
    CHECK_OK(LAUNCH(&fx, 5, 100, 0, &out));
    for (int i = 0; i < 5; i++)
        CHECK_EQ(sums[i], 67 + 33 * 1000);
    unload(&fx);
}

TEST(barrier_in_an_included_header_works)
{
    struct fx fx;
    char path[600], option[600];
    const char *const options[] = { option };
    int value = 0, *out = &value;

    snprintf(path, sizeof path, "%s/wait.cuh", test_dir());
    CHECK_OK(sl_os_file_write(path, "#define WAIT() __syncthreads()\n", 31));
    snprintf(option, sizeof option, "-I%s", test_dir());
    CHECK_OK(compile_as(&fx, "fx.cu",
                        "#include \"wait.cuh\"\n"
                        "__global__ void k(int *out) { __shared__ int s[64]; s[threadIdx.x] = threadIdx.x; WAIT();\n"
                        "if (threadIdx.x == 0) *out = s[63]; }",
                        options, 1));
    load_compiled(&fx);
    CHECK_OK(LAUNCH(&fx, 1, 64, 0, &out));
    CHECK_EQ(value, 63);
    unload(&fx);
    unlink(path);
}

TEST(barrier_that_part_of_a_block_reaches_is_found)
{
    struct fx fx;
    int odd = 1;

    setenv("SLUICE_CHECK", "streams", 1);
    load(&fx, "__global__ void k(int odd) {\n"
              "  if (threadIdx.x % 2 == odd)\n"
              "    __syncthreads();\n"
              "  __syncthreads(); }");
    CHECK_SAYS(LAUNCH(&fx, 3, 64, 0, &odd), SLUICE_E_ORDER, "__syncthreads in line");
    CHECK_HAS(sluice_last_error(), "line 3");
    CHECK_HAS(sluice_last_error(), "line 4");
    odd = 2; /* none */
    CHECK_OK(LAUNCH(&fx, 3, 64, 0, &odd));
    unload(&fx);
}

TEST(dynamic_shared_memory_is_each_blocks_own)
{
    struct fx fx;
    float sums[16], *out = sums;
    int n = 100;

    setenv("SLUICE_HOST_THREADS", "4", 1);
    load(&fx, "#include <sluice.cuh>\n"
              "__global__ void k(float *out, int n) {\n"
              "  SLUICE_SHARED(float, s);\n"
              "  s[threadIdx.x] = threadIdx.x + blockIdx.x;\n"
              "  __syncthreads();\n"
              "  float sum = 0;\n"
              "  for (int i = 0; i < n; i++) sum += s[i];\n"
              "  if (threadIdx.x == 0) out[blockIdx.x] = sum; }");
    CHECK_OK(LAUNCH(&fx, 16, 100, 100 * sizeof(float), &out, &n));
    for (int b = 0; b < 16; b++)
        CHECK_EQ((int)sums[b], 4950 + 100 * b);
    unload(&fx);
}

static void *launch_often(void *argument)
{
    struct fx *fx = argument;

    for (int i = 0; i < 40; i++)
        check_reduction(fx, 1 + (uint32_t)i * 5);
    return NULL;
}

TEST_TIMEOUT(launches_from_several_threads_do_not_disturb_each_other, 60)
{
    struct fx fx;
    pthread_t threads[4];

    setenv("SLUICE_HOST_THREADS", "3", 1);
    load(&fx, reduction);
    for (int i = 0; i < 4; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, launch_often, &fx), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    unload(&fx);
}

/* Each has thread-local memory, of which a process has little for libraries that want theirs at a fixed place. */
TEST_TIMEOUT(sixty_modules_are_loaded_at_once, 60)
{
    enum { MODULES = 60 };
    static struct fx fx[MODULES];

    load(&fx[0], reduction);
    for (int i = 1; i < MODULES; i++) {
        fx[i].module = (struct sl_module){ .name = "fx.cu", .code = fx[0].module.code };
        fx[i].kernel = (struct sl_kernel){ .name = "k" };
        load_compiled(&fx[i]);
        CHECK(fx[i].kernel.native != fx[i - 1].kernel.native);
    }
    for (int i = 0; i < MODULES; i++)
        check_reduction(&fx[i], 33);
    for (int i = 1; i < MODULES; i++)
        sl_kernel_host.unload(&fx[i].module);
    unload(&fx[0]);
}

TEST(ptx_is_refused)
{
    struct fx fx = { .module = { .name = "fx.ptx", .code = { .bytes = ".version 8.0", .size = 12 } } };

    CHECK_SAYS(sl_kernel_host.load(&fx.module), SLUICE_E_UNSUPPORTED, "fx.ptx: PTX and binaries run on GPUs only");
}

/* ---- the language ---- */

TEST(vectors_have_cudas_layout)
{
    CHECK_VALUES(
        "#define TEST(V, T) \\\n"
        "  static_assert(sizeof(V##1) == sizeof(T)); \\\n"
        "  static_assert(sizeof(V##2) == 2 * sizeof(T) && alignof(V##2) == 2 * sizeof(T)); \\\n"
        "  static_assert(sizeof(V##3) == 3 * sizeof(T) && alignof(V##3) == alignof(T)); \\\n"
        "  static_assert(sizeof(V##4) == 4 * sizeof(T)); \\\n"
        "  static_assert(alignof(V##4) == (4 * sizeof(T) < 16 ? 4 * sizeof(T) : 16)); \\\n"
        "  { auto a = make_##V##4(1, 2, 3, 4); auto b = make_##V##3(5, 6, 7); auto c = make_##V##2(8, 9); \\\n"
        "    out[n++] = a.x + 10 * a.y + 100 * (a.z - 2) + 100 * (a.w - 4) + b.x + b.y + b.z + c.x + c.y + \\\n"
        "               make_##V##1(5).x; }\n",
        "TEST(char, char) TEST(uchar, unsigned char) TEST(short, short) TEST(ushort, unsigned short)\n"
        "TEST(int, int) TEST(uint, unsigned) TEST(long, long) TEST(ulong, unsigned long)\n"
        "TEST(longlong, long long) TEST(ulonglong, unsigned long long)\n"
        "TEST(float, float) TEST(double, double)",
        161, 161, 161, 161, 161, 161, 161, 161, 161, 161, 161, 161);
}

TEST(vectors_can_be_calculated_with)
{
    CHECK_VALUES("#include <sluice.cuh>",
                 "float4 a = make_float4(1, 2, 3, 4), b = 2.0f * a + a / 2.0f - 1.0f; a += b; a *= 2.0f;"
                 "out[n++] = a.x; out[n++] = a.w; float3 c = -make_float3(1, 2, 3) * make_float3(4, 5, 6);"
                 "out[n++] = c.x; out[n++] = c.z; float2 d = 1.0f / make_float2(2, 4); out[n++] = d.x; out[n++] = d.y;",
                 5, 26, -4, -18, 0.5, 0.25);
}

TEST(numbers_are_cudas)
{
    CHECK_VALUES("__constant__ float table[3] = { 1, 2, 3 };",
                 "float nan = nanf(\"\"); unsigned u = 3; dim3 d(4, 5);"
                 "out[n++] = min(1, 2.5f); out[n++] = max(nan, 2.0f); out[n++] = min(2.0f, nan); out[n++] = max(-1, 2);"
                 "out[n++] = __float_as_int(1.0f); out[n++] = __int_as_float(0x40000000);"
                 "out[n++] = __float2int_rn(2.5f); out[n++] = __float2int_rz(-2.5f); out[n++] = __float2int_ru(2.1f);"
                 "out[n++] = __float2int_rd(-2.1f); out[n++] = __float2int_rn(1e20f); out[n++] = __float2uint_rn(-5.f);"
                 "out[n++] = rsqrtf(4.0f); out[n++] = __saturatef(1.5f); out[n++] = __saturatef(nan);"
                 "out[n++] = __popc(255u); out[n++] = __clz(1); out[n++] = __ffs(8); out[n++] = __brev(1u);"
                 "out[n++] = __mul24(-3, 7); out[n++] = __umulhi(0x80000000u, u); out[n++] = __fdividef(1, 4);"
                 "out[n++] = sinpi(1.0) + cospi(1.0); out[n++] = exp10f(2); out[n++] = abs(-2.5f); out[n++] = d.z;"
                 "out[n++] = __ldg(&table[2]); out[n++] = sizeof(__expf(1)); out[n++] = floor(-0.5f);"
                 "float s, c; __sincosf(0, &s, &c); out[n++] = s + c; out[n++] = fmaxf(nan, 1.0f) + isnan(nan);",
                 1, 2, 2, 2, 0x3f800000, 2, 2, -2, 3, -3, 2147483647, 0, 0.5, 1, 0, 8, 31, 4, 2147483648.0, -21, 1,
                 0.25, -1, 100, 2.5, 1, 3, 4, -1, 1, 2);
}

TEST(standard_headers_can_be_included)
{
    CHECK_VALUES("#include <stdio.h>\n#include <cmath>\n#include <cstdint>\n#include <algorithm>\n#include <string>\n"
                 "#include <limits>\n#include <type_traits>\n#include <assert.h>\n#include <array>\n#include <vector>",
                 "std::array<uint8_t, 2> a = { 1, 2 }; assert(n == 0); printf(\"%s\", \"\");"
                 "out[n++] = std::max(a[0], a[1]) + std::numeric_limits<int8_t>::max(); out[n++] = std::abs(-2.5f);",
                 129, 2.5);
}

/* Names of the C library that a kernel may well have. */
TEST(kernels_may_be_called_gamma)
{
    static const char *const names[] = { "gamma", "index", "select", "y0", "remove", "random", "bcopy", "printk" };
    static const char text[] =
        "#define K(name) __global__ void name(float *p, int n) { if (threadIdx.x < n) p[0] += 1; }\n"
        "K(gamma) K(index) K(select) K(y0) K(remove) K(random) K(bcopy) K(printk)\n";
    struct sl_source source = {
        .name = "fx.cu", .text = text, .bytes = sizeof text - 1, .kernels = names, .kernel_count = 8
    };
    struct sl_code code;

    setenv("TMPDIR", test_dir(), 1);
    CHECK_OK(sl_kernel_host.compile(NULL, &source, &code));
    sl_code_free(&code);
}

TEST(atomics_lose_nothing)
{
    struct fx fx;
    struct {
        int add, sub, least, most, either, both, odd, cas;
        unsigned inc, dec, add_u;
        unsigned long long wide;
        float real;
        double twice;
        int exchanged;
    } all = { .least = 1 << 30, .both = -1, .dec = 5 }, *out = &all;

    setenv("SLUICE_HOST_THREADS", "4", 1);
    load(&fx, "struct A { int add, sub, least, most, either, both, odd, cas; unsigned inc, dec, add_u;\n"
              "  unsigned long long wide; float real; double twice; int exchanged; };\n"
              "__global__ void k(A *a) { int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
              "  atomicAdd(&a->add, 1); atomicSub(&a->sub, 2); atomicMin(&a->least, i); atomicMax(&a->most, i);\n"
              "  atomicOr(&a->either, i); atomicAnd(&a->both, ~i); atomicXor(&a->odd, i);\n"
              "  for (int old = a->cas, seen; (seen = atomicCAS(&a->cas, old, old + 3)) != old; old = seen);\n"
              "  atomicInc(&a->inc, 6); atomicDec(&a->dec, 9); atomicAdd_block(&a->add_u, 1);\n"
              "  atomicAdd(&a->wide, 1ull << 33); atomicAdd(&a->real, 1.0f); atomicAdd(&a->twice, 0.5);\n"
              "  if (atomicExch(&a->exchanged, 1) == 0) atomicAdd(&a->add, 1000000); }");
    CHECK_OK(LAUNCH(&fx, 250, 32, 0, &out));
    CHECK_EQ(all.add, 1008000);
    CHECK_EQ(all.sub, -16000);
    CHECK_EQ(all.least, 0);
    CHECK_EQ(all.most, 7999);
    CHECK_EQ(all.either, 8191);
    CHECK_EQ(all.both, ~8191);
    CHECK_EQ(all.odd, 0); /* 0 ^ 1 ^ ... ^ 7999 */
    CHECK_EQ(all.cas, 24000);
    CHECK_EQ(all.inc, 8000 % 7);
    CHECK_EQ(all.dec, 5); /* 8000 is a multiple of 10 */
    CHECK_EQ(all.add_u, 8000);
    CHECK_EQ(all.wide, 8000ull << 33);
    CHECK(all.real == 8000 && all.twice == 4000);
    unload(&fx);
}

TEST(pictures_are_structs_by_value)
{
    struct fx fx;
    unsigned char in[6 * 16], out[6 * 16];
    struct sl_picture from = { .planes = { in + 5 * 16 }, .pitches = { -16 }, .width = 3, .height = 6, .format = 1 };
    struct sl_picture to = { .planes = { out }, .pitches = { 16 }, .width = 3, .height = 6, .format = 1 };

    for (int i = 0; i < 96; i++)
        in[i] = (unsigned char)(i * 7);
    memset(out, 9, sizeof out);
    load(&fx, "#include <sluice.cuh>\n"
              "static_assert(SLUICE_PIXEL_GRAY_F32 == 23 && sizeof(sluice_in) == 64 && sizeof(sluice_out) == 64);\n"
              "__global__ void k(sluice_out out, sluice_in in) {\n"
              "  for (int row = 0; row < 6; row++) {\n"
              "    if (in.format != SLUICE_PIXEL_RGBA) return;\n"
              "    const uchar4 p = sluice_row<uchar4>(in, row)[threadIdx.x];\n"
              "    SLUICE_PIXEL(out, x, y);\n"
              "    sluice_row<uchar4>(out, row)[x] = make_uchar4(255 - p.x, p.y, p.z, y); } }");
    CHECK_EQ(sizeof(struct sl_picture), 64);
    CHECK_OK(LAUNCH(&fx, 1, 4, 0, &to, &from));
    for (int y = 0; y < 6; y++)
        for (int x = 0; x < 4; x++) {
            const unsigned char *p = in + (5 - y) * 16 + x * 4, *q = out + y * 16 + x * 4;
            CHECK(x < 3 ? q[0] == 255 - p[0] && q[1] == p[1] && q[3] == 0 : q[0] == 9 && q[3] == 9);
        }
    unload(&fx);
}

/* ---- errors ---- */

static void check_error(const char *text, const char *message)
{
    struct fx fx;

    CHECK_RESULT(compile_as(&fx, "fx.cu", text, NULL, 0), SLUICE_E_COMPILE);
    CHECK_HAS(sluice_last_error(), message);
}

TEST(error_says_where_and_the_log_has_all)
{
    char log[8192];
    struct fx fx;

    check_error("__global__ void k(int *p) {\n  *p = gain;\n  *p = loss;\n}\n", "fx.cu(2): error: ");
    CHECK_EQ(strncmp(sluice_last_error(), "fx.cu(2): error: ", 17), 0);
    CHECK_HAS(sluice_last_error(), "gain");
    CHECK(sl_compile_log(log, sizeof log) > 0);
    CHECK_HAS(log, "loss");
    check_error("#include \"no/such/header.h\"\n__global__ void k(int *p) {}", "fx.cu(1): error: ");
    check_error("__device__ int nowhere(int);\n__global__ void k(int *p) { *p = nowhere(1); }", "fx.cu: error: ");
    CHECK_HAS(sluice_last_error(), "nowhere");
    CHECK_SAYS(compile_as(&fx, "fx.cu", "__global__ void other(int *p) {}", NULL, 0), SLUICE_E_INVALID,
               "fx.cu has no kernel 'k'");
}

TEST(error_in_clangs_words)
{
    need_clang();
    setenv("SLUICE_CXX", "clang++", 1);
    check_error("__global__ void k(int *p) {\n  *p = gain;\n}\n", "fx.cu(2): error: ");
    check_error("__global__ void k(int *p) {\n  *p = __shfl_sync(1, 2, 3);\n}\n", "fx.cu(2): __shfl_sync does not run");
}

TEST(names_may_be_odd)
{
    struct fx fx;

    CHECK_SAYS(compile_as(&fx, "a \"b\\c: 1", "__global__ void k() {\n x = 1; }", NULL, 0), SLUICE_E_COMPILE,
               "(2): error");
}

static const char *const outside[] = {
    "int a = __shfl_sync(~0u, 1, 2);",
    "int a = __shfl_up_sync(~0u, 1, 2);",
    "int a = __shfl_down_sync(~0u, 1, 2);",
    "int a = __shfl_xor_sync(~0u, 1, 2);",
    "int a = __shfl(1, 2);",
    "int a = __shfl_up(1, 2);",
    "int a = __shfl_down(1, 2);",
    "int a = __shfl_xor(1, 2);",
    "int a = __ballot_sync(~0u, 1);",
    "int a = __any_sync(~0u, 1);",
    "int a = __all_sync(~0u, 1);",
    "int a = __activemask();",
    "int a = __ballot(1);",
    "int a = __any(1);",
    "int a = __all(1);",
    "__syncwarp();",
    "int a = __match_any_sync(~0u, 1);",
    "int a = __match_all_sync(~0u, 1, 0);",
    "int a = __reduce_add_sync(~0u, 1);",
    "int a = __syncthreads_count(1);",
    "int a = __syncthreads_and(1);",
    "int a = __syncthreads_or(1);",
    "auto g = cooperative_groups::this_thread_block();",
    "nvcuda::wmma::fill_fragment(a, 0);",
    "__half a = 1;",
    "half a = 1;",
    "half2 a;",
    "__nv_bfloat16 a;",
    "float a = tex2D<float>(t, 1, 2);",
    "int a = tex1Dfetch<int>(t, 1);",
    "surf2Dwrite(1, s, 0, 0);",
    "cudaTextureObject_t t;",
    "void *a; cudaMalloc(&a, 4);",
    "k<<<1, 1>>>(p);",
    "asm volatile(\"mov.u32 %0, %%laneid;\" : \"=r\"(*p));",
    "extern __shared__ float a[]; a[0] = 1;",
    "long long a = clock64();",
};

static void check_outside(const char *statement)
{
    char text[512], name[64] = "", message[128];
    struct fx fx;
    static const char *const names[] = {
        "cooperative_groups", "nvcuda", "extern __shared__", "cudaMalloc", "<<<", "asm"
    };

    /* The name is the word before a bracket, or one of these. */
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strstr(statement, names[i]))
            snprintf(name, sizeof name, "%s", names[i]);
    if (!*name) {
        const char *equal = strchr(statement, '='), *at = equal && equal[2] != '1' ? equal + 2 : statement;
        snprintf(name, sizeof name, "%.*s", (int)strcspn(at, " (<;"), at);
    }
    snprintf(text, sizeof text,
             "// %s\n/* %s\n*/ __device__ const char *text = \"%s\";\n__global__ void k(int *p) {\n  %s\n}\n", name,
             name, name, statement);
    int r = compile_as(&fx, "fx.cu", text, NULL, 0);
    snprintf(message, sizeof message, "fx.cu(5): %s does not run on \"host\"", name);
    if (r != SLUICE_E_COMPILE || !strstr(sluice_last_error(), message))
        FAIL("'%s': %d, %s", statement, r, sluice_last_error());
}

TEST_TIMEOUT(what_host_does_not_run_is_named, 120)
{
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++)
        check_outside(outside[i]);
    check_error("\n#include <cuda_fp16.h>\n__global__ void k() {}", "fx.cu(2): cuda_fp16 does not run");
    /* An error of another kind is reported as it is. */
    check_error("__global__ void k(int *p) {\n  int half = 2;\n  *p = gain + half;\n}", "fx.cu(3): error: ");
}

static char logged[1024];

static void take_log(void *user, enum sluice_log_level level, const char *message)
{
    (void)user;
    (void)level;
    snprintf(logged, sizeof logged, "%s", message);
}

TEST(options_are_passed_or_ignored_with_a_warning)
{
    struct fx fx;
    static const char *const options[] = { "-DA=1", "-D", "B=2", "--define-macro=C=3", "-UD", "--use_fast_math" };
    int value = 0, *out = &value;

    sl_log_set(take_log, NULL, SLUICE_LOG_WARN);
    CHECK_OK(compile_as(&fx, "fx.cu",
                        "#define T int\n#define n 5\n"
                        "__global__ void k(T *out) { *out = A + 10 * B + 100 * C; }",
                        options, 6));
    CHECK_HAS(logged, "--use_fast_math is ignored");
    load_compiled(&fx);
    CHECK_OK(LAUNCH(&fx, 1, 1, 0, &out));
    CHECK_EQ(value, 321);
    unload(&fx);
}

TEST(no_compiler_is_said)
{
    struct fx fx;
    char text[SL_COMPILER];

    CHECK_OK(sl_kernel_host.compiler(NULL, text, sizeof text));
    setenv("SLUICE_CXX", "/none", 1);
    setenv("PATH", "", 1);
    CHECK_SAYS(compile_as(&fx, "fx.cu", "__global__ void k() {}", NULL, 0), SLUICE_E_UNSUPPORTED,
               "no C++ compiler was found to run fx.cu on \"host\" (tried $SLUICE_CXX, c++, g++, clang++): install one "
               "(Debian: apt install g++)");
    CHECK_SAYS(sl_kernel_host.compiler(NULL, text, sizeof text), SLUICE_E_UNSUPPORTED, "no C++ compiler was found");
}

TEST(compiler_is_another_one_when_it_changed)
{
    char path[600], before[SL_COMPILER], after[SL_COMPILER];

    snprintf(path, sizeof path, "%s/cxx", test_dir());
    CHECK_OK(sl_os_file_write(path, "#!/bin/sh\nexit 1\n", 17));
    setenv("SLUICE_CXX", path, 1);
    CHECK_OK(sl_kernel_host.compiler(NULL, before, sizeof before));
    CHECK_OK(sl_kernel_host.compiler(NULL, after, sizeof after));
    CHECK_STR(before, after);
    unlink(path);
    CHECK_OK(sl_os_file_write(path, "#!/bin/sh\nexit 10\n", 18));
    CHECK_OK(sl_kernel_host.compiler(NULL, after, sizeof after));
    CHECK(strcmp(before, after) != 0);
    CHECK_HAS(after, path);
    unlink(path);
}

TEST(compiler_that_fails_without_a_word_is_reported)
{
    struct fx fx;
    char path[600];

    snprintf(path, sizeof path, "%s/cxx", test_dir());
    CHECK_OK(sl_os_file_write(path, "#!/bin/sh\nexit 3\n", 17));
    setenv("SLUICE_CXX", path, 1);
    CHECK_SAYS(compile_as(&fx, "fx.cu", "__global__ void k() {}", NULL, 0), SLUICE_E_COMPILE, "status 3");
    unlink(path);
}

TEST(compiling_works_where_children_are_ignored)
{
    struct fx fx;

    signal(SIGCHLD, SIG_IGN);
    load(&fx, "__global__ void k() {}");
    CHECK_OK(launch(&fx, 1, 1, 0, (void *[]){ NULL }, 0));
    unload(&fx);
    check_error("__global__ void k() { x = 1; }", "fx.cu(1): error: ");
}

static int entries_of_test_dir(void)
{
    DIR *dir = opendir(test_dir());
    int count = 0;

    CHECK(dir);
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

/* From none to enough. */
TEST_TIMEOUT(compiling_without_descriptors_leaves_nothing, 60)
{
    struct fx fx;
    struct rlimit limit;
    int before = entries_of_test_dir(), r = -1, failed = 0;

    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    for (rlim_t more = 3; r != 0 && more < 64; more++) {
        CHECK_EQ(setrlimit(RLIMIT_NOFILE, &(struct rlimit){ more, limit.rlim_max }), 0);
        r = compile_as(&fx, "fx.cu", "__global__ void k() {}", NULL, 0);
        CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
        failed += r < 0;
        if (r != 0)
            CHECK(strlen(sluice_last_error()) > 12);
        CHECK_EQ(entries_of_test_dir(), before);
    }
    CHECK_OK(r);
    CHECK_GE(failed, 1);
    load_compiled(&fx);
    unload(&fx);
}
