/* SPDX-License-Identifier: MIT
 *
 * A repeated send uses the plan of the one before, on the host, too.
 */
#include <stdint.h>
#include <string.h>

#include <sluice/sluice.h>

#include "channel/channel.h"
#include "harness/test.h"
#include "native/writer/writer.h"

#define BYTES 512

struct fixture {
    sluice_writer *writer;
    sluice_reader *reader;
    struct sl_writer *core; /* of the writer */
};

static struct fixture open_fixture(void)
{
    struct sluice_format format = SLUICE_FORMAT_INIT;
    struct sluice_writer_params wp = SLUICE_WRITER_PARAMS_INIT;
    struct sluice_reader_params rp = SLUICE_READER_PARAMS_INIT;
    struct sluice_dtype u8 = { SLUICE_UINT, 8, 1 };
    struct sluice_writer *base;
    struct fixture fixture;

    test_dir();
    CHECK_OK(sluice_format_add_tensor(&format, "a", u8, 1, (const int64_t[]){ BYTES }));
    wp.name = rp.name = "cam";
    wp.format = &format;
    wp.resize = 1;
    CHECK_OK(sluice_writer_open(&fixture.writer, &wp));
    CHECK_OK(sluice_reader_open(&fixture.reader, &rp));
    CHECK_OK(sl_writer_hold(fixture.writer, &base));
    fixture.core = sl_writer_of(base);
    return fixture;
}

static void close_fixture(struct fixture *fixture)
{
    sl_object_drop(&fixture->core->base.object);
    CHECK_OK(sluice_reader_close(&fixture->reader));
    CHECK_OK(sluice_writer_close(&fixture->writer));
}

static struct sluice_array wrap(void *data, int64_t count, const int64_t *strides)
{
    struct sluice_dtype u8 = { SLUICE_UINT, 8, 1 };
    struct sluice_array array;

    CHECK_OK(sluice_array_wrap(&array, NULL, data, u8, 1, &count, strides));
    return array;
}

static bool is_known(const struct fixture *fixture, const struct sluice_array *array)
{
    return sl_send_cache_is_known(&fixture->core->send_cache, fixture->core->generation, array, 1);
}

static void check_newest(struct fixture *fixture, const unsigned char *expected, int64_t stride)
{
    struct sluice_frame frame;
    struct sluice_array array;

    CHECK_OK(sluice_reader_acquire(fixture->reader, SLUICE_ON_CPU, SLUICE_S, &frame));
    CHECK_OK(sluice_frame_array(&frame, NULL, &array));
    for (int i = 0; i < BYTES; i++)
        CHECK_EQ(((const unsigned char *)array.data)[i], expected[i * stride]);
    CHECK_OK(sluice_reader_release(fixture->reader, &frame, SLUICE_ON_CPU));
}

TEST(a_repeated_send_on_the_host_uses_the_plan_of_the_one_before)
{
    static unsigned char buffers[3][2 * BYTES];
    const int64_t every_other[] = { 2 };
    struct fixture fixture = open_fixture();

    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 2 * BYTES; k++)
            buffers[i][k] = (unsigned char)(k * 7 + i);
    for (int64_t stride = 1; stride <= 2; stride++) {
        for (int i = 0; i < 3; i++) {
            struct sluice_array array = wrap(buffers[i], BYTES, stride == 1 ? NULL : every_other);
            CHECK_EQ(is_known(&fixture, &array), i > 0);
            uint64_t plan = fixture.core->send_cache.number;
            CHECK_OK(sluice_writer_send(fixture.writer, &array, 1, SLUICE_ON_CPU, NULL));
            CHECK(is_known(&fixture, &array));
            CHECK_EQ(fixture.core->send_cache.number, plan + (i == 0));
            check_newest(&fixture, buffers[i], stride);
        }
    }
    CHECK_EQ(fixture.core->copied_bytes, 6 * BYTES);
    close_fixture(&fixture);
}

TEST(a_plan_is_for_its_description_and_generation)
{
    static unsigned char data[2 * BYTES];
    struct fixture fixture = open_fixture();
    struct sluice_array array = wrap(data, BYTES, NULL), shorter = wrap(data, BYTES / 2, NULL);
    struct sluice_array both[] = { array, array };

    CHECK_OK(sluice_writer_send(fixture.writer, &array, 1, SLUICE_ON_CPU, NULL));
    CHECK(is_known(&fixture, &array));
    CHECK(!is_known(&fixture, &shorter));
    CHECK(!sl_send_cache_is_known(&fixture.core->send_cache, fixture.core->generation, both, 2));
    CHECK_OK(sluice_writer_send(fixture.writer, &shorter, 1, SLUICE_ON_CPU, NULL)); /* does not fill the slot */
    CHECK(!is_known(&fixture, &shorter));

    struct sluice_array larger = wrap(data, 2 * BYTES, NULL);
    CHECK_OK(sluice_writer_send(fixture.writer, &larger, 1, SLUICE_ON_CPU, NULL));
    CHECK(is_known(&fixture, &larger));
    CHECK(!is_known(&fixture, &array)); /* of the generation before */
    close_fixture(&fixture);
}

TEST(an_array_in_the_slot_itself_has_no_plan)
{
    static unsigned char data[BYTES];
    struct fixture fixture = open_fixture();
    struct sluice_array array = wrap(data, BYTES, NULL);

    CHECK_OK(sluice_writer_send(fixture.writer, &array, 1, SLUICE_ON_CPU, NULL));
    uint64_t plan = fixture.core->send_cache.number;
    for (uint32_t s = 0; s < fixture.core->slot_count; s++) {
        array.data = fixture.core->slots[s].address; /* one of these sends copies the slot into itself */
        memset(array.data, (int)s, BYTES);
        CHECK(is_known(&fixture, &array));
        CHECK_OK(sluice_writer_send(fixture.writer, &array, 1, SLUICE_ON_CPU, NULL));
        CHECK_EQ(fixture.core->send_cache.number, plan);
    }
    close_fixture(&fixture);
}
