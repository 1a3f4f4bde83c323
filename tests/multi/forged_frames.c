/* SPDX-License-Identifier: MIT
 *
 * Frames written by hand: false headers, shapes and heads.
 */
#include <string.h>

#include "multi/raw.h"

static struct sl_record *record_of(struct fake *fake, uint32_t slot)
{
    return (struct sl_record *)((char *)fake->control + sizeof *fake->control + slot * SL_NATIVE_STRIDE);
}

/* A correct frame in a slot, not published yet. */
static struct sl_record *make_record(struct fake *fake, uint32_t slot, uint64_t sequence)
{
    struct sl_record *record = record_of(fake, slot);

    memset(record, 0, sizeof *record);
    record->sequence = sequence;
    record->generation = record->memory = 1;
    record->offset = slot * fake->format.slot_bytes;
    record->commit_ns = record->capture_ns = test_now();
    record->array_count = 1;
    sl_geometry_from_array(&record->arrays[0], &fake->format.arrays[0]);
    return record;
}

static void publish(struct fake *fake, uint32_t slot, uint64_t sequence)
{
    sl_store(&fake->control->ready[slot], sequence, release);
    sl_store(&fake->control->slot_seq[slot], sequence, release);
    sl_store(&fake->control->head, sl_head_pack(sequence, slot), seq_cst);
}

static sluice_reader *open_on_fake(struct fake *fake, uint32_t mode)
{
    test_dir();
    fake_start(fake);
    sluice_reader *reader = kit_reader("cam", mode);
    CHECK_SOON(atomic_load(&fake->connections) == 1, 2);
    return reader;
}

