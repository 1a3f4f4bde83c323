/* SPDX-License-Identifier: MIT
 *
 * A reader's standing request to be connected: looks for the writer, sends HELLO, receives
 * messages, and starts again when the writer is gone. Runs on the service thread, under its lock.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "native/wire/native.h"
#include "trace/trace.h"
#include "util/hooks.h"
#include "util/result.h"

/* Each is doubled up to MAX_RETRY_DELAY (protocol 5.15). */
#define FIRST_RETRY_DELAY \
    (SLUICE_MS / 4) /* after the first attempt, and when a socket has just come: it soon listens */
#define MIN_RETRY_DELAY (20 * SLUICE_MS)
#define MAX_RETRY_DELAY (500 * SLUICE_MS)
#define WELCOME_TIMEOUT SLUICE_S
/* How late the service thread may run on a busy machine. A timer that fires later than LATE_TIMER does not show that
 * the writer is stopped: a writer of this process answers on the same thread. */
#define MAX_THREAD_DELAY  (10 * SLUICE_S)
#define LATE_TIMER        (100 * SLUICE_MS)
#define MESSAGES_PER_TURN 8

struct sl_native_join {
    struct sl_join base;
    struct sl_join_params params;
    struct sluice_reader_params reader;
    uint32_t *uids;
    struct sl_channel_dir dir; /* from the environment at the time when it was opened */
    char name[SLUICE_MAX_NAME + 1];
    struct sl_watch socket;  /* also has the timer of attempts */
    struct sl_watch process; /* the writer's pidfd */
    struct sl_native_link *link;
    struct sl_name_watch name_watch; /* joined once `lasting` */
    int64_t retry;
    bool lasting;    /* it has lost a writer, or an attempt after the first has begun */
    bool absent;     /* there was no writer at the last attempt */
    bool hello_sent; /* HELLO was sent */
    int64_t hello_ns, answer_due;
};

#define JOIN_OF(watch, member) ((struct sl_native_join *)((char *)(watch)-offsetof(struct sl_native_join, member)))

void sl_hello_fill(struct sl_msg_hello *hello, uint32_t role)
{
    hello->magic = SL_NATIVE_MAGIC;
    hello->version_min = SLUICE_WIRE_VERSION_MIN;
    hello->version_max = SLUICE_WIRE_VERSION_MAX;
    hello->features = SL_NATIVE_FEATURES;
    hello->role = role;
    hello->pid = sl_os_pid();
    hello->clock_ns = sl_os_now();
    sl_os_program(hello->program, sizeof hello->program);
}

static void drop_connection(struct sl_native_join *join)
{
    sl_service_remove(&join->socket);
    sl_service_remove(&join->process);
    sl_os_hang_up(join->socket.fd);
    sl_os_close(join->process.fd);
    join->socket.fd = join->process.fd = -1;
    join->hello_sent = false;
    join->base.answer_by = 0;
}

/* The channel's name came to the folder, or left it. */
static void name_changed(struct sl_name_watch *watch)
{
    struct sl_native_join *join = JOIN_OF(watch, name_watch);

    if (join->hello_sent || join->link)
        return;
    join->retry = FIRST_RETRY_DELAY;
    sl_service_set_deadline(&join->socket, sl_os_now());
}

/* So that a writer is connected at once, not at the next attempt. Where this fails, the attempts go on all the same. */
static void watch_name(struct sl_native_join *join)
{
    if (sl_name_watch_is_over(&join->name_watch))
        sl_name_watch_leave(&join->name_watch);
    if (join->name_watch.folder)
        return;
    join->name_watch = (struct sl_name_watch){ .name = join->name, .changed = name_changed };
    if (sl_name_watch_join(&join->name_watch, join->dir.folder) != SLUICE_E_NOT_FOUND)
        return;
    if (sl_channel_dir_make(&join->dir) == 0)
        (void)sl_name_watch_join(&join->name_watch, join->dir.folder);
}

static void retry_later(struct sl_native_join *join)
{
    drop_connection(join);
    if (join->lasting)
        watch_name(join);
    join->socket.deadline = sl_os_deadline(join->retry);
    join->retry = join->retry * 2 < MAX_RETRY_DELAY ? join->retry * 2 : MAX_RETRY_DELAY;
    if (sl_service_add(&join->socket) != 0)
        sl_log(SLUICE_LOG_ERROR, "channel '%s': cannot try again: %s", join->name, sl_last_error());
}

