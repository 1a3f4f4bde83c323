/* SPDX-License-Identifier: MIT
 *
 * Send and fetch on a GPU: from and into every kind of memory, in every layout.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "gpu/fixtures.h"
#include "os/os.h"

#define ROWS    37
#define COLUMNS 53

/* ---- every kind of memory ---- */

TEST_TIMEOUT(bytes_of_every_kind, 60)
{
    gpu_begin();
    struct fixture fixture = fixture_bytes(LARGE);

    for (int kind = 0; kind < KINDS; kind++) {
        for (int on_stream = 0; on_stream < 2; on_stream++) {
            struct sluice_stream stream = on_stream ? fixture.stream : SLUICE_ON_CPU;
            struct sluice_ticket ticket = { 0 };
            struct memory memory = memory_make(kind, LARGE);
            char *bytes = pattern(LARGE, (unsigned)(kind * 2 + on_stream)), *back = calloc(1, LARGE);
            NOTE("%s, %s", kind_names[kind], on_stream ? "on a stream" : "on the CPU");

            memory_put(&memory, bytes);
            struct sluice_array array = bytes_at(memory.at, LARGE);
            CHECK_OK(sluice_writer_send(fixture.writer, &array, 1, stream, &ticket));
            CHECK_OK(sluice_ticket_wait(ticket, 20 * SLUICE_S));
            CHECK_OK(sluice_ticket_query(ticket));
            fixture_check(&fixture, bytes, LARGE);

            CHECK_OK(sluice_writer_send(fixture.writer, &array, 1, stream, &ticket));
            struct sluice_frame frame = fixture_acquire(&fixture);
            CHECK_OK(sluice_ticket_wait(ticket, 20 * SLUICE_S));
            memory_put(&memory, back); /* zeros */
            CHECK_OK(sluice_reader_fetch(fixture.reader, &frame, &array, 1, stream, &ticket));
            CHECK_OK(sluice_ticket_wait(ticket, 20 * SLUICE_S));
            memory_get(back, &memory);
            CHECK_MEM(back, bytes, LARGE);
            CHECK_OK(sluice_reader_release(fixture.reader, &frame, SLUICE_ON_CPU));
            memory_drop(&memory);
            free(bytes);
            free(back);
        }
    }
    fixture_end(&fixture);
}

/* ---- every layout ---- */

struct layout {
    const char *name;
    int64_t first; /* of its elements, in bytes */
    int64_t strides[2];
};

#define PITCH (COLUMNS * 4 + 24)
static const struct layout layouts[] = {
    { "rows apart", 8, { PITCH, 4 } },
    { "transposed", 0, { 4, ROWS * 4 } },
    { "upside down", (ROWS - 1) * PITCH, { -PITCH, 4 } },
    { "mirrored", (COLUMNS - 1) * 4, { PITCH, -4 } },
    { "each second column", 0, { PITCH * 2, 8 } },
    { "one row again and again", 0, { 0, 4 } },
};
#define LAYOUTS     (sizeof layouts / sizeof *layouts)
#define LAYOUT_SIZE (ROWS * PITCH * 2)

static struct sluice_array laid_out(const struct layout *layout, char *at)
{
    static const int64_t shape[] = { ROWS, COLUMNS };
    struct sluice_array array;

    CHECK_OK(sluice_array_wrap(&array, "data", at + layout->first, F32, 2, shape, layout->strides));
    return array;
}

static void send_and_fetch(struct fixture *fixture, const struct layout *layout, enum kind kind,
                           struct sluice_stream stream)
{
    static const int64_t shape[] = { ROWS, COLUMNS };
    struct memory memory = memory_make(kind, LAYOUT_SIZE);
    char *bytes = pattern(LAYOUT_SIZE, kind), *expected = calloc(1, ROWS * COLUMNS * 4);
    struct sluice_array array = laid_out(layout, memory.at), tight, here = laid_out(layout, bytes);
    NOTE("%s, %s", kind_names[kind], layout->name);

