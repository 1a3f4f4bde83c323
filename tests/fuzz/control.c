/* SPDX-License-Identifier: MIT
 *
 * Shared pages with any contents: a reader looks for frames in a control page that a hostile writer made, a writer
 * looks for a slot among pages that hostile readers made. Each page is in memory of exactly its size.
 */
#include "fuzz.h"
#include "native/protocol/lease.h"
#include "native/protocol/ring.h"
#include "native/wire/message.h"

#define MOST_TAKES 32

static struct sl_page page_of(struct sl_reader_page *page)
{
    return (struct sl_page){
        .lease = page->lease,
        .lease_ns = page->lease_ns,
        .cursor = &page->cursor,
        .want = &page->want,
        .want_fd = &page->want_fd,
        .bell = &page->bell,
        .evicted = &page->evicted,
        .taken = &page->taken,
        .missed = &page->missed,
        .last = &page->last,
        .latency_ns = &page->latency_ns,
    };
}

/* Plausible words: small sequences in a few slots, as a writer would have them. */
static void take_words(struct input *input, struct sl_control *control, uint32_t ids)
{
    for (unsigned n = take_byte(input) % 32; n > 0; n--) {
        uint8_t kind = take_byte(input);
        uint32_t slot = take_byte(input) % ids;
        uint64_t sequence = take_number(input);
        switch (kind % 4) {
        case 0: atomic_store(&control->slot_seq[slot], sequence); break;
        case 1: atomic_store(&control->ready[slot], sequence); break;
        case 2: atomic_store(&control->head, kind & 4 ? sequence : sl_head_pack(sequence, slot)); break;
        default: /* a whole frame */
            atomic_store(&control->slot_seq[slot], sequence);
            atomic_store(&control->ready[slot], sequence);
            atomic_store(&control->head, sl_head_pack(sequence, slot));
            break;
        }
    }
}

static void read_frames(struct input *input, struct sl_control *control, struct sl_reader_page *page, uint32_t ids)
{
    uint8_t how = take_byte(input);
    struct sl_lease lease = {
        .words = { .head = &control->head, .slot_seq = control->slot_seq, .ready = control->ready, .ids = ids },
        .page = page_of(page),
        .mode = how & 1 ? SLUICE_IN_ORDER : SLUICE_NEWEST,
        .every = 1 + how / 2 % 4u,
    };

    for (int i = 0; i < MOST_TAKES && input->left; i++) {
        uint64_t sequence = 0;
        take_words(input, control, ids);
        (void)sl_lease_look(&lease.words, lease.mode, sl_lease_want(&lease));
        int slot = sl_lease_take(&lease, &sequence);
        REQUIRE(slot < (int)ids && slot >= SL_LEASE_SOON);
        if (slot < 0)
            continue;
        REQUIRE(atomic_load(&page->lease[slot]) == sequence);
        REQUIRE(atomic_load(&control->slot_seq[slot]) == sequence);
        touch((char *)control + control->header_size + (size_t)slot * control->record_stride, SL_NATIVE_STRIDE);
        if (take_byte(input) & 1)
            sl_lease_keep(&lease, sequence);
        sl_lease_end(&lease, (uint32_t)slot);
        REQUIRE(atomic_load(&page->lease[slot]) == 0);
    }
}

static void check_control(struct input *input)
{
    struct sl_msg_welcome welcome = { .magic = SL_NATIVE_MAGIC };
    uint32_t n = 1 + take_byte(input) % (SL_MAX_IDS + 6), ids, kind; /* a few more than the limit */
    struct sl_control *control;
    struct sl_reader_page *page = calloc(1, sizeof *page);

    welcome.version = SLUICE_WIRE_VERSION_MAX;
    welcome.session = 1;
    welcome.max_slots = 8;
    welcome.control_size = sl_native_control_size(n, 1) - take_byte(input) % 2;
    welcome.page_size = sizeof *page;
    control = calloc(1, welcome.control_size);
    REQUIRE(control && page && sl_welcome_check(&welcome) == 0);
    control->magic = SL_NATIVE_MAGIC;
    control->version = SLUICE_WIRE_VERSION_MAX;
    control->header_size = sizeof *control;
    control->session = 1;
    control->ids = n;
    control->record_stride = SL_NATIVE_STRIDE;
    control->meta_offset = SL_NATIVE_META_OFFSET;
    control->meta_capacity = SLUICE_MAX_META;
    control->memory_kind = SL_MEM_HOST;
    take_patches(input, control, 0x40);
    if (sl_control_check(control, &welcome, &ids, &kind) == 0) {
        REQUIRE(ids >= 1 && ids <= SL_MAX_IDS && sl_mem_of_kind(kind));
        REQUIRE(sizeof *control + (uint64_t)ids * SL_NATIVE_STRIDE <= welcome.control_size);
        take(input, page, take_byte(input) % 64 * 16u);
        take_patches(input, control, sizeof *control);
        control->header_size = sizeof *control; /* checked once, then not read again */
        control->record_stride = SL_NATIVE_STRIDE;
        read_frames(input, control, page, ids);
    }
    free(page);
    free(control);
}

static void write_frames(struct input *input)
{
    enum { READERS = 3, SLOTS = 5 };
    struct sl_control *control = calloc(1, sizeof *control);
    struct sl_reader_page *pages[READERS];
    struct sl_reader_slot readers[READERS] = { { .mode = 0 } };
    struct sl_ring ring = { .used = SLOTS };
    uint64_t sequence = 0;

    REQUIRE(control);
    ring.words = (struct sl_words){
        .head = &control->head, .slot_seq = control->slot_seq, .ready = control->ready, .ids = SL_MAX_IDS
    };
    for (int i = 0; i < SLOTS; i++)
        ring.slots[i].state = SL_SLOT_IDLE;
    for (int i = 0; i < READERS; i++) {
        pages[i] = calloc(1, sizeof *pages[i]);
        REQUIRE(pages[i]);
        readers[i] = (struct sl_reader_slot){ .page = page_of(pages[i]),
                                              .mode = take_byte(input) % 2,
                                              .depth = take_byte(input) };
    }
    while (input->left) {
        uint8_t what = take_byte(input);
        bool stolen = false;
        for (unsigned n = what / 16; n > 0; n--) {
            struct sl_reader_page *page = pages[n % READERS];
            uint8_t where = take_byte(input);
            atomic_store(where & 128 ? &page->cursor : &page->lease[where % SLOTS], take_number(input));
        }
        int slot = sl_ring_take(&ring, readers, READERS, (enum sl_keep)(what % 3), &stolen);
        REQUIRE(slot >= -1 && slot < SLOTS);
        if (slot < 0)
            continue;
        REQUIRE(ring.slots[slot].state == SL_SLOT_BEGUN && atomic_load(&control->slot_seq[slot]) == SL_MARK);
        REQUIRE(ring.head_sequence == 0 || slot != (int)ring.head_slot);
        if (what & 8)
            sl_ring_cancel(&ring, (uint32_t)slot);
        else {
            atomic_store(&control->ready[slot], ++sequence);
            sl_ring_publish(&ring, (uint32_t)slot, sequence);
        }
    }
    for (int i = 0; i < READERS; i++)
        free(pages[i]);
    free(control);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = { data, size };

    if (take_byte(&input) % 3 == 0)
        write_frames(&input);
    else
        check_control(&input);
    return 0;
}