/* With this thread's last error message. */
static void store_failure(struct sl_native_join *join, int result)
{
    join->absent = result == SLUICE_E_NOT_FOUND;
    join->base.result = result;
    snprintf(join->base.text, sizeof join->base.text, "%s", sl_last_error());
    join->base.attempts++;
}

static void fail_attempt(struct sl_native_join *join, int result)
{
    store_failure(join, result);
    retry_later(join);
    join->params.changed(join->params.context, NULL);
}

/* The session has ended, or our connection to it. */
static void end_session(struct sl_native_join *join)
{
    struct sl_link *link = &join->link->base;

    join->link = NULL;
    sl_store(&link->gone, 1, seq_cst);
    join->retry = MIN_RETRY_DELAY;
    join->lasting = join->absent = true;
    retry_later(join);
    join->params.changed(join->params.context, link);
}

static int report_hang_up(const struct sl_native_join *join)
{
    return sl_fail(SLUICE_AGAIN, "the writer of channel '%s' hung up before it said welcome", join->name);
}

static void end_connection(struct sl_native_join *join)
{
    if (join->link) {
        end_session(join);
        return;
    }
    fail_attempt(join, report_hang_up(join));
}

static void socket_ready(struct sl_watch *watch, bool readable, bool hung_up);

static void process_ready(struct sl_watch *watch, bool readable, bool hung_up)
{
    struct sl_native_join *join = JOIN_OF(watch, process);

    (void)hung_up;
    if (!readable)
        return;
    socket_ready(&join->socket, true, true); /* what it sent last can still be read (protocol 5.11) */
    if (watch->fd >= 0)
        end_connection(join);
}

/* ---- messages ---- */

static int handle_welcome(struct sl_native_join *join, const struct sl_msg_welcome *welcome, int *fds, int fd_count)
{
    int r;

    if (join->link)
        return sl_fail(SLUICE_E_PROTOCOL, "a second welcome");
    if ((r = sl_native_link_open(welcome, join->hello_ns, fds, fd_count, &join->link)) != 0)
        return r;
    if (join->link->base.memory_kind != SL_MEM_HOST)
        sl_os_keep_in_child(join->socket.fd); /* as the driver's own descriptors are kept (protocol 4.1) */
    if (join->process.fd < 0 && fd_count > 3 && sl_os_pidfd_valid(fds[3])) {
        join->process.fd = fds[3];
        fds[3] = -1;
    }
    if (join->process.fd >= 0)
        (void)sl_service_add(&join->process);
    sl_service_set_deadline(&join->socket, 0);
    /* No timer from here on. Usually its first memory has arrived, too; if this thread is late, it may be a moment
     * later. */
    int64_t now = sl_os_now();
    join->base.answer_by = now < join->answer_due ? join->answer_due : now + WELCOME_TIMEOUT;
    join->base.result = 0;
    join->link->base.awaited = join->absent;
    join->absent = false;
    join->retry = MIN_RETRY_DELAY;
    if (join->link->base.clock_offset_ns)
        sl_log(SLUICE_LOG_WARN, "channel '%s': the writer's clock is %lld ms off ours; its times are corrected",
               join->name, (long long)(join->link->base.clock_offset_ns / SLUICE_MS));
    SL_KILL_POINT("after_welcome");
    join->params.linked(join->params.context, &join->link->base);
    return 0;
}

static int handle_memory(struct sl_native_join *join, const struct sl_msg_memory *message, int *fds, int fd_count)
{
    int r;

    if (!join->link || fd_count != 1)
        return sl_fail(SLUICE_E_PROTOCOL, "a memory message with %d descriptors", fd_count);
    if ((r = sl_native_link_add(join->link, message, fds[0])) != 0)
        return r;
    fds[0] = -1;
    union sl_message ack = SL_MESSAGE(SL_MSG_ACK, ack);
    ack.ack.memory = message->memory;
    ack.ack.driver = sl_mem_driver(sl_mem_of_kind(message->kind));
    SL_KILL_POINT("before_ack");
    r = sl_os_send(join->socket.fd, &ack, ack.header.size, NULL, 0);
    join->params.changed(join->params.context, &join->link->base);
    /* Without this answer the writer would never send another memory, so joining anew is better. A
     * hang-up is detected elsewhere. */
    return r == SLUICE_AGAIN    ? sl_fail(SLUICE_E_SYSTEM, "no room to acknowledge memory %u", message->memory)
           : r == SLUICE_CLOSED ? 0
                                : r;
}

