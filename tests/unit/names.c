/* SPDX-License-Identifier: MIT
 *
 * Channel names (channel/channel.c), and on the native wire: geometry in messages, and old memories.
 */
#include <string.h>

#include "channel/channel.h"
#include "harness/test.h"
#include "native/wire/wire.h"

TEST(names_with_and_without_a_scheme)
{
    const struct sl_channel_ops *plain = NULL, *scheme = NULL;
    const char *name = NULL;

    CHECK_OK(sl_channel_of("cam", &plain, &name));
    CHECK_STR(name, "cam");
    CHECK_OK(sl_channel_of("sluice:cam", &scheme, &name));
    CHECK_STR(name, "cam");
    CHECK(plain && plain == scheme);
    CHECK_STR(plain->scheme, "sluice");
}

TEST(names_may_have_each_allowed_byte_and_no_other)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    const struct sl_channel_ops *ops;
    const char *name;

    for (int byte = 1; byte < 256; byte++) {
        char text[4] = { 'x', (char)byte, 'y', '\0' };
        int expected = strchr(allowed, byte) ? 0 : SLUICE_E_NAME;
        CHECK_RESULT(sl_channel_of(text, &ops, &name), expected);
    }
}

TEST(names_have_64_bytes_at_most)
{
    char text[80];
    const struct sl_channel_ops *ops;
    const char *name;

    memset(text, 'n', sizeof text);
    text[65] = '\0';
    CHECK_SAYS(sl_channel_of(text, &ops, &name), SLUICE_E_NAME, "64 bytes at most");
    text[64] = '\0';
    CHECK_OK(sl_channel_of(text, &ops, &name));
    CHECK_SAYS(sl_channel_of("sluice:", &ops, &name), SLUICE_E_NAME, "empty");
}

TEST(invalid_names_do_not_change_outputs)
{
    const struct sl_channel_ops *ops = (const struct sl_channel_ops *)(const void *)"ops";
    const char *name = "before";

    CHECK_RESULT(sl_channel_of("a/b", &ops, &name), SLUICE_E_NAME);
    CHECK_RESULT(sl_channel_of("ftp:a", &ops, &name), SLUICE_E_NAME);
    CHECK_RESULT(sl_channel_of("a.lock", &ops, &name), SLUICE_E_NAME);
    CHECK_RESULT(sl_channel_of(NULL, &ops, &name), SLUICE_E_NAME);
    CHECK_STR(name, "before");
}

TEST(geometry_goes_there_and_back)
{
    struct sluice_array from, to;
    struct sl_geometry geometry;

    memset(&from, 0, sizeof from);
    from.offset = 512;
    from.nbytes = 1000;
    from.ndim = 3;
    from.image = (struct sluice_image){ .width = 20, .height = 10, .plane_count = 2 };
    for (int d = 0; d < SLUICE_MAX_DIMS; d++) {
        from.shape[d] = d + 1;
        from.strides[d] = -d;
    }
    for (uint32_t p = 0; p < SLUICE_MAX_PLANES; p++)
        from.image.planes[p] = (struct sluice_plane){ p * 100, p + 1 };
    memset(&to, 0, sizeof to);
    sl_geometry_from_array(&geometry, &from);
    sl_geometry_to_array(&geometry, &to);
    CHECK_MEM(&from, &to, sizeof from);
}

TEST(memories_are_history_once_a_later_one_has_slots_and_they_have_none)
{
    sl_word32 slot_memory[4] = { 0, 0, 0, 0 }, oldest = 1;
    struct sl_link link = { .words = { .slot_memory = slot_memory, .ids = 4 }, .oldest_memory = &oldest };

    CHECK(!sl_link_forgot(&link, 1)); /* announced, and no slot is in it yet */
    slot_memory[0] = slot_memory[1] = 1;
    CHECK(!sl_link_forgot(&link, 1));
    CHECK(!sl_link_forgot(&link, 2)); /* announced */
    slot_memory[2] = 2;
    slot_memory[3] = 3;
    CHECK(!sl_link_forgot(&link, 1));
    slot_memory[2] = 4;
    CHECK(sl_link_forgot(&link, 2)); /* though an earlier one is still in use */
    CHECK(!sl_link_forgot(&link, 1));
    CHECK(!sl_link_forgot(&link, 3));
    CHECK(!sl_link_forgot(&link, 4));
    CHECK(!sl_link_forgot(&link, 5));
    oldest = 4;
    CHECK(sl_link_forgot(&link, 1));
    CHECK(sl_link_forgot(&link, 3));
    CHECK(!sl_link_forgot(&link, 4));
}
