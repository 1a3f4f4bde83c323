/* SPDX-License-Identifier: MIT
 *
 * Names and comments of kernels' parameters.
 */
#include <string.h>

#include "harness/test.h"
#include "tools/run/run.h"

static struct run_parameter found[8];

static const char *names(const char *source, const char *kernel, uint32_t count)
{
    static char text[256];
    if (!run_parameters(source, kernel, count, found))
        return "none";
    text[0] = 0;
    for (uint32_t i = 0; i < count; i++) {
        strcat(text, i ? " " : "");
        strcat(text, found[i].name);
    }
    return text;
}

TEST(names_are_found)
{
    CHECK_STR(names("__global__ void k(sluice_out out, const sluice_in in) {}", "k", 2), "out in");
    CHECK_STR(names("__global__ void __launch_bounds__(256, 2) k ( sluice_out out ) {}", "k", 1), "out");
    CHECK_STR(names("extern \"C\" __global__ void k(float a, int b = f(1, 2), vec<int, 3> c, int d[4])", "k", 4),
              "a b c d");
    CHECK_STR(names("void k(int a);\n__global__ void j(int b);\n__global__ void k(int c)", "k", 1), "c");
    CHECK_STR(names("namespace fx { __global__ void k(int c) {} }", "fx::k", 1), "c");
    CHECK_STR(names("/* __global__ void k(int a) */ // __global__ void k(int b)\n__global__ void k(int c)", "k", 1),
              "c");
    CHECK_STR(names("const char *s = \"__global__ void k(int a)\";\n#define k(a) b\n__global__ void k(int c)", "k", 1),
              "c");
}

TEST(what_is_not_there)
{
    CHECK_STR(names("__global__ void k(int a) {}", "j", 1), "none");
    CHECK_STR(names("__global__ void k(int a) {}", "k", 2), "none");
    CHECK_STR(names("__global__ void k(int a, int b) {}", "k", 1), "none");
    CHECK_STR(names("__global__ void k(int a", "k", 1), "none");
    CHECK_STR(names("__global__ void k(int a /* ", "k", 1), "none");
    CHECK_STR(names("__global__ void k(int a \"", "k", 1), "none");
    CHECK_STR(names("__global__; void k(int a) {}", "k", 1), "none");
    CHECK_STR(names("", "k", 1), "none");
}

/* Checks the first parameter. */
#define CHECK_COMMENT(text, default_, low, high) \
    do { \
        CHECK_STR(names("__global__ void k(float a" text ") {}", "k", 1), "a"); \
        CHECK_STR(found[0].wrong, ""); \
        CHECK(found[0].initial == default_ && found[0].min == low && found[0].max == high); \
        CHECK_EQ(found[0].has_range, low != high); \
    } while (0)

TEST(comments_have_defaults_and_ranges)
{
    CHECK_COMMENT("", 0, 0, 0);
    CHECK_COMMENT(" /* how much */", 0, 0, 0);
    CHECK_COMMENT(" /* = 1 (0..4) */", 1, 0, 4);
    CHECK_COMMENT(" /*=.5(-1.5..0.5) the gain */", .5, -1.5, .5);
    CHECK_COMMENT(" /* = 1.5f */", 1.5, 0, 0);
    CHECK_COMMENT(" /* = true */", 1, 0, 0);
    CHECK_COMMENT(" // = 2 (1..3)\n", 2, 1, 3);
    CHECK_STR(names("__global__ void k(float a, // = 2 (1..3)\n float b /* = 4 */,\n /* = 5 */ float c)", "k", 3),
              "a b c");
    CHECK(found[0].initial == 2 && found[1].initial == 4 && found[2].initial == 5);
}

#define CHECK_WRONG(text, wrong_) \
    do { \
        CHECK_STR(names("__global__ void k(float a /*" text "*/) {}", "k", 1), "a"); \
        CHECK_STR(found[0].wrong, wrong_); \
    } while (0)

TEST(wrong_comments_are_told)
{
    CHECK_WRONG(" = one", "= one");
    CHECK_WRONG("= 1 (0.4)", "= 1 (0.4)");
    CHECK_WRONG("= 1 (0..", "= 1 (0..");
    CHECK_WRONG("= 5 (0..4)", "= 5 (0..4)");
    CHECK_WRONG("= ", "= ");
}
