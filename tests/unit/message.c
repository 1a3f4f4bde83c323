/* SPDX-License-Identifier: MIT */
#include "native/wire/message.h"

#include <string.h>

#include "harness/test.h"

static const struct {
    uint32_t type;
    size_t size;
} kinds[] = {
    { SL_MSG_HELLO, sizeof(struct sl_msg_hello) },   { SL_MSG_WELCOME, sizeof(struct sl_msg_welcome) },
    { SL_MSG_REFUSE, sizeof(struct sl_msg_refuse) }, { SL_MSG_MEMORY, sizeof(struct sl_msg_memory) },
    { SL_MSG_ACK, sizeof(struct sl_msg_ack) },       { SL_MSG_BYE, sizeof(struct sl_msg_bye) },
    { SL_MSG_QUERY, sizeof(struct sl_msg_query) },   { SL_MSG_CHANNEL, sizeof(struct sl_msg_channel) },
    { SL_MSG_READER, sizeof(struct sl_msg_reader) },
};

TEST(messages_have_exactly_their_size)
{
    union sl_message message;

    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        uint32_t size = (uint32_t)kinds[i].size;
        memset(&message, 0, sizeof message);
        message.header = (struct sl_msg_header){ kinds[i].type, size };
        CHECK_OK(sl_message_check(&message, size));
        CHECK_RESULT(sl_message_check(&message, size - 1), SLUICE_E_PROTOCOL);
        CHECK_RESULT(sl_message_check(&message, size + 1), SLUICE_E_PROTOCOL);
        message.header.size = size + 8; /* the size in its header */
        CHECK_RESULT(sl_message_check(&message, size), SLUICE_E_PROTOCOL);
        CHECK_RESULT(sl_message_check(&message, size + 8), SLUICE_E_PROTOCOL);
    }
    for (size_t size = 0; size < sizeof message.header; size++)
        CHECK_SAYS(sl_message_check(&message, size), SLUICE_E_PROTOCOL, "too short");
    message.header = (struct sl_msg_header){ 0, 16 };
    CHECK_SAYS(sl_message_check(&message, 16), SLUICE_E_PROTOCOL, "unknown type 0");
    message.header.type = 10;
    CHECK_SAYS(sl_message_check(&message, 16), SLUICE_E_PROTOCOL, "unknown type 10");
}

TEST(messages_have_their_strings_closed)
{
    union sl_message message;

    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        memset(&message, 'x', sizeof message);
        message.header = (struct sl_msg_header){ kinds[i].type, (uint32_t)kinds[i].size };
        CHECK_OK(sl_message_check(&message, kinds[i].size));
        switch (kinds[i].type) {
        case SL_MSG_HELLO: CHECK_EQ(strlen(message.hello.program), 31); break;
        case SL_MSG_REFUSE: CHECK_EQ(strlen(message.refuse.text), 255); break;
        case SL_MSG_MEMORY: CHECK_EQ(strlen(message.memory.format.arrays[15].name), 31); break;
        case SL_MSG_CHANNEL:
            CHECK_EQ(strlen(message.channel.program), 31);
            CHECK_EQ(strlen(message.channel.device), 31);
            CHECK_EQ(strlen(message.channel.format.arrays[0].name), 31);
            break;
        case SL_MSG_READER:
            CHECK_EQ(strlen(message.reader.program), 31);
            CHECK_EQ(strlen(message.reader.path), 31);
            CHECK_EQ(strlen(message.reader.copy_reason), 95);
            break;
        }
    }
}

