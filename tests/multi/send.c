/* SPDX-License-Identifier: MIT
 *
 * Copies of a program's own memory, and memory that outlives its frame.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "multi/kit.h"

#define KIB 1024

TEST(send_and_fetch_copy_a_programs_own_arrays)
{
    sluice_writer *writer = kit_writer("cam", 64 * KIB);
    sluice_reader *reader = kit_reader("cam", SLUICE_NEWEST);
    struct sluice_dtype u8 = { SLUICE_UINT, 8, 1 };
    int64_t shape = 64 * KIB;
    unsigned char *from = malloc((size_t)shape), *to = calloc(1, (size_t)shape);
    struct sluice_array array;
    struct sluice_ticket ticket = { 0 };
    struct sluice_frame frame;

    for (int64_t i = 0; i < shape; i++)
        from[i] = (unsigned char)(i * 31 >> 3);
    CHECK_OK(sluice_array_wrap(&array, NULL, from, u8, 1, &shape, NULL));
    CHECK_OK(sluice_writer_send(writer, &array, 1, SLUICE_ON_CPU, &ticket));
    CHECK_OK(sluice_ticket_wait(ticket, 0));
    CHECK_OK(sluice_reader_acquire(reader, SLUICE_ON_CPU, 20 * SLUICE_S, &frame));
    array.data = to;
    ticket.id = 0;
    CHECK_OK(sluice_reader_fetch(reader, &frame, &array, 1, SLUICE_ON_CPU, &ticket));
    CHECK_OK(sluice_ticket_wait(ticket, 0));
    CHECK_MEM(from, to, (size_t)shape);
    CHECK_EQ(kit_writer_stats(writer).copied_bytes, shape);
    CHECK_OK(sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
    CHECK_RESULT(sluice_reader_fetch(reader, &frame, &array, 1, SLUICE_ON_CPU, NULL), SLUICE_E_STALE);
    free(from);
    free(to);
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&writer));
}

TEST(fetch_takes_the_arrays_that_it_is_asked_for)
{
    struct sluice_format format = SLUICE_FORMAT_INIT;
    struct sluice_writer_params params;
    struct sluice_dtype u8 = { SLUICE_UINT, 8, 1 };
    int64_t shape = KIB;
    unsigned char data[3][KIB], got[KIB];
    struct sluice_array arrays[3];
    struct sluice_frame frame;
    sluice_writer *writer;

    for (int i = 0; i < 3; i++) {
        const char *name = (const char *[]){ "a", "b", "c" }[i];
        CHECK_OK(sluice_format_add_tensor(&format, name, u8, 1, &shape));
        CHECK_OK(sluice_array_wrap(&arrays[i], name, memset(data[i], 'a' + i, KIB), u8, 1, &shape, NULL));
    }
    params = kit_writer_params("cam", &format);
    CHECK_OK(sluice_writer_open(&writer, &params));
    sluice_reader *reader = kit_reader("cam", SLUICE_NEWEST);
    CHECK_SAYS(sluice_writer_send(writer, arrays, 2, SLUICE_ON_CPU, NULL), SLUICE_E_FORMAT,
               "2 arrays were given, a frame has 3: 'c' is missing");
    CHECK_OK(sluice_writer_send(writer, arrays, 3, SLUICE_ON_CPU, NULL));
    CHECK_OK(sluice_reader_acquire(reader, SLUICE_ON_CPU, 20 * SLUICE_S, &frame));
    for (int i = 2; i >= 0; i--) {
        arrays[i].data = got;
        CHECK_OK(sluice_reader_fetch(reader, &frame, &arrays[i], 1, SLUICE_ON_CPU, NULL));
        CHECK_MEM(got, data[i], KIB);
        arrays[i].data = data[i];
    }
    arrays[2].name[0] = '\0';
    arrays[2].data = got;
    CHECK_OK(sluice_reader_fetch(reader, &frame, &arrays[2], 1, SLUICE_ON_CPU, NULL)); /* the first one */
    CHECK_MEM(got, data[0], KIB);
    CHECK_RESULT(sluice_reader_fetch(reader, &frame, &arrays[1], 2, SLUICE_ON_CPU, NULL), SLUICE_E_FORMAT);
    CHECK_RESULT(sluice_reader_fetch(reader, &frame, arrays, 0, SLUICE_ON_CPU, NULL), SLUICE_E_FORMAT);
    arrays[0].data = memset(got, 'z', KIB); /* if one cannot be copied, none is */
    arrays[1].shape[0] = KIB / 2;
    CHECK_SAYS(sluice_reader_fetch(reader, &frame, arrays, 2, SLUICE_ON_CPU, NULL), SLUICE_E_FORMAT, "only the same");
    CHECK_EQ(got[0], 'z');
    CHECK_OK(sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&writer));
}

