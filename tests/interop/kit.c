/* SPDX-License-Identifier: MIT
 *
 * The peer in Python, and the reader that follows.
 */
#include <poll.h>
#include <stdarg.h>

#include "kit.h"

struct child peer_start(void)
{
    const char *argv[] = { PYTHON, PEER, NULL };
    return child_start(argv);
}

static void tell(struct child *peer, const char *format, va_list list)
{
    char line[1000];
    vsnprintf(line, sizeof(line), format, list);
    child_send(peer, line);
}

void peer_tell(struct child *peer, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    tell(peer, format, list);
    va_end(list);
}

void peer_do(struct child *peer, const char *answer, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    tell(peer, format, list);
    va_end(list);
    child_expect(peer, answer, 30);
}

bool peer_answered(struct child *peer)
{
    struct pollfd waiting = { .fd = peer->out, .events = POLLIN };
    if (!memchr(peer->text, '\n', peer->text_size) && poll(&waiting, 1, 0) == 0)
        return false;
    CHECK(child_line(peer, 30));
    return true;
}

void peer_end(struct child *peer)
{
    close(peer->in);
    peer->in = -1;
    CHECK_EQ(child_wait(peer, 30), 0);
}

void follower_init(struct follower *follower, const char *name)
{
    *follower = (struct follower){ .session = 0 };
    CHECK_OK(sl_cipd_read_init(&follower->consumer, name));
}

void follower_end(struct follower *follower)
{
    sl_cipd_read_drop(&follower->consumer, SL_CIPD_REASON_NOT_TRIED);
}

static bool follower_connect(struct follower *follower)
{
    struct sl_cipd_segment_reader *consumer = &follower->consumer;
    if (sl_cipd_read_connect(consumer, test_now()))
        return false;
    memcpy(&follower->session, consumer->session.handles[0].memory, 4);
    follower->early = false;
    follower->sessions++;
    return true;
}

/* Python stores the number of slots before it sets the index of the session before to 0. A reader that joins in between
 * sees the last frame of that session as a frame of a slot without handles, with the metadata of a session with one
 * slot less: 1 byte of shut, 4 of width, 4 of height, which is 1. A reader cannot open such a slot. */
static bool is_early(const struct follower *follower, const uint32_t *words)
{
    return follower->frame.slot + 1 == follower->consumer.session.layout.slots && words[1] == 1u << 8;
}

/* The slot that it would read is of the session that it joined, and of its size. */
static void check_frame(struct follower *follower)
{
    const struct sl_cipd_session *session = &follower->consumer.session;
    uint32_t words[2];
    CHECK(!follower->early); /* no second frame of such a copy */
    memcpy(words, session->handles[follower->frame.slot].memory, sizeof(words));
    follower->early = is_early(follower, words);
    follower->mixed +=
        follower->early || words[0] != follower->session; /* see connect: slot 0 was copied a moment earlier */
    if (follower->early)
        return;
    follower->session = words[0];
    CHECK_EQ(words[1], follower->frame.slot);
    CHECK_EQ(session->metadata.width, words[0]);
}

bool follower_poll(struct follower *follower)
{
    struct sl_cipd_segment_reader *consumer = &follower->consumer;
    if (!consumer->session.layout.slots && !follower_connect(follower))
        return false;
    switch (sl_cipd_read_poll(consumer, test_now(), &follower->frame)) {
    case SL_CIPD_FRAME:
        follower->frames++;
        check_frame(follower);
        return true;
    case SL_CIPD_NO_FRAME: return false;
    case SL_CIPD_SHUT: follower->shuts++; break;
    case SL_CIPD_CHANGED: follower->changes++; break;
    case SL_CIPD_LOST: follower->losses++; break;
    }
    sl_cipd_read_drop(consumer, consumer->reason);
    return false;
}

bool follower_has(struct follower *follower, uint32_t session)
{
    follower_poll(follower);
    return follower->consumer.session.layout.slots && follower->consumer.index && follower->session == session;
}

void begin_as(struct sl_cipd_segment_writer *producer, uint32_t slots, uint32_t session)
{
    struct sl_cipd_handles handles[SL_CIPD_MAX_SLOTS];
    struct sl_cipd_metadata metadata = metadata_of(session, 1, 1);
    for (uint32_t slot = 0; slot < slots; slot++) {
        uint32_t words[2] = { session, slot };
        memset(handles[slot].memory, (int)(session % 255 + 1), SL_CIPD_HANDLE);
        memset(handles[slot].event, (int)(slot + 1), SL_CIPD_HANDLE);
        memcpy(handles[slot].memory, words, sizeof(words));
    }
    CHECK_OK(sl_cipd_write_begin(producer, slots, handles, &metadata));
}
