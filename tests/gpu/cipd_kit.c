/* SPDX-License-Identifier: MIT
 *
 * See cipd_kit.h.
 */
#include "gpu/cipd_kit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cuda_link/wire/private_ext.h"
#include "gpu/frames.h"

const struct sluice_dtype cipd_uint8 = { SLUICE_UINT, 8, 1 }, cipd_float32 = { SLUICE_FLOAT, 32, 1 };

static char name[64], barrier[80];
static bool called; /* another process's */

const char *cipd_name(void)
{
    if (!name[0])
        snprintf(name, sizeof name, "cipd:sluice-test->>%d %lld", (int)getpid(), (long long)(test_now() % 1000000007));
    return name;
}

void cipd_set_name(const char *given)
{
    snprintf(name, sizeof name, "%s", given);
    called = true;
}

/* Segments and link names are files there; a barrier stays in any case, as it belongs to the machine. */
static void clean(const char *part)
{
    DIR *dir = opendir("/dev/shm");
    struct dirent *entry;

    while (dir && (entry = readdir(dir)))
        if (strstr(entry->d_name, part))
            CHECK(unlinkat(dirfd(dir), entry->d_name, 0) == 0 || errno == ENOENT);
    if (dir)
        CHECK(closedir(dir) == 0);
}

void cipd_clean(void)
{
    if (!called)
        clean(cipd_name() + strlen("cipd:"));
}

void cipd_clean_after(pid_t pid)
{
    char part[48];

    snprintf(part, sizeof part, "sluice-test->>%d ", (int)pid);
    clean(part);
}

const char *cipd_barrier(void)
{
    snprintf(barrier, sizeof barrier, "barrier of %s", cipd_name() + strlen("cipd:"));
    return barrier;
}

struct sluice_format cipd_format(struct sluice_dtype dtype, uint32_t width, uint32_t height)
{
    struct sluice_format format = SLUICE_FORMAT_INIT;
    int64_t shape[3] = { height, width, 4 };

    CHECK_OK(sluice_format_add_tensor(&format, "image", dtype, 3, shape));
    CHECK_OK(sluice_format_complete(&format));
    return format;
}

uint64_t cipd_words(const struct sluice_format *format)
{
    return format->arrays[0].nbytes / 4;
}

struct sluice_writer_params cipd_writer_params(struct sluice_cipd_writer_params *cipd,
                                               const struct sluice_format *format)
{
    struct sluice_writer_params params = SLUICE_WRITER_PARAMS_INIT;

    *cipd = (struct sluice_cipd_writer_params)SLUICE_CIPD_WRITER_PARAMS_INIT;
    cipd->barrier_name = cipd_barrier();
    params.name = cipd_name();
    params.device = "cuda:0";
    params.format = format;
    params.resize = 1;
    params.wait_ns = 20 * SLUICE_S; /* other programs may keep its GPU busy for long */
    params.cipd = cipd;
    return params;
}

struct sluice_reader_params cipd_reader_params(struct sluice_cipd_reader_params *cipd)
{
    struct sluice_reader_params params = SLUICE_READER_PARAMS_INIT;

    *cipd = (struct sluice_cipd_reader_params)SLUICE_CIPD_READER_PARAMS_INIT;
    cipd->wait_ns = cipd->stall_ns = 20 * SLUICE_S; /* however long the machine is suspended */
    params.name = cipd_name();
    params.device = "cuda:0";
    params.open_timeout_ns = params.ahead_ns = 20 * SLUICE_S;
    params.cipd = cipd;
    return params;
}

sluice_writer *cipd_writer(const struct sluice_format *format)
{
    struct sluice_cipd_writer_params cipd;
    struct sluice_writer_params params = cipd_writer_params(&cipd, format);
    sluice_writer *writer;

    CHECK_OK(sluice_writer_open(&writer, &params));
    return writer;
}

sluice_reader *cipd_reader(void)
{
    struct sluice_cipd_reader_params cipd;
    struct sluice_reader_params params = cipd_reader_params(&cipd);
    sluice_reader *reader;

    CHECK_OK(sluice_reader_open(&reader, &params));
    return reader;
}

struct sluice_cipd_info cipd_info_of_writer(sluice_writer *writer)
{
    struct sluice_cipd_info info = { .size = sizeof info };

    CHECK_OK(sluice_cipd_writer_info(writer, &info));
    return info;
}

