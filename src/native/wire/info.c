/* SPDX-License-Identifier: MIT
 *
 * The observer's side: queries a channel's writer, on the caller's thread.
 */
#include <stdio.h>
#include <string.h>

#include "native/wire/native.h"
#include "util/result.h"

#define RETRY_DELAY (5 * SLUICE_MS)

static int hung_up(const char *name)
{
    return sl_fail(SLUICE_AGAIN, "the writer of channel '%s' hung up before it had answered", name);
}

static int next_message(int fd, const char *name, int64_t deadline, union sl_message *message)
{
    for (;;) {
        int fds[SL_OS_MAX_FDS], fd_count;
        int r = sl_message_receive(fd, message, fds, &fd_count);
        sl_os_discard(fds, fd_count);
        if (r == 0 && message->header.type != SL_MSG_BYE)
            return 0;
        if (r == 0 || r == SLUICE_CLOSED)
            return hung_up(name);
        if (r != SLUICE_AGAIN)
            return r;
        r = sl_os_wait_readable(fd, deadline);
        if (r == SLUICE_TIMEOUT)
            return sl_fail(SLUICE_TIMEOUT, "the writer of channel '%s' does not answer: is it stopped?", name);
        if (r != 0)
            return r;
    }
}

static int ask(int fd, const char *name)
{
    union sl_message hello = SL_MESSAGE(SL_MSG_HELLO, hello);
    union sl_message query = SL_MESSAGE(SL_MSG_QUERY, query);
    int r;

    sl_hello_fill(&hello.hello, SL_ROLE_OBSERVER);
    if ((r = sl_os_send(fd, &hello, hello.header.size, NULL, 0)) == 0)
        r = sl_os_send(fd, &query, query.header.size, NULL, 0);
    return r > 0 ? hung_up(name) : r;
}

static int take_channel(const union sl_message *message, const char *name, struct sluice_channel_info *info)
{
    const struct sl_msg_channel *from = &message->channel;
    int r;

    if (message->header.type == SL_MSG_REFUSE)
        return sl_fail_text(message->refuse.result, message->refuse.text);
    if (message->header.type != SL_MSG_CHANNEL || from->readers > SLUICE_MAX_READERS)
        return sl_fail(SLUICE_E_PROTOCOL, "the writer of channel '%s' sent a message of type %u", name,
                       message->header.type);
    /* Programs compute differences of them. */
    if (from->opened_ns < 0 || from->last_commit_ns < 0 || from->now_ns < 0 || from->name_restored_ns < 0)
        return sl_fail(SLUICE_E_PROTOCOL, "the writer of channel '%s' sent times that cannot be", name);
    if ((r = sl_format_from_wire(&info->format, &from->format)) != 0)
        return r;
    snprintf(info->name, sizeof info->name, "%s", name);
    memcpy(info->program, from->program, sizeof info->program);
    memcpy(info->device, from->device, sizeof info->device);
    memcpy(info->device_uuid, from->device_uuid, sizeof info->device_uuid);
    info->memory = from->memory_kind;
    info->pid = from->pid;
    info->uid = from->uid;
    info->wire_version = from->version;
    info->session = from->session;
    info->generation = from->generation;
    info->slots = from->slots;
    info->max_slots = from->max_slots;
    info->policy = from->policy;
    info->readers = from->readers;
    info->max_readers = from->max_readers;
    info->writable = from->writable;
    info->committed = from->committed;
    info->dropped = from->dropped;
    info->stolen = from->stolen;
    info->bytes = from->bytes;
    info->evicted = from->evicted;
    info->died = from->died;
    info->refused = from->refused;
    info->name_restored = from->name_restored;
    info->name_restored_ns = from->name_restored_ns;
    info->opened_ns = from->opened_ns;
    info->last_commit_ns = from->last_commit_ns;
    info->now_ns = from->now_ns;
    return 0;
}

static void take_reader(const struct sl_msg_reader *from, struct sluice_reader_info *to)
{
    memset(to, 0, sizeof *to);
    to->pid = from->pid;
    to->uid = from->uid;
    memcpy(to->program, from->program, sizeof to->program);
    to->mode = from->mode;
    to->depth = from->depth;
    to->hold = from->hold;
    to->every = from->every;
    to->writable = from->writable;
    to->held = from->held;
    to->held_slots = from->held_slots;
    to->held_ns = from->held_ns;
    to->taken = from->taken;
    to->missed = from->missed;
    to->lag = from->lag;
    to->latency_ns = from->latency_ns;
    to->latency_total_ns = from->latency_total_ns;
    to->latency_max_ns = from->latency_max_ns;
    to->lease_mean_ns = from->lease_mean_ns;
    to->ahead = from->ahead;
    to->parked = from->parked;
    to->joined_ns = from->joined_ns;
    memcpy(to->path, from->path, sizeof to->path);
    memcpy(to->copy_reason, from->copy_reason, sizeof to->copy_reason);
}

static int converse(int fd, const char *name, int64_t deadline, struct sluice_channel_info *info,
                    struct sluice_reader_info *readers, uint32_t capacity)
{
    union sl_message message;
    int r;

    if ((r = ask(fd, name)) != 0)
        return r;
    if ((r = next_message(fd, name, deadline, &message)) != 0)
        return r;
    if ((r = take_channel(&message, name, info)) != 0)
        return r;
    for (uint32_t i = 0; i < info->readers && i < capacity; i++) {
        if ((r = next_message(fd, name, deadline, &message)) != 0)
            return r;
        if (message.header.type != SL_MSG_READER)
            return sl_fail(SLUICE_E_PROTOCOL, "the writer of channel '%s' sent a message of type %u", name,
                           message.header.type);
        take_reader(&message.reader, &readers[i]);
    }
    return 0;
}

int sl_native_info(const char *name, int64_t timeout_ns, struct sluice_channel_info *info,
                   struct sluice_reader_info *readers, uint32_t capacity)
{
    int64_t deadline = sl_os_deadline(timeout_ns);
    struct sl_channel_dir dir;
    int fd, r = sl_channel_dir_find(&dir);

    if (r != 0)
        return r;
    /* SLUICE_AGAIN if its queue of connections is full, or it hung up. It also hangs up on guests
     * that are slow; a writer that is gone accepts no further connection. */
    for (;;) {
        if ((r = sl_channel_dir_connect(&dir, name, &fd)) == 0) {
            r = converse(fd, name, deadline, info, readers, capacity);
            sl_os_hang_up(fd);
        }
        if (r != SLUICE_AGAIN || sl_os_now() >= deadline)
            break;
        sl_os_sleep(RETRY_DELAY);
    }
    snprintf(info->folder, sizeof info->folder, "%.*s", (int)sizeof info->folder - 1, dir.folder);
    return r == SLUICE_AGAIN ? SLUICE_TIMEOUT : r;
}
