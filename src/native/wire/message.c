/* SPDX-License-Identifier: MIT */
#include "native/wire/message.h"

#include <string.h>

#include "util/result.h"

static size_t size_of(uint32_t type)
{
    switch (type) {
    case SL_MSG_HELLO: return sizeof(struct sl_msg_hello);
    case SL_MSG_WELCOME: return sizeof(struct sl_msg_welcome);
    case SL_MSG_REFUSE: return sizeof(struct sl_msg_refuse);
    case SL_MSG_MEMORY: return sizeof(struct sl_msg_memory);
    case SL_MSG_ACK: return sizeof(struct sl_msg_ack);
    case SL_MSG_BYE: return sizeof(struct sl_msg_bye);
    case SL_MSG_QUERY: return sizeof(struct sl_msg_query);
    case SL_MSG_CHANNEL: return sizeof(struct sl_msg_channel);
    case SL_MSG_READER: return sizeof(struct sl_msg_reader);
    default: return 0;
    }
}

/* Strings end up in terminals and logs, so control characters (also U+0080 to U+009F in UTF-8) are
 * removed. */
static void close_string(char *text, size_t size)
{
    text[size - 1] = '\0';
    for (unsigned char *c = (unsigned char *)text; *c; c++) {
        if (c[0] == 0xc2 && c[1] >= 0x80 && c[1] < 0xa0)
            c[0] = c[1] = '?';
        else if (c[0] < 0x20 || c[0] == 0x7f)
            c[0] = '?';
    }
}

#define CLOSE_STRING(text) close_string((text), sizeof(text))

static void close_format_strings(struct sl_wire_format *format)
{
    for (int i = 0; i < SLUICE_MAX_ARRAYS; i++)
        CLOSE_STRING(format->arrays[i].name);
}

int sl_message_check(union sl_message *message, size_t size)
{
    if (size < sizeof message->header)
        return sl_fail(SLUICE_E_PROTOCOL, "a message of %zu bytes is too short", size);
    size_t expected = size_of(message->header.type);
    if (expected == 0)
        return sl_fail(SLUICE_E_PROTOCOL, "a message of unknown type %u", message->header.type);
    if (size != expected || message->header.size != expected)
        return sl_fail(SLUICE_E_PROTOCOL, "a message of type %u has %zu bytes and says %u, not %zu",
                       message->header.type, size, message->header.size, expected);
    switch (message->header.type) {
    case SL_MSG_HELLO: CLOSE_STRING(message->hello.program); break;
    case SL_MSG_REFUSE:
        CLOSE_STRING(message->refuse.text);
        if (message->refuse.result >= 0 || strcmp(sl_result_name(message->refuse.result), "?") == 0)
            message->refuse.result = SLUICE_E_PROTOCOL;
        break;
    case SL_MSG_MEMORY: close_format_strings(&message->memory.format); break;
    case SL_MSG_CHANNEL:
        CLOSE_STRING(message->channel.program);
        CLOSE_STRING(message->channel.device);
        close_format_strings(&message->channel.format);
        break;
    case SL_MSG_READER:
        CLOSE_STRING(message->reader.program);
        CLOSE_STRING(message->reader.path);
        CLOSE_STRING(message->reader.copy_reason);
        break;
    default: break;
    }
    return 0;
}

int sl_message_receive(int socket, union sl_message *message, int *fds, int *fd_count)
{
    size_t size = 0;

    *fd_count = 0;
    int r = sl_os_receive(socket, message, sizeof *message, &size, fds, fd_count);
    return r == 0 ? sl_message_check(message, size) : r;
}

int sl_hello_check(const struct sl_msg_hello *hello)
{
    if (hello->magic != SL_NATIVE_MAGIC)
        return sl_fail(SLUICE_E_PROTOCOL, "the peer does not speak Sluice");
    if (hello->role != SL_ROLE_READER && hello->role != SL_ROLE_OBSERVER)
        return sl_fail(SLUICE_E_PROTOCOL, "a hello of unknown role %u", hello->role);
    if (hello->role == SL_ROLE_READER && (hello->mode > SLUICE_IN_ORDER || hello->hold == 0 || hello->every == 0 ||
                                          hello->writable > 1 || hello->ahead > 1))
        return sl_fail(SLUICE_E_PROTOCOL, "a hello with mode %u, hold %u, every %u, writable %u, ahead %u", hello->mode,
                       hello->hold, hello->every, hello->writable, hello->ahead);
    return 0;
}

