/* SPDX-License-Identifier: MIT
 *
 * What the compilers say about the parameters of kernels, and that any bytes may claim to be theirs.
 */
#include <stdlib.h>
#include <string.h>

#include "harness/test.h"
#include "kernel/embedded.h"
#include "kernel/kernel.h"
#include "os/os.h"

static const uint32_t mark[4] = { 0x536c7569u, 0x63654b65u, 0x9e3779b9u, 0x7f4a7c15u };

/* ---- of compilers ---- */

static void choose(const char *compiler)
{
    struct sl_os_program program;

    if (!sl_os_find_program(compiler, &program))
        SKIP("no %s", compiler);
    setenv("SLUICE_CXX", compiler, 1);
    setenv("TMPDIR", test_dir(), 1);
}

static int compile(const char *text, const char *const *kernels, uint32_t count, struct sl_code *code)
{
    struct sl_source source = {
        .name = "fx.cu", .text = text, .bytes = strlen(text), .kernels = kernels, .kernel_count = count
    };

    return sl_kernel_host.compile(NULL, &source, code);
}

static const struct {
    const char *type, *name; /* as C++ has it; as messages name it */
    struct sluice_parameter parameter;
} types[] = {
#define NUMBER(type, name, bytes, code) \
    { \
        type, name, \
        { \
            SLUICE_PARAMETER_NUMBER, 0, bytes, { code, bytes * 8, 1 }, 0 \
        } \
    }
#define POINTER(type, name, constant, code, bits, lanes, element) \
    { \
        type, name, \
        { \
            SLUICE_PARAMETER_POINTER, constant, 8, { code, bits, lanes }, element \
        } \
    }
    NUMBER("bool", "bool", 1, SLUICE_BOOL),
    NUMBER("char", "char", 1, SLUICE_INT),
    NUMBER("signed char", "char", 1, SLUICE_INT),
    NUMBER("unsigned char", "unsigned char", 1, SLUICE_UINT),
    NUMBER("short", "short", 2, SLUICE_INT),
    NUMBER("unsigned short", "unsigned short", 2, SLUICE_UINT),
    NUMBER("int", "int", 4, SLUICE_INT),
    NUMBER("const int", "int", 4, SLUICE_INT),
    NUMBER("unsigned", "unsigned int", 4, SLUICE_UINT),
    NUMBER("long", "long long", 8, SLUICE_INT),
    NUMBER("unsigned long", "unsigned long long", 8, SLUICE_UINT),
    NUMBER("long long", "long long", 8, SLUICE_INT),
    NUMBER("unsigned long long", "unsigned long long", 8, SLUICE_UINT),
    NUMBER("char16_t", "unsigned short", 2, SLUICE_UINT),
    NUMBER("float", "float", 4, SLUICE_FLOAT),
    NUMBER("double", "double", 8, SLUICE_FLOAT),
    NUMBER("mode", "short", 2, SLUICE_INT),
    NUMBER("flags", "unsigned int", 4, SLUICE_UINT),
    POINTER("unsigned char *", "unsigned char *", 0, SLUICE_UINT, 8, 1, 1),
    POINTER("const float *__restrict__", "const float *", 1, SLUICE_FLOAT, 32, 1, 4),
    POINTER("float *const", "float *", 0, SLUICE_FLOAT, 32, 1, 4),
    POINTER("const volatile int *", "const int *", 1, SLUICE_INT, 32, 1, 4),
    POINTER("volatile bool *", "bool *", 0, SLUICE_BOOL, 8, 1, 1),
    POINTER("mode *", "short *", 0, SLUICE_INT, 16, 1, 2),
    POINTER("float4 *", "float4 *", 0, SLUICE_FLOAT, 32, 4, 16),
    POINTER("const uchar4 *", "const uchar4 *", 1, SLUICE_UINT, 8, 4, 4),
    POINTER("float3 *", "float3 *", 0, SLUICE_FLOAT, 32, 3, 12),
    POINTER("longlong2 *", "longlong2 *", 0, SLUICE_INT, 64, 2, 16),
    POINTER("own *", "float3 *", 0, SLUICE_FLOAT, 32, 3, 12),
    POINTER("const float (*)[4]", "const float4 *", 1, SLUICE_FLOAT, 32, 4, 16),
    POINTER("pair *", "struct of 8 bytes *", 0, 0, 0, 0, 8),
    POINTER("const closed *", "const struct of 8 bytes *", 1, 0, 0, 0, 8),
    POINTER("declared *", "void *", 0, 0, 0, 0, 0),
    POINTER("void *", "void *", 0, 0, 0, 0, 0),
    POINTER("const void *", "const void *", 1, 0, 0, 0, 0),
    POINTER("float **", "struct of 8 bytes *", 0, 0, 0, 0, 8),
    POINTER("int (*)(float)", "const void *", 1, 0, 0, 0, 0),
    { "float4", "struct of 16 bytes", { SLUICE_PARAMETER_STRUCT, 0, 16, { 0, 0, 0 }, 0 } },
    { "const pair", "struct of 8 bytes", { SLUICE_PARAMETER_STRUCT, 0, 8, { 0, 0, 0 }, 0 } },
    { "sluice_in", "sluice_in", { SLUICE_PARAMETER_IN, 1, sizeof(struct sl_picture), { 0, 0, 0 }, 0 } },
    { "const sluice_out", "sluice_out", { SLUICE_PARAMETER_OUT, 0, sizeof(struct sl_picture), { 0, 0, 0 }, 0 } },
};
#define TYPES (sizeof types / sizeof *types)