TEST(send_takes_times_and_metadata_along)
{
    sluice_writer *writer = kit_writer("cam", 1000);
    sluice_reader *reader = kit_reader("cam", SLUICE_NEWEST);
    struct sluice_dtype u8 = { SLUICE_UINT, 8, 1 };
    static unsigned char data[1000], got[1000];
    int64_t shape = sizeof data;
    struct sluice_frame header = { .capture_ns = 777, .capture_clock = SLUICE_CLOCK_MEDIA, .meta_size = 3 }, frame;
    struct sluice_array array;

    header.meta = (void *)(uintptr_t) "abc";
    memset(data, 9, sizeof data);
    CHECK_OK(sluice_array_wrap(&array, NULL, data, u8, 1, &shape, NULL));
    CHECK_OK(sluice_writer_send_frame(writer, &header, &array, 1, SLUICE_ON_CPU, NULL));
    CHECK_EQ(header.sequence, 1);
    CHECK_EQ(header.generation, 1);
    CHECK_EQ(header.session, kit_writer_stats(writer).session);
    CHECK_OK(sluice_reader_acquire(reader, SLUICE_ON_CPU, 20 * SLUICE_S, &frame));
    CHECK_EQ(frame.capture_ns, 777);
    CHECK_EQ(frame.capture_clock, SLUICE_CLOCK_MEDIA);
    CHECK_EQ(frame.meta_size, 3);
    CHECK_MEM(frame.meta, "abc", 3);
    CHECK_EQ(frame.commit_ns, header.commit_ns);
    CHECK_EQ(frame.slot, header.slot);
    CHECK_OK(sluice_frame_array(&frame, NULL, &array));
    kit_get(&array, got);
    CHECK_MEM(got, data, sizeof data);
    CHECK_OK(sluice_reader_release(reader, &frame, SLUICE_ON_CPU));

    /* Without a time it is now, as with send. */
    int64_t before = test_now();
    header = (struct sluice_frame){ .sequence = 0 };
    CHECK_OK(sluice_array_wrap(&array, NULL, data, u8, 1, &shape, NULL));
    CHECK_OK(sluice_writer_send_frame(writer, &header, &array, 1, SLUICE_ON_CPU, NULL));
    CHECK_GE(header.capture_ns, before);
    CHECK_EQ(header.sequence, 2);
    header.meta_size = SLUICE_MAX_META + 1;
    CHECK_RESULT(sluice_writer_send_frame(writer, &header, &array, 1, SLUICE_ON_CPU, NULL), SLUICE_E_LIMIT);
    header.meta_size = 1;
    CHECK(sluice_writer_send_frame(writer, &header, &array, 1, SLUICE_ON_CPU, NULL) < 0); /* at NULL */
    CHECK_RESULT(sluice_writer_send_frame(writer, NULL, &array, 1, SLUICE_ON_CPU, NULL), SLUICE_E_INVALID);
    CHECK_EQ(kit_writer_stats(writer).committed, 2);
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&writer));
}