int sl_welcome_check(const struct sl_msg_welcome *welcome)
{
    if (welcome->magic != SL_NATIVE_MAGIC)
        return sl_fail(SLUICE_E_PROTOCOL, "the peer does not speak Sluice");
    if (welcome->version < SLUICE_WIRE_VERSION_MIN || welcome->version > SLUICE_WIRE_VERSION_MAX)
        return sl_fail(SLUICE_E_PROTOCOL, "a welcome in wire version %u, which was not offered", welcome->version);
    if (welcome->session == 0 || welcome->max_slots == 0 || welcome->max_slots > SLUICE_MAX_SLOTS ||
        welcome->depth > SLUICE_MAX_SLOTS || welcome->writable > 1)
        return sl_fail(SLUICE_E_PROTOCOL, "a welcome with session %#llx, %u slots, depth %u",
                       (unsigned long long)welcome->session, welcome->max_slots, welcome->depth);
    if (welcome->control_size < sizeof(struct sl_control) ||
        welcome->control_size > sl_native_control_size(SL_MAX_IDS, 1 << 16) ||
        welcome->page_size < sizeof(struct sl_reader_page) || welcome->page_size > 1 << 20)
        return sl_fail(SLUICE_E_PROTOCOL, "a welcome with pages of %llu and %llu bytes",
                       (unsigned long long)welcome->control_size, (unsigned long long)welcome->page_size);
    return 0;
}

uint32_t sl_version_agree(uint32_t min, uint32_t max)
{
    uint32_t low = min > SLUICE_WIRE_VERSION_MIN ? min : SLUICE_WIRE_VERSION_MIN;
    uint32_t high = max < SLUICE_WIRE_VERSION_MAX ? max : SLUICE_WIRE_VERSION_MAX;
    return low <= high ? high : 0;
}

int sl_control_check(const struct sl_control *control, const struct sl_msg_welcome *welcome, uint32_t *ids,
                     uint32_t *memory_kind)
{
    uint32_t n = control->ids, kind = control->memory_kind;

    if (control->magic != SL_NATIVE_MAGIC || control->session != welcome->session)
        return sl_fail(SLUICE_E_PROTOCOL, "the control page is not of this session");
    /* One control page serves readers of all versions: its layout may be older than the agreed
     * version. */
    uint32_t layout = control->version;
    if (layout < SLUICE_WIRE_VERSION_MIN || layout > SLUICE_WIRE_VERSION_MAX)
        return sl_fail(SLUICE_E_VERSION,
                       "the control page has the layout of wire version %u; this release reads %d to %d", layout,
                       SLUICE_WIRE_VERSION_MIN, SLUICE_WIRE_VERSION_MAX);
    if (n == 0 || n > SL_MAX_IDS || control->header_size != sizeof(struct sl_control) ||
        control->record_stride != SL_NATIVE_STRIDE || control->meta_offset != SL_NATIVE_META_OFFSET ||
        control->meta_capacity != SLUICE_MAX_META)
        return sl_fail(SLUICE_E_PROTOCOL, "the control page's layout is not version %u's", welcome->version);
    if (sl_native_control_size(n, 1) > welcome->control_size)
        return sl_fail(SLUICE_E_PROTOCOL, "the control page is too small for its %u slots", n);
    if (!sl_mem_of_kind(kind))
        return sl_fail(SLUICE_E_UNSUPPORTED,
                       "the channel's frames are in memory of kind %u, which this release does not know", kind);
    *ids = n;
    *memory_kind = kind;
    return 0;
}

void sl_format_to_wire(struct sl_wire_format *wire, const struct sluice_format *format)
{
    memset(wire, 0, sizeof *wire);
    wire->array_count = format->array_count;
    wire->pitch_align = format->pitch_align;
    wire->slot_bytes = format->slot_bytes;
    for (uint32_t i = 0; i < format->array_count; i++) {
        const struct sluice_array *array = &format->arrays[i];
        struct sl_wire_array *to = &wire->arrays[i];
        memcpy(to->name, array->name, sizeof to->name);
        to->dtype = array->dtype;
        to->pixel_format = array->image.pixel_format;
        to->colour = array->image.colour;
        to->row_order = array->image.row_order;
        to->alpha = array->image.alpha;
        sl_geometry_from_array(&to->geometry, array);
    }
}

int sl_format_from_wire(struct sluice_format *format, const struct sl_wire_format *wire)
{
    struct sluice_format f = SLUICE_FORMAT_INIT;

    if (wire->array_count == 0 || wire->array_count > SLUICE_MAX_ARRAYS)
        return sl_fail(SLUICE_E_PROTOCOL, "a format of %u arrays", wire->array_count);
    f.array_count = wire->array_count;
    f.pitch_align = wire->pitch_align;
    for (uint32_t i = 0; i < f.array_count; i++) {
        const struct sl_wire_array *from = &wire->arrays[i];
        struct sluice_array *array = &f.arrays[i];
        memcpy(array->name, from->name, sizeof array->name);
        array->dtype = from->dtype;
        array->image.pixel_format = from->pixel_format;
        array->image.colour = from->colour;
        array->image.row_order = from->row_order;
        array->image.alpha = from->alpha;
        sl_geometry_to_array(&from->geometry, array);
    }
    int r = sl_format_complete(&f);
    if (r != 0)
        return r == SLUICE_E_FORMAT ? SLUICE_E_PROTOCOL : r;
    if (f.slot_bytes != wire->slot_bytes)
        return sl_fail(SLUICE_E_PROTOCOL, "a format of %llu bytes a slot that says %llu",
                       (unsigned long long)f.slot_bytes, (unsigned long long)wire->slot_bytes);
    *format = f;
    return 0;
}
