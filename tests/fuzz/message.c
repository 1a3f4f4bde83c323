/* SPDX-License-Identifier: MIT
 *
 * Messages as received: the first two bytes of the input choose the type and how the header is repaired, the rest is
 * the message.
 */
#include "native/wire/message.h"
#include "fuzz.h"
#include "geometry_check.h"

#define CLOSED(text) REQUIRE(memchr((text), 0, sizeof(text)))

static void check_versions(uint32_t min, uint32_t max)
{
    uint32_t agreed = sl_version_agree(min, max);
    REQUIRE(agreed == 0 ||
            (agreed >= min && agreed <= max && agreed >= SLUICE_WIRE_VERSION_MIN && agreed <= SLUICE_WIRE_VERSION_MAX));
}

static void check_wire_format(const struct sl_wire_format *wire)
{
    struct sluice_format format;
    if (sl_format_from_wire(&format, wire) == 0)
        check_format(&format);
}

static void check_welcome(const struct sl_msg_welcome *welcome)
{
    if (sl_welcome_check(welcome) != 0)
        return;
    check_versions(welcome->version, welcome->version);
    REQUIRE(sl_version_agree(welcome->version, welcome->version) == welcome->version);
    REQUIRE(welcome->control_size >= sizeof(struct sl_control) && welcome->control_size < 1 << 22);
    REQUIRE(welcome->page_size >= sizeof(struct sl_reader_page) && welcome->page_size <= 1 << 20);
    REQUIRE(welcome->max_slots <= SLUICE_MAX_SLOTS && welcome->depth <= SLUICE_MAX_SLOTS);
}

static void check_body(const union sl_message *message)
{
    switch (message->header.type) {
    case SL_MSG_HELLO:
        CLOSED(message->hello.program);
        check_versions(message->hello.version_min, message->hello.version_max);
        if (sl_hello_check(&message->hello) == 0 && message->hello.role == SL_ROLE_READER)
            REQUIRE(message->hello.hold > 0 && message->hello.every > 0);
        break;
    case SL_MSG_WELCOME: check_welcome(&message->welcome); break;
    case SL_MSG_REFUSE: CLOSED(message->refuse.text); break;
    case SL_MSG_MEMORY: check_wire_format(&message->memory.format); break;
    case SL_MSG_CHANNEL:
        CLOSED(message->channel.program);
        CLOSED(message->channel.device);
        check_wire_format(&message->channel.format);
        break;
    case SL_MSG_READER:
        CLOSED(message->reader.program);
        CLOSED(message->reader.path);
        CLOSED(message->reader.copy_reason);
        break;
    default: break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint32_t sizes[] = {
        [SL_MSG_HELLO] = sizeof(struct sl_msg_hello),   [SL_MSG_WELCOME] = sizeof(struct sl_msg_welcome),
        [SL_MSG_REFUSE] = sizeof(struct sl_msg_refuse), [SL_MSG_MEMORY] = sizeof(struct sl_msg_memory),
        [SL_MSG_ACK] = sizeof(struct sl_msg_ack),       [SL_MSG_BYE] = sizeof(struct sl_msg_bye),
        [SL_MSG_QUERY] = sizeof(struct sl_msg_query),   [SL_MSG_CHANNEL] = sizeof(struct sl_msg_channel),
        [SL_MSG_READER] = sizeof(struct sl_msg_reader),
    };
    struct input input = { data, size };
    union sl_message *message = calloc(1, sizeof *message);
    uint8_t type = take_byte(&input), repair = take_byte(&input);

    REQUIRE(message);
    size_t length = input.left < sizeof *message ? input.left : sizeof *message;
    take(&input, message, length);
    if (repair % 4 != 0) { /* else all of it is the input's */
        uint32_t known = 1 + type % (sizeof sizes / sizeof sizes[0] - 1);
        length = sizes[known];
        message->header = (struct sl_msg_header){ .type = known, .size = sizes[known] };
    }
    if (repair % 4 == 2) {
        message->hello.magic = SL_NATIVE_MAGIC; /* a welcome's is at the same offset */
        if (message->header.type == SL_MSG_WELCOME)
            message->welcome.version = SLUICE_WIRE_VERSION_MAX;
    }
    if (sl_message_check(message, length) == 0) {
        REQUIRE(message->header.type < sizeof sizes / sizeof sizes[0] && length == sizes[message->header.type]);
        check_body(message);
    }
    free(message);
    return 0;
}