    CHECK_OK(sluice_array_wrap(&tight, "data", expected, F32, 2, shape, NULL));
    CHECK_OK(sluice_array_copy(&tight, &here));
    memory_put(&memory, bytes);
    CHECK_OK(sluice_writer_send(fixture->writer, &array, 1, stream, NULL));
    struct sluice_frame frame = fixture_acquire(fixture);
    struct sluice_array slot;
    char *got = calloc(1, LAYOUT_SIZE);
    CHECK_OK(sluice_frame_array(&frame, NULL, &slot));
    copy_out(got, slot.data, slot.nbytes);
    CHECK_MEM(got, expected, slot.nbytes);

    /* And back, unless elements of the destination overlap. */
    if (layout->strides[0] != 0) {
        memset(bytes, 0, LAYOUT_SIZE);
        memory_put(&memory, bytes);
        CHECK_OK(sluice_array_copy(&here, &tight));
        CHECK_OK(sluice_reader_fetch(fixture->reader, &frame, &array, 1, stream, NULL));
        memory_get(got, &memory);
        CHECK_MEM(got, bytes, LAYOUT_SIZE); /* also the bytes in between */
    } else {
        CHECK_RESULT(sluice_reader_fetch(fixture->reader, &frame, &array, 1, stream, NULL), SLUICE_E_INVALID);
    }
    CHECK_OK(sluice_reader_release(fixture->reader, &frame, SLUICE_ON_CPU));
    memory_drop(&memory);
    free(bytes);
    free(expected);
    free(got);
}

TEST_TIMEOUT(every_layout, 60)
{
    static const int64_t shape[] = { ROWS, COLUMNS };

    gpu_begin();
    struct fixture fixture = fixture_tensor(F32, 2, shape);
    for (size_t i = 0; i < LAYOUTS; i++)
        for (int kind = 0; kind < KINDS; kind++)
            send_and_fetch(&fixture, &layouts[i], kind, kind % 2 ? SLUICE_ON_CPU : fixture.stream);
    fixture_end(&fixture);
}

/* What was found out about an array is reused for the next one like it: at other addresses, and with others in between.
 * */
TEST_TIMEOUT(sends_that_are_alike, 60)
{
    static const int64_t shape[] = { ROWS, COLUMNS }, fewer[] = { ROWS - 5, COLUMNS };
    char *bytes = pattern(2 * LAYOUT_SIZE, 1), *expected = calloc(1, ROWS * COLUMNS * 4),
         *got = calloc(1, ROWS * COLUMNS * 4);
    gpu_begin();
    struct fixture fixture = fixture_tensor(F32, 2, shape);
    struct memory memory = memory_make(OF_GPU, 2 * LAYOUT_SIZE);

    memory_put(&memory, bytes);
    for (size_t i = 0; i < 12 * LAYOUTS; i++) {
        const struct layout *layout = &layouts[i / 12];
        size_t place = i % 3 * LAYOUT_SIZE / 2;
        const int64_t *shape_now = i % 12 == 5 ? fewer : shape;
        struct sluice_array array = laid_out(layout, memory.at + place), here = laid_out(layout, bytes + place), tight,
                            slot;
        NOTE("%s, %zu", layout->name, i % 12);
        array.shape[0] = here.shape[0] = shape_now[0];
        CHECK_OK(sluice_array_wrap(&tight, "data", expected, F32, 2, shape_now, NULL));
        CHECK_OK(sluice_array_copy(&tight, &here));
        CHECK_OK(sluice_writer_send(fixture.writer, &array, 1, i % 2 ? fixture.stream : SLUICE_ON_CPU, NULL));
        struct sluice_frame frame = fixture_acquire(&fixture);
        CHECK_OK(sluice_frame_array(&frame, NULL, &slot));
        CHECK_EQ(slot.shape[0], shape_now[0]);
        copy_out(got, slot.data, slot.nbytes);
        CHECK_MEM(got, expected, slot.nbytes);
        CHECK_OK(sluice_reader_release(fixture.reader, &frame, SLUICE_ON_CPU));
    }
    /* Memory of the slot itself is not copied; that must not affect the next send. */
    for (int i = 0; i < 2; i++) {
        struct sluice_frame frame;
        struct sluice_array array, slot;
        CHECK_OK(sluice_writer_begin(fixture.writer, SLUICE_DEFAULT, &frame));
        CHECK_OK(sluice_frame_array(&frame, NULL, &array));
        CHECK_OK(sluice_writer_cancel(fixture.writer, &frame, SLUICE_ON_CPU));
        CHECK_OK(sluice_array_wrap(&array, "data", i ? memory.at : array.data, F32, 2, shape, NULL));
        CHECK_OK(sluice_writer_send(fixture.writer, &array, 1, fixture.stream, NULL));
        frame = fixture_acquire(&fixture);
        CHECK_OK(sluice_frame_array(&frame, NULL, &slot));
        copy_out(got, slot.data, slot.nbytes);
        CHECK_OK(sluice_reader_release(fixture.reader, &frame, SLUICE_ON_CPU));
    }
    CHECK_MEM(got, bytes, ROWS * COLUMNS * 4);
    memory_drop(&memory);
    fixture_end(&fixture);
    free(bytes);
    free(expected);
    free(got);
}