struct sluice_cipd_info cipd_info_of_reader(sluice_reader *reader)
{
    struct sluice_cipd_info info = { .size = sizeof info };

    CHECK_OK(sluice_cipd_reader_info(reader, &info));
    return info;
}

static int open_segment(void)
{
    char path[80];

    snprintf(path, sizeof path, "/%s", cipd_name() + strlen("cipd:"));
    int fd = shm_open(path, O_RDWR, 0);
    CHECK_GE(fd, 0);
    return fd;
}

/* As another program would, which knows the protocol alone. */
static void store(long at, const void *bytes, size_t size)
{
    int fd = open_segment();

    CHECK_EQ(pwrite(fd, bytes, size, at), (ssize_t)size);
    CHECK_EQ(close(fd), 0);
}

void cipd_disguise(void)
{
    static const char nothing[64];

    store(SL_CIPD_EXT_AT, nothing, sizeof nothing);
}

void cipd_announce(uint32_t slots, uint32_t width, uint32_t height)
{
    uint32_t metadata[5] = { width, height, 4, 1 | 8 << 8, width * height * 4 };

    store(21 + 128 * (long)slots, metadata, sizeof metadata);
}

void cipd_raise_flag(uint32_t slots)
{
    store(20 + 128 * (long)slots, "\1", 1);
}

void cipd_load_segment(unsigned char bytes[CIPD_SEGMENT])
{
    int fd = open_segment();

    CHECK_EQ(pread(fd, bytes, CIPD_SEGMENT, 0), CIPD_SEGMENT);
    CHECK_EQ(close(fd), 0);
}

void cipd_begin_as_another(bool same_handles)
{
    struct sluice_cipd_info info = { .size = sizeof info };
    unsigned char handles[128 * SLUICE_CIPD_MAX_SLOTS];

    CHECK_OK(sluice_cipd_look(cipd_name(), &info));
    info.version++;
    memset(handles, 7, sizeof handles);
    if (!same_handles)
        store(20, handles, 128 * (size_t)info.slot_count);
    store(SL_CIPD_VERSION_AT, &info.version, sizeof info.version);
}

void cipd_publish_as_another(uint32_t index)
{
    store(SL_CIPD_INDEX_AT, &index, sizeof index);
}

struct sluice_array cipd_array(uint64_t memory, const struct sluice_format *format)
{
    const struct sluice_array *of = &format->arrays[0];
    struct sluice_array array;

    CHECK_OK(sluice_array_wrap(&array, NULL, (void *)(uintptr_t)memory, of->dtype, of->ndim, of->shape, NULL));
    return array;
}

int cipd_send(sluice_writer *writer, const struct sluice_array *array, struct sluice_stream stream, uint32_t value,
              struct sluice_ticket *ticket)
{
    gpu_fill(gpu_native(stream), (uintptr_t)array->data, array->nbytes / 4, value);
    return sluice_writer_send(writer, array, 1, stream, ticket);
}

uint32_t cipd_value(const struct sluice_frame *frame, struct sl_cu_stream *stream)
{
    struct sluice_array array;
    uint32_t first = 0;

    CHECK_OK(sluice_frame_array(frame, NULL, &array));
    CU(MemcpyDtoHAsync, &first, (uintptr_t)array.data, 4, stream);
    CU(StreamSynchronize, stream);
    CHECK_EQ(gpu_differ(stream, (uintptr_t)array.data, array.nbytes / 4, first), 0);
    return first;
}

struct cipd_side cipd_begin(void)
{
    struct cipd_side side = { .writer = NULL };

    gpu_begin();
    gpu_use(0);
    side.device = gpu_open();
    CHECK_OK(sluice_stream_create(side.device, NULL, &side.stream));
    frames_warm_up(gpu_native(side.stream));
    side.format = cipd_format(cipd_float32, CIPD_WIDTH, CIPD_HEIGHT);
    side.array = cipd_array(gpu_memory(side.format.arrays[0].nbytes), &side.format);
    return side;
}

void cipd_end(struct cipd_side *side)
{
    CHECK_OK(sluice_stream_synchronize(side->stream));
    CHECK_OK(sluice_writer_close(&side->writer));
    CHECK_OK(sluice_device_close(&side->device));
    cipd_clean();
    gpu_end();
}

void cipd_end_reader(struct cipd_side *side, sluice_reader *reader)
{
    CHECK_OK(sluice_reader_close(&reader));
    cipd_end(side);
}