static void check_types(const char *compiler)
{
    static const char *const kernel = "k";
    char text[8192], name[SL_TYPE_NAME];
    struct sl_code code;
    size_t at = (size_t)snprintf(text, sizeof text,
                                 "#include <sluice.cuh>\nenum class mode : short { a }; enum flags : unsigned { f };\n"
                                 "struct own { float x, y, z; }; struct pair { float x, q; }; struct declared;\n"
                                 "class closed { float x, y; };\n");

    choose(compiler);
    for (size_t i = 0; i < TYPES; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "using t%zu = %s;\n", i, types[i].type);
    at += (size_t)snprintf(text + at, sizeof text - at, "__global__ void k(");
    for (size_t i = 0; i < TYPES; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%st%zu p%zu", i ? ", " : "", i, i);
    snprintf(text + at, sizeof text - at, ") {}\n");
    CHECK_OK(compile(text, &kernel, 1, &code));
    CHECK_EQ(code.kernels[0].count, TYPES);
    for (size_t i = 0; i < TYPES; i++) {
        const struct sluice_parameter *found = &code.kernels[0].parameters[i], *expected = &types[i].parameter;
        if (memcmp(found, expected, sizeof *found) != 0)
            FAIL("%s is of kind %u, constant %u, %u bytes, type %u %u %u, element %u", types[i].type, found->kind,
                 found->constant, found->bytes, found->dtype.code, found->dtype.bits, found->dtype.lanes,
                 found->element);
        CHECK_STR(sl_parameter_type(found, name), types[i].name);
    }
    sl_code_free(&code);
}

TEST_TIMEOUT(description_has_each_type_of_gcc, 60)
{
    check_types("g++");
}

TEST_TIMEOUT(description_has_each_type_of_clang, 60)
{
    check_types("clang++");
}

static void check_names(const char *compiler)
{
    static const char *const kernels[] = { "none", "fx::blur", "scale<float, 3>", "hidden", "local" };
    struct sl_code code;

    choose(compiler);
    CHECK_OK(compile("__global__ void none() {}\nnamespace fx { __global__ void blur(int *p) {} }\n"
                     "template <class T, int N> __global__ void scale(T *p, T q) {}\n"
                     "static __global__ void hidden(double d) {}\nnamespace { __global__ void local(char c) {} }\n",
                     kernels, 5, &code));
    CHECK_EQ(code.kernel_count, 5);
    CHECK_EQ(code.kernels[0].count, 0);
    CHECK_EQ(code.kernels[1].parameters[0].dtype.code, SLUICE_INT);
    CHECK_EQ(code.kernels[2].count, 2);
    CHECK_EQ(code.kernels[2].parameters[1].dtype.code, SLUICE_FLOAT);
    CHECK_EQ(code.kernels[3].parameters[0].bytes, 8);
    CHECK_EQ(code.kernels[4].parameters[0].bytes, 1);
    for (int i = 0; i < 5; i++)
        CHECK_STR(code.kernels[i].name, kernels[i]);
    sl_code_free(&code);
}

TEST_TIMEOUT(description_of_any_name_by_gcc, 60)
{
    check_names("g++");
}

TEST_TIMEOUT(description_of_any_name_by_clang, 60)
{
    check_names("clang++");
}

/* As for NVRTC, which gets it after the source. */
TEST_TIMEOUT(description_follows_a_source_with_macros, 60)
{
    static const char *const kernel = "k", *const symbol = "k";
    static const char text[] = "__global__ void k(float4 *p, int n) {}\n#define T float\n#define N 64\n#define x 7\n"
                               "#define type 1\n#define value 2\n#define number 3\n#define vector 4\n#define R 5\n"
                               "#define of 6\n#define count 7\n#define mark 8\n#define index 9\n// \\";
    struct sl_source source = {
        .name = "fx.cu", .text = text, .bytes = sizeof text - 1, .kernels = &kernel, .kernel_count = 1
    };
    struct sl_os_program program;
    char output[SL_OS_TEMP];
    void *bytes;
    size_t size;
    struct sl_code code;

    if (!sl_os_find_program("g++", &program))
        SKIP("no g++");
    snprintf(output, sizeof output, "%s/out.so", test_dir());
    char *description = sl_description_text(&source, "SL_DESCRIBE(%u, %s)\n");
    CHECK(description);
    char *all = malloc(sl_prelude_cuh_size + sizeof text + strlen(description) + 8);
    CHECK(all);
    int length = sprintf(all, "%s\n%s\n%s", sl_prelude_cuh, text, description);
    struct sl_os_run run = { .argv = (const char *const[]){ program.path, "-x", "c++", "-std=c++17", "-O2", "-fPIC",
                                                            "-shared", "-Wno-pragma-system-header-outside-header",
                                                            "-fvisibility=hidden", "-Wl,-s", "-o", output, "-", NULL },
                             .input = all,
                             .input_size = (size_t)length };
    CHECK_OK(sl_os_run(&run));
    if (run.status != 0)
        FAIL("%.1500s", run.output);
    CHECK_OK(sl_os_file_read(output, &bytes, &size));
    CHECK_OK(sl_code_make(&source, bytes, size, &symbol, "", &code));
    CHECK_EQ(code.kernels[0].count, 2);
    CHECK_EQ(code.kernels[0].parameters[0].dtype.lanes, 4);
    sl_code_free(&code);
    free(bytes);
    free(run.output);
    free(all);
    free(description);
}

TEST_TIMEOUT(description_refuses_references, 60)
{
    static const char *const kernel = "k";
    struct sl_code code;

    choose("g++");
    CHECK_RESULT(compile("__global__ void k(int &n) {}\n", &kernel, 1, &code), SLUICE_E_COMPILE);
    CHECK_HAS(sluice_last_error(), "reference");
}

TEST_TIMEOUT(description_of_too_many_parameters_is_refused, 60)
{
    static const char *const kernel = "k";
    char text[2048] = "__global__ void k(int p";
    struct sl_code code;

    choose("g++");
    for (int i = 1; i < SLUICE_MAX_PARAMETERS; i++)
        sprintf(text + strlen(text), ", int p%d", i);
    size_t length = strlen(text);
    strcat(text, ") {}\n");
    CHECK_OK(compile(text, &kernel, 1, &code));
    CHECK_EQ(code.kernels[0].count, SLUICE_MAX_PARAMETERS);
    sl_code_free(&code);
    strcpy(text + length, ", int more) {}\n");
    CHECK_SAYS(compile(text, &kernel, 1, &code), SLUICE_E_LIMIT, "65 parameters");
}

/* ---- of any bytes ---- */

/* Two kernels: one of an int, one of two pointers. */
struct bytes {
    uint32_t words[64];
    size_t size;
};

static void put(struct bytes *bytes, uint32_t word)
{
    bytes->words[bytes->size / sizeof word] = word;
    bytes->size += sizeof word;
}

static void put_description(struct bytes *bytes, uint32_t index, uint32_t count, const uint32_t *parameters)
{
    for (int i = 0; i < 4; i++)
        put(bytes, mark[i]);
    put(bytes, index);
    put(bytes, count);
    for (uint32_t i = 0; i < 5 * count && i < 20; i++)
        put(bytes, parameters[i]);
}

#define TYPE(code, bits) ((code) | (bits) << 8 | 1u << 16)
static const uint32_t one_int[] = { SLUICE_PARAMETER_NUMBER, 0, 4, TYPE(SLUICE_INT, 32), 0 };
static const uint32_t two_pointers[] = { SLUICE_PARAMETER_POINTER, 1, 8, TYPE(SLUICE_UINT, 8),   1,
                                         SLUICE_PARAMETER_POINTER, 0, 8, TYPE(SLUICE_FLOAT, 32), 4 };

static int make(const void *bytes, size_t size, uint32_t kernels, struct sl_code *code)
{
    static const char *const names[] = { "a", "b" }, *const symbols[] = { "sl_run_0", "sl_run_1" };
    struct sl_source source = { .name = "fx.cu", .text = "", .kernels = names, .kernel_count = kernels };
    char *copy = malloc(size + 1); /* so that a sanitizer knows its end */

    CHECK(copy);
    char *exact = realloc(copy, size ? size : 1);
    CHECK(exact);
    memcpy(exact, bytes, size);
    int r = sl_code_make(&source, exact, size, symbols, "a warning", code);
    free(exact);
    return r;
}

TEST(description_is_found_at_any_address)
{
    char shifted[600] = "";
    struct bytes bytes = { .size = 0 };
    struct sl_code code;

    put_description(&bytes, 1, 2, two_pointers);
    put(&bytes, mark[0]); /* the beginning of a mark */
    put_description(&bytes, 0, 1, one_int);
    for (size_t shift = 0; shift < 8; shift++) {
        memcpy(shifted + shift, bytes.words, bytes.size);
        CHECK_OK(make(shifted, shift + bytes.size, 2, &code));
        CHECK_EQ(code.kernels[0].count, 1);
        CHECK_EQ(code.kernels[0].parameters[0].bytes, 4);
        CHECK_EQ(code.kernels[1].count, 2);
        CHECK_EQ(code.kernels[1].parameters[0].constant, 1);
        CHECK_EQ(code.kernels[1].parameters[1].element, 4);
        CHECK_STR(code.kernels[1].symbol, "sl_run_1");
        CHECK_STR(code.log, "a warning");
        CHECK_EQ(code.size, shift + bytes.size);
        CHECK_MEM(code.bytes, shifted, code.size);
        sl_code_free(&code);
    }
}

TEST(description_that_is_cut_off_is_refused)
{
    struct bytes bytes = { .size = 0 };
    struct sl_code code;

    put_description(&bytes, 0, 1, one_int);
    for (size_t size = 0; size < bytes.size; size++)
        CHECK_SAYS(make(bytes.words, size, 1, &code), SLUICE_E_COMPILE, "'a'");
    CHECK_OK(make(bytes.words, bytes.size, 1, &code));
    sl_code_free(&code);
    CHECK_SAYS(make(bytes.words, bytes.size, 2, &code), SLUICE_E_COMPILE, "'b'");
}

TEST(description_with_wrong_numbers_is_refused)
{
    static const uint32_t wrong[][5] = {
        { 0, 0, 4, TYPE(SLUICE_INT, 32), 0 },
        { SLUICE_PARAMETER_OUT + 1, 0, 4, TYPE(SLUICE_INT, 32), 0 },
        { SLUICE_PARAMETER_NUMBER, 0, 1u << 31, TYPE(SLUICE_INT, 32), 0 },
        { SLUICE_PARAMETER_NUMBER, 0, 8, TYPE(SLUICE_INT, 32), 0 },
        { SLUICE_PARAMETER_NUMBER, 0, 2, TYPE(SLUICE_FLOAT, 16), 0 },
        { SLUICE_PARAMETER_NUMBER, 0, 4, TYPE(SLUICE_INT, 32) + (1u << 16), 0 },
        { SLUICE_PARAMETER_NUMBER, 0, 4, 0, 0 },
        { SLUICE_PARAMETER_POINTER, 2, 8, TYPE(SLUICE_INT, 32), 4 },
        { SLUICE_PARAMETER_POINTER, 0, 4, TYPE(SLUICE_INT, 32), 4 },
        { SLUICE_PARAMETER_POINTER, 0, 8, TYPE(77, 32), 4 },
        { SLUICE_PARAMETER_POINTER, 0, 8, SLUICE_INT | 32 << 8, 4 },
        { SLUICE_PARAMETER_STRUCT, 0, 0, 0, 0 },
        { SLUICE_PARAMETER_IN, 1, sizeof(struct sl_picture) + 8, 0, 0 },
    };
    struct sl_code code;

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct bytes bytes = { .size = 0 };
        put_description(&bytes, 0, 1, wrong[i]);
        CHECK_RESULT(make(bytes.words, bytes.size, 1, &code), SLUICE_E_COMPILE);
    }
    struct bytes bytes = { .size = 0 };
    put_description(&bytes, 0, UINT32_MAX, wrong[0]);
    CHECK_RESULT(make(bytes.words, bytes.size, 1, &code), SLUICE_E_COMPILE);
}