TEST(planes_of_an_image)
{
    struct sluice_format format = SLUICE_FORMAT_INIT;
    size_t size = 256 * 96;

    gpu_begin();
    format.pitch_align = 256;
    CHECK_OK(sluice_format_add_image(&format, "image", SLUICE_PIXEL_NV12, 160, 64));
    CHECK_OK(sluice_format_complete(&format));
    struct fixture fixture = fixture_begin(&format);
    for (int kind = 0; kind < KINDS; kind++) {
        struct memory memory = memory_make(kind, size);
        char *bytes = pattern(size, 7), *got = calloc(1, size);
        struct sluice_array image = format.arrays[0];
        NOTE("%s", kind_names[kind]);
        /* Rows of 200 bytes here, of 256 in the slot. */
        image.image.planes[0].pitch = image.image.planes[1].pitch = 200;
        image.image.planes[1].offset = 200 * 64;
        image.ndim = 1;
        image.shape[0] = image.nbytes = 200 * 96;
        image.strides[0] = 1;
        image.data = memory.at;
        memory_put(&memory, bytes);
        CHECK_OK(sluice_writer_send(fixture.writer, &image, 1, SLUICE_ON_CPU, NULL));
        struct sluice_frame frame = fixture_acquire(&fixture);
        struct sluice_array slot;
        CHECK_OK(sluice_frame_array(&frame, NULL, &slot));
        copy_out(got, slot.data, slot.nbytes);
        for (size_t row = 0; row < 96; row++)
            CHECK_MEM(got + row * 256, bytes + row * 200, 160);
        memset(got, 0, size);
        memory_put(&memory, got);
        CHECK_OK(sluice_reader_fetch(fixture.reader, &frame, &image, 1, SLUICE_ON_CPU, NULL));
        memory_get(got, &memory);
        for (size_t row = 0; row < 96; row++) {
            CHECK_MEM(got + row * 200, bytes + row * 200, 160);
            CHECK_EQ(got[row * 200 + 160], 0);
        }
        CHECK_OK(sluice_reader_release(fixture.reader, &frame, SLUICE_ON_CPU));
        memory_drop(&memory);
        free(bytes);
        free(got);
    }
    fixture_end(&fixture);
}

