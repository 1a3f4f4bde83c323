/* SPDX-License-Identifier: MIT
 *
 * An observer with a hostile writer: it asks, and gets any messages. The input is a list of messages, some of them
 * valid ones with changes.
 */
#include "fuzz.h"
#include "geometry_check.h"
#include "native/wire/native.h"
#include "os_stub.h"
#include "raw_peer.h"

static int listener = -1, connection = -1;
static struct input steps;

static void say(uint32_t type, size_t size)
{
    static struct sluice_format format;
    union sl_message message;

    if (!format.size) {
        format = (struct sluice_format)SLUICE_FORMAT_INIT;
        REQUIRE(sluice_format_add_image(&format, "x", SLUICE_PIXEL_RGBA, 4, 4) == 0);
    }
    memset(&message, 0, sizeof message);
    message.header = (struct sl_msg_header){ .type = type, .size = (uint32_t)size };
    if (type == SL_MSG_CHANNEL) {
        sl_format_to_wire(&message.channel.format, &format);
        message.channel.readers = take_byte(&steps) % 80;
    }
    take_patches(&steps, &message, size);
    raw_peer_send(connection, &message, size, NULL, 0);
}

static bool act(void)
{
    int fd;

    while (sl_os_accept(listener, &fd) == 0) {
        sl_os_close(connection);
        connection = fd;
    }
    if (!steps.left)
        return false;
    switch (take_byte(&steps) % 6) {
    case 0:
    case 1: say(SL_MSG_CHANNEL, sizeof(struct sl_msg_channel)); break;
    case 2: say(SL_MSG_READER, sizeof(struct sl_msg_reader)); break;
    case 3: say(SL_MSG_REFUSE, sizeof(struct sl_msg_refuse)); break;
    case 4: raw_peer_send_input(&steps, connection); break;
    default:
        sl_os_close(connection);
        connection = -1;
        break;
    }
    return true;
}

/* Replaces the call in os/posix/epoll.c, by the linker: while the observer waits, the writer acts. */
int __real_sl_os_wait_readable(int fd, int64_t deadline);
int __wrap_sl_os_wait_readable(int fd, int64_t deadline);
int __wrap_sl_os_wait_readable(int fd, int64_t deadline)
{
    (void)deadline;
    return act() ? 0 : __real_sl_os_wait_readable(fd, 0);
}

static void set_up(void)
{
    struct sl_channel_dir dir;

    os_stub_folder();
    REQUIRE(sl_channel_dir_open(&dir, false, false) == 0);
    REQUIRE(sl_os_listen(dir.fd, dir.folder, "o", 0600, -1, &listener) == 0);
    for (uint8_t i = 0; i < 8; i++)
        (void)raw_peer_fd(i);
}

static void check(const struct sluice_channel_info *info, const struct sluice_reader_info *readers, uint32_t capacity)
{
    check_format(&info->format);
    REQUIRE(strcmp(info->name, "o") == 0 && info->readers <= SLUICE_MAX_READERS);
    REQUIRE(info->opened_ns >= 0 && info->last_commit_ns >= 0 && info->now_ns >= 0);
    REQUIRE(memchr(info->program, 0, sizeof info->program) && memchr(info->device, 0, sizeof info->device));
    for (uint32_t i = 0; i < info->readers && i < capacity; i++) {
        REQUIRE(memchr(readers[i].program, 0, sizeof readers[i].program));
        REQUIRE(memchr(readers[i].path, 0, sizeof readers[i].path));
        REQUIRE(memchr(readers[i].copy_reason, 0, sizeof readers[i].copy_reason));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sluice_channel_info info = { .size = sizeof info };

    if (listener < 0)
        set_up();
    steps = (struct input){ data, size };
    int fds = raw_peer_open_fds();
    uint32_t capacity = take_byte(&steps) % 66;
    struct sluice_reader_info *readers = calloc(capacity ? capacity : 1, sizeof *readers);
    REQUIRE(readers);
    if (sluice_channel_info("o", SLUICE_S, &info, capacity ? readers : NULL, capacity) == 0)
        check(&info, readers, capacity);
    free(readers);
    sl_os_close(connection);
    connection = -1;
    REQUIRE(raw_peer_open_fds() == fds);
    return 0;
}
