/* SPDX-License-Identifier: MIT
 *
 * Hostile writers that admit readers, and write what they like into what they share with them.
 */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "hostile/attacker.h"

static struct fake fake;

static struct sl_record *record_of(uint32_t slot)
{
    return (struct sl_record *)((char *)fake.control + sizeof *fake.control + slot * SL_NATIVE_STRIDE);
}

/* A valid frame, in slot q % 8. */
static void publish(uint64_t q)
{
    uint32_t slot = (uint32_t)q % 8;
    struct sl_record *record = record_of(slot);

    memset(record, 0, sizeof *record);
    record->sequence = q;
    record->generation = record->memory = 1;
    record->offset = slot * fake.format.slot_bytes;
    record->commit_ns = record->capture_ns = test_now();
    record->array_count = 1;
    sl_geometry_from_array(&record->arrays[0], &fake.format.arrays[0]);
    sl_store(&fake.control->slot_memory[slot], 1, release);
    sl_store(&fake.control->ready[slot], q, release);
    sl_store(&fake.control->slot_seq[slot], q, release);
    sl_store(&fake.control->head, sl_head_pack(q, slot), seq_cst);
    sl_add(&fake.page->bell, 1);
}

/* For two seconds: admits readers, and does `each` again and again. */
static void go_on(void (*each)(uint64_t n))
{
    int64_t since = 0;
    int last = -1;

    fake_listen(&fake);
    for (uint64_t n = 1; attack_lasts(&since, 2000); n++) {
        int connection = fake_accept(&fake, fake.control ? 0 : 20);
        if (connection >= 0) {
            if (last >= 0)
                close(last);
            last = connection;
            fake_answer(&fake, connection);
        }
        if (fake.page)
            each(n);
    }
}

static void one_word(uint64_t n)
{
    size_t words = fake.control_size / 8;
    if (n % 64 == 0)
        publish(n);
    sl_store((sl_word *)(void *)((char *)fake.control + attacker_random() % words * 8), attacker_random(), relaxed);
}

HOSTILE_WRITER(one_word_after_the_other_changes, .refused = 0)
{
    go_on(one_word);
}

static void all_words(uint64_t n)
{
    if (n % 2)
        publish(n);
    else
        attacker_scribble(fake.control, fake.control_size);
}

HOSTILE_WRITER(scribbles_over_the_control_page, .refused = 0)
{
    go_on(all_words);
}

static void heads(uint64_t n)
{
    publish(n);
    sl_store(&fake.control->head,
             n % 3 ? attacker_random() : sl_head_pack(n + attacker_random() % 4, attacker_random() % 16), seq_cst);
    sl_store(&fake.control->slot_seq[attacker_random() % 8], n % 5 ? n : SL_MARK, seq_cst);
    sl_store(&fake.control->ready[attacker_random() % 8], n + attacker_random() % 3, seq_cst);
}

HOSTILE_WRITER(heads_that_lie, .refused = 0)
{
    go_on(heads);
}

/* Valid when it is first read, and something else afterwards. */
static void shapes(uint64_t n)
{
    publish(n);
    struct sl_geometry *g = &record_of((uint32_t)n % 8)->arrays[0];
    for (int i = 0; i < 20; i++) {
        g->offset = attacker_random() % 3 ? 0 : attacker_random();
        g->nbytes = attacker_random() % 3 ? 8192 : attacker_random();
        g->ndim = (int32_t)(attacker_random() % 12) - 2;
        g->shape[0] = (int64_t)(attacker_random() % 3 ? 8192 : attacker_random());
        g->strides[0] = (int64_t)(attacker_random() % 3 ? 1 : attacker_random());
    }
}

HOSTILE_WRITER(geometry_that_changes_under_the_reader, .refused = 0)
{
    go_on(shapes);
}

static void records(uint64_t n)
{
    publish(n);
    attacker_scribble(record_of((uint32_t)n % 8), n % 2 ? sizeof(struct sl_record) : 120);
    record_of((uint32_t)n % 8)->sequence = n; /* so that it gets further */
}

HOSTILE_WRITER(records_of_random_bytes, .refused = 0)
{
    go_on(records);
}

static void readers_page(uint64_t n)
{
    if (n % 8 == 0)
        publish(n);
    attacker_scribble(fake.page, sizeof *fake.page);
}

HOSTILE_WRITER(scribbles_over_the_readers_page, .refused = 0)
{
    go_on(readers_page);
}

static void evictions(uint64_t n)
{
    publish(n);
    sl_store(&fake.page->evicted, n % 2, seq_cst);
    sl_add(&fake.page->bell, 1);
}

HOSTILE_WRITER(evicts_and_takes_it_back, .refused = 0)
{
    go_on(evictions);
}

static void gives_back(uint64_t n)
{
    publish(n);
    sl_store(&fake.control->oldest_memory, (uint32_t)attacker_random() % 4, seq_cst);
    sl_store(&fake.control->slot_memory[attacker_random() % 8], (uint32_t)attacker_random() % 4, seq_cst);
    sl_store(&fake.control->closed, n % 100 == 0, seq_cst);
    sl_store(&fake.control->waiting, n % 2, seq_cst);
}

HOSTILE_WRITER(takes_memory_back_under_the_reader, .refused = 0)
{
    go_on(gives_back);
}

/* The end of the wake socket that the reader was not given. */
static int wake_end = -1;

static void keep_wake(struct fake *f, union sl_message *message, int *fds, int *count)
{
    int pair[2];

    (void)f;
    (void)count;
    if (message->header.type != SL_MSG_WELCOME)
        return;
    if (wake_end >= 0)
        close(wake_end);
    CHECK_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
    close(fds[2]);
    fds[2] = pair[0];
    wake_end = pair[1];
}

static void wakes(uint64_t n)
{
    if (n % 50 == 0)
        publish(n / 50);
    (void)!send(wake_end, "x", n % 2, MSG_DONTWAIT | MSG_NOSIGNAL);
    sl_store(&fake.control->waiting, 1, seq_cst); /* so that the reader sends, too; it is never read */
}

HOSTILE_WRITER(wakes_for_nothing, .refused = 0)
{
    fake.corrupt = keep_wake;
    go_on(wakes);
}
