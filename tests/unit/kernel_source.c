/* SPDX-License-Identifier: MIT
 *
 * Which kernels the scan of a source finds.
 */
#include <stdlib.h>
#include <string.h>

#include "harness/test.h"
#include "kernel/kernel.h"

/* Their names, with a blank between two. */
static const char *names(const char *text)
{
    static char all[4096];
    const char *const *kernels;
    uint32_t count;
    size_t length = 0;

    CHECK_OK(sl_source_kernels("fx.cu", text, strlen(text), &kernels, &count));
    for (uint32_t i = 0; i < count; i++)
        length += (size_t)snprintf(all + length, sizeof all - length, "%s%s", i ? " " : "", kernels[i]);
    free((void *)kernels);
    return all;
}

TEST(source_has_its_global_functions)
{
    CHECK_STR(names("__global__ void a(int *p) { *p = 1; }\nint b(int x) { return x; }\nvoid __global__ c() {}"),
              "a c");
    CHECK_STR(names("__device__ int f() { if (1) { return 2; } return 3; } __global__ void a() {}"), "a");
    CHECK_STR(names("struct s { int x; s() : x(1) {} } v = { 1 }; int t[] = { 1, 2 }; __global__ void a() {}"), "a");
}

TEST(source_with_attributes)
{
    CHECK_STR(names("__global__ void __launch_bounds__(256, 2) a(int *p) {}\n"
                    "static __global__ __launch_bounds__(N * (2)) void b() {}\n"
                    "[[gnu::cold, x(1)]] __global__ void c [[maybe_unused]] (int n [[x]]) {}\n"
                    "__attribute__((noinline)) __global__ void d() {}\n"
                    "__global__ void BOUNDS(128) e(float (*f)(int), int g[2]) {}\n"
                    "__global__ auto f(int) noexcept(true) -> void {}\n"
                    "__global__ __cluster_dims__(2, 1, 1) void g() {}\n"),
              "a b c d e f g");
}

TEST(source_with_linkage)
{
    CHECK_STR(names("extern \"C\" __global__ void a() {}\n"
                    "extern \"C\" { __global__ void b() {} __device__ int x = 1; __global__ void c() {} }\n"
                    "extern int y; extern \"C++\" { __global__ void d() {} } __global__ void e() {}"),
              "a b c d e");
}

TEST(source_with_namespaces)
{
    CHECK_STR(names("namespace fx { __global__ void a() {} namespace inner { __global__ void b() {} } }\n"
                    "namespace p::q /* r */ :: s { __global__ void c() {} }\n"
                    "namespace { __global__ void d() {} namespace n { __global__ void e() {} } }\n"
                    "namespace v { inline namespace v2 { __global__ void f() {} } }\n"
                    "namespace u::inline u1::w { __global__ void g() {} }\n"
                    "namespace alias = p::q; using namespace fx;\n"
                    "namespace [[deprecated]] old __attribute__((x)) { __global__ void h() {} }\n"
                    "__global__ void i() {}\n"),
              "fx::a fx::inner::b p::q::s::c d n::e v::f u::w::g old::h i");
}

TEST(source_declares_and_defines_one_kernel)
{
    CHECK_STR(names("__global__ void a(int *, int n = (1)); namespace fx { __global__ void b(); }\n"
                    "__global__ void a(int *p, int n) {} __global__ void fx :: b() {}"),
              "a fx::b");
}

TEST(source_templates_are_for_the_list)
{
    CHECK_STR(names("template <typename T, int N = (3 > 2), class U = decltype(T{})> __global__ void a(T *p) {}\n"
                    "template <> __global__ void a<float>(float *p) {}\n"
                    "template __global__ void a<int>(int *p);\n"
                    "template <class T> struct s { friend __global__ void x(); };\n"
                    "template <template <class> class V, class W = V<V<int>>> __global__ void b() {}\n"
                    "template <class T> constexpr T v = T{ 1 };\n"
                    "__global__ void c() {}\n"),
              "c");
}

