/* SPDX-License-Identifier: MIT
 *
 * Readers of "cipd:" channels that name no GPU: which one they choose where the protocol does not tell.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/cipd_kit.h"
#include "gpu/frames.h"
#include "gpu/pair.h"

/* A writer on the second GPU, which it sees as the first one. */
static struct child start_writer(void)
{
    char uuid[48];

    setenv("CUDA_VISIBLE_DEVICES", gpu_uuid(1, uuid), 1);
    struct child child = cipd_start_writer("3");
    unsetenv("CUDA_VISIBLE_DEVICES");
    return child;
}

static sluice_reader *open_reader(const char *device)
{
    struct sluice_cipd_reader_params cipd;
    struct sluice_reader_params params = cipd_reader_params(&cipd);
    sluice_reader *reader;

    params.device = device;
    CHECK_OK(sluice_reader_open(&reader, &params));
    return reader;
}

static const char *device_of(sluice_reader *reader)
{
    static char name[64];

    CHECK_OK(sluice_reader_device(reader, name, sizeof name));
    return name;
}

/* A frame arrives, whichever GPU the reader is on. */
static void check_frame(sluice_reader *reader, struct child *writer, const char *value)
{
    struct sluice_device device;
    struct sluice_stream stream;
    struct sluice_frame frame;
    const char *name = device_of(reader);

    gpu_use(atoi(name + strlen("cuda:")));
    CHECK_OK(sluice_device_open(&device, name));
    CHECK_OK(sluice_stream_create(device, NULL, &stream));
    frames_warm_up(gpu_native(stream));
    cipd_command(writer, value);
    CHECK_OK(sluice_reader_acquire(reader, stream, 20 * SLUICE_S, &frame));
    CHECK_EQ(cipd_value(&frame, gpu_native(stream)), atoi(value));
    CHECK_OK(sluice_reader_release(reader, &frame, stream));
    CHECK_OK(sluice_device_close(&device));
}

static void end(struct child *writer)
{
    role_stop(writer);
    cipd_clean();
    gpu_end();
}

TEST(reader_takes_the_gpu_that_a_writer_of_ours_tells)
{
    gpu_begin_with(2);
    struct child writer = start_writer();
    sluice_reader *reader = open_reader(NULL);
    CHECK_STR(device_of(reader), "cuda:1");
    check_frame(reader, &writer, "7");
    CHECK_OK(sluice_reader_close(&reader));
    reader = open_reader("cuda:1");
    check_frame(reader, &writer, "8");
    CHECK_OK(sluice_reader_close(&reader));
    end(&writer);
}

/* What the driver says of memory that another GPU owns is a fact about the driver. */
static void record_fact(bool tells)
{
    FILE *facts = gpu_facts();

    fprintf(facts, "{\"fact\": \"the driver tells which GPU a handle's memory lies on\", \"told\": %s}\n",
            tells ? "true" : "false");
    CHECK(fclose(facts) == 0);
}

static void read_from_another_program(bool open_already)
{
    gpu_begin_with(2);
    struct child writer = start_writer();
    sluice_reader *first = NULL;
    cipd_disguise();
    if (open_already)
        first = open_reader("cuda:1"); /* no driver is asked to open it twice */
    sluice_reader *reader = open_reader(NULL);
    bool tells = strcmp(device_of(reader), "cuda:1") == 0;
    if (!first)
        record_fact(tells);
    CHECK(tells || (!gpu_is_fake() && !first)); /* else it is mapped across, as ever */
    check_frame(reader, &writer, "7");
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_reader_close(&first));
    end(&writer);
}

TEST(reader_takes_the_gpu_that_another_programs_handles_lie_on)
{
    read_from_another_program(false);
}

TEST(reader_takes_the_gpu_on_which_handles_are_open_already)
{
    read_from_another_program(true);
}

TEST(reader_takes_the_gpu_of_a_writer_in_its_own_process)
{
    struct sluice_format format = cipd_format(cipd_float32, CIPD_WIDTH, CIPD_HEIGHT);
    struct sluice_cipd_writer_params cipd;
    struct sluice_writer_params params = cipd_writer_params(&cipd, &format);
    sluice_writer *writer;

    gpu_begin_with(2);
    params.device = "cuda:1";
    CHECK_OK(sluice_writer_open(&writer, &params));
    cipd_disguise();
    sluice_reader *reader = open_reader(NULL);
    CHECK_STR(device_of(reader), "cuda:1");
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&writer));
    cipd_clean();
    gpu_end();
}

/* The reader must have a device before there is a writer. */
TEST(reader_without_a_writer_takes_the_first_gpu)
{
    struct sluice_cipd_reader_params cipd;
    struct sluice_reader_params params = cipd_reader_params(&cipd);
    sluice_reader *reader;

    gpu_begin_with(2);
    params.device = NULL;
    params.open_timeout_ns = SLUICE_LATER;
    CHECK_OK(sluice_reader_open(&reader, &params));
    CHECK_STR(device_of(reader), "cuda:0");
    CHECK_OK(sluice_reader_close(&reader));
    params.open_timeout_ns = 20 * SLUICE_MS;
    CHECK_RESULT(sluice_reader_open(&reader, &params), SLUICE_E_NOT_FOUND);
    gpu_end();
}

/* ---- GPUs that are not peers ---- */

/* Opens a reader on a device (none if ""), and prints which one it has, or the error. */
ROLE(alone)
{
    struct sluice_cipd_reader_params cipd;
    struct sluice_reader_params params = cipd_reader_params(&cipd);
    sluice_reader *reader;

    CHECK_EQ(argc, 3);
    gpu_begin();
    params.name = argv[1];
    params.device = argv[2][0] ? argv[2] : NULL;
    if (params.device) /* where there is nothing to read */
        params.open_timeout_ns = 50 * SLUICE_MS;
    int r = sluice_reader_open(&reader, &params);
    role_say("%s: %s", sluice_result_name(r), r ? sluice_last_error() : device_of(reader));
    if (r == 0)
        CHECK_OK(sluice_reader_close(&reader));
    gpu_end();
    return 0;
}

static void look_alone(const char *device, const char *answer)
{
    CHECK(setenv("SLUICE_FAKE_WITHOUT", "peers", 1) == 0);
    struct child child = role_start("alone", cipd_name(), device, NULL);
    unsetenv("SLUICE_FAKE_WITHOUT");
    CHECK_HAS(child_line(&child, 20), answer);
    CHECK_EQ(child_wait(&child, 20), 0);
}

TEST(reader_takes_the_gpu_that_can_open_the_handles)
{
    gpu_begin_with(2);
    if (!gpu_is_fake())
        SKIP("GPUs that are no peers are the fake driver's");
    struct child writer = start_writer();
    cipd_disguise();
    cipd_command(&writer, "1");
    look_alone("", "OK: cuda:1");
    look_alone("cuda:0", "they lie on another GPU");
    end(&writer);
}
