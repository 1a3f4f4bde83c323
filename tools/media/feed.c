/* SPDX-License-Identifier: MIT
 *
 * Reading pipes with poll.
 */
#include "feed.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sluice/sluice.h>

#include "../common/term.h"

#define SLICE   100 /* ms: how long a signal may go unnoticed */
#define SILENCE (2 * SLUICE_S)

/* Reads what is there. False at the end. */
static bool read_now(struct feed *feed, void *to, size_t size, size_t *got)
{
    ssize_t done = read(feed->fd, to, size);
    *got = done > 0 ? (size_t)done : 0;
    feed->ended = done == 0 || (done < 0 && errno != EINTR && errno != EAGAIN);
    return !feed->ended;
}

static bool make_room(struct feed *feed)
{
    if (feed->at == feed->size && !feed->keep)
        feed->at = feed->size = 0;
    if (feed->size < feed->capacity)
        return true;
    size_t capacity = feed->capacity ? 2 * feed->capacity : FEED_BYTES;
    uint8_t *more = realloc(feed->bytes, capacity);
    if (!more)
        return false;
    feed->bytes = more;
    feed->capacity = capacity;
    return true;
}

static bool read_more(struct feed *feed)
{
    size_t got = 0;
    if (!make_room(feed) || !read_now(feed, feed->bytes + feed->size, feed->capacity - feed->size, &got))
        return false;
    feed->size += got;
    return true;
}

/* Waits until there is something to read. False if there will be nothing. */
static bool wait_for_bytes(struct feed *feed, struct feed *other)
{
    int64_t start = now_ns();
    bool said = false;
    while (!stop_asked()) {
        struct pollfd fds[2] = { { .fd = feed->fd, .events = POLLIN },
                                 { .fd = other && !other->ended ? other->fd : -1, .events = POLLIN } };
        poll(fds, 2, SLICE);
        if (fds[1].revents)
            (void)read_more(other);
        if (fds[0].revents)
            return true;
        int64_t now = now_ns();
        if (feed->deadline && now >= feed->deadline) {
            feed->timed_out = true;
            return false;
        }
        if (!said && now - start >= SILENCE && feed->name) {
            say_error(feed->command, "nothing has come from %s for 2 s; still waiting.", feed->name);
            said = true;
        }
    }
    return false;
}

bool feed_more(struct feed *feed, struct feed *other)
{
    size_t before;
    do {
        if (feed->ended || !wait_for_bytes(feed, other))
            return false;
        before = feed->size == feed->at && !feed->keep ? 0 : feed->size;
        if (!read_more(feed))
            return false;
    } while (feed->size == before);
    return true;
}

size_t feed_read(void *from, void *to, size_t size)
{
    struct feed *feed = from;
    uint8_t *at = to;
    size_t done = 0;
    while (done < size) {
        size_t ready = feed->size - feed->at, part = ready < size - done ? ready : size - done;
        if (part)
            memcpy(at + done, feed->bytes + feed->at, part);
        feed->at += part;
        done += part;
        if (done == size)
            break;
        if (!feed->keep && size - done >= FEED_BYTES) { /* past the buffer */
            if (feed->ended || !wait_for_bytes(feed, NULL) || !read_now(feed, at + done, size - done, &part))
                break;
            done += part;
        } else if (!feed_more(feed, NULL)) {
            break;
        }
    }
    return done;
}

size_t feed_read_bytes(void *from, void *to, size_t size)
{
    struct feed_bytes *bytes = from;
    size_t part = size < bytes->left ? size : bytes->left;
    if (part)
        memcpy(to, bytes->at, part);
    bytes->at += part;
    bytes->left -= part;
    return part;
}

void feed_free(struct feed *feed)
{
    free(feed->bytes);
    feed->bytes = NULL;
    feed->at = feed->size = feed->capacity = 0;
}