TEST(source_comments_and_strings_are_passed_over)
{
    CHECK_STR(names("// __global__ void a() {} \\\n __global__ void b() {}\n"
                    "/* __global__ void c() {} */ const char *s = \"{ __global__ void d() {} \\\" {\";\n"
                    "const char *r = R\"x(\" ) __global__ void e() {} { )\" )x\", *r2 = u8R\"({{)\";\n"
                    "char q = '{', q2 = '\\'', q3 = '\"'; long big = 1'000'000; double h = 0x1'fp3;\n"
                    "__global__ void f() { char c = '}'; const char *t = \"}\"; /* } */ }\n"
                    "__global__ /* void x() */ void // y()\n g\n() {}\n"),
              "f g");
}

TEST(source_directives_are_passed_over)
{
    CHECK_STR(names("#define K(name) \\\n  __global__ void name() { \\\r\n }\n"
                    "#error don't { \"\n # /* x */ define OPEN {\n"
                    "#define S \"/*\"\n#define Q '\"'\n#pragma x /* {\n */\n"
                    "#include <sluice.cuh>\n"
                    "__global__ void a() {}\n"),
              "a");
}

/* A block that either branch opens is closed once. */
TEST(source_branches_of_the_preprocessor)
{
    CHECK_STR(names("#if defined X\nnamespace x {\n__device__ int f() {\n#elif Y\nnamespace x { int f(int n) {\n"
                    "#else\nnamespace x {\nint f(long n) {\n#endif\nreturn 1; }\n__global__ void a() {}\n}\n"
                    "__global__ void b() {}\n"),
              "x::a b");
}

TEST(source_without_kernels_is_refused)
{
    const char *const *kernels;
    uint32_t count;
    const char *text = "template <class T> __global__ void a(T *p) {}";

    CHECK_SAYS(sl_source_kernels("fx.cu", text, strlen(text), &kernels, &count), SLUICE_E_INVALID,
               "fx.cu has no kernel");
    CHECK_HAS(sluice_last_error(), "scale<float>");
    CHECK_RESULT(sl_source_kernels("fx.cu", "", 0, &kernels, &count), SLUICE_E_INVALID);
}

TEST(source_with_too_many_kernels_is_refused)
{
    const char *const *kernels;
    uint32_t count;
    char *text = malloc(2000 * 32), *at = text;

    CHECK(text);
    for (int i = 0; i < 1024; i++)
        at += sprintf(at, "__global__ void k%d() {}\n", i);
    CHECK_OK(sl_source_kernels("fx.cu", text, (size_t)(at - text), &kernels, &count));
    CHECK_EQ(count, 1024);
    CHECK_STR(kernels[1023], "k1023");
    free((void *)kernels);
    at += sprintf(at, "__global__ void one_more() {}\n");
    CHECK_SAYS(sl_source_kernels("fx.cu", text, (size_t)(at - text), &kernels, &count), SLUICE_E_INVALID, "1024");
    free(text);
}

/* What is nested too deep is passed over, without a stack that grows. */
TEST(source_nesting_is_bounded)
{
    static const char *const openers[] = {
        "{",  "(",    "namespace n {", "extern \"C\" {",     "template <", "#if X\n", "/*",
        "\"", "R\"(", "#if 0\n",       "__global__ void f(", "}",          "#else\n", "#endif\n"
    };
    const char *const *kernels;
    uint32_t count;

    for (size_t i = 0; i < sizeof openers / sizeof *openers; i++) {
        size_t length = strlen(openers[i]), times = 200000, start = 24;
        char *text = malloc(start + times * length + 1);
        CHECK(text);
        strcpy(text, "__global__ void a() {}  ");
        for (size_t k = 0; k < times; k++)
            memcpy(text + start + k * length, openers[i], length);
        CHECK_OK(sl_source_kernels("fx.cu", text, start + times * length, &kernels, &count));
        CHECK_STR(kernels[0], "a");
        free((void *)kernels);
        free(text);
    }
}