/* Too many pieces for a copy engine: the CPU gathers them where it can. */
TEST(far_too_many_pieces)
{
    int64_t shape[] = { 4, 20000, 2 }, strides[] = { 20000 * 8, 8, -4 };
    size_t size = 4 * 20000 * 8;

    gpu_begin();
    struct fixture fixture = fixture_tensor(F32, 3, shape);
    for (int kind = 0; kind < KINDS; kind++) {
        struct memory memory = memory_make(kind, size);
        char *bytes = pattern(size, 3), *expected = calloc(1, size);
        struct sluice_array array, here, tight;
        NOTE("%s", kind_names[kind]);
        memory_put(&memory, bytes);
        CHECK_OK(sluice_array_wrap(&array, "data", memory.at + 4, F32, 3, shape, strides));
        CHECK_OK(sluice_array_wrap(&here, "data", bytes + 4, F32, 3, shape, strides));
        CHECK_OK(sluice_array_wrap(&tight, "data", expected, F32, 3, shape, NULL));
        CHECK_OK(sluice_array_copy(&tight, &here));
        if (kind < OF_GPU) {
            CHECK_OK(sluice_writer_send(fixture.writer, &array, 1, SLUICE_ON_CPU, NULL));
            fixture_check(&fixture, expected, size);
        } else {
            CHECK_SAYS(sluice_writer_send(fixture.writer, &array, 1, SLUICE_ON_CPU, NULL), SLUICE_E_UNSUPPORTED,
                       "160000 copies");
            CHECK_HAS(sluice_last_error(), "'data'");
        }
        memory_drop(&memory);
        free(bytes);
        free(expected);
    }
    fixture_end(&fixture);
}

TEST(several_arrays_and_an_empty_one)
{
    struct sluice_format format = SLUICE_FORMAT_INIT;
    int64_t one = 4096, none = 0;

    gpu_begin();
    CHECK_OK(sluice_format_add_tensor(&format, "a", U8, 1, &one));
    CHECK_OK(sluice_format_add_tensor(&format, "b", U8, 1, &one));
    CHECK_OK(sluice_format_add_tensor(&format, "c", U8, 1, &one));
    CHECK_OK(sluice_format_complete(&format));
    struct fixture fixture = fixture_begin(&format);
    struct memory plain = memory_make(PLAIN, 4096), gpus = memory_make(OF_GPU, 4096);
    char *bytes = pattern(4096, 1), *other = pattern(4096, 2), got[4096];
    struct sluice_array arrays[3], slot;
    struct sluice_ticket ticket;

    memory_put(&plain, bytes);
    memory_put(&gpus, other);
    CHECK_OK(sluice_array_wrap(&arrays[0], "b", plain.at, U8, 1, &one, NULL));
    CHECK_OK(sluice_array_wrap(&arrays[1], "c", NULL, U8, 1, &none, NULL));
    CHECK_OK(sluice_array_wrap(&arrays[2], "a", gpus.at, U8, 1, &one, NULL));
    CHECK_OK(sluice_writer_send(fixture.writer, arrays, 3, fixture.stream, &ticket));
    CHECK_OK(sluice_ticket_wait(ticket, 20 * SLUICE_S));
    struct sluice_frame frame = fixture_acquire(&fixture);
    CHECK_OK(sluice_frame_array(&frame, "a", &slot));
    copy_out(got, slot.data, 4096);
    CHECK_MEM(got, other, 4096);
    CHECK_OK(sluice_frame_array(&frame, "b", &slot));
    copy_out(got, slot.data, 4096);
    CHECK_MEM(got, bytes, 4096);
    CHECK_OK(sluice_frame_array(&frame, "c", &slot));
    CHECK_EQ(slot.nbytes, 0);
    CHECK_OK(sluice_reader_release(fixture.reader, &frame, SLUICE_ON_CPU));
    memory_drop(&plain);
    memory_drop(&gpus);
    free(bytes);
    free(other);
    fixture_end(&fixture);
}

/* ---- memory of other allocators ---- */