/* Returns 0, SLUICE_CLOSED if the connection has ended, or a failure. */
static int handle_message(struct sl_native_join *join, const union sl_message *message, int *fds, int fd_count)
{
    switch (message->header.type) {
    case SL_MSG_WELCOME: return handle_welcome(join, &message->welcome, fds, fd_count);
    case SL_MSG_MEMORY: return handle_memory(join, &message->memory, fds, fd_count);
    case SL_MSG_REFUSE:
        if (join->link)
            break;
        sl_fail_text(message->refuse.result, message->refuse.text);
        fail_attempt(join, message->refuse.result);
        return SLUICE_CLOSED;
    case SL_MSG_BYE: end_connection(join); return SLUICE_CLOSED;
    default: break;
    }
    return sl_fail(SLUICE_E_PROTOCOL, "the writer of channel '%s' sent a message of type %u", join->name,
                   message->header.type);
}

static void close_broken(struct sl_native_join *join, int result)
{
    sl_log(SLUICE_LOG_ERROR, "channel '%s': hung up on its writer: %s", join->name, sl_last_error());
    if (!join->link) {
        fail_attempt(join, result);
        return;
    }
    store_failure(join, result);
    end_session(join);
}

static void socket_ready(struct sl_watch *watch, bool readable, bool hung_up)
{
    struct sl_native_join *join = JOIN_OF(watch, socket);
    union sl_message message;

    (void)readable;
    (void)hung_up;
    for (int i = 0; i < MESSAGES_PER_TURN; i++) {
        int fds[SL_OS_MAX_FDS], fd_count;
        int r = sl_message_receive(watch->fd, &message, fds, &fd_count);
        if (r == SLUICE_AGAIN)
            return;
        if (r == SLUICE_CLOSED) {
            end_connection(join);
            return;
        }
        if (r == 0)
            r = handle_message(join, &message, fds, fd_count);
        sl_os_discard(fds, fd_count);
        if (r < 0)
            close_broken(join, r);
        if (r != 0)
            return;
    }
}

/* ---- attempts ---- */

static int check_writer(struct sl_native_join *join, int fd)
{
    struct sl_peer_identity writer;
    int r = sl_os_peer(fd, &writer);

    if (r != 0)
        return r;
    if (!sl_os_peer_allowed(fd, &writer, join->uids, join->reader.uid_count, NULL, 0)) {
        sl_os_close(writer.pidfd);
        return sl_fail(SLUICE_E_PERMISSION,
                       "the writer of channel '%s' is user %u, whom this reader does not trust%s: its option 'uids'",
                       join->name, writer.uid,
                       writer.uid == sl_os_uid() ? ", for several users may show as this number (the overflow uid)"
                                                 : "");
    }
    join->process.fd = writer.pidfd;
    return 0;
}

static int send_hello(struct sl_native_join *join)
{
    union sl_message message = SL_MESSAGE(SL_MSG_HELLO, hello);
    struct sl_msg_hello *hello = &message.hello;

    sl_hello_fill(hello, SL_ROLE_READER);
    join->hello_ns = hello->clock_ns;
    hello->mode = join->reader.mode;
    hello->depth = join->reader.depth;
    hello->hold = join->reader.hold;
    hello->every = join->reader.every;
    hello->writable = join->reader.writable;
    hello->ahead = join->reader.ahead;
    int self = join->process.fd < 0 ? sl_os_self_pidfd() : -1;
    int r = sl_os_send(join->socket.fd, &message, hello->header.size, &self, self >= 0 ? 1 : 0);
    if (r < 0 && self >= 0) /* a writer that accepts no descriptors gets it from its kernel */
        r = sl_os_send(join->socket.fd, &message, hello->header.size, NULL, 0);
    sl_os_close(self);
    /* A writer also hangs up on readers that are slow. The next attempt shows whether it is gone. */
    return r > 0 ? report_hang_up(join) : r;
}

