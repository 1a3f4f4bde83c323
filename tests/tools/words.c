/* SPDX-License-Identifier: MIT
 *
 * tools/common/term.c, tools/common/text.c, tools/common/args.c, tools/common/describe.c: sizes, times and formats in
 * words; near names.
 */
#include "harness/test.h"

#include <sluice/sluice.h>

#include "tools/common/args.h"
#include "tools/common/describe.h"
#include "tools/common/term.h"
#include "tools/common/text.h"

TEST(words_for_bytes_and_times)
{
    char text[TERM_TEXT];
    CHECK_STR(text_bytes(text, 0), "0 B");
    CHECK_STR(text_bytes(text, 1023), "1023 B");
    CHECK_STR(text_bytes(text, 1536), "1.5 KiB");
    CHECK_STR(text_bytes(text, 8294400), "7.9 MiB");
    CHECK_STR(text_bytes(text, UINT64_MAX), "16.0 EiB");
    CHECK_STR(text_duration(text, 0), "0 ns");
    CHECK_STR(text_duration(text, 999), "999 ns");
    CHECK_STR(text_duration(text, 3600), "3.6 us");
    CHECK_STR(text_duration(text, 12300000), "12.3 ms");
    CHECK_STR(text_duration(text, 90 * SLUICE_S), "2 min");
    CHECK_STR(text_duration(text, 7200 * SLUICE_S), "2.0 h");
    CHECK_STR(text_duration(text, -1), "-");
}

TEST(words_from_elsewhere)
{
    char name[] = "\033[2J\xc2\x9b\x9b\n\x7f\xc3\xa9\xed\xa0\x80\xe2\x82\xac\xf0\x9f";
    text_clean(name); /* no control characters, and valid UTF-8 */
    CHECK_STR(name, "?[2J?????\xc3\xa9???\xe2\x82\xac??");
    CHECK_EQ(text_width(name), 16);
}

TEST(words_for_formats)
{
    char text[FORMAT_TEXT];
    struct sluice_format format = SLUICE_FORMAT_INIT;
    const int64_t shape[3] = { 4, 64, 64 };
    CHECK_STR(text_format(text, &format), "-");
    CHECK_OK(sluice_format_add_tensor(&format, "x", (struct sluice_dtype){ SLUICE_FLOAT, 32, 1 }, 3, shape));
    CHECK_STR(text_format(text, &format), "float32[4,64,64]");
    CHECK_OK(sluice_format_add_image(&format, "i", SLUICE_PIXEL_NV12, 64, 48));
    CHECK_STR(text_format(text, &format), "float32[4,64,64] +1");
    CHECK_STR(text_array(text, &format.arrays[1]), "64x48 nv12");
}

TEST(words_that_are_near)
{
    static const char *const names[] = { "record", "play", "snap", "ls" };
    CHECK_STR(text_nearest("recrod", names, 4), "record");
    CHECK_STR(text_nearest("paly", names, 4), "play");
    CHECK(text_nearest("lpya", names, 4) == NULL); /* two typos in four letters */
    CHECK_STR(text_nearest("plat", names, 4), "play");
    CHECK_STR(text_nearest("rec", names, 4), "record"); /* its beginning */
    CHECK(text_nearest("zzzzzz", names, 4) == NULL);
}

TEST(words_at_the_end)
{
    CHECK(text_ends_with("a.MP4", ".mp4"));
    CHECK(!text_ends_with("mp4", ".mp4"));
}
