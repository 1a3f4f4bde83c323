/* SPDX-License-Identifier: MIT
 *
 * A reader's descriptor, which programs poll.
 */
#include "cuda_link/cuda_link.h"

#define WATCH SLUICE_MS /* between checks for news */

/* Would acquire have something to report? With the reader's lock. */
static bool has_news(struct sl_cipd_reader *reader)
{
    struct sl_cipd_segment_reader *consumer = &reader->consumer;
    int64_t now = sl_os_now();

    if (sl_load(&reader->closing, acquire))
        return true;
    if (reader->link)
        return sl_cipd_read_has_news(consumer, now);
    bool closing = now < reader->close_until && sl_cipd_free_queue_count(reader->free_queue) != 0;
    return now >= sl_cipd_read_next_try(consumer) && !closing;
}

/* On the service thread. */
static void look(struct sl_watch *watch)
{
    struct sl_cipd_reader *reader = (struct sl_cipd_reader *)((char *)watch - offsetof(struct sl_cipd_reader, watch));

    sl_mutex_lock(&reader->lock);
    if (has_news(reader))
        sl_os_eventfd_set(reader->note);
    sl_mutex_unlock(&reader->lock);
    sl_service_set_deadline(watch, sl_os_deadline(WATCH));
}

void sl_cipd_poll_fd_update(struct sl_cipd_reader *reader)
{
    sl_mutex_lock(&reader->lock);
    if (reader->pending.index || has_news(reader))
        sl_os_eventfd_set(reader->note);
    else
        sl_os_eventfd_clear(reader->note);
    sl_mutex_unlock(&reader->lock);
}

int sl_cipd_reader_fd(struct sluice_reader *base)
{
    struct sl_cipd_reader *reader = sl_cipd_reader_of(base);
    int r;

    if (reader->note >= 0)
        return reader->note;
    if ((r = sl_os_eventfd_open(&reader->note)) != 0) {
        reader->note = -1;
        return r;
    }
    sl_os_eventfd_set(reader->note);
    reader->watch = (struct sl_watch){ .fd = -1, .timer = look, .deadline = sl_os_deadline(WATCH) };
    sl_service_lock();
    r = sl_service_add(&reader->watch);
    sl_service_unlock();
    return r == 0 ? reader->note : r;
}