static void start_answer_timer(struct sl_native_join *join)
{
    join->answer_due = sl_os_deadline(WELCOME_TIMEOUT);
    join->base.answer_by = join->answer_due + MAX_THREAD_DELAY;
    sl_service_set_deadline(&join->socket, join->answer_due);
}

static void connect_to_writer(struct sl_native_join *join)
{
    SL_STAGE_BEGIN(CONNECT);
    int fd, r = sl_channel_dir_connect(&join->dir, join->name, &fd);

    sl_service_remove(&join->socket);
    if (r == SLUICE_AGAIN) /* the queue is full, so the writer is alive: retry soon */
        join->retry = MIN_RETRY_DELAY;
    if (r == 0) {
        join->socket.fd = fd;
        if ((r = sl_os_close_in_child(fd)) == 0 && (r = check_writer(join, fd)) == 0 && (r = send_hello(join)) == 0) {
            join->hello_sent = true;
            start_answer_timer(join);
            SL_KILL_POINT("after_hello");
            r = sl_service_add(&join->socket);
        }
    }
    SL_STAGE_END(CONNECT);
    if (r != 0)
        fail_attempt(join, r);
}

/* Else the writer, which may have welcomed it by now, would count a reader that died. */
static void send_goodbye(const struct sl_native_join *join)
{
    union sl_message bye = SL_MESSAGE(SL_MSG_BYE, bye);

    bye.bye.reason = SL_BYE_LEFT;
    (void)sl_os_send(join->socket.fd, &bye, bye.header.size, NULL, 0);
}

static void socket_timer(struct sl_watch *watch)
{
    struct sl_native_join *join = JOIN_OF(watch, socket);

    if (!join->hello_sent) {
        join->lasting = true;
        connect_to_writer(join);
        return;
    }
    socket_ready(watch, true, false); /* the answer may have arrived before this thread ran */
    if (!join->hello_sent || join->link)
        return;
    if (sl_os_now() - join->answer_due > LATE_TIMER) {
        start_answer_timer(join);
        return;
    }
    send_goodbye(join);
    sl_say("the writer of channel '%s' does not answer: is it stopped?", join->name);
    fail_attempt(join, SLUICE_TIMEOUT);
}

int sl_join_open(const struct sl_join_params *params, struct sl_join **out)
{
    struct sl_native_join *join = calloc(1, sizeof *join);

    if (!join)
        return sl_fail(SLUICE_E_NO_MEMORY, "no memory to join channel '%s'", params->name);
    join->params = *params;
    join->reader = *params->reader;
    join->retry = FIRST_RETRY_DELAY;
    join->socket = (struct sl_watch){ .fd = -1, .ready = socket_ready, .timer = socket_timer };
    join->process = (struct sl_watch){ .fd = -1, .ready = process_ready };
    snprintf(join->name, sizeof join->name, "%s", params->name);
    int r = sl_channel_dir_find(&join->dir);
    /* A reference for all attempts: if the thread stopped in between and could not be started
     * again, there would be no further attempt. */
    if (r != 0 || (r = sl_service_hold()) != 0) {
        free(join);
        return r;
    }
    if (join->reader.uid_count) {
        join->uids = malloc(join->reader.uid_count * sizeof *join->uids);
        if (!join->uids) {
            sl_service_drop();
            free(join);
            return sl_fail(SLUICE_E_NO_MEMORY, "no memory for %u ids", params->reader->uid_count);
        }
        memcpy(join->uids, params->reader->uids, join->reader.uid_count * sizeof *join->uids);
    }
    *out = &join->base;
    connect_to_writer(join);
    return 0;
}

void sl_join_close(struct sl_join *base, bool goodbye)
{
    struct sl_native_join *join = (struct sl_native_join *)base;

    SL_KILL_POINT("before_bye");
    if (join->hello_sent && goodbye)
        send_goodbye(join);
    if (join->link)
        sl_store(&join->link->base.gone, 1, seq_cst);
    drop_connection(join);
    sl_name_watch_leave(&join->name_watch);
    sl_service_drop();
    free(join->uids);
    free(join);
}
