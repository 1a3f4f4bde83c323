/* SPDX-License-Identifier: MIT */
#include "native/writer/in_flight.h"

#include "os/os.h"

#define MIN_POLL_INTERVAL (SLUICE_MS / 20)
#define MAX_POLL_INTERVAL SLUICE_MS

static int make_idle_words(struct sl_in_flight *flight, const char *device)
{
    uint64_t unit = sl_os_page_size(), size = (SL_MAX_IDS * sizeof(sl_word) + unit - 1) / unit * unit;
    void *address;
    int fd, r = sl_os_memory_create("sluice-idle", size, &fd);

    if (r != 0)
        return r;
    r = sl_os_map(fd, size, true, &address);
    sl_os_close(fd);
    if (r != 0)
        return r;
    if ((r = flight->sync->attach(device, address, size, true, &flight->idle_pages)) != 0) {
        sl_os_unmap(address, size);
        return r;
    }
    flight->idle = address;
    flight->idle_bytes = size;
    return 0;
}

int sl_in_flight_open(struct sl_in_flight *flight, const char *device, void *address, uint64_t size)
{
    int r = flight->sync->attach(device, address, size, true, &flight->pages);

    if (r == 0 && flight->pages && (r = make_idle_words(flight, device)) != 0) {
        flight->sync->detach(flight->pages);
        flight->pages = NULL;
    }
    return r;
}

void sl_in_flight_close(struct sl_in_flight *flight)
{
    if (!flight->sync)
        return;
    flight->sync->detach(flight->pages);
    flight->sync->detach(flight->idle_pages);
    if (flight->idle)
        sl_os_unmap((void *)flight->idle, flight->idle_bytes);
    flight->pages = flight->idle_pages = NULL;
    flight->idle = NULL;
}

int sl_in_flight_signal(struct sl_in_flight *flight, struct sluice_stream stream, const struct sl_signal *signals,
                        uint32_t count)
{
    return flight->sync->signal(flight->pages, stream, signals, count);
}

int sl_in_flight_cancel(struct sl_in_flight *flight, struct sl_ring *ring, uint32_t slot, struct sluice_stream stream)
{
    struct sl_signal signal = { .value = ring->slots[slot].given_up + 1 };

    if (!flight->idle || stream.id == SLUICE_ON_CPU.id)
        return 0;
    signal.word = &flight->idle[slot];
    int r = sl_in_flight_signal(flight, stream, &signal, 1);
    if (r == 0)
        ring->slots[slot].given_up++;
    else if (flight->sync->alive(flight->pages) != 0)
        r = 0; /* the work has ended with the device */
    return r;
}

int sl_in_flight_probe(const struct sl_in_flight *flight)
{
    return flight->sync->probe(flight->pages);
}

uint32_t sl_in_flight_count(const struct sl_ring *ring)
{
    uint32_t count = 0;

    for (uint32_t s = 0; s < ring->used; s++)
        count += ring->slots[s].state != SL_SLOT_NONE && sl_ring_is_busy(ring, s);
    return count;
}

bool sl_in_flight_wait(const struct sl_in_flight *flight, const struct sl_ring *ring, int64_t timeout_ns)
{
    int64_t deadline = sl_os_deadline(timeout_ns), interval = MIN_POLL_INTERVAL;

    for (int64_t now = sl_os_now(); sl_in_flight_count(ring) > 0; now = sl_os_now()) {
        if (now >= deadline ||
            sl_in_flight_probe(flight) != 0) /* `now` is from before: this thread may have been suspended */
            return false;
        sl_os_sleep(interval);
        interval = interval * 2 < MAX_POLL_INTERVAL ? interval * 2 : MAX_POLL_INTERVAL;
    }
    return true;
}

uint32_t sl_in_flight_lose(struct sl_ring *ring)
{
    uint32_t lost = 0;

    for (uint32_t s = 0; s < ring->used; s++) {
        uint64_t sequence = ring->slots[s].sequence, was = sl_load(&ring->words.ready[s], acquire);
        if (sequence == 0 || was == SL_POISON || sl_reached(was, sequence))
            continue;
        /* Unless it becomes ready at this very moment: then it is whole. */
        lost += atomic_compare_exchange_strong(&ring->words.ready[s], &was, SL_POISON);
    }
    return lost;
}