TEST(a_damaged_header_of_a_frame_is_refused)
{
    for (uint32_t mode = SLUICE_NEWEST; mode <= SLUICE_IN_ORDER; mode++) {
        struct fake fake = { 0 };
        sluice_reader *reader = open_on_fake(&fake, mode);
        struct sluice_frame frame;
        uint64_t sequence = 1;

        for (int i = 0; i < 8; i++) {
            struct sl_record *record = make_record(&fake, 2, sequence);
            switch (i) {
            case 0: record->sequence++; break;
            case 1: record->generation = 9; break;
            case 2: record->array_count = 2; break;
            case 3: record->array_count = UINT32_MAX; break;
            case 4: record->meta_size = SLUICE_MAX_META + 1; break;
            case 5: record->offset = fake.memory_size - 8; break;
            case 6: record->offset = UINT64_MAX - 4; break;
            case 7: record->memory = 77; break; /* which never arrives */
            }
            publish(&fake, 2, sequence);
            int r = sluice_reader_acquire(reader, SLUICE_ON_CPU, 20 * SLUICE_MS, &frame);
            if (i < 7)
                CHECK_SAYS(r, SLUICE_E_PROTOCOL, "is damaged");
            else
                CHECK_SAYS(r, SLUICE_AGAIN, "has not come yet");
            CHECK_EQ(sl_load(&fake.page->lease[2], acquire), 0); /* nothing is held */
            CHECK_EQ(kit_reader_stats(reader).held, 0);
            if (mode == SLUICE_NEWEST)
                sequence++;
        }
        make_record(&fake, 2, sequence);
        publish(&fake, 2, sequence);
        CHECK_OK(sluice_reader_acquire(reader, SLUICE_ON_CPU, 20 * SLUICE_S, &frame));
        CHECK_OK(sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
        CHECK_OK(sluice_reader_close(&reader));
        fake_stop(&fake);
    }
}

TEST(damaged_shapes_are_refused_when_they_are_asked_for)
{
    struct fake fake = { 0 };
    sluice_reader *reader = open_on_fake(&fake, SLUICE_NEWEST);
    struct sluice_array array = { .data = NULL };
    struct sluice_frame frame;

    make_record(&fake, 1, 1);
    publish(&fake, 1, 1);
    CHECK_OK(sluice_reader_acquire(reader, SLUICE_ON_CPU, 20 * SLUICE_S, &frame));
    for (int i = 0; i < 8; i++) { /* it changes during the call, too */
        struct sl_record *record = make_record(&fake, 1, 1);
        struct sl_geometry *g = &record->arrays[0];
        switch (i) {
        case 0: g->offset = fake.memory_size; break;
        case 1: g->nbytes = UINT64_MAX; break;
        case 2: g->ndim = 9; break;
        case 3: g->ndim = -1; break;
        case 4: g->shape[0] = 1 << 20; break;
        case 5: g->shape[0] = -5; break;
        case 6: g->strides[0] = 1 << 20; break;
        case 7:
            g->shape[0] = INT64_MAX;
            g->strides[0] = INT64_MAX;
            break;
        }
        CHECK_RESULT(sluice_frame_array(&frame, NULL, &array), SLUICE_E_PROTOCOL);
        CHECK_RESULT(sluice_frame_array_at(&frame, 0, &array), SLUICE_E_PROTOCOL);
        CHECK(array.data == NULL);
    }
    /* An array that is not an image has no planes, whatever the record says. */
    struct sl_record *record = make_record(&fake, 1, 1);
    record->arrays[0].plane_count = 77;
    record->arrays[0].width = 70000;
    CHECK_OK(sluice_frame_array(&frame, "data", &array));
    CHECK_EQ(array.image.plane_count, 0);
    CHECK_EQ(array.image.width, 0);
    CHECK_OK(sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
    CHECK_OK(sluice_reader_close(&reader));
    fake_stop(&fake);
}

TEST(a_head_that_lies_leads_nowhere)
{
    for (uint32_t mode = SLUICE_NEWEST; mode <= SLUICE_IN_ORDER; mode++) {
        struct fake fake = { 0 };
        sluice_reader *reader = open_on_fake(&fake, mode);
        struct sluice_frame frame;
        static const uint64_t heads[] = { 0x108, 0x1ff, 0x180, UINT64_MAX, 0xff, 0 };

        for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
            sl_store(&fake.control->head, heads[i], seq_cst);
            int64_t began = test_now();
            CHECK_RESULT(sluice_reader_acquire(reader, SLUICE_ON_CPU, 20 * SLUICE_MS, &frame), SLUICE_TIMEOUT);
            CHECK_LE(test_now() - began, 10 * SLUICE_S);
        }
        /* A frame in no slot, or in another than it claims: tried again and again, within the timeout. */
        sl_store(&fake.control->head, sl_head_pack(5, 3), seq_cst);
        sl_store(&fake.control->ready[3], 5, seq_cst);
        int64_t began = test_now();
        CHECK_RESULT(sluice_reader_acquire(reader, SLUICE_ON_CPU, 50 * SLUICE_MS, &frame), SLUICE_AGAIN);
        CHECK_LE(test_now() - began, 10 * SLUICE_S);
        CHECK_RESULT(sluice_reader_acquire(reader, SLUICE_ON_CPU, 0, &frame), SLUICE_AGAIN);
        for (uint32_t s = 0; s < SL_MAX_IDS; s++)
            CHECK_EQ(sl_load(&fake.page->lease[s], acquire), 0);
        /* One that is not ready: waited for, within the timeout. */
        make_record(&fake, 3, 5);
        publish(&fake, 3, 5);
        sl_store(&fake.control->ready[3], 4, seq_cst);
        CHECK_RESULT(sluice_reader_acquire(reader, SLUICE_ON_CPU, 20 * SLUICE_MS, &frame), SLUICE_TIMEOUT);
        sl_store(&fake.control->ready[3], UINT64_C(1) << 62, seq_cst); /* poisoned */
        CHECK_RESULT(sluice_reader_acquire(reader, SLUICE_ON_CPU, 20 * SLUICE_MS, &frame), SLUICE_TIMEOUT);
        make_record(&fake, 3, 6); /* lost for ever, but not the frames after it */
        publish(&fake, 3, 6);
        CHECK_OK(sluice_reader_acquire(reader, SLUICE_ON_CPU, 20 * SLUICE_S, &frame));
        CHECK_EQ(frame.sequence, 6);
        struct sluice_reader_stats stats = { .size = sizeof stats };
        CHECK_OK(sluice_reader_stats(reader, &stats));
        CHECK_EQ(stats.lost, mode == SLUICE_IN_ORDER);
        CHECK_OK(sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
        CHECK_OK(sluice_reader_close(&reader));
        fake_stop(&fake);
    }
}

TEST(memories_that_are_taken_back_under_a_frame_stay)
{
    struct fake fake = { 0 };
    sluice_reader *reader = open_on_fake(&fake, SLUICE_NEWEST);
    struct sluice_array array;
    struct sluice_frame frame;

    make_record(&fake, 1, 1);
    memset(fake.memory, 0, fake.memory_size);
    publish(&fake, 1, 1);
    CHECK_OK(sluice_reader_acquire(reader, SLUICE_ON_CPU, 20 * SLUICE_S, &frame));
    sl_store(&fake.control->oldest_memory, 1000, seq_cst); /* false: a frame of it is held */
    struct sluice_frame other;
    CHECK_RESULT(sluice_reader_acquire(reader, SLUICE_ON_CPU, 0, &other), SLUICE_E_LIMIT);
    CHECK_OK(sluice_frame_array(&frame, NULL, &array));
    CHECK_EQ(((const char *)array.data)[100], 0);
    CHECK_OK(sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
    make_record(&fake, 1, 2);
    publish(&fake, 1, 2); /* in a memory that is gone now */
    CHECK_RESULT(sluice_reader_acquire(reader, SLUICE_ON_CPU, 20 * SLUICE_MS, &frame), SLUICE_AGAIN);
    CHECK_OK(sluice_reader_close(&reader));
    fake_stop(&fake);
}