/* Arrays of other languages may outlive the frame and the writer. */
TEST(pinned_memory_stays_mapped)
{
    sluice_writer *writer = kit_writer("cam", 64 * KIB);
    struct sluice_format format = kit_format(8 * KIB);
    static unsigned char data[64 * KIB];
    struct sluice_array array;
    struct sluice_frame frame;
    sluice_pin *pins[3] = { NULL }, *none = NULL;

    CHECK_OK(sluice_writer_begin(writer, SLUICE_DEFAULT, &frame));
    CHECK_OK(sluice_frame_array(&frame, NULL, &array));
    for (int i = 0; i < 3; i++)
        CHECK_OK(sluice_writer_pin(writer, &frame, &pins[i]));
    CHECK_EQ(array.nbytes, sizeof data);
    kit_put(&array, memset(data, 5, sizeof data));
    CHECK_OK(sluice_writer_commit(writer, &frame, SLUICE_ON_CPU));
    CHECK_RESULT(sluice_writer_pin(writer, &frame, &none), SLUICE_E_STALE);
    CHECK_RESULT(sluice_writer_pin(writer, &frame, NULL), SLUICE_E_INVALID);
    CHECK_OK(sluice_writer_reformat(writer, &format));
    kit_commits(writer, 1);
    kit_commits(writer, 1); /* the old generation is gone */
    CHECK_EQ(kit_byte(&array, array.nbytes - 1), 5);
    CHECK_OK(sluice_pin_drop(&pins[0]));
    CHECK(pins[0] == NULL);
    CHECK_OK(sluice_writer_close(&writer));
    CHECK_EQ(kit_byte(&array, 100), 5);
    kit_put(&array, memset(data, 6, sizeof data));
    CHECK_OK(sluice_pin_drop(&pins[1]));
    CHECK_OK(sluice_pin_drop(&pins[2]));
    CHECK_OK(sluice_pin_drop(&pins[2]));
    CHECK_OK(sluice_pin_drop(NULL));
    CHECK_EQ(process_mappings(getpid(), "memfd:sluice"), 0);
}

/* A reader's pin outlives the frame, its generation, and the reader. */
TEST(a_readers_pin_keeps_what_it_pinned)
{
    sluice_writer *writer = kit_writer("cam", 64 * KIB);
    sluice_reader *reader = kit_reader("cam", SLUICE_NEWEST), *other = NULL;
    struct sluice_format format = kit_format(8 * KIB);
    sluice_pin *first = NULL, *second = NULL, *none = NULL;
    struct sluice_array array;
    char device[64], frames_device[64];

    CHECK_OK(sluice_reader_device(reader, device, sizeof device));
    CHECK_RESULT(sluice_reader_device(reader, device, 2), SLUICE_E_LIMIT);
    CHECK_RESULT(sluice_reader_device(reader, NULL, 0), SLUICE_E_INVALID);
    CHECK_EQ(kit_reader_stats(reader).slots, kit_writer_stats(writer).slots);
    CHECK_EQ(kit_reader_stats(reader).generation, 1);

    kit_commits(writer, 1);
    struct sluice_frame frame = kit_take(reader);
    CHECK_OK(sluice_frame_device(&frame, frames_device, sizeof frames_device));
    CHECK_STR(device, frames_device);
    CHECK_OK(sluice_frame_array(&frame, NULL, &array));
    int was = kit_byte(&array, 100);
    CHECK_OK(sluice_reader_pin(reader, &frame, &first));
    CHECK_OK(sluice_reader_pin(reader, &frame, &second));
    CHECK_RESULT(sluice_reader_pin(reader, &frame, NULL), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_reader_pin(reader, NULL, &none), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_reader_pin(other, &frame, &none), SLUICE_E_INVALID);
    CHECK_OK(sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
    CHECK_RESULT(sluice_reader_pin(reader, &frame, &none), SLUICE_E_STALE);

    CHECK_OK(sluice_writer_reformat(writer, &format));
    for (int i = 0; i < 3; i++) { /* the old generation ends */
        kit_commits(writer, 1);
        frame = kit_take(reader);
        CHECK_OK(sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
    }
    CHECK_EQ(kit_reader_stats(reader).generation, 2);
    CHECK_EQ(kit_reader_stats(reader).slots, kit_writer_stats(writer).slots);
    CHECK_EQ(kit_byte(&array, 100), was);
    CHECK_OK(sluice_pin_drop(&first));
    CHECK(first == NULL);
    CHECK_OK(sluice_writer_close(&writer));
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_EQ(kit_byte(&array, 100), was);
    CHECK_OK(sluice_pin_drop(&second));
    CHECK_EQ(process_mappings(getpid(), "memfd:sluice"), 0);
}