TEST(versions_agree_on_the_highest_that_both_speak)
{
    static const struct {
        uint32_t min, max, version;
    } cases[] = {
        { 1, 1, 1 },
        { 0, 1, 1 },
        { 0, 99, SLUICE_WIRE_VERSION_MAX },
        { 1, UINT32_MAX, SLUICE_WIRE_VERSION_MAX },
        { 0, 0, 0 },
        { SLUICE_WIRE_VERSION_MAX + 1, UINT32_MAX, 0 },
        { 5, 1, 0 },
        { UINT32_MAX, UINT32_MAX, 0 },
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        CHECK_EQ(sl_version_agree(cases[i].min, cases[i].max), cases[i].version);
}

static struct sl_msg_welcome good_welcome(void)
{
    union sl_message message = SL_MESSAGE(SL_MSG_WELCOME, welcome);
    message.welcome.magic = SL_NATIVE_MAGIC;
    message.welcome.version = SLUICE_WIRE_VERSION_MAX;
    message.welcome.session = 7;
    message.welcome.max_slots = 8;
    message.welcome.depth = 4;
    message.welcome.control_size = sl_native_control_size(16, 4096);
    message.welcome.page_size = sl_native_page_size(4096);
    return message.welcome;
}

TEST(a_control_page_is_what_its_welcome_says)
{
    static struct sl_control control;
    struct sl_msg_welcome welcome = good_welcome();
    uint32_t ids = 0, kind = 0;

    control = (struct sl_control){
        .magic = SL_NATIVE_MAGIC,
        .version = SLUICE_WIRE_VERSION_MAX,
        .header_size = sizeof control,
        .session = 7,
        .size = welcome.control_size,
        .ids = 16,
        .record_stride = SL_NATIVE_STRIDE,
        .meta_offset = SL_NATIVE_META_OFFSET,
        .meta_capacity = SLUICE_MAX_META,
        .memory_kind = SL_MEM_HOST,
    };
    CHECK_OK(sl_welcome_check(&welcome));
    CHECK_OK(sl_control_check(&control, &welcome, &ids, &kind));
    CHECK_EQ(ids, 16);
    CHECK_EQ(kind, SL_MEM_HOST);
    control.session = 8;
    CHECK_RESULT(sl_control_check(&control, &welcome, &ids, &kind), SLUICE_E_PROTOCOL);
    control.session = 7;
    control.ids = 17; /* one more than there is room for */
    CHECK_RESULT(sl_control_check(&control, &welcome, &ids, &kind), SLUICE_E_PROTOCOL);
    control.ids = SL_MAX_IDS;
    CHECK_RESULT(sl_control_check(&control, &welcome, &ids, &kind), SLUICE_E_PROTOCOL);
    welcome.control_size = sl_native_control_size(SL_MAX_IDS, 4096);
    control.size = welcome.control_size;
    CHECK_OK(sl_control_check(&control, &welcome, &ids, &kind));
    control.memory_kind = 9;
    CHECK_RESULT(sl_control_check(&control, &welcome, &ids, &kind), SLUICE_E_UNSUPPORTED);
}

TEST(formats_go_over_the_wire_and_back)
{
    struct sluice_format format = SLUICE_FORMAT_INIT, back = SLUICE_FORMAT_INIT;
    struct sluice_dtype bf16 = { SLUICE_BFLOAT, 16, 1 };
    struct sl_wire_format wire;

    format.pitch_align = 64;
    CHECK_OK(sluice_format_add_image(&format, "image", SLUICE_PIXEL_NV12, 30, 20));
    CHECK_OK(sluice_format_add_tensor(&format, "boxes", bf16, 2, (const int64_t[]){ 10, 4 }));
    CHECK_OK(sluice_format_add_tensor(&format, "scalar", bf16, 0, NULL));
    format.arrays[0].image.colour = (struct sluice_colour){ 1, 13, 6, SLUICE_RANGE_FULL };
    format.arrays[0].image.alpha = SLUICE_ALPHA_OPAQUE;
    sl_format_to_wire(&wire, &format);
    CHECK_OK(sl_format_from_wire(&back, &wire));
    CHECK_MEM(&format, &back, sizeof format);

    wire.slot_bytes += 512;
    CHECK_SAYS(sl_format_from_wire(&back, &wire), SLUICE_E_PROTOCOL, "that says");
    sl_format_to_wire(&wire, &format);
    wire.arrays[1].geometry.shape[0] = -10;
    CHECK_RESULT(sl_format_from_wire(&back, &wire), SLUICE_E_PROTOCOL);
    sl_format_to_wire(&wire, &format);
    memcpy(wire.arrays[1].name, wire.arrays[0].name, SLUICE_ARRAY_NAME); /* two with one name */
    CHECK_RESULT(sl_format_from_wire(&back, &wire), SLUICE_E_PROTOCOL);
    CHECK_MEM(&format, &back, sizeof format);
}