#define PIECE ((size_t)2 << 20)

static void map_piece(uint64_t *address, uint64_t wish)
{
    struct sl_cu_allocation what = { .type = SL_CU_ALLOCATION_PINNED, .location = { SL_CU_LOCATION_DEVICE, 0 } };
    struct sl_cu_access who = { .location = what.location, .flags = SL_CU_ACCESS_READ_WRITE };
    uint64_t handle;

    CU(MemCreate, &handle, PIECE, &what, 0);
    CU(MemAddressReserve, address, PIECE, 0, wish, 0);
    CU(MemMap, *address, PIECE, 0, handle, 0);
    CU(MemRelease, handle);
    CU(MemSetAccess, *address, PIECE, &who, 1);
}

static void unmap_piece(uint64_t address)
{
    CU(MemUnmap, address, PIECE);
    CU(MemAddressFree, address, PIECE);
}

/* Maps two allocations next to each other, if the driver places them as asked. The fake one does, and sees them as one
 * unless its memory is apart. */
static bool map_two(uint64_t *first, uint64_t *second)
{
    for (int i = 0; i < 20; i++) { /* another thread may take the addresses */
        void *room = mmap(NULL, 3 * PIECE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        CHECK(room != MAP_FAILED);
        CHECK_EQ(munmap(room, 3 * PIECE), 0);
        map_piece(first, ((uintptr_t)room + PIECE - 1) / PIECE * PIECE); /* a driver may require its own granularity */
        map_piece(second, *first + PIECE);
        bool apart = gpu_is_fake() && !sl_os_readable((const void *)(uintptr_t)*first);
        if (apart || *second == *first + PIECE)
            return !apart;
        if (!gpu_is_fake())
            return false;
        unmap_piece(*first);
        unmap_piece(*second);
    }
    FAIL("there are no addresses for two pieces");
}

/* As PyTorch's expandable segments: mapped to an address, without a context, in two pieces, either of which may be
 * gone. */
TEST(memory_that_is_mapped)
{
    uint64_t first, second;

    gpu_begin();
    gpu_use(0);
    bool two = map_two(&first, &second);
    size_t size = (two ? 2 : 1) * PIECE - 4096;
    struct fixture fixture = fixture_bytes((int64_t)size);
    char *bytes = pattern(size, 5), *got = calloc(1, size);
    struct memory memory = { .kind = OF_GPU, .at = (char *)(uintptr_t)first + 4096, .size = size };
    memory_put(&memory, bytes);
    struct sluice_array array = bytes_at(memory.at, (int64_t)size);
    for (int i = 0; i < 2; i++) {
        CHECK_OK(sluice_writer_send(fixture.writer, &array, 1, i ? fixture.stream : SLUICE_ON_CPU, NULL));
        fixture_check(&fixture, bytes, size);
    }
    CHECK_OK(sluice_writer_send(fixture.writer, &array, 1, SLUICE_ON_CPU, NULL));
    struct sluice_frame frame = fixture_acquire(&fixture);
    memory_put(&memory, got);
    CHECK_OK(sluice_reader_fetch(fixture.reader, &frame, &array, 1, SLUICE_ON_CPU, NULL));
    memory_get(got, &memory);
    CHECK_MEM(got, bytes, size);
    CHECK_OK(sluice_reader_release(fixture.reader, &frame, SLUICE_ON_CPU));
    unmap_piece(second);
    if (two)
        CHECK_SAYS(sluice_writer_send(fixture.writer, &array, 1, SLUICE_ON_CPU, NULL), SLUICE_E_INVALID,
                   "its memory ends after");
    unmap_piece(first);
    CHECK_SAYS(sluice_writer_send(fixture.writer, &array, 1, SLUICE_ON_CPU, NULL), SLUICE_E_INVALID,
               two ? "there is no memory at" : "freed since");
    free(bytes);
    free(got);
    fixture_end(&fixture);
}