void cipd_take(sluice_reader *reader, struct cipd_side *side, uint32_t value, struct sluice_frame *frame)
{
    CHECK_OK(sluice_reader_acquire(reader, SLUICE_ON_CPU, 20 * SLUICE_S, frame));
    CHECK_EQ(cipd_value(frame, gpu_native(side->stream)), value);
}

void cipd_take_and_release(sluice_reader *reader, struct cipd_side *side, uint32_t value)
{
    struct sluice_frame frame;

    cipd_take(reader, side, value, &frame);
    CHECK_OK(sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
}

struct cipd_side cipd_writer_role(int argc, char **argv)
{
    struct sluice_cipd_writer_params cipd;

    CHECK_EQ(argc, 3);
    cipd_set_name(argv[1]);
    struct cipd_side side = cipd_begin();
    struct sluice_writer_params params = cipd_writer_params(&cipd, &side.format);
    params.slots = (uint32_t)atoi(argv[2]);
    CHECK_OK(sluice_writer_open(&side.writer, &params));
    role_say("open");
    return side;
}

/* A writer that follows commands: a number sends a frame with that number, "shut" closes, "begin" begins a frame and
 * leaves it, "again" begins another session in the same segment, "slots" one with one slot more in another segment.
 * Arguments: the channel; slots. */
ROLE(cipd_writer)
{
    struct sluice_frame frame;
    char *line;

    struct cipd_side side = cipd_writer_role(argc, argv);
    while ((line = role_line())) {
        if (strcmp(line, "shut") == 0)
            CHECK_OK(sluice_writer_close(&side.writer));
        else if (strcmp(line, "begin") == 0)
            CHECK_OK(sluice_writer_begin(side.writer, SLUICE_DEFAULT, &frame));
        else if (strcmp(line, "again") == 0)
            CHECK_OK(sluice_writer_reformat(side.writer, &side.format));
        else if (strcmp(line, "slots") == 0)
            CHECK_OK(sluice_cipd_set_slots(side.writer, (uint32_t)atoi(argv[2]) + 1));
        else
            CHECK_OK(cipd_send(side.writer, &side.array, side.stream, (uint32_t)atoi(line), NULL));
        CHECK_OK(sluice_stream_synchronize(side.stream));
        role_say("done");
    }
    cipd_end(&side);
    return 0;
}

struct child cipd_start_writer(const char *slots)
{
    struct child child = role_start("cipd_writer", cipd_name(), slots, NULL);

    child_expect(&child, "open", 20);
    return child;
}

void cipd_command(struct child *child, const char *line)
{
    child_send(child, line);
    child_expect(child, "done", 20);
}

/* Arguments: the channel; the last frame's number. Prints each frame's number after checking all of it. */
ROLE(cipd_reader)
{
    struct sluice_frame frame;
    uint32_t value = 0, last = (uint32_t)atoi(argv[2]);

    CHECK_EQ(argc, 3);
    gpu_begin();
    gpu_use(0);
    cipd_set_name(argv[1]);
    sluice_reader *reader = cipd_reader();
    struct sl_cu_stream *stream = gpu_stream(SL_CU_STREAM_NON_BLOCKING);
    role_say("ready");
    while (value < last) {
        CHECK_OK(sluice_reader_acquire(reader, SLUICE_ON_CPU, 20 * SLUICE_S, &frame));
        uint32_t now = cipd_value(&frame, stream);
        CHECK(now > value);
        value = now;
        CHECK_OK(sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
        role_say("%u", value);
    }
    CHECK_OK(sluice_reader_close(&reader));
    CU(StreamDestroy, stream);
    gpu_end();
    return 0;
}

struct child cipd_start_reader(const char *last)
{
    struct child child = role_start("cipd_reader", cipd_name(), last, NULL);

    child_expect(&child, "ready", 20);
    return child;
}

void cipd_expect(struct child *child, uint32_t number)
{
    char text[16];

    snprintf(text, sizeof text, "%u", number);
    child_expect(child, text, 20);
}

void cipd_send_to_another(struct cipd_side *side, uint32_t frames)
{
    char last[16];

    snprintf(last, sizeof last, "%u", frames);
    struct child child = cipd_start_reader(last);
    for (uint32_t i = 1; i <= frames; i++) {
        CHECK_OK(cipd_send(side->writer, &side->array, side->stream, i, NULL));
        cipd_expect(&child, i);
    }
    CHECK_EQ(child_wait(&child, 20), 0);
}
